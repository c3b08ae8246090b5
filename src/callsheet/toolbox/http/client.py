"""The HTTP client for URLs that users supply: webhook targets, scrapes and assets.

It cannot be led into private networks, by name, by redirect or by DNS. It limits how long it waits, and how much it
reads and unpacks.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import TracebackType
from typing import Self

import httpcore
import httpx

from callsheet.toolbox.http.addresses import Network
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.connect import (
    AddressGuard,
    AddressRefused,
    GuardedBackend,
    OutgoingError,
    RequestFailed,
    RequestImpossible,
    Resolver,
    ThreadResolver,
    TimedOut,
    TooLarge,
)
from callsheet.toolbox.http.unpacking import ENCODINGS, CannotUnpack, Unpacker
from callsheet.wire.plurals import counted

# httpcore imports sniffio each time it makes a lock. If it is not installed, Python searched all directories for it, a
# third of the time of a request. With this entry the import fails at once.
if "sniffio" not in sys.modules and find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

__all__ = [
    "AddressRefused",
    "GuardedClient",
    "OutgoingError",
    "RequestFailed",
    "RequestImpossible",
    "Response",
    "ResponseStream",
    "TimedOut",
    "TooLarge",
]

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Only this client sets these headers: with their own Host or length, users could reach another service behind the URL.
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect"})
# Headers that may follow a redirect to another origin. A list of secret headers would never be complete (X-Api-Key, …),
# this one is.
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "content-type", "range", "user-agent"})
_CONNECT_SECONDS = 10.0
_MAX_HOST_LENGTH = 253


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response. `url`: the URL after redirects. `content`: the unpacked body."""

    status: int
    headers: httpx.Headers
    url: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: httpx.URL
    headers: httpx.Headers
    content: bytes

    @property
    def host(self) -> str:
        return self.url.raw_host.decode("ascii")


