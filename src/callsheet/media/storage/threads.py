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
        """Waits for the end also when cancelled: closing a descriptor under a running write could hit another file."""
        work = asyncio.wrap_future(self._executor.submit(function, *args, **kwargs))
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait((work,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            work.exception()  # looked at, or asyncio would log that it was not
            raise cancelled
        return work.result()

    def close(self) -> None:
        self._executor.shutdown(wait=True)
