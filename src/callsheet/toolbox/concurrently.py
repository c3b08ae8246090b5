"""Runs several awaitables at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")
# Writing or hashing this many bytes takes a fraction of a millisecond, less than a change of threads on a busy machine.
FEW_BYTES = 65_536


async def off_loop(size: int, work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of `work`, which handles `size` bytes: in a thread if they are many, otherwise at once."""
    return await asyncio.to_thread(work, *arguments) if size > FEW_BYTES else work(*arguments)


async def all_of(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results, in order. A failure does not stop the others: all of them end first, then the first error is
    raised. (A plain gather lets the rest run on unobserved, and a task group cancels it.)
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    done: list[Result] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


async def first_of(*tasks: asyncio.Task[Any], event: asyncio.Event, seconds: float | None = None) -> None:
    """Waits until one of them has ended, the event is set, or the seconds have passed."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({waiting, *tasks}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
