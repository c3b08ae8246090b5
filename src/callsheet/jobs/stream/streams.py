"""`/api/ai-jobs/stream` and `/api/ai-jobs/{job_id}/stream`: server-sent events that resume where a client left off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Query, Request, Response
from pydantic import AfterValidator, WithJsonSchema

from callsheet.identity.access.authentication import Authentication, StreamUser
from callsheet.identity.access.principal import Principal
from callsheet.identity.access.stream_tokens import StreamGrant
from callsheet.jobs.machine.rows import JobRow
from callsheet.jobs.show.reader import JobReader
from callsheet.jobs.stream.feeds import FeedEvent, FeedReset, Feeds, Item, Latest, LatestOfUser, end_of_stream
from callsheet.jobs.stream.positions import PATTERN, START, Position, position_of
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.http.long_requests import EventStream
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import Forbidden, TooManyStreams
from callsheet.wire.jobs import (
    TERMINAL,
    CreateStreamToken,
    JobPreview,
    JobProgress,
    JobStatus,
    StreamReset,
    StreamToken,
)
from callsheet.wire.money.wallet import Wallet

SQL = statements("callsheet.jobs.stream")


def _checked(text: str | None) -> str | None:
    if text is not None:
        position_of(text)
    return text


LastEventId = Annotated[
    str | None,
    AfterValidator(_checked),
    # A header can be missing, but it is never null.
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]


def last_event_seen(
    last_event_id: Annotated[
        LastEventId,
        Header(description="The id of the last event that the client received. The stream resumes after it."),
    ] = None,
    last_event_id_of_url: Annotated[
        LastEventId,
        Query(
            alias="last_event_id",
            description="The same as the header Last-Event-ID, for a new EventSource, which cannot send the header the "
            "first time.",
        ),
    ] = None,
) -> Position | None:
    """The position where a stream continues. A browser that reconnects sends the header, which is newer than its
    URL.
    """
    given = last_event_id if last_event_id is not None else last_event_id_of_url
    return None if given is None else position_of(given)


STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Server-sent events. `job.…`: a JobEvent, with its id. `progress`: a JobProgress; `preview`: a "
        "JobPreview; `wallet`: a Wallet, at the beginning and when it changes, in the stream of all your jobs. These "
        "have no id, because they are the latest value and are not sent again. `reset`: a StreamReset, with the id "
        "from which the stream goes on.",
    }
}


RESET = "The database lost events that this stream has sent before. Read the jobs again."
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

    async def of_user(self, watcher: StreamUser, request: Request, last_event_id: Position | None) -> Response:
        principal = watcher.principal
        if watcher.grant is not None and watcher.grant.job_id is not None:
            raise Forbidden("This stream token is for the stream of one job.")
        pool = await self._reader.pool(principal)
        async with pool.connection() as connection:
            end = await end_of_stream(connection, principal.tenant_id, principal.user_id)
        after = end if last_event_id is None else _not_beyond(end.number, last_event_id)
        may_go_on = partial(self._authentication.is_still, watcher, request)
        items = self._feeds.follow_user(
            pool, principal.tenant_id, principal.user_id, after, may_go_on, _watched(principal)
        )
        return self.response(items, principal)

    async def of_job(
        self,
        watcher: StreamUser,
        request: Request,
        row: JobRow,
        last_event_id: Position | None,
        task_id: str | None = None,
    ) -> Response:
        """The event stream of a job. `row` is one of the watcher's own jobs. If `task_id` is given, each message
        contains it.
        """
        principal = watcher.principal
        if watcher.grant is not None and watcher.grant.job_id not in (None, row.id):
            raise Forbidden("This stream token is for the stream of another job.")
        after = _not_beyond(row.event_seq, last_event_id or START)
        pool = await self._reader.pool(principal)
        if JobStatus(row.status) in TERMINAL and after.number == row.event_seq and await _exists(pool, row, after):
            return Response(status_code=204)
        may_go_on = partial(self._authentication.is_still, watcher, request)
        items = self._feeds.follow_job(pool, principal.tenant_id, row.id, after, may_go_on, _watched(principal))
        return self.response(items, principal, task_id)

    def response(self, items: AsyncIterator[Item], principal: Principal, task_id: str | None = None) -> Response:
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
        last_event_id: Position | None = Depends(last_event_seen),
        watcher: StreamUser = Depends(authentication.watcher),
    ) -> Response:
        """The events of all your jobs as they happen. Without Last-Event-ID, the stream starts with the next event."""
        return await streams.of_user(watcher, request, last_event_id)

    @router.get("/{job_id}/stream", response_class=EventStream, responses={**STREAM, 204: {}})
    async def stream_job(
        job_id: UUID,
        request: Request,
        last_event_id: Position | None = Depends(last_event_seen),
        watcher: StreamUser = Depends(authentication.watcher),
    ) -> Response:
        """A job's events as they happen, from the first event or from Last-Event-ID. The stream closes when the job
        ends. It returns 204 if the job has already ended.
        """
        row = (await reader.job(watcher.principal, job_id)).row
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
            await reader.job(principal, body.job_id)
            grant = replace(grant, job_id=body.job_id)
        return StreamToken(token=authentication.stream_token(grant), expires_at=grant.expires_at)

    return router


def _not_beyond(end: int, given: Position) -> Position:
    """A reader that sent only a number must not wait for one that does not exist yet."""
    return given if given.at is not None else Position(min(given.number, end))


async def _exists(pool: Database, row: JobRow, position: Position) -> bool:
    """Whether the event of the job at this position is the one that the client has seen."""
    if position.at is None:
        return True
    async with pool.connection() as connection:
        is_there: bool = await SQL["is_event"].value(
            connection, tenant_id=row.tenant_id, job_id=row.id, **position._asdict()
        )
    return is_there


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
            data = begin + _members(item.members) + item.event.model_dump_json()[1:]
            yield f"id: {item.position}\nevent: {item.event.event}\ndata: {data}\n\n".encode()
        elif isinstance(item, FeedReset):
            data = begin + StreamReset(reason=RESET).model_dump_json()[1:]
            yield f"id: {item.position}\nevent: reset\ndata: {data}\n\n".encode()
        else:
            value, members = (item.value, _members(item.members)) if isinstance(item, LatestOfUser) else (item, "")
            name = NAMES[type(value)]
            # A preview is sent as its own event, so preview_url would always be null here.
            without = {"preview_url"} if isinstance(value, JobProgress) else None
            data = begin + members + value.model_dump_json(exclude=without)[1:]
            yield f"event: {name}\ndata: {data}\n\n".encode()


def _members(members: Mapping[str, str | None]) -> str:
    return "".join(f"{json.dumps(name)}:{json.dumps(value)}," for name, value in members.items())
