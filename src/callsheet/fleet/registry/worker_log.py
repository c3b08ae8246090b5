"""The audit log of workers: events of workers and outcomes of leases, one line each.

Concurrent events are written in one commit, because a commit takes longer than the lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg

from callsheet.jobs.lease.outcomes import Settlement
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.redaction.redaction import redact_json

SQL = statements("callsheet.fleet.registry", "log_statements.sql")

log = get_logger(__name__)

# `ended`: any other outcome, for example a canceled job or one that waits for a callback. The time of such a lease is
# added to the session's busy time; no job is counted.
LeaseOutcome = Literal["completed", "failed", "requeued", "ended"]


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a worker's log. `settled` and `outcome` are both set if the event ended a lease."""

    worker_id: str
    session_id: int | None
    event: str
    actor: str
    dispatch_id: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    settled: Settlement | None = None
    outcome: LeaseOutcome | None = None

    def as_entry(self, place: int) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "place": place,
            "worker_id": self.worker_id,
            "session_id": self.session_id,
            "event": self.event,
            "actor": self.actor,
            "dispatch_id": self.dispatch_id,
            "details": redact_json(dict(self.details)),
        }
        if self.settled is not None and self.outcome is not None:
            entry |= {
                "outcome": self.outcome,
                "busy_seconds": self.settled.lease_seconds_held,
                "effect_id": str(self.settled.effect_id) if self.settled.effect_id else None,
                "workflow_id": self.settled.workflow_id,
                "run_seconds": self.settled.duration_seconds,
            }
        return entry


def outcome_of_requeue(status: str) -> LeaseOutcome:
    """The outcome of a lease that was returned, from the status that its job has afterwards."""
    match status:
        case "failed":
            return status
        case "queued":
            return "requeued"
        case _:
            return "ended"


class Audit:
    def __init__(self, databases: Databases):
        self._databases = databases
        self._batcher: Batcher[Event, None] = Batcher(self._record_batch, isolate=(asyncpg.PostgresError,))

    async def record(self, event: Event) -> None:
        """Records the event in one batch with concurrent events. The outcome of a lease is
        also added to the counts of its session and its effect, and to the run times of its workflow."""
        await self._batcher(event)

    async def note(self, event: Event) -> None:
        """Like `record`, for a change that is committed already: a client disconnect does not cancel the write, and a
        database outage does not raise. A line that cannot be written goes to the process's own log. If the process
        crashes before the line is written, the line is missing and its lease is not counted."""
        await hit(Failpoint.AUDIT_BEFORE_LINE)
        try:
            await asyncio.shield(self._batcher.add(event))
        except (*DATABASE_AWAY, asyncpg.PostgresError) as error:
            log.error("audit.line_lost", error=repr(error), line=event.as_entry(0))

    async def _record_batch(self, events: Sequence[Event]) -> list[None]:
        async with self._databases.central.connection() as connection:
            await write(connection, events)
        return [None] * len(events)


async def write(connection: Connection, events: Sequence[Event]) -> None:
    """Writes the events on the given connection. A caller that is inside a transaction writes them with its change."""
    if events:
        entries = [event.as_entry(place) for place, event in enumerate(events)]
        await SQL["record_events"].run(connection, entries=entries)
