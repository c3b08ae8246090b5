"""Deletes the history rows of dispatches that finished long ago."""

from __future__ import annotations

from datetime import datetime

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.dispatch", "retention_statements.sql")


class HistoryRetention(Loop):
    """Deletes old rows of the history. Safe on any number of control planes."""

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
