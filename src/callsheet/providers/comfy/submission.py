"""Submits a run once, even if connections break: a lost response must not cause a second run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from callsheet.providers.comfy.http import LAST_CHECK_SECONDS, pause, within
from callsheet.providers.engine import EngineUnreachable, NotStarted

# The number of times that a submission is sent if the engine may have read it but does not know it: the graph may crash
# the engine.
SUBMIT_ATTEMPTS = 3
# A request that arrived is in the engine's queue as soon as its graph was checked.
FIND_ATTEMPTS = 3
# Timeout of a submission whose run was cancelled meanwhile.
SUBMIT_SECONDS = 5.0


async def submitted(
    send: Callable[[], Awaitable[str]], find: Callable[[], Awaitable[str | None]], absent_seconds: float
) -> str:
    """The engine's id of the run. `find` returns the id of a run that the engine has, and None otherwise. If the
    engine is unreachable, this waits, because the engine may be starting.
    """
    attempt, lost_responses, since = 1, 0, time.monotonic()
    while True:
        sent = time.monotonic()
        try:
            return await send()
        except EngineUnreachable as lost:
            if lost.may_have_arrived:
                found = await _find_run(find, sent, absent_seconds)
                if found is not None:
                    return found
                lost_responses, since = lost_responses + 1, time.monotonic()
                if lost_responses == SUBMIT_ATTEMPTS:
                    raise
            elif time.monotonic() - since > absent_seconds:
                raise _not_taken(lost) from lost
        await pause(attempt)
        attempt += 1


async def _find_run(find: Callable[[], Awaitable[str | None]], since: float, absent_seconds: float) -> str | None:
    """The run at the engine. None only if the engine responds that it has no such run. `since`: the time of the
    submission.
    """
    misses = 0
    while misses < FIND_ATTEMPTS:
        await pause(misses + 1)
        left = absent_seconds - (time.monotonic() - since)
        try:
            async with within(max(left, min(LAST_CHECK_SECONDS, absent_seconds))):
                found = await find()
        except EngineUnreachable as away:
            if time.monotonic() - since >= absent_seconds:
                raise _not_taken(away) from away
            continue
        since = time.monotonic()
        if found is not None:
            return found
        misses += 1
    return None


def _not_taken(away: EngineUnreachable) -> NotStarted:
    return NotStarted("engine_unreachable", f"{away.message} It did not take the run.", **away.details)


async def to_its_end(call: Coroutine[Any, Any, str]) -> str:
    """Waits for the submission even if the run is canceled: a prompt that arrives after `cancel` would still run."""
    task = asyncio.create_task(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=SUBMIT_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
