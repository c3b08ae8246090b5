"""What workers do, written down behind their requests: their answers do not depend on it.

There is a line for every lease and every report: waiting for them took a fourth of a request's time, and two of nine
statements. What a killed process had not written down is lost: a moment of the log, and nothing of any job.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime

from callsheet.fleet.audit import Audit, Event
from callsheet.plumbing.database import DATABASE_AWAY
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

log = get_logger(__name__)

# Long enough for a busy moment's lines to share a statement.
GATHER_SECONDS = 0.03
# While the database is away; then the oldest go.
MOST_WAITING = 50_000


class AuditTrail(Loop):
    name = "audit_trail"
    interval_seconds = 1.0

    def __init__(self, audit: Audit):
        super().__init__()
        self._audit = audit
        self._waiting: deque[Event] = deque(maxlen=MOST_WAITING)

    def note(self, event: Event) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self.wake)
        self._waiting.append(event)

    async def tick(self, now: datetime) -> None:
        events, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        # The batches of the audit fall back to one by one, so a line that cannot be written is lost alone.
        results = await asyncio.gather(*(self._audit.record(event) for event in events), return_exceptions=True)
        failed = [(event, error) for event, error in zip(events, results, strict=True) if error is not None]
        away = [(event, error) for event, error in failed if isinstance(error, DATABASE_AWAY)]
        for event, error in failed:
            if not isinstance(error, DATABASE_AWAY):
                log.error("audit.line_lost", worker_id=event.worker_id, event_name=event.event, error=repr(error))
        if away:
            self._waiting.extendleft(reversed([event for event, _ in away]))
            raise away[0][1]

    async def stop(self) -> None:
        await super().stop()
        try:
            await self.tick(self._clock.now())
        except DATABASE_AWAY as error:  # the rest of the shutdown matters more
            log.warning("audit.lines_lost", lines=len(self._waiting), error=repr(error))
