"""Streams: every event once and in order, from wherever the reader left off (G9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress

import pytest

from callsheet.jobs.machine.journal import CHANNEL
from callsheet.jobs.stream import feeds as feeds_module
from callsheet.jobs.stream.feeds import FeedEvent, Feeds
from callsheet.jobs.stream.positions import START, Position
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import InvalidTransition
from tests.support.jobs.core import Core, Member, job_ids, open_core, report
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture
async def core(shared_databases: Databases) -> Core:
    """A core whose notifications reach its own readers at once."""

    def deliver(channel: str, payload: str) -> None:
        if channel == CHANNEL:
            opened.room.feeds.received(payload)

    opened = open_core(shared_databases, deliver, active_per_user=1000)
    return await opened.prepare()


def following(core: Core, member: Member, job_id: object, after: int = 0) -> AsyncIterator[FeedEvent | None]:
    return core.room.feeds.follow_job(member.pool, member.tenant_id, job_id, Position(after))


async def collect(lines: AsyncIterator[FeedEvent | None], count: int | None = None) -> list[tuple[int, str]]:
    """(number, to_status) of the next lines; of all of them where the stream ends."""
    found: list[tuple[int, str]] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in lines:
            if isinstance(line, FeedEvent):
                found.append((line.number, str(line.event.to_status)))
            if len(found) == count:
                break
    return found


async def fail(core: Core, member: Member) -> object:
    job = await core.submit(member)
    await core.fail(await core.start())
    return job.id


async def test_a_reader_sees_a_job_from_its_first_event_to_its_last_while_it_happens(core: Core) -> None:
    for pool in ("pool_1", "pool_2"):
        ann = await core.member(pool)
        job = await core.submit(ann)
        reader = asyncio.create_task(collect(following(core, ann, job.id)))
        started = await core.start()
        await core.room.leases.requeue(report(started), "spot")
        await core.complete(await core.start())
        assert await reader == [
            *[(1, "pending"), (2, "queued"), (3, "processing"), (4, "queued")],
            *[(5, "processing"), (6, "completed")],
        ]
    assert len(core.room.feeds) == 0


@pytest.mark.few_forms
@pytest.mark.parametrize("after", range(7))
async def test_a_returning_reader_gets_the_events_it_has_not_seen(core: Core, after: int) -> None:
    ann = await core.member("pool_1")
    job_id = await fail(core, ann)
    await core.room.retries.retry(ann.tenant_id, job_id, actor="user")
    # Failed once is not ended: the reader goes on with the retry.
    reader = asyncio.create_task(collect(following(core, ann, job_id, after)))
    await core.complete(await core.start())
    everything = ["pending", "queued", "processing", "failed", "pending", "queued", "processing", "completed"]
    assert await reader == list(enumerate(everything, 1))[after:]


async def test_a_transition_refused_after_the_end_is_streamed_and_the_stream_ends_again(core: Core) -> None:
    ann = await core.member("pool_2")
    job = await core.submit(ann)
    await core.complete(await core.start())
    seen = await collect(following(core, ann, job.id))
    assert seen[-1] == (4, "completed")
    with pytest.raises(InvalidTransition):
        await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user")
    assert await collect(following(core, ann, job.id, after=4)) == [(5, "canceled")]
    assert await collect(following(core, ann, job.id, after=5)) == []


async def test_a_history_longer_than_one_page_is_read_to_its_end(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "AT_ONCE", 2)
    ann = await core.member("pool_1")
    job = await core.submit(ann)
    for _ in range(3):
        await core.room.leases.requeue(report(await core.start()), "spot")
    await core.complete(await core.start())
    assert [number for number, _ in await collect(following(core, ann, job.id))] == list(range(1, 11))


async def test_a_reader_finds_events_without_a_notification(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "RECHECK_SECONDS", 0.02)
    ann = await core.member("pool_1")
    job = await core.submit(ann)
    silent = await open_core(core.databases).prepare()
    lines = following(core, ann, job.id)
    assert await collect(lines, 2) == [(1, "pending"), (2, "queued")]
    lines = following(core, ann, job.id, after=2)
    async with asyncio.timeout(PATIENCE_SECONDS):
        # None says that nothing came: it keeps the connection alive.
        assert await anext(lines) is None
        started = await silent.room.starter.lease_and_start(core.criteria(), "worker-1")
        assert started is not None
        assert await collect(lines, 1) == [(3, "processing")]


async def test_event_numbers_of_a_user_have_no_gap_and_a_reader_misses_no_late_commit(
    core: Core, shared_settings: Settings
) -> None:
    """Twenty jobs at once on two control planes, read all the while."""
    others = await open_databases(shared_settings)
    plane = open_core(others, active_per_user=1000)
    plane.workflow = core.workflow
    ann, bob = await core.member("pool_1"), await core.member("pool_1")
    seen: list[FeedEvent] = []

    async def read() -> None:
        async for line in core.room.feeds.follow_user(ann.pool, ann.tenant_id, ann.user_id, START):
            seen.extend([line] if isinstance(line, FeedEvent) else [])

    async def nudge() -> None:
        # The other plane's notifications, as often as can be: a reader that looks all the time misses most easily.
        while True:
            core.room.feeds.received(None)
            await asyncio.sleep(0)

    helpers = [asyncio.create_task(read()), asyncio.create_task(nudge())]
    planes = (core, plane)

    async def live(number: int) -> None:
        own = planes[number % 2]
        await own.submit((ann, bob)[number % 4 == 3])
        started = await own.start(f"worker-{number}")
        if number % 5 == 0:
            await own.room.leases.requeue(report(started), "spot")
            started = await own.start(f"worker-{number}")
        await own.complete(started)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(live(number) for number in range(20)))
    [row] = await core.rows(ann.pool, "SELECT last_seq FROM user_streams WHERE user_id = $1", ann.user_id)

    async def read_all() -> bool:
        return len(seen) >= row["last_seq"]

    await until(read_all)
    for helper in helpers:
        helper.cancel()
        with suppress(asyncio.CancelledError):
            await helper
    await others.close()
    assert [line.number for line in seen] == list(range(1, row["last_seq"] + 1))
    # Within the user's order each job's own order holds.
    by_job: dict[object, list[int]] = {}
    for line in seen:
        by_job.setdefault(line.event.job_id, []).append(line.event.seq)
    assert len(by_job) == 15
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_job.values())
    await core.check_drained()


async def test_streams_of_two_tenants_never_cross_even_with_the_same_job_id(core: Core) -> None:
    ann, bob, eve = await core.member("pool_1"), await core.member("pool_2"), await core.member("pool_1")
    shared = uuid7()
    with job_ids(shared, shared, shared):
        for member in (ann, bob, eve):
            await core.submit(member)
    readers = [asyncio.create_task(collect(following(core, member, shared))) for member in (ann, bob, eve)]
    await core.room.cancellation.cancel(ann.tenant_id, shared, actor="user")
    assert await readers[0] == [(1, "pending"), (2, "queued"), (3, "canceled")]
    await core.drain()
    for reader in readers[1:]:
        assert [status for _, status in await reader][-1] == "completed"
    other = await core.member(tenant=ann)
    await core.submit(other)
    lines = core.room.feeds.follow_user(ann.pool, ann.tenant_id, ann.user_id, START)
    assert [status for _, status in await collect(lines, 3)] == ["pending", "queued", "canceled"]


async def test_closing_ends_every_stream_and_a_reader_that_leaves_is_forgotten(core: Core) -> None:
    ann = await core.member("pool_1")
    job = await core.submit(ann)
    feeds = core.room.feeds
    leaver = following(core, ann, job.id)
    async with aclosing(leaver):
        assert await collect(leaver, 2)
    readers = [
        asyncio.create_task(collect(following(core, ann, job.id))),
        asyncio.create_task(collect(feeds.follow_user(ann.pool, ann.tenant_id, ann.user_id, START))),
    ]

    async def both() -> bool:
        return len(feeds) == 2

    await until(both)
    feeds.close()
    assert [len(lines) for lines in await asyncio.gather(*readers)] == [2, 2]
    assert len(feeds) == 0
    assert await collect(following(core, ann, job.id)) == []


def test_a_notification_without_a_reader_is_ignored() -> None:
    feeds = Feeds()
    feeds.received(f"{uuid7()}/{uuid7()}/{uuid7()}")
    feeds.received(None)
    assert len(feeds) == 0
