"""The workers' log has two lines per job: what is older than it is kept for goes, a piece at a time."""

from __future__ import annotations

from datetime import datetime

from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import statements
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.fleet")


class AuditRetention(Loop):
    """Safe on any number of control planes."""

    name = "audit_retention"
    interval_seconds = 600.0
    # So many rows are deleted in some tens of milliseconds.
    batch = 5000

    def __init__(self, databases: Databases, days: int):
        super().__init__()
        self._databases = databases
        self._days = days

    async def tick(self, now: datetime) -> bool:
        """Whether there may be more."""
        async with self._databases.central.connection() as connection:
            deleted = await SQL["delete_old_events"].run(connection, days=self._days, limit=self.batch)
        return deleted == self.batch
