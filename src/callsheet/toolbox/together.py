"""Doing several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def all_of(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results, in order. One that fails neither stops the others nor leaves them behind: all of them end
    first (a plain gather lets the rest run on unwatched, a task group cancels it), then the first error is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    done: list[Result] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


async def first_of(*tasks: asyncio.Task[Any], event: asyncio.Event, seconds: float | None = None) -> None:
    """Until one of them is over, the event is set, or so many seconds are gone."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({waiting, *tasks}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
