"""Handles client disconnects during a long request: the work for the client is canceled and undone at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

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
    watch = asyncio.create_task(_departure(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        return watch.done() and not task.done()
    finally:
        watch.cancel()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _call_off(task: asyncio.Task[Result], undo: Callable[[Result], Awaitable[None]]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())
