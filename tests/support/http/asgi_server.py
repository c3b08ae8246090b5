"""Serves an ASGI application with Callsheet's own server, over a real socket, in the loop of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.embed import Server


@asynccontextmanager
async def serving(app: Any, port: int) -> AsyncIterator[None]:
    # The server's own log set-up is left out, because it would stay for the rest of the run.
    quiet = {"incremental": True, "formatters": {}, "handlers": {}, "loggers": {}}
    server = Server(app, port=port, interface=Interfaces.ASGI, log_level=LogLevels.error, log_dictconfig=quiet)
    task = asyncio.create_task(server.serve())
    try:
        await _wait_until_listening(port, task)
        yield
    finally:
        server.stop()
        await task


async def _wait_until_listening(port: int, task: asyncio.Task[None]) -> None:
    while not task.done():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            await writer.wait_closed()
            return
    await task
    raise AssertionError("the server ended before it listened")
