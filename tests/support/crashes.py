"""Crashing at a named gap between two commits: the operation ends there, and so does everything it had started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash

# Those of other rooms are crashed at in their own tests.
CORE = ("submit", "relay", "lease", "start", "complete", "fail", "requeue", "cancel", "retry", "reap", "expire")
CORE_FAILPOINTS = frozenset(point for point in Failpoint if point.value.partition(".")[0] in CORE)


async def crashed_at(point: Failpoint, operation: Awaitable[object]) -> bool:
    """Whether the operation reached that point. Its result or refusal does not matter."""
    others = asyncio.all_tasks()
    try:
        with armed({point: crash}):
            await operation
    except Crashed:
        orphans = asyncio.all_tasks() - others
        for task in orphans:
            task.cancel()
        await asyncio.gather(*orphans, return_exceptions=True)
        return True
    return False
