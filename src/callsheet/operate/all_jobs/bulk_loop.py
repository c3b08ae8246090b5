"""Carries out bulk actions, in batches, on any number of control planes.

A lease in central lets one process at a time work on an action. The lease only avoids useless work. Safety does not
depend on it: each job is changed by the use cases of `jobs`, in the charge cycle in which it was found, so only one of
two processes changes it. The history of the job shows whether this action changed it. Therefore a process that is
killed, or that loses its lease, leaves no job that is changed twice or counted wrongly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from callsheet.dispatch.facts import JobCycle
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.change.retry import Retries
from callsheet.jobs.operate.operations import DispatchOperations
from callsheet.jobs.show.search_terms import BEHIND_LAST, FIRST
from callsheet.operate.all_jobs.bulk_actions import refusals_of
from callsheet.operate.all_jobs.filters import ResolvedFilter
from callsheet.operate.all_jobs.lists import MAX_READ
from callsheet.operate.all_jobs.names import Names
from callsheet.operate.all_jobs.sql import BULK_POOL_SQL, BULK_SQL, SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import Refusal
from callsheet.wire.operate.all_jobs import BulkActionKind, JobFilter

log = get_logger(__name__)
# After this time, another process replaces a dead one.
LEASE_SECONDS = 30.0
# After Stop, at most the jobs of one batch are changed.
BATCH = 20
AT_ONCE = 4
# After this many batches, another action gets its turn.
MAX_BATCHES = 10
# How long the jobs of an action are kept after its end. Its counts stay.
KEPT_DAYS = 7
CLEARED_AT_ONCE = 5000


class ClaimedAction(NamedTuple):
    id: UUID
    action: str
    priority: int | None
    filter: Mapping[str, Any]
    reason: str | None
    created_by: UUID
    created_at: datetime
    is_collected: bool

    @property
    def actor(self) -> str:
        """The name of the action in the history of a job."""
        return f"bulk_action:{self.id}"


class ScanPlace(NamedTuple):
    read_down_to: UUID
    is_complete: bool


class BulkActionJob(NamedTuple):
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    is_changed: bool


class OutcomeCount(NamedTuple):
    outcome: str | None
    code: str | None
    jobs: int
    example: str | None


class BulkActionLoop(Loop):
    name = "bulk_actions"
    interval_seconds = 2.0

    def __init__(
        self,
        databases: Databases,
        names: Names,
        retries: Retries,
        cancellation: Cancellation,
        dispatches: DispatchOperations,
    ):
        super().__init__()
        self._databases = databases
        self._names = names
        self._retries = retries
        self._cancellation = cancellation
        self._dispatches = dispatches

    async def tick(self, now: datetime) -> bool:
        """Works on actions. Returns whether there may be more to do."""
        token = uuid4()
        async with self._databases.central.connection() as connection:
            action = await BULK_SQL["claim_action"].row(
                connection, ClaimedAction, token=token, lease_seconds=LEASE_SECONDS
            )
        if action is None:
            return await self._clear()
        await self._work(action, token)
        return True

    async def _work(self, action: ClaimedAction, token: UUID) -> None:
        """Runs some batches, then updates the counts, and ends the action if nothing is left."""
        is_complete = False
        for _ in range(MAX_BATCHES):
            if not await self._renew(action.id, token):
                break
            if not action.is_collected:
                action = action._replace(is_collected=not await self._collect(action))
            elif not await self._batch(action):
                is_complete = True
                break
            await self._count(action, token)
        await hit(Failpoint.BULK_BATCH_BEFORE_COUNTS)
        if not await self._count(action, token):
            # Another process has the lease and may have counted before the last jobs of this one.
            async with self._databases.central.connection() as connection:
                await BULK_SQL["count_again"].run(connection, id=action.id)
            return
        async with self._databases.central.connection() as connection:
            await BULK_SQL["finish_action"].run(connection, id=action.id, token=token, is_complete=is_complete)
            await BULK_SQL["release_lease"].run(connection, id=action.id, token=token)

    async def _renew(self, action_id: UUID, token: UUID) -> bool:
        """Renews the lease. Returns whether to continue: the action is not stopped, and this process has the lease."""
        async with self._databases.central.connection() as connection:
            renewed = await BULK_SQL["renew_lease"].value(
                connection, id=action_id, token=token, lease_seconds=LEASE_SECONDS
            )
        return renewed is not None

    async def _collect(self, action: ClaimedAction) -> bool:
        """Finds the next jobs in each pool. Returns whether there may be more."""
        wanted = JobFilter.model_validate(action.filter)
        # The operator who started the action may search users' texts.
        resolved = await self._names.resolve(wanted, searches_texts=True)
        more = [await self._collect_in(pool, action, resolved) for pool in self._databases.require_all()]
        return any(more)

    async def _collect_in(self, pool: Database, action: ClaimedAction, resolved: ResolvedFilter) -> bool:
        async with pool.ordinary() as connection, connection.transaction():
            place = await BULK_POOL_SQL["read_scan"].row(connection, ScanPlace, bulk_action_id=action.id)
            if place is not None and place.is_complete:
                return False
            values = {
                **resolved.parameters(place.read_down_to if place else BEHIND_LAST),
                "bulk_action_id": action.id,
                "frozen_at": action.created_at,
                "max_read": MAX_READ,
            }
            await SQL["collect_jobs"].run(connection, **values)
            where = {name: values[name] for name in SQL["last_read"].parameters}
            last = await SQL["last_read"].value(connection, **where)
            await BULK_POOL_SQL["write_scan"].run(
                connection, bulk_action_id=action.id, read_down_to=last or FIRST, is_complete=last is None
            )
        return last is not None

    async def _batch(self, action: ClaimedAction) -> bool:
        """Acts on the next jobs of the first pool that has some. Returns False if no pool has any."""
        for pool in self._databases.require_all():
            async with pool.ordinary() as connection:
                jobs = await BULK_POOL_SQL["open_jobs"].rows(
                    connection, BulkActionJob, bulk_action_id=action.id, actor=action.actor, limit=BATCH
                )
            for place in range(0, len(jobs), AT_ONCE):
                await asyncio.gather(*(self._one(pool, action, job) for job in jobs[place : place + AT_ONCE]))
            if jobs:
                return True
        return False

    async def _one(self, pool: Database, action: ClaimedAction, job: BulkActionJob) -> None:
        await hit(Failpoint.BULK_READ_BEFORE_ACT)
        refusal: Refusal | None = None
        if not job.is_changed:
            try:
                await self._act(action, job)
            except Refusal as error:
                # Another process may have changed the job for this action since it was read.
                refusal = None if await self._is_changed(pool, action, job) else error
        await hit(Failpoint.BULK_ACTED_BEFORE_OUTCOME)
        async with pool.connection() as connection:
            await BULK_POOL_SQL["write_outcome"].run(
                connection,
                bulk_action_id=action.id,
                tenant_id=job.tenant_id,
                job_id=job.job_id,
                outcome="done" if refusal is None else "refused",
                code=refusal.code if refusal else None,
                message=str(refusal) if refusal else None,
            )

    async def _act(self, action: ClaimedAction, job: BulkActionJob) -> None:
        tenant_id, job_id, cycle, _ = job
        by: dict[str, Any] = {"actor": action.actor, "reason": action.reason}
        match BulkActionKind(action.action):
            case BulkActionKind.RETRY:
                await self._retries.retry(tenant_id, job_id, **by, capped=False, charge_cycle=cycle)
            case BulkActionKind.CANCEL:
                await self._cancellation.cancel(tenant_id, job_id, **by, charge_cycle=cycle)
            case BulkActionKind.SET_PRIORITY:
                assert action.priority is not None, "a constraint of the table ensures this"
                await self._dispatches.change_priority_of_job(
                    JobCycle(tenant_id, job_id, cycle), action.priority, action.actor
                )

    async def _is_changed(self, pool: Database, action: ClaimedAction, job: BulkActionJob) -> bool:
        async with pool.connection() as connection:
            return bool(
                await BULK_POOL_SQL["is_changed"].value(
                    connection, tenant_id=job.tenant_id, job_id=job.job_id, actor=action.actor
                )
            )

    async def _count(self, action: ClaimedAction, token: UUID) -> bool:
        """Counts the jobs of the action in all pools. Returns False if another process has the lease."""
        rows: list[OutcomeCount] = []
        for pool in self._databases.require_all():
            async with pool.ordinary() as connection:
                rows += await BULK_POOL_SQL["count_outcomes"].rows(connection, OutcomeCount, bulk_action_id=action.id)
        async with self._databases.central.connection() as connection:
            written = await BULK_SQL["write_counts"].value(
                connection,
                id=action.id,
                token=token,
                is_collected=action.is_collected,
                total=sum(row.jobs for row in rows),
                done=sum(row.jobs for row in rows if row.outcome == "done"),
                refused=sum(row.jobs for row in rows if row.outcome == "refused"),
                refusals=[each.model_dump() for each in refusals_of(_by_code(rows))],
            )
        return written is not None

    async def _clear(self) -> bool:
        """Deletes the jobs of an action that ended long ago. Returns whether there may be more."""
        async with self._databases.central.ordinary() as connection:
            action_id = await BULK_SQL["find_actions_to_clear"].value(connection, days=KEPT_DAYS)
        if action_id is None:
            return False
        for pool in self._databases.require_all():
            async with pool.ordinary() as connection:
                cleared = await BULK_POOL_SQL["clear_jobs"].run(
                    connection, bulk_action_id=action_id, limit=CLEARED_AT_ONCE
                )
                if cleared:
                    return True
                await BULK_POOL_SQL["clear_scan"].run(connection, bulk_action_id=action_id)
        async with self._databases.central.connection() as connection:
            await BULK_SQL["mark_cleared"].run(connection, id=action_id)
        return True


def _by_code(rows: Sequence[OutcomeCount]) -> dict[str, tuple[int, str]]:
    counts: dict[str, tuple[int, str]] = {}
    for row in rows:
        if row.code is not None:
            jobs, example = counts.get(row.code, (0, row.example or ""))
            counts[row.code] = jobs + row.jobs, example
    return counts
