"""`/api/ai-jobs`: a user's own jobs and their history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from fastapi import Depends, Query, Response

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.jobs.machine.rows import EventRow
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.reader import JobReader
from callsheet.jobs.show.views import event_view, job_view, listed_job_view
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.http.idempotency import IdempotencyKey, replayed
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.jobs import Job, JobEvent, JobListFilter

if TYPE_CHECKING:
    from callsheet.jobs.room import JobsRoom

SQL = statements("callsheet.jobs.show")


async def filter_of(wanted: Annotated[JobListFilter, Query()]) -> JobListFilter:
    return wanted


def job_router(room: JobsRoom, reader: JobReader, presenter: Presenter, authentication: Authentication) -> Router:
    router = Router(prefix="/api/ai-jobs", tags=["jobs"])

    @router.get("")
    async def list_jobs(
        wanted: JobListFilter = Depends(filter_of),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Job]:
        """Your jobs, newest first. Previews of running jobs come with the single job and in its stream.

        A page ends early, with a `next_cursor`, if its results exceed 4 MiB.
        """
        rows, is_cut = await reader.page(principal, wanted, cursor, limit)
        jobs = await presenter.many(principal.tenant_id, [listed_job_view(row, outcome) for row, outcome in rows])
        return Page(items=jobs, next_cursor=str(jobs[-1].id) if is_cut else None)

    @router.get("/{job_id}")
    async def get_job(job_id: UUID, principal: Principal = Depends(authentication.user)) -> Job:
        """One of your jobs: its outputs, its progress, or why it waits and for how long."""
        job = await presenter.one(principal.tenant_id, job_view(await reader.job(principal, job_id)))
        return await reader.described(principal, job)

    @router.get("/{job_id}/events")
    async def list_events(
        job_id: UUID,
        cursor: int = Query(0, ge=0, le=2**31 - 1, description="`next_cursor` of the page before, or a `seq`."),
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[JobEvent]:
        """A job's history, oldest first."""
        await reader.job(principal, job_id)
        pool = await reader.pool(principal)
        async with pool.connection() as connection:
            rows = await SQL["events_of_job"].rows(
                connection, EventRow, tenant_id=principal.tenant_id, job_id=job_id, after=cursor, limit=limit + 1
            )
        items = [event_view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=str(items[-1].seq) if len(rows) > limit else None)

    @router.post("/{job_id}/cancel")
    async def cancel_job(job_id: UUID, principal: Principal = Depends(authentication.user)) -> Job:
        """Cancels the job and refunds its tokens."""
        await reader.job(principal, job_id)
        job = await room.cancellation.cancel(principal.tenant_id, job_id, actor=f"user:{principal.user_id}")
        return await presenter.one(principal.tenant_id, job)

    @router.post("/{job_id}/retry")
    async def retry_job(
        job_id: UUID,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Retries a failed or expired job. Its cost is reserved again. A repeated request with the same header
        Idempotency-Key returns the job as it is, even if it has failed again.
        """
        await reader.job(principal, job_id)
        actor = f"user:{principal.user_id}"
        retried = await room.retries.once(principal.tenant_id, job_id, idempotency_key, actor=actor)
        return await presenter.one(principal.tenant_id, replayed(response, retried).shown)

    return router
