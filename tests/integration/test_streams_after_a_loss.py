"""A database that lost its last events gives their numbers out again: no reader takes a new event for one it has seen
(G9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from callsheet.jobs.machine.journal import CHANNEL
from callsheet.jobs.stream.feeds import FeedEvent, FeedReset, Item
from callsheet.jobs.stream.positions import START, Position
from callsheet.plumbing.database.databases import Databases
from tests.support.database.lost_tails import lost_tail
from tests.support.jobs.core import Core, Member, open_core
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture
async def core(shared_databases: Databases) -> Core:
    """A core whose notifications reach its own readers at once."""

    def deliver(channel: str, payload: str) -> None:
        if channel == CHANNEL:
            opened.room.feeds.received(payload)

    opened = open_core(shared_databases, deliver, active_per_user=1000)
    return await opened.prepare()


@pytest.fixture
async def ann(core: Core) -> Member:
    return await core.member("pool_1")


def of_user(core: Core, ann: Member, after: Position) -> AsyncIterator[Item]:
    return core.room.feeds.follow_user(ann.pool, ann.tenant_id, ann.user_id, after)


async def next_lines(items: AsyncIterator[Any], count: int) -> list[FeedEvent | FeedReset]:
    """The next events and resets, without wallets and progress."""
    found: list[FeedEvent | FeedReset] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < count and (item := await anext(items, 0)) != 0:
            if isinstance(item, FeedEvent | FeedReset):
                found.append(item)
    return found


def statuses(lines: list[FeedEvent | FeedReset]) -> list[str]:
    return [str(line.event.to_status) if isinstance(line, FeedEvent) else "reset" for line in lines]


async def position_of(core: Core, ann: Member) -> Position:
    [row] = await core.rows(ann.pool, "SELECT user_seq AS number, at FROM job_events ORDER BY user_seq DESC LIMIT 1")
    return Position(**row)


async def test_an_open_stream_notices_that_the_counter_went_back(core: Core, ann: Member) -> None:
    await core.submit(ann)
    items = of_user(core, ann, START)
    async with aclosing(items):
        async with lost_tail(ann.pool) as lose:
            await core.complete(await core.start())
            assert statuses(await next_lines(items, 4)) == ["pending", "queued", "processing", "completed"]
            await lose()
        # More events than were lost, so that the counter is further than the reader.
        for _ in range(2):
            await core.submit(ann)
        [reset] = await next_lines(items, 1)
        assert isinstance(reset, FeedReset)
        assert reset.position == await position_of(core, ann)
        # From here on the reader misses nothing.
        await core.submit(ann)
        assert statuses(await next_lines(items, 2)) == ["pending", "queued"]


async def test_a_reader_that_resumes_after_the_loss_is_reset_even_if_the_counter_is_further_again(
    core: Core, ann: Member
) -> None:
    await core.submit(ann)
    kept = await position_of(core, ann)
    async with lost_tail(ann.pool) as lose:
        await core.submit(ann)
        seen = await position_of(core, ann)
        await lose()
    for _ in range(3):
        await core.submit(ann)
    async with aclosing(of_user(core, ann, seen)) as items:
        assert statuses(await next_lines(items, 1)) == ["reset"]
    # One who has seen nothing of what was lost gets everything since then.
    async with aclosing(of_user(core, ann, kept)) as items:
        assert statuses(await next_lines(items, 6)) == ["pending", "queued"] * 3


async def test_a_reader_that_resumes_while_the_counter_is_behind_is_reset(core: Core, ann: Member) -> None:
    await core.submit(ann)
    async with lost_tail(ann.pool) as lose:
        await core.submit(ann)
        seen = await position_of(core, ann)
        await lose()
    async with aclosing(of_user(core, ann, seen)) as items:
        [reset] = await next_lines(items, 1)
        assert isinstance(reset, FeedReset)
        assert reset.position.number == 2


async def test_the_stream_of_a_job_starts_again_with_its_first_event(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    started = await core.start()
    items = core.room.feeds.follow_job(ann.pool, ann.tenant_id, job.id, START)
    async with lost_tail(ann.pool, core.databases.central) as lose:
        await core.fail(started, retryable=True)
        assert statuses(await next_lines(items, 4)) == ["pending", "queued", "processing", "queued"]
        await lose()
    await core.fail(started)
    core.room.feeds.received(None)
    lines = await next_lines(items, 6)
    assert statuses(lines) == ["reset", "pending", "queued", "processing", "failed"]
    assert isinstance(lines[0], FeedReset)
    assert lines[0].position == START


async def test_a_reader_that_has_seen_everything_is_not_reset(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    seen = await position_of(core, ann)
    await core.complete(await core.start())
    async with aclosing(of_user(core, ann, seen)) as items:
        assert statuses(await next_lines(items, 2)) == ["processing", "completed"]
    rows = await core.events(ann, job.id)
    items = core.room.feeds.follow_job(ann.pool, ann.tenant_id, job.id, Position(2, rows[1]["at"]))
    assert statuses(await next_lines(items, 9)) == ["processing", "completed"]


async def test_a_number_without_a_time_resumes_unchecked(core: Core, ann: Member) -> None:
    await core.submit(ann)
    async with aclosing(of_user(core, ann, Position(1))) as items:
        assert statuses(await next_lines(items, 1)) == ["queued"]


async def test_another_event_with_the_same_number_is_another_position(core: Core, ann: Member) -> None:
    await core.submit(ann)
    seen = await position_of(core, ann)
    assert seen.at is not None
    other = seen._replace(at=seen.at + timedelta(microseconds=1))
    async with aclosing(of_user(core, ann, other)) as items:
        assert statuses(await next_lines(items, 1)) == ["reset"]
