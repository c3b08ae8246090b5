"""Counts the calls and the charged tokens of each provider, in steps of ten minutes.

Central has the calls, and each pool has the tokens of its jobs. Each database is counted in its own transaction, under
a lock that ends with it, and the last steps are counted again each time. Nothing is added to existing rows, so any
number of control planes may run this, and one that dies changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from callsheet.operate.statistics.keeper import COUNTED_AGAIN, MAX_AT_ONCE, CountingProgress, first_minute
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import unless_unavailable
from callsheet.plumbing.database.sql import Statement, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.loops import Loop

CENTRAL_SQL = statements("callsheet.operate.statistics", "spend_statements.sql")
POOL_SQL = statements("callsheet.operate.statistics", "spend_pool_statements.sql")
STEP_SECONDS = 600
DAYS = 30
# Longer than a window, which starts in the middle of a step.
KEPT = timedelta(days=DAYS + 1)


class StepStatements(NamedTuple):
    """The statements that count the steps of one database."""

    try_lock: Statement
    read_progress: Statement
    count_steps: Statement
    write_progress: Statement
    delete_old_steps: Statement


CALLS = StepStatements(
    CENTRAL_SQL["try_lock"],
    CENTRAL_SQL["read_progress"],
    CENTRAL_SQL["count_steps"],
    CENTRAL_SQL["write_progress"],
    CENTRAL_SQL["delete_old_steps"],
)
TOKENS = StepStatements(
    POOL_SQL["try_lock"],
    POOL_SQL["read_progress"],
    POOL_SQL["count_steps"],
    POOL_SQL["write_progress"],
    POOL_SQL["delete_old_steps"],
)


class SpendKeeper(Loop):
    name = "provider_spend"
    interval_seconds = 60.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases

    async def tick(self, now: datetime) -> bool:
        """Counts. Returns whether there is more to count."""
        has_more = await _count(self._databases.central, CALLS)
        for pool in self._databases.pools:
            await hit(Failpoint.SPEND_BETWEEN_DATABASES)
            # All databases are counted in each tick, even if an earlier one has more.
            has_more |= bool(await unless_unavailable(_count(pool, TOKENS)))
        return has_more


async def _count(database: Database, steps: StepStatements) -> bool:
    """Counts steps. Returns whether there is more to count in this database."""
    async with database.ordinary() as connection, connection.transaction():
        if not await steps.try_lock.value(connection):
            return False
        progress = await steps.read_progress.row(connection, CountingProgress)
        assert progress is not None
        since = first_step(progress)
        until = min(progress.now, since + COUNTED_AGAIN + MAX_AT_ONCE)
        await steps.count_steps.run(connection, since=since, until=until, step_seconds=STEP_SECONDS)
        await steps.write_progress.run(connection, counted_until=until)
        await steps.delete_old_steps.run(connection, before=progress.now - KEPT)
        return until < progress.now


def first_step(progress: CountingProgress) -> datetime:
    """The start of the first step to count: a step that was counted in part is counted again as a whole. Pure."""
    minute = first_minute(progress)
    return minute - timedelta(seconds=minute.timestamp() % STEP_SECONDS)
