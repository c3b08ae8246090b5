"""Deletes calls that ended long ago, with their callbacks. Jobs and their outputs stay."""

from __future__ import annotations

from datetime import datetime

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.webhooks")
AT_ONCE = 1000


class CallSweeper(Loop):
    name = "provider_call_sweeper"
    interval_seconds = 600.0

    def __init__(self, databases: Databases, keep_days: int):
        super().__init__()
        self._databases = databases
        self._keep_days = keep_days

    async def tick(self, now: datetime) -> bool:
        async with self._databases.central.ordinary() as connection:
            swept = await SQL["sweep_calls"].run(connection, days=self._keep_days, limit=AT_ONCE)
        return swept == AT_ONCE
