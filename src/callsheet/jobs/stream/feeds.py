"""Live streams of events, in order, from the reader's last position, across restarts of any process (G9).

Readers read the events from the database; a notification only triggers a read. A reader without notifications reads at
intervals, so a lost notification delays an event by seconds, but no event is lost. The latest progress of running jobs
is sent between the events. Progress is not history: it has no position in the stream and is not sent again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from callsheet.jobs.lease.progress import ProgressRow, Watch
from callsheet.jobs.machine.rows import EventOfJob, EventOfUser
from callsheet.jobs.show.views import streamed_view
from callsheet.jobs.stream.positions import START, Position, TenantPosition
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.batching import Batcher
from callsheet.wire.jobs import TERMINAL, JobEvent, JobPreview, JobProgress
from callsheet.wire.money.wallet import Wallet, payer

SQL = statements("callsheet.jobs.stream")

RECHECK_SECONDS = 15.0
# After this time, what could not be sent yet is read again. A transaction takes some milliseconds.
HELD_BACK_SECONDS = 0.05
AT_ONCE = 200
READERS_AT_ONCE = 200

Key = tuple[str, str]
# Tenant, job, and the last position that was read.
Place = tuple[UUID, UUID, Position]


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event with its number in the stream, which is the counter of the job or of the user."""

    number: int
    event: JobEvent
    # In the stream of a tenant: the position there, and what the message says beside the event.
    place: TenantPosition | None = None
    members: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def position(self) -> Position | TenantPosition:
        return Position(self.number, self.event.at) if self.place is None else self.place


@dataclass(frozen=True, slots=True)
class FeedReset:
    """The database lost the event that the reader has seen last. The stream goes on after `position`."""

    position: Position


Latest = JobProgress | JobPreview | Wallet


@dataclass(frozen=True, slots=True)
class LatestOfUser:
    """A latest value in the stream of a tenant, and what the message says beside it."""

    value: Latest
    members: Mapping[str, str | None]


# One item for a reader; None if nothing arrived for a while.
Item = FeedEvent | FeedReset | Latest | LatestOfUser | None


@dataclass(frozen=True, slots=True)
class News:
    """The events after a position, new progress of running jobs, and whether the stream has ended. `reset`: the event
    at the position is gone. `is_held_back`: there is more, which cannot be sent yet.
    """

    lines: Sequence[FeedEvent] = ()
    latest: Sequence[Latest | LatestOfUser] = ()
    ended: bool = False
    reset: FeedReset | None = None
    is_held_back: bool = False


# The position is one of the kind that the stream has.
Read = Callable[[Any], Awaitable[News]]
# Returns whether the reader may still read the stream: its key may have been revoked meanwhile.
MayGoOn = Callable[[], Awaitable[bool]]


async def for_good() -> bool:
    return True


