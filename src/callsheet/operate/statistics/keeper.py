"""Counts finished jobs and samples queues and workers, for charts that survive restarts.

Any number of control planes may run this: one counts at a time, under a lock that ends with its transaction. The last
minutes are counted again from the history each time, so a process that dies, or a job whose end was committed late,
does not change the result. Only the hours of workers are added up. This happens in the transaction that writes the
sample of their minute, and a minute is sampled once.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from callsheet.operate.statistics.series import RESOLUTIONS
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.operate.statistics")
POOL_SQL = statements("callsheet.operate.statistics", "pool_statements.sql")
# The end of a job is committed within this time after its statement.
COUNTED_AGAIN = timedelta(minutes=3)
# Maximum time span that one tick counts after all control planes were down, or after the upgrade that introduced the
# charts.
MAX_AT_ONCE = timedelta(hours=1)
OLDEST = timedelta(days=30)
MAX_QUEUED = 100_000
ALIVE_SECONDS = 90.0
# The leases of an older session without a sample are not those of one minute: no control plane ran, or the upgrade that
# introduced these sums is new.
NEW_SESSION_SECONDS = 300.0
# Adding up the held tokens of a pool reads its open jobs. It takes at most this fraction of the time.
MAX_READING_TIME = 0.01
LONGER_STEPS = (600, 3600)
WORKER_HOURS_KEPT = timedelta(days=2)


class CountingProgress(NamedTuple):
    now: datetime
    counted_until: datetime | None
    # When the oldest dispatch of the history finished, or an earlier time.
    first_end: datetime | None


class StatisticsKeeper(Loop):
    name = "statistics"
    interval_seconds = 10.0

    def __init__(self, databases: Databases, days: int):
        """`days`: how long the hours are kept. Shorter steps are kept as long as a chart shows them."""
        super().__init__()
        self._databases = databases
        self._kept_seconds = {
            step: 2.0 * step * steps if step < max(LONGER_STEPS) else days * 86400.0
            for step, steps in RESOLUTIONS.values()
        }
        self._sampled_minute: datetime | None = None
        self._tokens_due = 0.0

    async def tick(self, now: datetime) -> bool:
        """Counts. Returns whether there is more to count."""
        # A sample must be current: on a busy machine, a cached sum was minutes old.
        is_new_minute = now.replace(second=0, microsecond=0) != self._sampled_minute
        tokens = await self._held_tokens() if is_new_minute else None
        async with self._databases.central.ordinary() as connection, connection.transaction():
            if not await SQL["try_lock"].value(connection):
                return False
            progress = await SQL["read_progress"].row(connection, CountingProgress)
            assert progress is not None
            since = first_minute(progress)
            until = await self._count(connection, since, progress.now)
            minute = progress.now.replace(second=0, microsecond=0)
            if minute != self._sampled_minute:
                await self._sample(connection, progress.now, tokens)
            # Rows are also deleted while it catches up: the minutes of thirty days are too many to be deleted at once.
            if minute != self._sampled_minute or until < progress.now:
                await self._delete_old(connection, progress.now, since)
        await hit(Failpoint.STATISTICS_AFTER_COMMIT)
        self._sampled_minute = minute
        return until < progress.now

    async def _count(self, connection: Connection, since: datetime, now: datetime) -> datetime:
        """Counts from the last time on, at most one hour. Returns the new time."""
        until = min(now, since + COUNTED_AGAIN + MAX_AT_ONCE)
        await SQL["count_minutes"].run(connection, since=since, until=until)
        for shorter, step in pairwise((60, *LONGER_STEPS)):
            await SQL["combine_finished"].run(
                connection, step_seconds=step, shorter_seconds=shorter, since=since, until=until
            )
        await SQL["write_progress"].run(connection, counted_until=until)
        return until

    async def _sample(self, connection: Connection, now: datetime, tokens: float | None) -> None:
        # The row of the fleet says that the minute is sampled. A second control plane adds nothing in the same minute:
        # hours of workers would count twice, and a workflow that got its first jobs meanwhile would have a sample that
        # the sum of all workflows does not include.
        if not await SQL["sample_fleet"].run(connection, now=now, alive_seconds=ALIVE_SECONDS, tokens_held=tokens):
            return
        await SQL["sample_queues"].run(connection, now=now, max_rows=MAX_QUEUED)
        await SQL["sample_workers"].run(
            connection, now=now, alive_seconds=ALIVE_SECONDS, new_seconds=NEW_SESSION_SECONDS
        )
        for step in LONGER_STEPS:
            await SQL["combine_queues"].run(connection, step_seconds=step, since=now)
            await SQL["combine_fleet"].run(connection, step_seconds=step, since=now)

    async def _delete_old(self, connection: Connection, now: datetime, since: datetime) -> None:
        # The current hour is added up from its minutes, also an old one.
        counted_hour = since.replace(minute=0)
        await SQL["delete_old_worker_hours"].run(connection, before=now - WORKER_HOURS_KEPT)
        for step, kept in self._kept_seconds.items():
            before = min(now - timedelta(seconds=kept), counted_hour)
            await SQL["delete_old_counts"].run(connection, step_seconds=step, before=before)
            await SQL["delete_old_queue_samples"].run(connection, step_seconds=step, before=before)
            await SQL["delete_old_fleet_samples"].run(connection, step_seconds=step, before=before)

    async def _held_tokens(self) -> float | None:
        """The held tokens of all pools; None if a pool is not available, or if the last sum took too long."""
        started = time.monotonic()
        if started < self._tokens_due or self._databases.unavailable:
            return None
        tokens = await self._sum_tokens()
        ended = time.monotonic()
        self._tokens_due = ended + (ended - started) / MAX_READING_TIME
        return tokens

    async def _sum_tokens(self) -> float | None:
        total = 0.0
        for pool in self._databases.pools:
            try:
                async with pool.ordinary() as connection:
                    total += await POOL_SQL["sum_held_tokens"].value(connection)
            except DATABASE_AWAY:
                return None
        return total


def first_minute(progress: CountingProgress) -> datetime:
    """The time from which finished jobs are counted: some minutes again, and everything that was never counted.
    Pure.
    """
    start = progress.counted_until
    if start is None:
        start = max(progress.first_end or progress.now, progress.now - OLDEST)
    return (min(start, progress.now) - COUNTED_AGAIN).replace(second=0, microsecond=0)
