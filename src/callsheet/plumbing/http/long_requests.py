"""Requests that take long and end early if the client disconnects: live streams, and work for a client that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class EventStream(Response):
    """The response of a live stream.

    Starlette's own response has two tasks and a task group for each stream, which take nine kilobytes. A page with
    thousands of watchers needs thousands of them.
    """

    media_type = "text/event-stream"

    # FastAPI reads the status of its documentation from this signature.
    def __init__(self, pieces: AsyncGenerator[bytes], status_code: int = 200):
        # A proxy that buffers the output would delay the events.
        super().__init__(status_code=status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.current_task()
        assert sending is not None
        watching = asyncio.create_task(_cancel_after_disconnect(receive, sending))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            # The watcher of the stream canceled it, because the client disconnected. Other cancellations belong to the
            # request.
            if not watching.done() or sending.uncancel():
                raise
        except OSError:
            pass  # As in Starlette: the reader left between two pieces.
        finally:
            watching.cancel()
            await self._pieces.aclose()


async def _cancel_after_disconnect(receive: Receive, sending: asyncio.Task[None]) -> None:
    await _disconnect(receive)
    sending.cancel()


Result = TypeVar("Result")

# Most responses are ready before this time, so their connections need no watcher.
WATCH_AFTER_SECONDS = 0.1


class ClientDisconnected(Exception):
    """The client disconnected before the response."""


async def unless_client_disconnects(
    receive: Receive, work: Coroutine[Any, Any, Result], undo: Callable[[Result], Awaitable[None]]
) -> Result:
    """Returns the result of the work. If the client disconnects first, the work is canceled and ClientDisconnected
    is raised. If the work returned a result nevertheless, the result is undone. The body of the request must have
    been read.
    """
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=WATCH_AFTER_SECONDS)
        if done or not await _leaves_during(task, receive):
            return await task
    except asyncio.CancelledError:
        await asyncio.shield(_call_off(task, undo))
        raise
    await _call_off(task, undo)
    raise ClientDisconnected


async def _leaves_during(task: asyncio.Task[Any], receive: Receive) -> bool:
    watch = asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        return watch.done() and not task.done()
    finally:
        watch.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _call_off(task: asyncio.Task[Result], undo: Callable[[Result], Awaitable[None]]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())
