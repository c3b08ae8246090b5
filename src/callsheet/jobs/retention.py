"""Deletes the events of jobs that ended long ago. The jobs and their last events stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from callsheet.jobs.sql import RETENTION_SQL
from callsheet.plumbing.database import Database
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.loops import Loop


class EventRetention(Loop):
    """Deletes old events. Safe on any number of control planes: only one at a time works on a pool."""

    name = "event_retention"
    interval_seconds = 600.0
    # Number of jobs per tick. Each job has about five events.
    batch = 1000

    def __init__(self, pools: Callable[[], Sequence[Database]], days: int):
        super().__init__()
        self._pools = pools
        self._days = days

    async def tick(self, now: datetime) -> bool:
        """Deletes events. Returns whether there may be more to delete."""
        return any(await all_of(self._delete_some(pool) for pool in self._pools()))

    async def _delete_some(self, pool: Database) -> bool:
        async with pool.ordinary() as connection, connection.transaction():
            await RETENTION_SQL["begin_event_retention"].run(connection)
            jobs = await RETENTION_SQL["delete_old_events"].value(connection, days=self._days, limit=self.batch)
        return bool(jobs == self.batch)
