"""The workers' log has two lines per job, each registration is a session: old ones are deleted, a piece at a time."""

from __future__ import annotations

from datetime import datetime

from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import statements
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.fleet")


class AuditRetention(Loop):
    """Safe on any number of control planes. `log_days`, `session_days`: None keeps them for ever."""

    name = "audit_retention"
    interval_seconds = 600.0
    # So many rows are deleted in some tens of milliseconds.
    batch = 5000

    def __init__(self, databases: Databases, log_days: int | None, session_days: int | None):
        super().__init__()
        self._databases = databases
        self._log_days = log_days
        self._session_days = session_days

    async def tick(self, now: datetime) -> bool:
        """Whether there may be more."""
        events = sessions = 0
        async with self._databases.central.connection() as connection:
            if self._log_days is not None:
                events = await SQL["delete_old_events"].run(connection, days=self._log_days, limit=self.batch)
            if self._session_days is not None:
                sessions = await SQL["delete_old_sessions"].run(connection, days=self._session_days, limit=self.batch)
        return self.batch in (events, sessions)
