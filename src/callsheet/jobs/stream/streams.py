"""`/api/ai-jobs/stream` and `/api/ai-jobs/{job_id}/stream`: server-sent events that resume where a client left off."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Query, Request, Response
from pydantic import WithJsonSchema

from callsheet.identity.access.authentication import Authentication, StreamUser
from callsheet.identity.access.principal import Principal
from callsheet.identity.access.stream_tokens import StreamGrant
from callsheet.jobs.machine.rows import JobRow
from callsheet.jobs.show.reader import JobReader
from callsheet.jobs.stream.feeds import FeedEvent, Feeds, Item, Latest
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.http.long_requests import EventStream
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import Forbidden, TooManyStreams
from callsheet.wire.jobs import TERMINAL, CreateStreamToken, JobPreview, JobProgress, JobStatus, StreamToken
from callsheet.wire.wallet import Wallet

SQL = statements("callsheet.jobs.stream")

LastEventId = Annotated[
    int | None,
    Header(
        ge=0, le=2**62, description="The id of the last event that the client received. The stream resumes after it."
    ),
    # A header can be missing, but it is never null.
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 2**62}),
]


def last_event_seen(
    last_event_id: LastEventId = None,
    last_event_id_of_url: int | None = Query(
        None,
        alias="last_event_id",
        ge=0,
        le=2**62,
        description="The same as the header Last-Event-ID, for a new EventSource, which cannot send the header the "
        "first time.",
    ),
) -> int | None:
    """The position where a stream continues. A browser that reconnects sends the header, which is newer than its
    URL.
    """
    return last_event_id if last_event_id is not None else last_event_id_of_url


STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Server-sent events. `job.…`: a JobEvent, with its id. `progress`: a JobProgress; `preview`: a "
        "JobPreview; `wallet`: a Wallet, at the beginning and when it changes, in the stream of all your jobs. These "
        "have no id, because they are the latest value and are not sent again.",
    }
}


NAMES: Mapping[type[Latest], str] = {JobProgress: "progress", JobPreview: "preview", Wallet: "wallet"}


class Seats:
    """Counts the open streams of each user in this process. Each stream reads the database at every event, so their
    number is limited.
    """

    def __init__(self, max_streams: int):
        self._max_streams = max_streams
        self._taken: Counter[UUID] = Counter()

    def check(self, user_id: UUID) -> None:
        if self.are_full(user_id):
            raise TooManyStreams(self._max_streams)

    def are_full(self, user_id: UUID) -> bool:
        return self._taken.get(user_id, 0) >= self._max_streams

    @contextmanager
    def taken(self, user_id: UUID) -> Iterator[None]:
        self._taken[user_id] += 1
        try:
            yield
        finally:
            self._taken[user_id] -= 1
            if not self._taken[user_id]:
                del self._taken[user_id]


class Streams:
    """Event streams of jobs, for all routes that offer them."""

    def __init__(self, feeds: Feeds, reader: JobReader, authentication: Authentication, max_per_user: int):
        self._feeds = feeds
        self._reader = reader
        self._authentication = authentication
        self._seats = Seats(max_per_user)

    async def of_user(self, watcher: StreamUser, request: Request, last_event_id: int | None) -> Response:
        principal = watcher.principal
        if watcher.grant is not None and watcher.grant.job_id is not None:
            raise Forbidden("This stream token is for the stream of one job.")
        pool = await self._reader.pool(principal)
        async with pool.connection() as connection:
            last = await SQL["last_user_seq"].value(
                connection, tenant_id=principal.tenant_id, user_id=principal.user_id
            )
        # The reader must not wait for an id that does not exist yet, for example after the database was restored.
        after = last if last_event_id is None else min(last_event_id, last)
        may_go_on = partial(self._authentication.is_still, watcher, request)
        items = self._feeds.follow_user(
            pool, principal.tenant_id, principal.user_id, after, may_go_on, _watched(principal)
        )
        return self._response(items, principal)

    async def of_job(
        self, watcher: StreamUser, request: Request, row: JobRow, last_event_id: int | None, task_id: str | None = None
    ) -> Response:
        """The event stream of a job. `row` is one of the watcher's own jobs. If `task_id` is given, each message
        contains it.
        """
        principal = watcher.principal
        if watcher.grant is not None and watcher.grant.job_id not in (None, row.id):
            raise Forbidden("This stream token is for the stream of another job.")
        after = min(last_event_id or 0, row.event_seq)
        if JobStatus(row.status) in TERMINAL and after == row.event_seq:
            return Response(status_code=204)
        pool = await self._reader.pool(principal)
        may_go_on = partial(self._authentication.is_still, watcher, request)
        items = self._feeds.follow_job(pool, principal.tenant_id, row.id, after, may_go_on, _watched(principal))
        return self._response(items, principal, task_id)

    def _response(self, items: AsyncIterator[Item], principal: Principal, task_id: str | None = None) -> Response:
        self._seats.check(principal.user_id)
        return EventStream(_seated(self._seats, principal.user_id, _encoded(items, task_id)))


def stream_router(streams: Streams, reader: JobReader, authentication: Authentication) -> Router:
    """The routes of streams. This router must be included before the router of jobs, which would read `stream` as a
    job id.
    """
    router = Router(prefix="/api/ai-jobs", tags=["jobs"])

    @router.get("/stream", response_class=EventStream, responses=STREAM)
    async def stream_all(
        request: Request,
        last_event_id: int | None = Depends(last_event_seen),
        watcher: StreamUser = Depends(authentication.watcher),
    ) -> Response:
        """The events of all your jobs as they happen. Without Last-Event-ID, the stream starts with the next event."""
        return await streams.of_user(watcher, request, last_event_id)

    @router.get("/{job_id}/stream", response_class=EventStream, responses={**STREAM, 204: {}})
    async def stream_job(
        job_id: UUID,
        request: Request,
        last_event_id: int | None = Depends(last_event_seen),
        watcher: StreamUser = Depends(authentication.watcher),
    ) -> Response:
        """A job's events as they happen, from the first event or from Last-Event-ID. The stream closes when the job
        ends. It returns 204 if the job has already ended.
        """
        row = await reader.row(watcher.principal, job_id)
        return await streams.of_job(watcher, request, row, last_event_id)

    return router


def stream_token_router(reader: JobReader, authentication: Authentication) -> Router:
    router = Router(prefix="/api/stream-tokens", tags=["jobs"])

    @router.post("", status_code=201)
    async def create_stream_token(
        body: CreateStreamToken,
        principal: Principal = Depends(authentication.caller),
        grant: StreamGrant = Depends(authentication.stream_grant),
    ) -> StreamToken:
        """Creates a short-lived token for the URL of a stream.

        It is for pages that use EventSource, which cannot send an API key. The token opens streams and nothing else. It
        ends with the API key or the session that created it.
        """
        if body.job_id is not None:
            await reader.row(principal, body.job_id)
            grant = replace(grant, job_id=body.job_id)
        return StreamToken(token=authentication.stream_token(grant), expires_at=grant.expires_at)

    return router


def _watched(principal: Principal) -> tuple[str, str]:
    """The ids that notifications about ended credentials contain."""
    return str(principal.user_id), str(principal.tenant_id)


async def _seated(seats: Seats, user_id: UUID, encoded: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Counts the stream when its response starts, not at the request: a response that never starts never ends."""
    if seats.are_full(user_id):
        return  # Several requests passed the check at the same moment.
    with seats.taken(user_id):
        async for piece in encoded:
            yield piece


async def _encoded(items: AsyncIterator[Item], task_id: str | None = None) -> AsyncIterator[bytes]:
    # Every message is a JSON object with at least one member.
    begin = "{" if task_id is None else f'{{"task_id":"{task_id}",'
    # The first bytes show the client at once that the stream is open.
    yield b": open\n\n"
    async for item in items:
        if item is None:
            yield b": nothing new\n\n"
        elif isinstance(item, FeedEvent):
            data = begin + item.event.model_dump_json()[1:]
            yield f"id: {item.position}\nevent: {item.event.event}\ndata: {data}\n\n".encode()
        else:
            name = NAMES[type(item)]
            # A preview is sent as its own event, so preview_url would always be null here.
            data = begin + item.model_dump_json(exclude={"preview_url"} if isinstance(item, JobProgress) else None)[1:]
            yield f"event: {name}\ndata: {data}\n\n".encode()
