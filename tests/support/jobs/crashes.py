"""Simulates a crash at a named gap between two commits: the operation ends there, and so do all tasks it had
started.

started = await core.start()
assert await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, core.complete(started))   # False: the gap was not reached
await core.drain()                                                                 # what the next process does
await core.check_drained()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from asyncpg.pool import PoolConnectionHolder

from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash

# Failpoints of other rooms are tested in the tests of those rooms.
CORE = (
    *("submit", "relay", "lease", "start", "restart", "complete"),
    *("fail", "requeue", "cancel", "retry", "reap", "expire"),
)
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
            if not _returns_a_connection(task):
                task.cancel()
        await asyncio.gather(*orphans, return_exceptions=True)
        return True
    return False


def _returns_a_connection(task: asyncio.Task[object]) -> bool:
    """Whether asyncpg returns a connection to its pool in this task.

    asyncpg returns connections in tasks of its own. If such a task is canceled before its first step, the pool never
    gets the connection back, and a later test waits for it without end. A process that really crashes has no pool left.
    """
    coroutine = task.get_coro()
    return getattr(coroutine, "cr_code", None) is PoolConnectionHolder.release.__code__
