"""The findings of `callsheet doctor` for operators without a shell on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from callsheet.operate.installation.examination import examine
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import Settings
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.wire.operate.administration import Health, HealthFinding

# The checks connect to every database and write an object to the storage, so they are not repeated for each request.
FRESH_SECONDS = 10.0


class HealthChecks:
    def __init__(self, settings: Settings, databases: Databases, clock: Clock | None = None):
        self._settings = settings
        self._databases = databases
        self._clock = clock or SystemClock()
        self._last: tuple[float, Health] | None = None
        self._lock = asyncio.Lock()

    async def read(self) -> Health:
        """The health of the installation. Requests that arrive during the checks get the same result."""
        async with self._lock:
            if self._last is None or self._clock.monotonic() - self._last[0] > FRESH_SECONDS:
                at = self._clock.now()
                findings = await examine(self._settings, self._central)
                views = [
                    HealthFinding(
                        part=each.part,
                        status=each.status,
                        message=redact_text(each.message),
                        advice=redact_text(each.advice),
                    )
                    for each in findings
                ]
                self._last = self._clock.monotonic(), Health(at=at, findings=views)
            return self._last[1]

    @asynccontextmanager
    async def _central(self) -> AsyncIterator[str]:
        # The embedded server runs as long as this process.
        yield self._databases.central.dsn
