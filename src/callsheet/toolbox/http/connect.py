"""Connects to hosts that users name: resolves the name, checks the IP address, and connects to exactly that IP
address.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpcore

from callsheet.toolbox.http.addresses import Network, is_refused
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# A name may have any number of IP addresses, and each one that does not respond costs its connect timeout.
_MAX_ADDRESSES = 4


class OutgoingError(Exception):
    """A request to an outside URL did not succeed. The message is a sentence that may be shown to users."""


class AddressRefused(OutgoingError):
    """The URL leads, or may lead, into a network that users must not reach."""


class TooLarge(OutgoingError):
    """The response has more bytes than are accepted."""


class TimedOut(OutgoingError):
    """The response was not complete in time."""


class RequestFailed(OutgoingError):
    """The host could not be reached or did not respond properly."""


class RequestImpossible(RequestFailed):
    """The same request will fail again: the URL cannot be used, or the host refuses it permanently."""


class ThreadResolver:
    """Runs the system's resolver in its own threads.

    The default executor has few threads (6 on 2 cores) and serves the whole process: names whose servers never respond
    would block all of them for seconds, and with them every file operation.
    """

    def __init__(self, threads: int = 8) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        def resolve() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(address[0]) for *_, address in found))

        return await asyncio.get_running_loop().run_in_executor(self._executor, resolve)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class AddressGuard:
    """Finds the IP addresses of a host, and refuses those that users must not reach."""

    def __init__(self, resolve: Resolver, allow_networks: Iterable[Network]) -> None:
        self._resolve = resolve
        self._allow_networks = tuple(allow_networks)

    async def addresses_of(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except socket.gaierror as error:
            # The name does not exist. Any other error may be a resolver that is briefly unavailable.
            unknown = error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
            kind = RequestImpossible if unknown else RequestFailed
            raise kind(f"The host {host} could not be found.") from None
        # For over-long labels, the idna codec raises UnicodeError, which is a ValueError.
        except (OSError, ValueError):
            addresses = ()
        if not addresses:
            raise RequestFailed(f"The host {host} could not be found.")
        # One bad IP address refuses all of them: the user must not influence which one a connection uses.
        self.check(host, addresses)
        return addresses[:_MAX_ADDRESSES]

    def check(self, host: str, addresses: Iterable[str]) -> None:
        refused = [address for address in addresses if is_refused(address, self._allow_networks)]
        if refused:
            log.warning("outgoing.address_refused", host=host, addresses=refused)
            raise AddressRefused(f"The host {host} is in a private or reserved network, which is not allowed here.")


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections for a pool. The pool keeps the host name, for reuse, SNI and certificates. Between the check
    of an IP address and the connection, nothing is resolved again, so DNS cannot be rebound.
    """

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError("no IP address")
        for address in await self._guard.addresses_of(host, port):
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused("Local sockets are not allowed here.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
