"""The relay sends the changes that a pool committed to central: at once after the commit for speed, and in this loop
for safety.

Relaying twice changes nothing: a dispatch is unique per job and charge cycle, and `queued` is set only from `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import asyncpg

from callsheet.dispatch.facts import JobCycle, JobEnd, QueueEntry
from callsheet.dispatch.queue import Queue
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.cycles import JobState, end_of_cycle
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.jobs import ACTIVE, JobStatus

SQL = statements("callsheet.jobs.machine")

log = get_logger(__name__)
ACTOR = "relay"
# The pool has committed, so the job is accepted (or has ended) even if central returns an error. The loop retries.
POSTPONED = (*DATABASE_AWAY, asyncpg.PostgresError)


class OutboxRow(NamedTuple):
    """A job whose dispatch is to be created or closed, in the charge cycle of the outbox row."""

    outbox_id: int
    action: str
    entry: QueueEntry
    status: str
    job_cycle: int
    earlier_end: str | None

    @property
    def state(self) -> JobState:
        return JobState(self.status, self.job_cycle, 0, self.earlier_end)

    @property
    def has_ended(self) -> bool:
        return self.job_cycle != self.entry.charge_cycle or self.status not in ACTIVE


class Relay(Loop):
    name = "relay"
    interval_seconds = 2.0
    # The process that wrote a younger row may still be relaying the row.
    settle_seconds = 2.0
    batch = 200
    # Jobs of a batch that are relayed together.
    at_once = 100

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        queue: Queue,
        routing: TenantRouting,
        transitions: Transitions,
    ):
        super().__init__()
        self._pools = pools
        self._queue = queue
        self._routing = routing
        self._transitions = transitions
        self._dispatching: Batcher[QueueEntry, None] = Batcher(self._enqueue, isolate=(asyncpg.PostgresError,))

    async def tick(self, now: datetime) -> bool:
        """Relays the rows that are left in the outbox. Returns True if there may be more."""
        before = now - timedelta(seconds=self.settle_seconds)
        return any(await all_of(self.relay_pool(pool, before) for pool in self._pools()))

    async def relay_pool(self, pool: Database, before: datetime | None = None) -> bool:
        async with pool.connection() as connection:
            rows = await SQL["read_outbox"].rows(connection, OutboxRow, before=before, limit=self.batch)
        await self._dispatch_rows(pool, [row for row in rows if row.action == "dispatch"])
        await self._close_rows(pool, [row for row in rows if row.action == "close"])
        return len(rows) == self.batch

    async def dispatch_now(self, entry: QueueEntry) -> JobStatus:
        """Called by a use case that has just committed a job. When this returns, the job is queued, or the loop
        queues it soon.
        """
        try:
            return await self._dispatch(entry)
        except POSTPONED as error:
            log.warning("relay.postponed", job_id=str(entry.job_id), error=repr(error))
            return JobStatus.PENDING

    async def dispatch_all(self, entries: Sequence[QueueEntry]) -> None:
        """The same for the jobs of a batch, in parts: jobs that others submit meanwhile wait for one part only."""
        try:
            for start in range(0, len(entries), self.at_once):
                await all_of(self._dispatch(entry) for entry in entries[start : start + self.at_once])
        except POSTPONED as error:
            log.warning("relay.postponed", jobs=len(entries), error=repr(error))

    async def close_now(self, end: JobEnd) -> None:
        """Called by a use case that has just ended a job. Closes its dispatch, or marks the dispatch so that its
        worker stops.
        """
        await self.close_all([end])

    async def close_all(self, ends: Sequence[JobEnd]) -> None:
        try:
            await self._queue.end_for_jobs(ends)
            await hit(Failpoint.RELAY_BEFORE_CLOSED)
            for end in ends:
                await self._delete_outbox_of(JobCycle(end.tenant_id, end.job_id, end.charge_cycle), "close")
        except POSTPONED as error:
            log.warning("relay.postponed", job_ids=[str(end.job_id) for end in ends], error=repr(error))

    async def _dispatch(self, entry: QueueEntry) -> JobStatus:
        await self._dispatching(entry)
        await hit(Failpoint.RELAY_BEFORE_QUEUED)
        return await self._mark_queued(entry.cycle)

    async def _enqueue(self, entries: Sequence[QueueEntry]) -> list[None]:
        await self._queue.enqueue(entries)
        return [None] * len(entries)

    async def _dispatch_rows(self, pool: Database, rows: Sequence[OutboxRow]) -> None:
        await self._delete_outbox(pool, [row for row in rows if row.has_ended])
        await all_of(self._dispatch(row.entry) for row in rows if not row.has_ended)

    async def _mark_queued(self, job: JobCycle) -> JobStatus:
        if await self._transitions.apply(Transition.QUEUE, TransitionRequest(job, ACTOR)) is not None:
            return JobStatus.QUEUED
        # The job has started already, which is fine; or it ended meanwhile, and its new dispatch must be closed.
        state = await self._transitions.state_of(job)
        end = end_of_cycle(state, job.charge_cycle)
        if end is not None:
            await self._queue.end_for_jobs([JobEnd(*job, end)])
        await self._delete_outbox_of(job, "dispatch")
        return JobStatus.PENDING if state is None else JobStatus(state.status)

    async def _close_rows(self, pool: Database, rows: Sequence[OutboxRow]) -> None:
        found = [(row, end_of_cycle(row.state, row.entry.charge_cycle)) for row in rows]
        await self._queue.end_for_jobs([JobEnd(*row.entry.cycle, end) for row, end in found if end is not None])
        if rows:
            await hit(Failpoint.RELAY_BEFORE_CLOSED)
        await self._delete_outbox(pool, rows)

    async def _delete_outbox(self, pool: Database, rows: Sequence[OutboxRow]) -> None:
        if rows:
            async with pool.connection() as connection:
                await SQL["delete_outbox"].run(connection, ids=[row.outbox_id for row in rows])

    async def _delete_outbox_of(self, job: JobCycle, action: str) -> None:
        pool = await self._routing.pool_of_tenant(job.tenant_id)
        async with pool.connection() as connection:
            await SQL["delete_outbox_of_job"].run(connection, **job._asdict(), action=action)
