"""Sending a run once, over connections that break: an answer that was lost is no reason to run it twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from callsheet.providers.comfy_http import pause
from callsheet.providers.engine import EngineUnreachable

SUBMIT_ATTEMPTS = 3
# A request that arrived is in the engine's queue as soon as its graph was looked through.
LOOKS = 3
# For a submission that nobody waits for any more.
SUBMIT_SECONDS = 5.0


async def submitted(
    send: Callable[[], Awaitable[str]], find: Callable[[], Awaitable[str | None]], absent_seconds: float
) -> str:
    """What the engine calls the run. `find` answers the same for a run that it has, and None for one it has not."""
    attempt = 1
    while True:
        try:
            return await send()
        except EngineUnreachable as lost:
            if lost.may_have_arrived:
                found = await _looked_for(find, absent_seconds)
                if found is not None:
                    return found
            if attempt == SUBMIT_ATTEMPTS:
                raise
        await pause(attempt)
        attempt += 1


async def _looked_for(find: Callable[[], Awaitable[str | None]], absent_seconds: float) -> str | None:
    """None only where the engine itself says that it has no such run: silence is not an answer."""
    misses, since = 0, time.monotonic()
    while misses < LOOKS:
        await pause(misses + 1)
        try:
            found = await find()
        except EngineUnreachable:
            if time.monotonic() - since > absent_seconds:
                raise
            continue
        if found is not None:
            return found
        misses += 1
    return None


async def to_its_end(call: Coroutine[Any, Any, str]) -> str:
    """Also when nobody waits any more: a prompt that arrives after it was cancelled would run for nobody."""
    task = asyncio.create_task(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=SUBMIT_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
