"""`/api/ai-jobs`: a user's own jobs and their history; and jobs with a ready payload, for admins."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response

from callsheet.identity.accounts import Accounts
from callsheet.identity.authentication import Authentication
from callsheet.identity.principal import Principal
from callsheet.jobs.moves import SQL
from callsheet.jobs.reader import JobReader
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submission import NewJob
from callsheet.jobs.views import event_view, job_view
from callsheet.plumbing.pages import CURSOR, LIMIT, page_of
from callsheet.wire.base import Page
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.jobs import Job, JobEvent, JobStatus, SubmitReadyJob


def job_router(room: JobsRoom, reader: JobReader, authentication: Authentication) -> APIRouter:
    router = APIRouter(prefix="/api/ai-jobs", tags=["jobs"])

    @router.get("")
    async def list_jobs(
        status: JobStatus | None = Query(None, description="Only jobs of this status."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Job]:
        """Your jobs, newest first."""
        pool = await reader.pool(principal)
        async with pool.connection() as connection:
            rows = await SQL["list_jobs"].rows(
                connection,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                before=cursor,
                status=status.value if status else None,
                limit=limit + 1,
            )
        return page_of([job_view(row) for row in rows], limit)

    @router.get("/{job_id}")
    async def get_job(job_id: UUID, principal: Principal = Depends(authentication.user)) -> Job:
        """One of your jobs."""
        return job_view(await reader.row(principal, job_id))

    @router.get("/{job_id}/events")
    async def list_events(
        job_id: UUID,
        after: int = Query(0, ge=0, le=2**31 - 1, description="Only events with a larger `seq`."),
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> list[JobEvent]:
        """A job's history, oldest first."""
        await reader.row(principal, job_id)
        pool = await reader.pool(principal)
        async with pool.connection() as connection:
            rows = await SQL["events_of_job"].rows(
                connection, tenant_id=principal.tenant_id, job_id=job_id, after=after, limit=limit
            )
        return [event_view(row) for row in rows]

    @router.post("/{job_id}/cancel")
    async def cancel_job(job_id: UUID, principal: Principal = Depends(authentication.user)) -> Job:
        """Ends the job and gives its tokens back."""
        await reader.row(principal, job_id)
        return await room.endings.cancel(principal.tenant_id, job_id, actor=f"user:{principal.user_id}")

    @router.post("/{job_id}/retry")
    async def retry_job(job_id: UUID, principal: Principal = Depends(authentication.user)) -> Job:
        """Runs a failed or expired job once more; its cost is reserved again."""
        await reader.row(principal, job_id)
        return await room.endings.retry(principal.tenant_id, job_id, actor=f"user:{principal.user_id}")

    return router


def admin_job_router(room: JobsRoom, accounts: Accounts, authentication: Authentication) -> APIRouter:
    router = APIRouter(prefix="/api/admin", tags=["admin"])

    @router.post("/jobs", status_code=201)
    async def submit_job(
        body: SubmitReadyJob, response: Response, principal: Principal = Depends(authentication.admin)
    ) -> Job:
        """Submits a job whose payload and cost are ready, for a user."""
        owner = await accounts.owner_of(body.user_id)
        if owner is None:
            raise InvalidRequest.field("user_id", "there is no such user")
        workflow = await room.queue.workflow(body.workflow)
        submitted = await room.submission.submit(
            NewJob(
                tenant_id=owner.tenant_id,
                user_id=body.user_id,
                kind=body.kind,
                workflow_id=workflow.id,
                payload=body.payload,
                cost=body.cost,
                priority=body.priority,
                run_limit_seconds=workflow.run_limit_seconds,
                idempotency_key=body.idempotency_key,
                actor=f"admin:{principal.user_id}",
            )
        )
        if submitted.replayed:
            response.status_code = 200
            response.headers["Idempotent-Replayed"] = "true"
        return submitted.job

    return router
