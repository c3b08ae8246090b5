"""Keeps the databases of a process usable: restarts the embedded server, opens and closes pools."""

from __future__ import annotations

import time
from datetime import datetime

from callsheet.plumbing.database.databases import Databases
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

log = get_logger(__name__)


class DatabaseWatch(Loop):
    """Restarts an embedded server that was killed, opens pools that were added or came back, renews claims on pools."""

    name = "database_watch"
    interval_seconds = 2.0
    # While central is lost too: pools and the embedded server do not wait for the end of a long backoff.
    retry_cap_seconds = 2.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        # Pools that are not served, with the time since then (monotonic seconds).
        self._since: dict[str, float] = {}

    async def tick(self, now: datetime) -> None:
        try:
            await self._databases.keep_embedded_running()
            await self._databases.refresh_pools()
        finally:
            self._report()

    def _report(self) -> None:
        """Logs one line when a pool is lost and one when it is back, not one per attempt."""
        unavailable = self._databases.unavailable
        for name, reason in unavailable.items():
            if name not in self._since:
                self._since[name] = time.monotonic()
                log.error("pool.unavailable", pool=name, reason=reason)
        for name in self._since.keys() - unavailable.keys():
            seconds = round(time.monotonic() - self._since.pop(name), 1)
            log.info("pool.available", pool=name, unavailable_seconds=seconds)