class Feeds:
    """The readers in this process that wait for news of a job or a user."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Key, set[asyncio.Event]] = defaultdict(set)
        # The same readers by the owner of their credentials: the ids of a user and of its tenant.
        self._watched: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        # One batcher per pool: readers that read at the same time share one statement.
        self._reads: dict[str, Batcher[Place, Sequence[EventOfJob]]] = {}
        self.closed = False

    def received(self, payload: str | None) -> None:
        """Handles a notification `tenant/user/job`, or None if notifications may have been missed. The id of the tenant
        in the place of the user: the wallet of the tenant has changed, which all its users may see.
        """
        if payload is None:
            for events in self._waiting.values():
                _set_all(events)
            return
        tenant, user, job = payload.split("/")
        _set_all(self._waiting.get((tenant, user), ()))
        _set_all(self._waiting.get((tenant, job), ()))
        _set_all(self._waiting.get((tenant, tenant), ()))
        if user == tenant:
            _set_all(self._watched.get(tenant, ()))

    def credentials_changed(self, user_or_tenant: str | None) -> None:
        """Credentials of this user or tenant ended. Their streams check whether they may continue. `user_or_tenant`
        is None if notifications may have been missed.
        """
        if user_or_tenant is None:
            self.received(None)
        else:
            _set_all(self._watched.get(user_or_tenant, ()))

    def close(self) -> None:
        """Ends every stream, so that a stopping server does not wait for readers; readers reconnect and continue."""
        self.closed = True
        self.received(None)

    def __len__(self) -> int:
        """The number of readers."""
        return sum(len(events) for events in self._waiting.values())

    async def follow(
        self,
        key: Key,
        read: Read,
        after: Position | TenantPosition,
        may_go_on: MayGoOn = for_good,
        watched: Sequence[str] = (),
    ) -> AsyncIterator[Item]:
        """Yields lines after `after` and the latest progress, until the stream ends. Yields None if nothing arrives for
        a while.

        `watched`: if credentials of these ids change, the stream calls `may_go_on` at once.
        """
        news = asyncio.Event()
        self._waiting[key].add(news)
        for each in watched:
            self._watched[each].add(news)
        try:
            while not self.closed:
                news.clear()
                found = await read(after)
                # The check runs after the read, so that the reader gets nothing that happened after its access ended.
                # It also runs the first time: a notification between the authentication and this line did not reach
                # this stream.
                if not await may_go_on():
                    return
                if found.reset is not None:
                    yield found.reset
                    after = found.reset.position
                    continue
                for line in found.lines:
                    yield line
                    after = line.position
                for value in found.latest:
                    yield value
                if found.ended:
                    return
                if not await _is_due(news, found):
                    yield None
        finally:
            _forget(self._waiting, key, news)
            for each in watched:
                _forget(self._watched, each, news)

    def follow_job(
        self,
        pool: Database,
        tenant_id: UUID,
        job_id: UUID,
        after: Position,
        may_go_on: MayGoOn = for_good,
        watched: Sequence[str] = (),
    ) -> AsyncIterator[Item]:
        """A job's events and progress; the stream ends when the job has ended and all its events were read."""
        watch = Watch(tenant_id)
        reads = self._reads.get(pool.name)
        if reads is None:
            reads = self._reads[pool.name] = Batcher(_reading(pool), limit=READERS_AT_ONCE)

        async def read(position: Position) -> News:
            rows = await reads((tenant_id, job_id, position))
            first = rows[0]
            if first.is_known is False:
                return News(reset=FeedReset(START))
            lines = [FeedEvent(row.seq, streamed_view(row)) for row in rows if row.seq is not None]
            last = lines[-1].number if lines else position.number
            latest: Sequence[Latest] = ()
            progress = _progress_of(job_id, first)
            if progress is not None and not watch.has_seen(progress):
                latest = await watch.news_of_job(pool, progress)
            has_ended = first.event_seq is None or (first.status in TERMINAL and first.event_seq <= last)
            return News(lines, latest, has_ended)

        return self.follow((str(tenant_id), str(job_id)), read, after, may_go_on, watched)

    def follow_user(
        self,
        pool: Database,
        tenant_id: UUID,
        user_id: UUID,
        after: Position,
        may_go_on: MayGoOn = for_good,
        watched: Sequence[str] = (),
    ) -> AsyncIterator[Item]:
        """The events and progress of all jobs of a user, and the wallet whenever it changes."""
        watch = Watch(tenant_id)
        shown: Wallet | None = None

        async def read(position: Position) -> News:
            nonlocal shown
            async with pool.connection() as connection:
                rows = await SQL["follow_user"].rows(
                    connection,
                    EventOfUser,
                    tenant_id=tenant_id,
                    user_id=user_id,
                    after=position.number,
                    at=position.at,
                    limit=AT_ONCE,
                    is_first=shown is None,
                )
                if not rows[0].is_known:
                    return News(reset=FeedReset(await end_of_stream(connection, tenant_id, user_id)))
                latest = await watch.news_of_user(connection, user_id)
            wallet, shown = shown, wallet_after(shown, rows[0])
            lines = [FeedEvent(row.user_seq, streamed_view(row)) for row in rows if row.user_seq is not None]
            return News(lines, latest if shown == wallet else [shown, *latest])

        return self.follow((str(tenant_id), str(user_id)), read, after, may_go_on, watched)


async def end_of_stream(connection: Connection, tenant_id: UUID, user_id: UUID) -> Position:
    """The position of the user's last event."""
    end = await SQL["end_of_user_stream"].row(connection, Position, tenant_id=tenant_id, user_id=user_id)
    return end or START


def wallet_after(before: Wallet | None, row: EventOfUser) -> Wallet:
    held = before.held if before is not None and row.held is None else row.held or 0
    return Wallet(balance=row.balance, held=held, paid_by=payer(is_tenant=row.paid_by_tenant))


def _progress_of(job_id: UUID, row: EventOfJob) -> ProgressRow | None:
    if row.updated_at is None:
        return None
    return ProgressRow(job_id, row.percent, row.message, row.elapsed_ms, row.node_id, row.updated_at, row.preview_at)


def _reading(pool: Database) -> Callable[[Sequence[Place]], Awaitable[Sequence[Sequence[EventOfJob]]]]:
    async def run(places: Sequence[Place]) -> list[list[EventOfJob]]:
        tenants, jobs, positions = zip(*places, strict=True)
        async with pool.connection() as connection:
            rows = await SQL["follow_jobs"].rows(
                connection,
                EventOfJob,
                tenant_ids=tenants,
                job_ids=jobs,
                numbers=[position.number for position in positions],
                times=[position.at for position in positions],
                limit=AT_ONCE,
            )
        found: list[list[EventOfJob]] = [[] for _ in places]
        for row in rows:
            found[row.place - 1].append(row)
        return found

    return run


def _forget(events: dict[Any, set[asyncio.Event]], key: object, event: asyncio.Event) -> None:
    events[key].discard(event)
    if not events[key]:
        del events[key]


def _set_all(events: Sequence[asyncio.Event] | set[asyncio.Event]) -> None:
    for event in tuple(events):
        event.set()


async def _is_due(news: asyncio.Event, found: News) -> bool:
    """Waits until the stream should be read again. Returns false if nothing arrived for a while."""
    if found.is_held_back:
        await _within(news, HELD_BACK_SECONDS)
        return True
    return len(found.lines) == AT_ONCE or await _within(news, RECHECK_SECONDS)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
        return True
    except TimeoutError:
        return False
