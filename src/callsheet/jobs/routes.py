"""`/api/ai-jobs`: a user's own jobs, their history, live streams; and jobs with a ready payload, for admins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

import asyncpg
from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import WithJsonSchema
from starlette.responses import StreamingResponse

from callsheet.identity.accounts import Accounts
from callsheet.identity.authentication import Authentication
from callsheet.identity.principal import Principal
from callsheet.jobs.feeds import Line
from callsheet.jobs.moves import SQL
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submission import NewJob
from callsheet.jobs.views import event_view, job_view
from callsheet.plumbing.database import Database
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.pages import CURSOR, LIMIT, page_of
from callsheet.wire.base import Page
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.jobs import TERMINAL, Job, JobEvent, JobStatus, SubmitReadyJob

LastEventId = Annotated[
    int | None,
    Header(ge=0, le=2**62, description="Where to go on: the id of the last event seen."),
    # A header is there or not; it is never null.
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2**62}),
]
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}
}


class JobReader:
    """A user's own jobs: what belongs to somebody else is not there (G6)."""

    def __init__(self, databases: Databases):
        self._databases = databases

    async def row(self, principal: Principal, job_id: UUID) -> asyncpg.Record:
        pool = await self.pool(principal)
        async with pool.connection() as connection:
            row = await SQL["get_job"].row(connection, tenant_id=principal.tenant_id, job_id=job_id)
        if row is None or row["user_id"] != principal.user_id:
            raise NotFound("There is no such job.")
        return row

    async def pool(self, principal: Principal) -> Database:
        return await self._databases.pool(principal.pool)


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

    @router.get("/stream", response_class=StreamingResponse, responses=STREAM)
    async def stream_all(
        last_event_id: LastEventId = None, principal: Principal = Depends(authentication.user)
    ) -> Response:
        """The events of all your jobs as they happen. Without Last-Event-ID it starts now."""
        pool = await reader.pool(principal)
        async with pool.connection() as connection:
            last = await SQL["last_user_seq"].value(
                connection, tenant_id=principal.tenant_id, user_id=principal.user_id
            )
        # A number that was never given out (of a database that was restored, say) must not make the reader wait for it.
        after = last if last_event_id is None else min(last_event_id, last)
        return _stream(room.feeds.follow_user(pool, principal.tenant_id, principal.user_id, after))

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

    @router.get("/{job_id}/stream", response_class=StreamingResponse, responses={**STREAM, 204: {}})
    async def stream_job(
        job_id: UUID, last_event_id: LastEventId = None, principal: Principal = Depends(authentication.user)
    ) -> Response:
        """A job's events as they happen, from the first or from Last-Event-ID; ends with the job (204: it ended)."""
        row = await reader.row(principal, job_id)
        after = min(last_event_id or 0, row["event_seq"])
        if JobStatus(row["status"]) in TERMINAL and after == row["event_seq"]:
            return Response(status_code=204)
        pool = await reader.pool(principal)
        return _stream(room.feeds.follow_job(pool, principal.tenant_id, job_id, after))

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


def _stream(lines: AsyncIterator[Line | None]) -> StreamingResponse:
    return StreamingResponse(
        _encoded(lines),
        media_type="text/event-stream",
        # A proxy that gathers output would turn a live stream into a slow download.
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _encoded(lines: AsyncIterator[Line | None]) -> AsyncIterator[bytes]:
    # The first bytes tell the client at once that the stream is open.
    yield b": open\n\n"
    async for line in lines:
        if line is None:
            yield b": nothing new\n\n"
        else:
            data = line.event.model_dump_json()
            yield f"id: {line.position}\nevent: {line.event.event}\ndata: {data}\n\n".encode()
