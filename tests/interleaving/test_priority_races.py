"""A dispatch that is moved to another lane is found by the next lease, leased once, and never hidden below a mark."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from callsheet.dispatch.lease.leasing import SQL
from callsheet.dispatch.operate.priorities import SQL as PRIORITIES
from callsheet.plumbing.database.sql import Connection
from callsheet.wire.errors import WrongState
from tests.support.jobs.core import Core, report
from tests.support.jobs.lease_statements import take_leases
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, rolled_back_transaction, start_blocked

BELOW = """SELECT d.dispatch_id FROM ai_job_dispatches d JOIN dispatch_lanes l USING (lane_id)
           WHERE d.status = 'queued' AND d.not_before IS NULL AND d.dispatch_id < l.low_water"""
AFTER_EVERY_DEADLINE = timedelta(days=400)
ADMIN = "admin:x"


async def dispatch_id(race: Race, job_id: object) -> int:
    query = "SELECT dispatch_id FROM ai_job_dispatches WHERE tenant_job_id = $1 AND tenant_id = $2"
    [row] = await race.one.rows(race.central, query, job_id, race.ann.tenant_id)
    return int(row["dispatch_id"])


async def follow(race: Race) -> None:
    """The jobs get their priorities, as the use case that moved them would have set them."""
    race.two.room.reconciler.settle_seconds = race.two.room.reconciler.confirm_seconds = 0
    for _ in range(2):
        await race.two.room.reconciler.tick(datetime.now(UTC))


async def everything_is_leased(race: Race, count: int) -> None:
    assert await race.one.rows(race.central, BELOW) == []
    leases = await race.one.queue.lease_many(race.one.criteria(), ["w"] * (count + 3))
    assert len({lease.dispatch_id for lease in leases}) == len(leases) == count
    await follow(race)
    await race.one.check()


async def raising(connection: Connection) -> None:
    """What raise_low_water does, in a transaction that stays open."""
    lanes = [row["lane_id"] for row in await SQL["lock_lanes"].rows(connection, lane_ids=None)]
    await SQL["raise_low_water"].run(connection, lane_ids=lanes)


async def two_lanes(race: Race) -> int:
    """A queued row of priority 0, and a lane of priority 5 whose mark has passed it."""
    job = await race.submit()
    await race.submit(priority=5)
    await race.one.start()
    await race.one.queue.raise_low_water()
    return await dispatch_id(race, job.id)


async def test_a_row_that_joins_a_lane_lowers_its_mark(race: Race) -> None:
    moved = await two_lanes(race)
    await race.one.room.dispatch.priorities.change(moved, 5, ADMIN)
    await everything_is_leased(race, 1)


async def test_a_mark_that_is_being_raised_is_waited_for_and_lowered(race: Race) -> None:
    moved = await two_lanes(race)
    async with race.central.transaction() as connection:
        await raising(connection)
        [changing] = await start_blocked(race.central, race.one.room.dispatch.priorities.change(moved, 5, ADMIN))
    await changing
    await everything_is_leased(race, 1)


async def test_raising_marks_skips_a_lane_that_a_row_is_joining(race: Race) -> None:
    moved = await two_lanes(race)
    async with race.central.transaction() as connection:
        assert await PRIORITIES["change_priority"].row(connection, dispatch_id=moved, priority=5)
        await race.one.queue.raise_low_water()
    await everything_is_leased(race, 1)


async def test_a_lease_that_commits_first_wins_over_a_priority_change(race: Race) -> None:
    job = await race.submit()
    moved = await dispatch_id(race, job.id)
    async with race.central.transaction() as connection:
        rows = await take_leases(connection, race.one.criteria(), ["w"])
        assert rows[0]["dispatch_id"] == moved
        [changing] = await start_blocked(race.central, race.one.room.dispatch.priorities.change(moved, 5, ADMIN))
    with pytest.raises(WrongState, match="The dispatch is leased"):
        await changing
    [row] = await race.one.rows(race.central, "SELECT priority FROM ai_job_dispatches WHERE dispatch_id = $1", moved)
    assert row["priority"] == 0
    # A refusal leaves no line in the log of what was done.
    assert await race.one.rows(race.central, "SELECT 1 FROM audit_logs WHERE subject_id = $1", str(moved)) == []


async def test_a_lease_passes_over_a_row_that_is_being_moved_and_the_next_one_takes_it(race: Race) -> None:
    job = await race.submit()
    moved = await dispatch_id(race, job.id)
    async with race.central.transaction() as connection:
        await SQL["open_lanes"].run(
            connection,
            workflow_ids=[race.one.workflow],
            stages=["production"],
            providers=["self_hosted"],
            identifiers=[""],
            priorities=[5],
            tenant_ids=[race.ann.tenant_id],
            user_ids=[race.ann.user_id],
        )
        assert await PRIORITIES["change_priority"].row(connection, dispatch_id=moved, priority=5)
        assert await race.one.queue.lease_many(race.one.criteria(), ["w"]) == []
    await everything_is_leased(race, 1)


async def test_a_rolled_back_priority_change_leaves_the_row_in_its_lane(race: Race) -> None:
    moved = await two_lanes(race)
    async with rolled_back_transaction(race.central) as connection:
        assert await PRIORITIES["change_priority"].row(connection, dispatch_id=moved, priority=5)
    await everything_is_leased(race, 1)


async def test_two_changes_at_once_leave_one_row_in_one_lane(race: Race) -> None:
    job = await race.submit()
    moved = await dispatch_id(race, job.id)
    works = [
        core.room.dispatch.priorities.change(moved, number, ADMIN)
        for number in (1, 2, 3)
        for core in (race.one, race.two)
    ]
    await asyncio.gather(*works)
    await everything_is_leased(race, 1)


async def test_changes_leases_and_marks_all_at_once_lose_nothing_and_lease_nothing_twice(race: Race) -> None:
    jobs = [await race.submit(priority=number % 3) for number in range(12)]
    ids = [await dispatch_id(race, job.id) for job in jobs]
    leased: list[int] = []

    async def change(number: int, core: Core) -> None:
        for step in range(4):
            try:
                await core.room.dispatch.priorities.change(ids[number], (number + step) % 4, ADMIN)
            except WrongState:
                return

    async def lease(core: Core) -> None:
        for _ in range(6):
            found = await core.queue.lease_many(core.criteria(), ["w"])
            leased.extend(lease.dispatch_id for lease in found)
            await core.queue.raise_low_water()

    planes = (race.one, race.two)
    async with asyncio.timeout(60):
        await asyncio.gather(
            *(change(number, planes[number % 2]) for number in range(12)), *(lease(core) for core in planes)
        )
    assert len(set(leased)) == len(leased)
    await everything_is_leased(race, 12 - len(leased))


async def test_the_priority_of_a_leased_row_changes_only_after_its_requeue(race: Race) -> None:
    """Only what waits in the queue moves: who holds a row puts it back into the lane it came from."""
    job, started = await race.started()
    moved = await dispatch_id(race, job.id)
    with pytest.raises(WrongState):
        await race.two.room.dispatch.priorities.change(moved, 5, ADMIN)
    async with open_transaction(race.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE"):
        requeue = race.one.room.leases.requeue(report(started), "spot")
        [requeuing] = await start_blocked(race.central, requeue)
    await requeuing
    await race.two.room.dispatch.priorities.change(moved, 5, ADMIN)
    await everything_is_leased(race, 1)


async def test_a_delayed_row_that_is_moved_while_it_becomes_due_waits_for_the_next_round(race: Race) -> None:
    _, started = await race.started()
    await race.one.fail(started, retryable=True)
    moved = started.lease.dispatch_id
    await race.submit(priority=5)
    await race.one.start()
    await race.one.queue.raise_low_water()
    lanes = "SELECT 1 FROM dispatch_lanes WHERE priority = 0 FOR UPDATE"
    async with open_transaction(race.central, lanes):
        # It has seen the row in its old lane, and waits to lower that lane's mark.
        [promoting] = await start_blocked(
            race.central, race.one.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
        )
        await race.two.room.dispatch.priorities.change(moved, 5, ADMIN)
        await race.two.queue.raise_low_water()
    assert await promoting == 0
    assert await race.one.rows(race.central, BELOW) == []
    assert await race.one.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE) == 1
    await everything_is_leased(race, 1)
