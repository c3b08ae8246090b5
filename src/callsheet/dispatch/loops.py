"""The loops of the queue. Each is safe on any number of control planes."""

from __future__ import annotations

from datetime import datetime

from callsheet.dispatch.queue import Queue
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.dispatch", "retention_statements.sql")


class LaneKeeper(Loop):
    """Adds delayed rows to their lanes when they are due, and keeps leases fast and their order fair."""

    name = "lane_keeper"
    interval_seconds = 0.5

    def __init__(self, queue: Queue):
        super().__init__()
        self._queue = queue

    async def tick(self, now: datetime) -> bool:
        promoted = await self._queue.promote()
        await self._queue.maintain()
        return promoted >= 1000


class HistoryRetention(Loop):
    """Deletes the history rows of dispatches that finished long ago."""

    name = "history_retention"
    interval_seconds = 600.0
    batch = 5000

    def __init__(self, central: Database, days: int):
        super().__init__()
        self._central = central
        self._days = days

    async def tick(self, now: datetime) -> bool:
        """Deletes rows. Returns whether there may be more to delete."""
        async with self._central.ordinary() as connection:
            deleted = await SQL["delete_old_history"].run(connection, days=self._days, limit=self.batch)
        return deleted == self.batch
