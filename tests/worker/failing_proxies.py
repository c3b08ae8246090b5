"""A connection that can be cut: the proxy between an agent and its server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import httpx
from aiohttp import web

from tests.support.run.ports import free_port


class CuttableProxy:
    def __init__(self, target: str):
        parts = urlsplit(target)
        assert parts.hostname
        self._target = (parts.hostname, parts.port or 80)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def connect(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, other_writer}
        await asyncio.gather(self._pump(reader, other_writer), self._pump(other_reader, writer))
        self._writers -= {writer, other_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def cuttable_proxy_to(target: str) -> AsyncIterator[CuttableProxy]:
    wire = CuttableProxy(target)
    await wire.connect()
    try:
        yield wire
    finally:
        await wire.cut()


class RefusingProxy:
    """A proxy that returns 503 for some paths instead of forwarding them."""

    def __init__(self, target: str):
        self._target = target
        self.closed_for: set[str] = set()
        self.is_open = True
        self.turned_away = 0
        # Forwarded, but the client gets a 503: the response was lost on its way.
        self.swallows: set[str] = set()
        # The paths of what the other side refused.
        self.refused: set[str] = set()
        self.url = ""

    async def pass_on(self, request: web.Request) -> web.Response:
        if not self.is_open or request.path in self.closed_for:
            self.turned_away += 1
            return web.Response(status=503)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host",)}
        async with httpx.AsyncClient(trust_env=False, timeout=70) as client:
            response = await client.request(
                request.method, f"{self._target}{request.path_qs}", headers=headers, content=await request.read()
            )
        if 400 <= response.status_code < 500:
            self.refused.add(request.path)
        if request.path in self.swallows:
            return web.Response(status=503)
        kept = {name: response.headers[name] for name in ("content-type", "retry-after") if name in response.headers}
        return web.Response(status=response.status_code, body=response.content, headers=kept)


@asynccontextmanager
async def refusing_proxy_to(target: str) -> AsyncIterator[RefusingProxy]:
    proxy = RefusingProxy(target)
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", proxy.pass_on)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield proxy
    finally:
        await runner.cleanup()
