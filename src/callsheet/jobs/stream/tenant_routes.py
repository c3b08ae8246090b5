"""`/api/tenant/jobs`: all jobs of a tenant, for service keys."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from pydantic import WithJsonSchema

from callsheet.identity.access.authentication import Authentication, StreamUser
from callsheet.identity.access.principal import Principal
from callsheet.jobs.stream.positions import tenant_position_of
from callsheet.jobs.stream.streams import Streams
from callsheet.jobs.stream.tenant import TenantJobs
from callsheet.plumbing.database.pages import LIMIT
from callsheet.plumbing.http.long_requests import EventStream
from callsheet.plumbing.http.routing import Router
from callsheet.wire.tenant.jobs import POSITION, ChangedJobs, ChangesFilter, PositionText

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Server-sent events. `job.…`: a JobEvent with its id. `progress`: a JobProgress of a running "
        "job, without an id, because it is the latest value and is not sent again. Both have the `user_id` and "
        "`external_id` of the user of the job.",
    }
}


async def filter_of(wanted: Annotated[ChangesFilter, Query()]) -> ChangesFilter:
    return wanted


def tenant_job_router(tenant_jobs: TenantJobs, streams: Streams, authentication: Authentication) -> Router:
    router = Router(prefix="/api/tenant/jobs", tags=["jobs"])

    @router.get("")
    async def list_tenant_jobs(
        wanted: ChangesFilter = Depends(filter_of),
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.tenant_server),
    ) -> ChangedJobs:
        """The jobs of all users of the tenant that changed since a time, the earliest change first.

        Keep `next_cursor`, and send it again for what changed meanwhile. No change is missed, and a job that changed
        again comes again. A page may have fewer jobs than `limit`, or none: `is_last` says whether there is more.
        """
        return await tenant_jobs.changed(principal, wanted, limit)

    @router.get("/stream", response_class=EventStream, responses=STREAM)
    async def stream_tenant_jobs(
        request: Request,
        last_event_id: Annotated[
            PositionText | None,
            Header(description="The id of the last event that the client received. The stream resumes after it."),
            # A header can be missing, but it is never null.
            WithJsonSchema({"type": "string", "pattern": POSITION}),
        ] = None,
        principal: Principal = Depends(authentication.tenant_server),
    ) -> Response:
        """The events and the latest progress of all jobs of the tenant as they happen. Without Last-Event-ID, the
        stream starts with the next event. The ids of its events are also cursors of the list.
        """
        after = None if last_event_id is None else tenant_position_of(last_event_id)
        may_go_on = partial(authentication.is_still, StreamUser(principal), request)
        return streams.response(tenant_jobs.follow(principal, after, may_go_on), principal)

    return router