class ResponseStream:
    """A response whose body is read piece by piece, once, with `async for`."""

    def __init__(self, request: _Request, response: httpcore.Response, deadline: float, max_bytes: int) -> None:
        self.status = response.status
        self.headers = httpx.Headers(response.headers)
        self.url = str(request.url)
        self._request = request
        self._response = response
        self._deadline = deadline
        self._max_bytes = max_bytes
        self._pieces = self._unpacked()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        """Releases the connection; `GuardedClient.stream` does this."""
        await self._pieces.aclose()
        await self._response.aclose()

    async def _unpacked(self) -> AsyncGenerator[bytes, None]:
        received = unpacked = 0
        unpacker = Unpacker(self.headers.get("content-encoding", ""))
        self._refuse_above_limit(self._declared_length())
        try:
            async with aclosing(self._received()) as chunks:
                async for data in chunks:
                    # Both sizes are limited: packed data may unpack to nothing without end.
                    received += len(data)
                    self._refuse_above_limit(received)
                    for piece in unpacker.pieces(data):
                        unpacked += len(piece)
                        self._refuse_above_limit(unpacked)
                        yield piece
                        # 64 kB received may be 64 MB unpacked, so other tasks get their turn in between.
                        await asyncio.sleep(0)
            unpacker.finish()
        except CannotUnpack as reason:
            raise RequestImpossible(f"The response of {self._request.host} cannot be unpacked: {reason}.") from None

    async def _received(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._response.aiter_stream()) as chunks:  # type: ignore[type-var]
            while True:
                # The deadline applies while this client waits, not while the reader works on its data.
                with _translated_errors(self._request.host):
                    async with asyncio.timeout_at(self._deadline):
                        data = await anext(chunks, None)
                if data is None:
                    return
                yield data

    def _declared_length(self) -> int:
        value = self.headers.get("content-length", "")[:20]
        # A HEAD response declares a length and has no body.
        return int(value) if value.isdecimal() and self._request.method != "HEAD" else 0

    def _refuse_above_limit(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(f"The response of {self._request.host} has more than {counted(self._max_bytes, 'byte')}.")


class GuardedClient:
    """Keeps a pool of connections; close it with `aclose` or `async with`.

    It keeps no cookies, takes no proxy or credentials from the environment, and accepts no password in a URL.
    """

    def __init__(
        self,
        *,
        allow_networks: Iterable[Network] = (),
        timeout_seconds: float = 30.0,
        max_bytes: int = 104_857_600,
        follow_redirects: bool = True,
        max_redirects: int = 5,
        user_agent: str = "callsheet",
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        max_connections: int = 100,
        max_idle_connections: int = 20,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_bytes
        self._follow_redirects = follow_redirects
        self._max_redirects = max_redirects
        self._user_agent = user_agent
        self._own_resolver: ThreadResolver | None = None
        if resolver is None:
            resolver = self._own_resolver = ThreadResolver()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or certificates(),
            max_connections=max_connections,
            max_keepalive_connections=max_idle_connections,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(AddressGuard(resolver, allow_networks)),
        )

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        timeout_seconds: float | None = None,
        max_bytes: int | None = None,
    ) -> Response:
        """The whole response, for any status. Raises only OutgoingError for errors that other parties can cause."""
        async with self.stream(
            method,
            url,
            headers=headers,
            content=content,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
        ) as stream:
            body = b"".join([piece async for piece in stream])
            return Response(stream.status, stream.headers, stream.url, body)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        timeout_seconds: float | None = None,
        max_bytes: int | None = None,
    ) -> AsyncIterator[ResponseStream]:
        """Yields the response as soon as its headers have arrived. Time and size limits also apply while the body is
        read.
        """
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        limit = self._max_bytes if max_bytes is None else max_bytes
        deadline = asyncio.get_running_loop().time() + seconds
        request = self._request(method, url, headers or {}, content)
        for _ in range(self._max_redirects + 1):
            response = ResponseStream(request, await self._send(request, deadline), deadline, limit)
            # The body of a redirect is closed unread, because it may be endless.
            async with aclosing(response):
                location = response.headers.get("location") if response.status in _REDIRECTS else None
                if location is None or not self._follow_redirects:
                    yield response
                    return
            request = _redirected(request, response.status, location)
        raise RequestImpossible(
            f"{request.host} was reached after {self._max_redirects} redirects and redirects again."
        )

    async def aclose(self) -> None:
        await self._pool.aclose()
        if self._own_resolver is not None:
            self._own_resolver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _request(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> _Request:
        if method.upper() not in _METHODS:
            raise RequestImpossible("This method is not allowed.")
        try:
            given = httpx.Headers(dict(headers))
        except ValueError:  # The value is not ASCII.
            raise RequestImpossible("A header has characters that headers cannot have.") from None
        kept = {name: value for name, value in given.items() if name not in _OWN_HEADERS}
        return _Request(
            method.upper(), checked_url(url), httpx.Headers({"user-agent": self._user_agent} | kept), content
        )

    async def _send(self, request: _Request, deadline: float) -> httpcore.Response:
        whole = httpx.Request(
            request.method,
            request.url,
            # Only encodings that can be unpacked within limits are accepted.
            headers=[*request.headers.items(), ("accept-encoding", ", ".join(ENCODINGS))],
            content=request.content,
        )
        with _translated_errors(request.host):
            async with asyncio.timeout_at(deadline):
                return await self._pool.handle_async_request(
                    httpcore.Request(
                        method=request.method,
                        url=httpcore.URL(
                            scheme=request.url.raw_scheme,
                            host=request.url.raw_host,
                            port=request.url.port,
                            target=request.url.raw_path,
                        ),
                        headers=whole.headers.raw,
                        content=request.content,
                        extensions={"timeout": {"connect": _CONNECT_SECONDS}},
                    )
                )


def checked_url(url: str | httpx.URL) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
        # httpx decodes international names late and raises idna's error, so they are checked here.
        named = bool(parsed.host)
    except (httpx.InvalidURL, ValueError):
        raise RequestImpossible("This is not a valid URL.") from None
    if parsed.scheme not in ("http", "https"):
        raise RequestImpossible("The URL must start with http:// or https://.")
    if not named:
        raise RequestImpossible("The URL names no host.")
    if len(parsed.raw_host) > _MAX_HOST_LENGTH:
        raise RequestImpossible("The host name of the URL is too long.")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise RequestImpossible("The port of the URL must be from 1 to 65535.")
    if parsed.userinfo:
        raise RequestImpossible("The URL must not contain a user name or a password.")
    return parsed


def _redirected(request: _Request, status: int, location: str) -> _Request:
    """The request that follows a redirect, by the rules of browsers."""
    try:
        url = checked_url(request.url.join(location))
    except (httpx.InvalidURL, ValueError):
        raise RequestImpossible(f"{request.host} redirects to an invalid URL.") from None
    following = replace(request, url=url)
    if _origin(url) != _origin(request.url):
        kept = {name: value for name, value in request.headers.items() if name in _HARMLESS_HEADERS}
        following = replace(following, headers=httpx.Headers(kept))
    if request.method != "HEAD" and (status in (302, 303) or (status == 301 and request.method == "POST")):
        headers = httpx.Headers({name: value for name, value in following.headers.items() if name != "content-type"})
        following = replace(following, method="GET", content=b"", headers=headers)
    return following


def _origin(url: httpx.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


@contextmanager
def _translated_errors(host: str) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, httpcore.TimeoutException):
        raise TimedOut(f"{host} did not respond in time.") from None
    except httpcore.ConnectError as error:
        # The pool re-raises `from None`; the cause is the first argument.
        if any(isinstance(reason, ssl.SSLCertVerificationError) for reason in error.args):
            raise RequestImpossible(f"The certificate of {host} cannot be verified.") from error
        if any(isinstance(reason, ssl.SSLError) for reason in error.args):
            raise RequestFailed(f"No secure connection to {host} could be made.") from error
        raise RequestFailed(f"No connection to {host} could be made.") from error
    except httpcore.LocalProtocolError as error:
        raise RequestImpossible("The request has a header that cannot be sent.") from error
    except httpcore.ProtocolError as error:
        raise RequestFailed(f"{host} did not send a valid HTTP response.") from error
    except (httpcore.NetworkError, OSError, ValueError) as error:  # ValueError: a host name that TLS cannot send
        raise RequestFailed(f"The connection to {host} was lost.") from error
