"""The reconciler repairs differences between jobs and their dispatches, which are in two databases.

Every use case repairs itself after a crash. The reconciler handles what they cannot detect: a database that was
restored to an earlier time, a row that was deleted by hand, a bug. It is slow and careful on purpose: it checks only
settled rows, reads both sides a second time before a change, and changes jobs and dispatches only through the normal
operations, which reject outdated changes. Safe on any number of control planes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import EndStatus, JobCycle, JobEnd
from callsheet.dispatch.queue import Queue
from callsheet.dispatch.repair import CentralState, DispatchRepair, OpenDispatch
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.cycles import end_of_cycle
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.jobs.repair.discrepancies import Discrepancy, JobSide, Suspicion, compare, ending_of, into_the_queue
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import unless_unavailable
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.job_errors import job_error, reported_message
from callsheet.wire.jobs import JobStatus

SQL = statements("callsheet.jobs.repair")
MACHINE_SQL = statements("callsheet.jobs.machine")

log = get_logger(__name__)
ACTOR = "reconciler"


class ActiveJob(NamedTuple):
    tenant_id: UUID
    job_id: UUID
    deadline_at: datetime


class Reconciler(Loop):
    name = "reconciler"
    interval_seconds = 10.0
    # The process that wrote a younger row may still be working on it.
    settle_seconds = 60.0
    # Time between the two checks.
    confirm_seconds = 5.0
    # Rows per database and tick. At this rate, a check of a million jobs takes three hours.
    batch = 1000
    max_suspicions = 1000

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        queue: Queue,
        repair: DispatchRepair,
        routing: TenantRouting,
        transitions: Transitions,
    ):
        super().__init__()
        self._pools = pools
        self._queue = queue
        self._repair = repair
        self._routing = routing
        self._transitions = transitions
        self._after_deadline: dict[str, datetime | None] = {}
        self._after_dispatch = 0
        # When each difference was first seen, and in which pool.
        self._suspicions: dict[Suspicion, tuple[float, Database]] = {}
        self.healed: Counter[str] = Counter({kind.value: 0 for kind in Discrepancy})

    async def tick(self, now: datetime) -> None:
        # All checks run even if a pool is unavailable, so that jobs of other pools do not wait for that pool.
        checks = [self._check_pool(pool) for pool in self._pools()]
        await all_of([self._confirm_due(), self._check_central(), *checks])

    async def _confirm_due(self) -> None:
        moment = self._clock.monotonic()
        due = {seen: pool for seen, (at, pool) in self._suspicions.items() if moment - at >= self.confirm_seconds}
        for suspicion in due:
            del self._suspicions[suspicion]
        await all_of(unless_unavailable(self._confirm(suspicion, pool)) for suspicion, pool in due.items())

    async def _check_pool(self, pool: Database) -> None:
        """Checks active jobs whose dispatch is missing or has ended."""
        async with pool.ordinary() as connection:
            page = await SQL["active_jobs_page"].rows(
                connection, ActiveJob, after=self._after_deadline.get(pool.name), limit=self.batch
            )
        self._after_deadline[pool.name] = page[-1].deadline_at if len(page) == self.batch else None
        # The pool is read before central, because the pool has a job before central has its dispatch.
        jobs = await self._job_sides(pool, [(row.tenant_id, row.job_id) for row in page])
        live = {job.entry.cycle: job for job in jobs.values()}
        if live:
            states = await self._repair.central_states(list(live), self.settle_seconds)
            self._suspect(
                pool,
                (compare(cycle, job, states[cycle]) for cycle, job in live.items() if _lacks_dispatch(states[cycle])),
            )

    async def _check_central(self) -> None:
        """Checks open dispatches: their job may have ended, be in another cycle, or be missing."""
        page = await self._repair.page(self._after_dispatch, self.batch, self.settle_seconds)
        self._after_dispatch = page[-1].dispatch_id if len(page) == self.batch else 0
        by_pool: dict[str, tuple[Database, list[OpenDispatch]]] = {}
        for dispatch in page:
            pool = (
                await unless_unavailable(self._routing.pool_of_tenant(dispatch.tenant_id))
                if dispatch.has_settled
                else None
            )
            if pool is not None:
                by_pool.setdefault(pool.name, (pool, []))[1].append(dispatch)
        await all_of(self._compare_with(pool, dispatches) for pool, dispatches in by_pool.values())

    async def _compare_with(self, pool: Database, dispatches: Sequence[OpenDispatch]) -> None:
        jobs = await self._job_sides(pool, [(one.tenant_id, one.job_id) for one in dispatches])
        self._suspect(
            pool,
            (compare(one.cycle, jobs.get((one.tenant_id, one.job_id)), _central_state(one)) for one in dispatches),
        )

    def _suspect(self, pool: Database, found: Iterable[Suspicion | None]) -> None:
        moment = self._clock.monotonic()
        for suspicion in found:
            if suspicion is not None and len(self._suspicions) < self.max_suspicions:
                self._suspicions.setdefault(suspicion, (moment, pool))

    async def _confirm(self, suspicion: Suspicion, pool: Database) -> None:
        tenant_id, job_id, _ = suspicion.job
        job = (await self._job_sides(pool, [(tenant_id, job_id)])).get((tenant_id, job_id))
        central = (await self._repair.central_states([suspicion.job], self.settle_seconds))[suspicion.job]
        if compare(suspicion.job, job, central) == suspicion and await self._heal(pool, suspicion, job, central):
            self.healed[suspicion.kind.value] += 1
            log.warning("reconciler.healed", kind=suspicion.kind.value, tenant_id=str(tenant_id), job_id=str(job_id))

    async def _heal(self, pool: Database, suspicion: Suspicion, job: JobSide | None, central: CentralState) -> bool:
        if job is None or suspicion.kind in (
            Discrepancy.ORPHANED_DISPATCH,
            Discrepancy.OPEN_DISPATCH_OF_ENDED_JOB,
        ):
            end = await self._end_of(suspicion.job)
            await self._queue.end_for_jobs([JobEnd(*suspicion.job, end or "failed")])
            return True
        match suspicion.kind:
            case Discrepancy.MISSING_DISPATCH:
                return await self._dispatch_or_fail(pool, job)
            case Discrepancy.OPEN_JOB_OF_ENDED_DISPATCH:
                transition, error = ending_of(job, central)
                reason = error["message"] if error else "The dispatch was canceled."
                return await self._change(pool, transition, suspicion, reason=reason, error=error)
            case Discrepancy.LEASES_OF_DISPATCH:
                return await self._repair.raise_lease_seq(suspicion.job, job.lease_seq)
            case Discrepancy.STATUS_OF_JOB:
                return await self._change(pool, into_the_queue(job), suspicion, reason="The job waits in the queue.")
            case _:
                assert central.priority is not None
                return await self._transitions.set_priority(suspicion.job, central.priority)

    async def _dispatch_or_fail(self, pool: Database, job: JobSide) -> bool:
        try:
            return await self._dispatch_again(pool, job)
        except asyncpg.ForeignKeyViolationError:
            # Central was restored, and its tenant or its workflow was created after the backup.
            error = job_error("dispatch_ended", "Central does not know the tenant or the workflow of the job.")
            suspicion = Suspicion(Discrepancy.MISSING_DISPATCH, job.entry.cycle, job.lease_seq)
            return await self._change(pool, Transition.FAIL, suspicion, reason=error["message"], error=error)

    async def _dispatch_again(self, pool: Database, job: JobSide) -> bool:
        if not await self._repair.recreate(job.entry, job.lease_seq):
            return False
        await hit(Failpoint.RECONCILE_BEFORE_POOL)
        cycle = job.entry.cycle
        suspicion = Suspicion(Discrepancy.MISSING_DISPATCH, cycle, job.lease_seq)
        if job.status != JobStatus.QUEUED:
            reason = "The dispatch was lost and was created again."
            await self._change(pool, into_the_queue(job), suspicion, reason=reason)
        end = await self._end_of(cycle)
        if end is not None:
            # The job ended meanwhile, while there was no dispatch to close.
            await self._queue.end_for_jobs([JobEnd(*cycle, end)])
        return True

    async def _change(
        self,
        pool: Database,
        transition: Transition,
        suspicion: Suspicion,
        *,
        reason: str,
        error: Mapping[str, Any] | None = None,
    ) -> bool:
        reported = reported_message(error) if error else None
        request = TransitionRequest(
            suspicion.job, ACTOR, lease_seq=suspicion.lease_seq, reason=reason, reported=reported, error=error
        )
        return await self._transitions.apply(transition, request, pool=pool) is not None

    async def _end_of(self, job: JobCycle) -> EndStatus | None:
        return end_of_cycle(await self._transitions.state_of(job), job.charge_cycle)

    async def _job_sides(self, pool: Database, keys: Sequence[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], JobSide]:
        if not keys:
            return {}
        async with pool.ordinary() as connection:
            rows = await MACHINE_SQL["job_sides"].rows(
                connection,
                JobSide,
                tenant_ids=[tenant_id for tenant_id, _ in keys],
                job_ids=[job_id for _, job_id in keys],
                settle_seconds=self.settle_seconds,
            )
        return {(row.entry.tenant_id, row.entry.job_id): row for row in rows}


def _central_state(dispatch: OpenDispatch) -> CentralState:
    return CentralState(
        *dispatch.cycle,
        dispatch_id=dispatch.dispatch_id,
        status=dispatch.status,
        priority=dispatch.priority,
        lease_seq=dispatch.lease_seq,
        holder_notified=dispatch.cancel_requested_at is not None,
    )


def _lacks_dispatch(state: CentralState) -> bool:
    # A job with an open dispatch is compared once, by `_check_central`.
    return state.dispatch_id is None
