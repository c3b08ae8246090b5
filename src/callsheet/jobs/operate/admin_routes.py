"""`/api/admin`: jobs of every tenant, the queue and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from fastapi import Path, Query, Response

from callsheet.dispatch.room import DispatchRoom
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.audit_log import AuditLog, actor_of
from callsheet.jobs.operate.operations import DispatchOperations, JobOperations
from callsheet.jobs.show.descriptions import JobDescription
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.views import job_for, page_for
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import OptionalLine, Page
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.jobs import Job, JobStatus, SubmitReadyJob
from callsheet.wire.operate.operations import (
    FINISHED,
    AdminJob,
    Because,
    ChangePriority,
    ConcurrencyLimit,
    Dispatch,
    DispatchFilter,
    DispatchStatus,
    SetConcurrencyLimit,
)
from callsheet.wire.tasks import JobOrTaskId

if TYPE_CHECKING:
    from callsheet.jobs.room import JobsRoom

DispatchId = Annotated[int, Path(ge=1, le=2**62)]
WITHOUT_REASON = Because()
NO_TENANT = "There is no such tenant."
NO_USER = "There is no such user."


def ready_job_router(
    room: JobsRoom, presenter: Presenter, accounts: Accounts, audit: AuditLog, authentication: Authentication
) -> Router:
    submit = authentication.may(Permission.SUBMIT_FOR_USERS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.post("/jobs", status_code=201, responses=or_earlier(Job))
    async def submit_job(
        body: SubmitReadyJob,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = submit,
    ) -> Job:
        """Submits a job with a ready payload and cost for a user."""
        body = with_key(body, idempotency_key)
        owner = await accounts.owner_of(body.user_id)
        if owner is None:
            raise InvalidRequest.field("user_id", NO_USER)
        workflow = await room.dispatch.queue.workflow(body.workflow)
        actor = actor_of(principal)
        new = NewJob(
            tenant_id=owner.tenant_id,
            user_id=body.user_id,
            kind=body.kind,
            workflow_id=workflow.id,
            payload=body.payload,
            cost=body.cost,
            priority=body.priority,
            run_limit_seconds=workflow.run_limit_seconds,
            lease_seconds=workflow.lease_seconds,
            max_attempts=workflow.max_attempts,
            idempotency_key=body.idempotency_key,
            description=JobDescription(workflow.name or workflow.slug),
            actor=actor,
        )
        submitted = replayed(response, await room.submission.submit(new))
        job = submitted.job
        if not submitted.replayed:
            await audit.add(actor, "job.submit", "job", job.id, owner.tenant_id, user_id=body.user_id, cost=body.cost)
        return await presenter.one(owner.tenant_id, job)

    return router


def admin_job_router(operations: JobOperations, accounts: Accounts, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_JOBS)
    manage = authentication.may_in_tenant(Permission.MANAGE_JOBS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/users/{user_id}/jobs")
    async def list_jobs_of_user(
        user_id: UUID,
        status: JobStatus | None = Query(None, description="Only jobs of this status."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = see,
    ) -> Page[AdminJob]:
        """A user's jobs, newest first."""
        owner = await accounts.owner_of(user_id)
        if owner is None:
            raise NotFound(NO_USER)
        principal.reach(Permission.SEE_JOBS, owner.tenant_id, NO_USER)
        return page_for(principal, await operations.list_of_user(owner.tenant_id, user_id, status, cursor, limit))

    @router.get("/tenants/{tenant_id}/jobs")
    async def list_jobs_of_tenant(
        tenant_id: UUID,
        status: JobStatus | None = Query(None, description="Only jobs of this status."),
        user_id: UUID | None = Query(None, description="Only jobs of this user."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = see,
    ) -> Page[AdminJob]:
        """A tenant's jobs, newest first. A filtered page may be short and still have a next one."""
        principal.reach(Permission.SEE_JOBS, tenant_id, NO_TENANT)
        return page_for(principal, await operations.list_of_tenant(tenant_id, user_id, status, cursor, limit))

    @router.get("/tenants/{tenant_id}/jobs/{job_id}")
    async def get_job_of_tenant(tenant_id: UUID, job_id: JobOrTaskId, principal: Principal = see) -> AdminJob:
        """All details of a job: payload, error with its traceback, and its queue entry. A viewer does not get
        payload and traceback. A tenant admin does not get the queue entry either.
        """
        principal.reach(Permission.SEE_JOBS, tenant_id, NO_TENANT)
        return job_for(principal, await operations.get(tenant_id, job_id))

    @router.post("/tenants/{tenant_id}/jobs/{job_id}/cancel")
    async def cancel_job_of_tenant(
        tenant_id: UUID,
        job_id: JobOrTaskId,
        body: Because = WITHOUT_REASON,
        principal: Principal = manage,
    ) -> AdminJob:
        """Cancels a job and refunds its tokens."""
        principal.reach(Permission.MANAGE_JOBS, tenant_id, NO_TENANT)
        return job_for(principal, await operations.cancel(tenant_id, job_id, body.reason, actor_of(principal)))

    @router.post("/tenants/{tenant_id}/jobs/{job_id}/retry")
    async def retry_job_of_tenant(
        tenant_id: UUID,
        job_id: JobOrTaskId,
        response: Response,
        body: Because = WITHOUT_REASON,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = manage,
    ) -> AdminJob:
        """Retries a failed or expired job. Its cost is reserved again. The user's limit does not apply to an
        operator."""
        principal.reach(Permission.MANAGE_JOBS, tenant_id, NO_TENANT)
        actor, capped = actor_of(principal), not principal.may(Permission.IGNORE_LIMITS)
        retried = await operations.retry(tenant_id, job_id, idempotency_key, body.reason, actor, capped=capped)
        return job_for(principal, replayed(response, retried).shown)

    return router


def job_by_id_router(operations: JobOperations, authentication: Authentication) -> Router:
    """Routes that find a job by its id alone, for callers that do not know the tenant."""
    see = authentication.may_in_tenant(Permission.SEE_JOBS)
    manage = authentication.may_in_tenant(Permission.MANAGE_JOBS)
    router = Router(prefix="/api/admin/jobs", tags=["admin"])

    async def tenant_of(job_id: UUID, principal: Principal, permission: Permission) -> UUID:
        """A tenant admin finds only jobs of the admin's own tenant."""
        own = principal.only_tenant(permission)
        return await operations.tenant_of(job_id) if own is None else own

    @router.get("/{job_id}")
    async def find_job_by_id(job_id: JobOrTaskId, principal: Principal = see) -> AdminJob:
        """All details of a job, found by its id alone, as far as your role may see them."""
        tenant_id = await tenant_of(job_id, principal, Permission.SEE_JOBS)
        return job_for(principal, await operations.get(tenant_id, job_id))

    @router.post("/{job_id}/cancel")
    async def cancel_job_by_id(
        job_id: JobOrTaskId, body: Because = WITHOUT_REASON, principal: Principal = manage
    ) -> AdminJob:
        """Cancels a job, found by its id alone, and refunds its tokens."""
        tenant_id = await tenant_of(job_id, principal, Permission.MANAGE_JOBS)
        return job_for(principal, await operations.cancel(tenant_id, job_id, body.reason, actor_of(principal)))

    @router.post("/{job_id}/retry")
    async def retry_job_by_id(
        job_id: JobOrTaskId,
        response: Response,
        body: Because = WITHOUT_REASON,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = manage,
    ) -> AdminJob:
        """Retries a failed or expired job, found by its id alone; its cost is reserved again."""
        tenant_id = await tenant_of(job_id, principal, Permission.MANAGE_JOBS)
        actor, capped = actor_of(principal), not principal.may(Permission.IGNORE_LIMITS)
        retried = await operations.retry(tenant_id, job_id, idempotency_key, body.reason, actor, capped=capped)
        return job_for(principal, replayed(response, retried).shown)

    return router


def dispatch_router(operations: DispatchOperations, dispatch: DispatchRoom, authentication: Authentication) -> Router:
    see = authentication.may(Permission.SEE_QUEUE)
    manage = authentication.may(Permission.MANAGE_QUEUE)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/dispatches")
    async def list_dispatches(
        status: DispatchStatus | None = Query(None, description="Only dispatches with this status."),
        finished: bool = Query(
            False, description="List the history of finished dispatches. Not needed if `status` is final."
        ),
        workflow: OptionalLine | None = Query(None, description="Only dispatches of the workflow with this slug."),
        worker_id: OptionalLine | None = Query(
            None, description="Only dispatches that this worker holds, or held last."
        ),
        tenant_id: UUID | None = Query(None, description="Only dispatches of this tenant."),
        cursor: int | None = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
        principal: Principal = see,
    ) -> Page[Dispatch]:
        """The queue, or its history, newest first. A filtered page may be short and still have a next one."""
        ended = finished if status is None else status in FINISHED
        return await dispatch.lists.list(DispatchFilter(ended, status, workflow, worker_id, tenant_id), cursor, limit)

    @router.get("/dispatches/{dispatch_id}")
    async def get_dispatch(dispatch_id: DispatchId, principal: Principal = see) -> Dispatch:
        """One dispatch, open or finished."""
        return await dispatch.lists.get(dispatch_id)

    @router.post("/dispatches/{dispatch_id}/requeue", once=True)
    async def requeue_dispatch(
        dispatch_id: DispatchId,
        body: Because = WITHOUT_REASON,
        principal: Principal = manage,
    ) -> Dispatch:
        """Requeues a job that a worker holds. The attempt does not count."""
        return await operations.requeue(dispatch_id, body.reason, actor_of(principal))

    @router.post("/dispatches/{dispatch_id}/cancel")
    async def cancel_dispatch(
        dispatch_id: DispatchId,
        body: Because = WITHOUT_REASON,
        principal: Principal = manage,
    ) -> Dispatch:
        """Cancels the job of a dispatch: its tokens are refunded, and its worker is notified."""
        return await operations.cancel(dispatch_id, body.reason, actor_of(principal))

    @router.post("/dispatches/{dispatch_id}/priority")
    async def change_dispatch_priority(
        dispatch_id: DispatchId, body: ChangePriority, principal: Principal = manage
    ) -> Dispatch:
        """Changes the priority of a queued job. Its retries keep the priority."""
        return await operations.change_priority(dispatch_id, body.priority, actor_of(principal))

    @router.get("/concurrency-limits")
    async def list_concurrency_limits(
        cursor: OptionalLine | None = Query(None, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
        principal: Principal = see,
    ) -> Page[ConcurrencyLimit]:
        """Every concurrency identifier: its limit, and how much of it is in use."""
        return await dispatch.limits.page(cursor, limit)

    @router.put("/concurrency-limits", status_code=204)
    async def set_concurrency_limit(body: SetConcurrencyLimit, principal: Principal = manage) -> None:
        """Sets how many jobs of an identifier may run at once."""
        await dispatch.limits.set(body.identifier, body.max_concurrent, actor_of(principal))

    return router
