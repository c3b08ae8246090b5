"""Posts small bodies to hosts that users name, a thousand times per second. It cannot be led into private networks.

aiohttp does this in a quarter of the processor's time of httpcore, with which `toolbox/http/client.py` fetches what
users name. Both have one guard. Only the sender of webhooks imports this module, with its first message: the import
takes 160 ms and 9 MB.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from callsheet.toolbox.http.addresses import Network
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.client import checked_url
from callsheet.toolbox.http.connect import (
    AddressGuard,
    RequestFailed,
    RequestImpossible,
    Resolver,
    ThreadResolver,
    TimedOut,
)

CONNECT_SECONDS, IDLE_SECONDS = 10.0, 5.0


class GuardedPosts:
    """Connections to many hosts. It follows no redirect, keeps no cookies and takes no proxy or credentials from the
    environment. It limits no connections: its callers do.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        allow_networks: Iterable[Network],
        timeout_seconds: float,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ):
        self._resolver = ThreadResolver()
        self._guard = AddressGuard(resolver or self._resolver, allow_networks)
        connector = aiohttp.TCPConnector(
            resolver=_GuardedResolver(self._guard),
            socket_factory=self._socket,
            use_dns_cache=False,
            # One IP address after the other.
            happy_eyeballs_delay=None,
            ssl=ssl_context or certificates(),
            limit=0,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    @asynccontextmanager
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response, for any status. If the caller leaves before its end, the connection is closed. Raises only
        OutgoingError for errors that other parties can cause.
        """
        target = _target(url)
        host = target.raw_host
        try:
            async with self._session.post(target, data=body, headers=headers, allow_redirects=False) as response:
                yield response
        except TimeoutError:
            raise TimedOut(f"{host} did not respond in time.") from None
        except aiohttp.InvalidURL:
            raise RequestImpossible("This is not a valid URL.") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise RequestImpossible(f"The certificate of {host} cannot be verified.") from error
        except aiohttp.ClientConnectorSSLError as error:
            raise RequestFailed(f"No secure connection to {host} could be made.") from error
        except aiohttp.ClientConnectorError as error:
            raise RequestFailed(f"No connection to {host} could be made.") from error
        except (aiohttp.ClientResponseError, aiohttp.ClientPayloadError) as error:
            raise RequestFailed(f"{host} did not send a valid HTTP response.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RequestFailed(f"The connection to {host} was lost.") from error

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Each connection gets its socket here, for exactly this IP address: also if the URL has an IP address instead
        of a name, which aiohttp does not resolve.
        """
        family, kind, protocol, _, (ip, *_) = address
        self._guard.check(str(ip), [str(ip)])
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        await self._session.close()
        self._resolver.close()


class _GuardedResolver(AbstractResolver):
    def __init__(self, guard: AddressGuard):
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._guard.addresses_of(host, port)
        ]

    async def close(self) -> None:
        """The owner of the guard closes what resolves."""


@lru_cache(2000)
def _target(url: str) -> URL:
    """The URL of a request, which takes longer to check than the request to send."""
    return URL(str(checked_url(url)), encoded=True)
