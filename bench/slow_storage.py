"""Simulates distant storage: forwards each request to the control plane after a delay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from aiohttp import web

from bench.http_me import HOST
from bench.processes import START_SECONDS

PASSED = ("content-type", "content-length", "etag")
PIECE = 262_144


@asynccontextmanager
async def slow_storage(target: str, port: int, seconds: float) -> AsyncIterator[None]:
    """Listens on `port` until the block ends. Bytes are forwarded as they arrive."""
    async with httpx.AsyncClient(base_url=target, trust_env=False, timeout=START_SECONDS) as client:

        async def pass_on(request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(seconds)
            headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
            body = request.content.iter_chunked(PIECE) if request.body_exists else None
            async with client.stream(request.method, request.path_qs, headers=headers, content=body) as response:
                kept = {name: response.headers[name] for name in PASSED if name in response.headers}
                passed = web.StreamResponse(status=response.status_code, headers=kept)
                await passed.prepare(request)
                async for piece in response.aiter_raw(PIECE):
                    await passed.write(piece)
            return passed

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port).start()
            yield
        finally:
            await runner.cleanup()
