"""Admin actions on jobs and dispatches. Each action is recorded in the audit log with its actor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.dispatch.operate.lists import DispatchLists
from callsheet.dispatch.room import DispatchRoom
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import AuditLog
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.change.retry import Retried, Retries
from callsheet.jobs.lease.leases import Leases
from callsheet.jobs.lease.outcomes import LeaseReport
from callsheet.jobs.machine.rows import JobPayload, JobRow, JobWindow, OutcomeRow
from callsheet.jobs.machine.transitions import Transitions
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.reader import require_job, with_outcomes
from callsheet.jobs.show.views import admin_job_view
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, NotFound, WrongState
from callsheet.wire.jobs import JobListFilter, JobStatus
from callsheet.wire.operate.operations import AdminJob, Dispatch
from callsheet.wire.worker.errors import LeaseLost

SQL = statements("callsheet.jobs.operate")
MACHINE_SQL = statements("callsheet.jobs.machine")
LEASE_SQL = statements("callsheet.jobs.lease")

# Maximum number of rows that a filtered list reads per request.
MAX_INSPECTED = 2000


class DispatchOperations:
    def __init__(
        self,
        dispatch: DispatchRoom,
        leases: Leases,
        cancellation: Cancellation,
        transitions: Transitions,
        audit: AuditLog,
    ):
        self._dispatch = dispatch
        self._leases = leases
        self._cancellation = cancellation
        self._transitions = transitions
        self._audit = audit

    async def requeue(self, dispatch_id: int, reason: str | None, actor: str) -> Dispatch:
        """Takes a leased dispatch from its worker and puts it back into the queue; the attempt does not count."""
        dispatch = await self._dispatch.queue.find(dispatch_id)
        if dispatch is None:
            raise NotFound("There is no such dispatch.")
        if dispatch.finished or dispatch.lease_token is None or dispatch.worker_id is None:
            raise WrongState(f"The dispatch is {dispatch.status}. Only a dispatch that a worker holds can be requeued.")
        report = LeaseReport(dispatch_id, dispatch.lease_token, dispatch.worker_id)
        try:
            await self._leases.requeue(report, reason or "by an admin", actor=actor)
        except LeaseLost:
            raise WrongState("The dispatch changed at this moment. Read it again.") from None
        await self._audit.add(
            actor,
            "dispatch.requeue",
            "dispatch",
            dispatch_id,
            dispatch.tenant_id,
            job_id=dispatch.job_id,
            worker_id=dispatch.worker_id,
            reason=reason,
        )
        return await self._dispatch.lists.get(dispatch_id)

    async def cancel(self, dispatch_id: int, reason: str | None, actor: str) -> Dispatch:
        """Cancels the job and refunds its tokens. Its worker gets the cancellation with its next heartbeat."""
        dispatch = await self._dispatch.queue.find(dispatch_id)
        if dispatch is None:
            raise NotFound("There is no such dispatch.")
        if dispatch.finished:
            raise WrongState(f"The dispatch is already {dispatch.status}.")
        await self._cancellation.cancel(dispatch.tenant_id, dispatch.job_id, actor=actor, reason=reason)
        await self._audit.add(
            actor, "dispatch.cancel", "dispatch", dispatch_id, dispatch.tenant_id, job_id=dispatch.job_id, reason=reason
        )
        return await self._dispatch.lists.get(dispatch_id)

    async def change_priority(self, dispatch_id: int, priority: int, actor: str) -> Dispatch:
        """Changes the priority in central first, as every change of the queue's order does, then in the job, so that
        a retry uses the same lane.
        """
        moved = await self._dispatch.priorities.change(dispatch_id, priority, actor)
        await hit(Failpoint.PRIORITY_BEFORE_POOL)
        await self._transitions.set_priority(JobCycle(moved.tenant_id, moved.job_id, moved.charge_cycle), priority)
        return await self._dispatch.lists.get(dispatch_id)

    async def change_priority_of_job(self, job: JobCycle, priority: int, actor: str) -> None:
        """Changes the priority of a queued job, in this charge cycle."""
        dispatch = await self._dispatch.lists.of_job(job)
        if dispatch is None:
            raise WrongState("The job is not in the queue.")
        await self.change_priority(dispatch.dispatch_id, priority, actor)


class JobOperations:
    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        routing: TenantRouting,
        dispatches: DispatchLists,
        cancellation: Cancellation,
        retries: Retries,
        presenter: Presenter,
        audit: AuditLog,
    ):
        self._pools = pools
        self._routing = routing
        self._dispatches = dispatches
        self._cancellation = cancellation
        self._retries = retries
        self._presenter = presenter
        self._audit = audit

    async def list_of_tenant(
        self, tenant_id: UUID, user_id: UUID | None, status: JobStatus | None, before: UUID | None, limit: int
    ) -> Page[AdminJob]:
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.ordinary() as connection:
            window = await SQL["window_of_tenant"].row(
                connection, JobWindow, tenant_id=tenant_id, before=before, max_rows=MAX_INSPECTED
            )
            if window is None or window.smallest_id is None:
                return Page(items=[], next_cursor=None)
            found = await MACHINE_SQL["list_jobs_of_tenant"].rows(
                connection,
                JobRow,
                tenant_id=tenant_id,
                user_id=user_id,
                status=status.value if status else None,
                from_id=window.smallest_id,
                before=before,
                limit=limit + 1,
            )
            jobs, is_cut = await with_outcomes(connection, tenant_id, found, limit)
        shown = await self._presenter.many(tenant_id, [admin_job_view(*job) for job in jobs])
        if is_cut:
            return Page(items=shown, next_cursor=str(shown[-1].id))
        more = window.rows >= MAX_INSPECTED
        return Page(items=shown, next_cursor=str(window.smallest_id) if more else None)

    async def list_of_user(
        self, tenant_id: UUID, user_id: UUID, status: JobStatus | None, before: UUID | None, limit: int
    ) -> Page[AdminJob]:
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.ordinary() as connection:
            rows = await MACHINE_SQL["list_jobs"].rows(
                connection,
                JobRow,
                **JobListFilter(status=status).columns,
                tenant_id=tenant_id,
                user_id=user_id,
                before=before,
                limit=limit + 1,
            )
            jobs, is_cut = await with_outcomes(connection, tenant_id, rows, limit)
        shown = await self._presenter.many(tenant_id, [admin_job_view(*job) for job in jobs])
        return Page(items=shown, next_cursor=str(shown[-1].id) if is_cut else None)

    async def tenant_of(self, job_id: UUID) -> UUID:
        """The tenant of a job. All pools are asked at once. If a pool is unavailable and no other pool has the job,
        the error of the pool is raised, not a 404.
        """
        responses = await asyncio.gather(
            *(self._tenants_in(pool, job_id) for pool in self._pools()), return_exceptions=True
        )
        found = [tenant_id for response in responses if isinstance(response, list) for tenant_id in response]
        if len(found) == 1:
            return found[0]
        if found:
            raise Conflict(
                "Several tenants have a job with this id. Name the tenant: /api/admin/tenants/TENANT/jobs/JOB"
            )
        for response in responses:
            if isinstance(response, BaseException):
                raise response
        raise NotFound("There is no such job.")

    async def _tenants_in(self, pool: Database, job_id: UUID) -> list[UUID]:
        async with pool.ordinary() as connection:
            return await SQL["find_tenants_of_job"].column(connection, job_id=job_id)

    async def get(self, tenant_id: UUID, job_id: UUID) -> AdminJob:
        """The job with its payload, its whole error and its dispatch."""
        pool = await self._routing.pool_of_tenant(tenant_id)
        found = await require_job(pool, tenant_id, job_id)
        async with pool.connection() as connection:
            stored = await LEASE_SQL["payload_of_job"].row(connection, JobPayload, tenant_id=tenant_id, job_id=job_id)
        assert stored is not None, "The rows of jobs are never deleted."
        job = await self._presenter.one(tenant_id, admin_job_view(found.row, OutcomeRow(found.result, found.error)))
        dispatch = await self._dispatches.of_job(JobCycle(tenant_id, job_id, job.charge_cycle))
        return job.model_copy(update={"payload": stored.payload, "dispatch": dispatch})

    async def cancel(self, tenant_id: UUID, job_id: UUID, reason: str | None, actor: str) -> AdminJob:
        await self._cancellation.cancel(tenant_id, job_id, actor=actor, reason=reason)
        await self._audit.add(actor, "job.cancel", "job", job_id, tenant_id, reason=reason)
        return await self.get(tenant_id, job_id)

    async def retry(
        self,
        tenant_id: UUID,
        job_id: UUID,
        idempotency_key: str | None,
        reason: str | None,
        actor: str,
        *,
        capped: bool = False,
    ) -> Retried[AdminJob]:
        """Retries a job. The user's limit of active jobs applies only if `capped`; it does not apply to an operator."""
        retried = await self._retries.once(
            tenant_id, job_id, idempotency_key, actor=actor, reason=reason, capped=capped
        )
        if not retried.replayed:
            await self._audit.add(actor, "job.retry", "job", job_id, tenant_id, reason=reason)
        return Retried(await self.get(tenant_id, job_id), retried.replayed)
