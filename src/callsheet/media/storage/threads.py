"""Blocking file work beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class FileThreads:
    """Threads of its own: a slow disk must not hold up other users of the event loop's default threads."""

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="storage")

    async def run(
        self, function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Waits for the end also when cancelled: closing a descriptor under a running write could hit another file.

        A future of our own is woken from the thread. `asyncio.wrap_future` and `asyncio.wait` do the same in 26 instead
        of 16 µs of processor time.
        """
        loop = asyncio.get_running_loop()
        work = self._executor.submit(function, *args, **kwargs)
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            ended = loop.create_future()
            work.add_done_callback(lambda _, ended=ended: _wake(loop, ended))  # type: ignore[misc]
            try:
                await ended
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return work.result()

    def close(self) -> None:
        self._executor.shutdown(wait=True)


def _wake(loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
    """Called in the thread, when its work is done."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_end, ended)


def _end(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
