"""Deletes old log lines and sessions of workers in batches. The log has two lines per job."""

from __future__ import annotations

from datetime import datetime

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.fleet.registry", "log_statements.sql")


class AuditRetention(Loop):
    """Deletes old lines and sessions. Safe on any number of control planes. `log_days`, `session_days`: None keeps
    the rows forever.
    """

    name = "audit_retention"
    interval_seconds = 600.0
    # Deleting this many rows takes some tens of milliseconds.
    batch = 5000

    def __init__(self, databases: Databases, log_days: int | None, session_days: int | None):
        super().__init__()
        self._databases = databases
        self._log_days = log_days
        self._session_days = session_days

    async def tick(self, now: datetime) -> bool:
        """Deletes rows. Returns whether there may be more to delete."""
        events = sessions = 0
        async with self._databases.central.ordinary() as connection:
            if self._log_days is not None:
                events = await SQL["delete_old_events"].run(connection, days=self._log_days, limit=self.batch)
            if self._session_days is not None:
                sessions = await SQL["delete_old_sessions"].run(connection, days=self._session_days, limit=self.batch)
        return self.batch in (events, sessions)
