"""The loop that ends jobs whose deadline has passed. Safe on any number of control planes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, cast
from uuid import UUID

from callsheet.dispatch.facts import EndStatus, JobCycle, JobEnd
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import NotFound
from callsheet.wire.job_errors import job_error, sentence_of
from callsheet.wire.jobs import JobStatus

SQL = statements("callsheet.jobs.repair")

ACTOR = "deadlines"
BATCH = 500


class OverdueJob(NamedTuple):
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: str


class Deadlines(Loop):
    """Ends jobs whose deadline has passed. A waiting job fails, a running job expires. Both are refunded."""

    name = "deadlines"
    interval_seconds = 5.0

    def __init__(self, pools: Callable[[], Sequence[Database]], transitions: Transitions, relay: Relay):
        super().__init__()
        self._pools = pools
        self._transitions = transitions
        self._relay = relay

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.enforce(pool) for pool in self._pools()))

    async def enforce(self, pool: Database, at: datetime | None = None) -> bool:
        async with pool.connection() as connection:
            rows = await SQL["find_overdue"].rows(connection, OverdueJob, now=at, limit=BATCH)
        await all_of(self._end(pool, JobCycle(*row[:3]), JobStatus(row.status)) for row in rows)
        return len(rows) == BATCH

    async def _end(self, pool: Database, job: JobCycle, status: JobStatus) -> None:
        if status is JobStatus.PROCESSING:
            transition, error = Transition.EXPIRE, job_error("deadline", sentence_of("deadline"))
        else:
            transition, error = Transition.FAIL, job_error("queue_deadline", sentence_of("queue_deadline"))
        request = TransitionRequest(job, ACTOR, reason=error["message"], error=error)
        ended = await self._transitions.apply(transition, request, close_dispatch=True, only_from=status, pool=pool)
        if ended is not None:
            await hit(Failpoint.EXPIRE_BEFORE_RELAY)
            # If central does not know the tenant, the loop of the relay closes the dispatch.
            with suppress(NotFound):
                await self._relay.close_now(JobEnd(*job, cast("EndStatus", ended.status)))
