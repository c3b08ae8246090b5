"""The HTTP server, in this process and this event loop: granian's embedded form (decision 0003)."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.server.embed import Server
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.settings import ServerSettings, Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# Up to this many bytes beyond server.max_header_bytes, the edge returns a problem+json. The server itself refuses
# larger headers with a bare 431. Each connection may make the server hold as much.
HEADER_SPARE_BYTES = 8192
# Descriptors for databases, storage, streams to providers and files, in addition to connections.
OTHER_DESCRIPTORS = 512


class AddressInUse(OperatorError):
    """The port is taken. The message contains what to do."""


class HttpServer:
    def __init__(self, app: ASGIApp, settings: ServerSettings):
        self._app = app
        self._settings = settings
        self._server: Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._ends_requests = False

    async def start(self) -> None:
        address, port = await free_address(self._settings.host, self._settings.port)
        self._server = Server(
            self._serve,
            address=address,
            port=port,
            interface=Interfaces.ASGINL,
            # With `auto`, a silent connection would stay open forever, because its protocol is not known.
            http=HTTPModes.auto if self._settings.http2 else HTTPModes.http1,
            backlog=1024,
            # The default would be the backlog, but each stream and each waiting poll keeps a connection.
            backpressure=connections_possible(self._settings.max_connections),
            # No route uses WebSocket: a request to upgrade gets the same response as any other request.
            websockets=False,
            # Only errors are logged, by the usual way of all logs; its own set-up writes to standard output and closes
            # other handlers. Decision 0003 explains its start-up notice ("experimental", a warning).
            log_level=LogLevels.error,
            log_dictconfig={"incremental": True, "formatters": {}, "handlers": {}, "loggers": {}},
            http1_settings=HTTP1Settings(
                header_read_timeout=round(self._settings.header_seconds * 1000),
                max_buffer_size=self._settings.max_header_bytes + HEADER_SPARE_BYTES,
            ),
            http2_settings=HTTP2Settings(max_headers_size=self._settings.max_header_bytes + HEADER_SPARE_BYTES),
        )
        self._task = asyncio.create_task(self._server.serve(), name="http server")
        try:
            await self._accepting(address, port)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Accepts no new requests, waits for running ones for a while, then cancels them."""
        if self._server is None or self._task is None:
            return
        self._server.stop()  # type: ignore[no-untyped-call]
        _, pending = await asyncio.wait({self._task}, timeout=self._settings.shutdown_seconds)
        # The end of the server does not end requests, and a hanging request would delay closing the databases.
        self._ends_requests = True
        unfinished = {*pending, *self._requests}
        for task in unfinished:
            task.cancel()
        await asyncio.gather(self._task, *unfinished, return_exceptions=True)

    async def wait(self) -> None:
        """Returns if the server ends by itself, which happens only after an error."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # Caught here: granian would log it as a crash of the application, with a traceback.
            if not self._ends_requests:
                raise
        finally:
            self._requests.discard(task)

    async def _accepting(self, address: str, port: int) -> None:
        assert self._task is not None
        while not self._task.done():
            try:
                _, writer = await asyncio.open_connection(address, port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.005)
                continue
            writer.close()
            return
        await self._task
        raise RuntimeError("the HTTP server ended while starting")


def connections_possible(wanted: int) -> int:
    """The maximum number of connections that the process has descriptors for. Many shells and systemd allow 1,024,
    and more on request. Otherwise strangers who only connect would use up the descriptors for the database.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHER_DESCRIPTORS))
    if possible < wanted:
        log.warning("server.few_descriptors", descriptors=soft, max_connections=wanted, possible=possible)
    return possible


async def with_free_port(settings: Settings) -> Settings:
    """The settings with a real port: port 0 means any free port. It is chosen before anything is built, because
    signed URLs contain it.
    """
    if settings.server.port != 0:
        return settings
    _, port = await free_address(settings.server.host, 0)
    return settings.model_copy(update={"server": settings.server.model_copy(update={"port": port})})


async def free_address(host: str, port: int) -> tuple[str, int]:
    """Resolves the host and makes sure the port is free: granian (SO_REUSEPORT) would share it silently."""
    loop = asyncio.get_running_loop()
    family, kind, protocol, _, target = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(target)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
                raise
            raise AddressInUse(
                f"Cannot listen on {host}:{port}: {error.strerror}. Stop what uses it, or choose another port with "
                "CALLSHEET_SERVER__PORT."
            ) from None
        name = probe.getsockname()
    return name[0], name[1]
