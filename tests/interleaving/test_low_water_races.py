"""Low-water marks: no queued row is ever below its lane's mark, during any concurrent operation (G1, G11)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from callsheet.dispatch.facts import JobEnd, Requeue
from callsheet.dispatch.lease.leasing import SQL
from callsheet.plumbing.database.sql import Connection
from tests.support.jobs.lease_statements import take_leases
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, rolled_back_transaction, start_blocked

BELOW = """SELECT d.dispatch_id FROM ai_job_dispatches d JOIN dispatch_lanes l USING (lane_id)
           WHERE d.status = 'queued' AND d.not_before IS NULL AND d.dispatch_id < l.low_water"""
AFTER_EVERY_DEADLINE = timedelta(days=400)


async def marks(race: Race) -> dict[int, int]:
    query = "SELECT lane_id, low_water FROM dispatch_lanes WHERE workflow_id = $1"
    return {row["lane_id"]: row["low_water"] for row in await race.one.rows(race.central, query, race.one.workflow)}


async def raising(connection: Connection) -> list[int]:
    """What raise_low_water does, in a transaction that stays open."""
    lanes = [row["lane_id"] for row in await SQL["lock_lanes"].rows(connection, lane_ids=None)]
    await SQL["raise_low_water"].run(connection, lane_ids=lanes)
    return lanes


async def everything_is_leased(race: Race, count: int) -> None:
    """The proof that counts: no row is below the mark, and a poller finds each of them."""
    assert await race.one.rows(race.central, BELOW) == []
    leases = await race.one.queue.lease_many(race.one.criteria(), ["w"] * (count + 3))
    assert len(leases) == count
    await race.one.check()


async def leased_then_raised(race: Race) -> Requeue:
    """Two rows; the first is leased, and the mark is past it."""
    for _ in range(2):
        await race.submit()
    [first] = await race.one.queue.lease_many(race.one.criteria(), ["w"])
    await race.one.queue.raise_low_water()
    assert set((await marks(race)).values()) == {first.dispatch_id + 2}
    return Requeue(first.dispatch_id, first.lease_token, attempt_counts=False)


async def test_a_requeue_lowers_a_mark_that_was_raised_before(race: Race) -> None:
    back = await leased_then_raised(race)
    async with race.central.transaction() as connection:
        await raising(connection)
        [returning] = await start_blocked(race.central, race.one.queue.requeue([back]))
    assert len(await returning) == 1
    assert set((await marks(race)).values()) == {back.dispatch_id}
    await everything_is_leased(race, 2)


async def wedged_then_raised(race: Race) -> Requeue:
    """Two rows, the first is leased; and a lane behind theirs, whose mark is past both."""
    back = await leased_then_raised(race)
    await race.submit(priority=-1)
    await race.one.queue.lease_many(race.one.criteria(), ["w"] * 2)
    await race.one.queue.raise_low_water()
    return Requeue(back.dispatch_id, back.token, attempt_counts=True, wedged=True)


async def test_a_dispatch_requeued_behind_others_lowers_the_mark_of_its_new_lane(race: Race) -> None:
    back = await wedged_then_raised(race)
    async with race.central.transaction() as connection:
        await raising(connection)
        [returning] = await start_blocked(race.central, race.one.queue.requeue_behind(back))
    assert [each.lane.priority for each in await returning] == [-1]
    assert await race.one.rows(race.central, BELOW) == []
    [lease] = await race.one.queue.lease_many(race.one.criteria(), ["w"] * 3)
    assert (lease.dispatch_id, lease.wedges) == (back.dispatch_id, 1)


async def test_requeueing_behind_others_locks_the_lanes_before_the_dispatch(race: Race) -> None:
    back = await wedged_then_raised(race)
    async with race.central.transaction() as connection:
        # As an operator who changes its priority at this moment: the lane first, then the dispatch.
        await connection.fetch("SELECT 1 FROM dispatch_lanes WHERE priority = -1 FOR NO KEY UPDATE")
        [returning] = await start_blocked(race.central, race.one.queue.requeue_behind(back))
        query = "SELECT 1 FROM ai_job_dispatches WHERE dispatch_id = $1 FOR NO KEY UPDATE NOWAIT"
        assert await connection.fetch(query, back.dispatch_id)
    assert [each.lane.priority for each in await returning] == [-1]
    assert await race.one.rows(race.central, BELOW) == []
    [lease] = await race.one.queue.lease_many(race.one.criteria(), ["w"] * 3)
    assert (lease.dispatch_id, lease.wedges) == (back.dispatch_id, 1)


async def test_a_lost_lease_is_not_requeued_behind_others(race: Race) -> None:
    back = await wedged_then_raised(race)
    async with race.central.transaction() as connection:
        await raising(connection)
        [returning] = await start_blocked(race.central, race.one.queue.requeue_behind(back))
        query = "UPDATE ai_job_dispatches SET lease_token = gen_random_uuid() WHERE dispatch_id = $1"
        await connection.execute(query, back.dispatch_id)
    assert await returning == []
    [row] = await race.one.rows(
        race.central, "SELECT priority, wedges FROM ai_job_dispatches WHERE dispatch_id = $1", back.dispatch_id
    )
    assert (row["priority"], row["wedges"]) == (0, 0)


async def test_raising_marks_skips_a_lane_with_a_requeue_in_progress(race: Race) -> None:
    back = await leased_then_raised(race)
    async with race.central.transaction() as connection:
        entry = {"dispatch_id": back.dispatch_id, "token": str(back.token), "attempt_counts": False}
        rest = {"counts_as_requeue": False, "only_expired": False, "delay_seconds": 0}
        assert await SQL["requeue"].rows(connection, entries=[entry | rest], now=None)
        await race.one.queue.raise_low_water()
    assert set((await marks(race)).values()) == {back.dispatch_id}
    await everything_is_leased(race, 2)


async def test_raising_a_mark_during_a_lease_does_not_skip_a_row_that_is_rolled_back(race: Race) -> None:
    for _ in range(2):
        await race.submit()
    async with rolled_back_transaction(race.central) as connection:
        rows = await take_leases(connection, race.one.criteria(), ["w"])
        assert rows[0]["dispatch_id"] is not None
        await race.one.queue.raise_low_water()
    await everything_is_leased(race, 2)


async def test_an_enqueue_that_waits_for_a_raised_mark_draws_its_id_above_it(race: Race) -> None:
    job = await race.submit()
    [first] = await race.one.queue.lease_many(race.one.criteria(), ["w"])
    entry = await race.entry(job, charge_cycle=2)
    async with race.central.transaction() as connection:
        await raising(connection)
        [enqueuing] = await start_blocked(race.central, race.one.queue.enqueue([entry]))
        # Ids drawn meanwhile in other lanes push the sequence on.
        await connection.fetchval("SELECT nextval(pg_get_serial_sequence('ai_job_dispatches', 'dispatch_id'))")
    assert await enqueuing == 1
    [mark] = (await marks(race)).values()
    [row] = await race.one.rows(race.central, "SELECT dispatch_id FROM ai_job_dispatches WHERE charge_cycle = 2")
    assert first.dispatch_id <= mark < row["dispatch_id"]
    assert await race.one.rows(race.central, BELOW) == []
    assert len(await race.one.queue.lease_many(race.one.criteria(), ["w"])) == 1


async def test_a_mark_is_not_raised_over_an_enqueue_that_stalls_after_drawing_its_id(race: Race) -> None:
    await race.submit()
    await race.one.queue.lease_many(race.one.criteria(), ["w"])
    late = await race.submit(priority=5)
    before = await marks(race)
    entry = await race.entry(late, charge_cycle=2)
    async with race.central.transaction() as connection:
        [(_, drawn)] = await race.two.queue.placing.place(connection, [entry])
        # The sequence goes on, and another lane's mark may follow it; this lane's may not.
        for _ in range(3):
            await race.submit()
        await race.one.queue.raise_low_water()
    after = await marks(race)
    lanes = await race.one.rows(race.central, "SELECT lane_id FROM dispatch_lanes WHERE priority = 5")
    assert after[lanes[0]["lane_id"]] == before[lanes[0]["lane_id"]] < drawn
    assert await race.one.rows(race.central, BELOW) == []
    assert len(await race.one.queue.lease_many(race.one.criteria(), ["w"] * 9)) == 5


async def delayed_then_raised(race: Race) -> int:
    """Two rows; the first was requeued with a delay, and the mark is past it."""
    back = await leased_then_raised(race)
    await race.one.queue.requeue([Requeue(back.dispatch_id, back.token, attempt_counts=True, delay_seconds=60)])
    await race.one.queue.raise_low_water()
    assert set((await marks(race)).values()) == {back.dispatch_id + 2}
    return back.dispatch_id


async def test_a_delayed_row_that_waits_for_a_raised_mark_lowers_it_when_it_joins(race: Race) -> None:
    delayed = await delayed_then_raised(race)
    async with race.central.transaction() as connection:
        await raising(connection)
        [promoting] = await start_blocked(
            race.central, race.one.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
        )
    assert await promoting == 1
    assert set((await marks(race)).values()) == {delayed}
    await everything_is_leased(race, 2)


async def test_raising_marks_skips_a_lane_that_a_delayed_row_is_joining(race: Race) -> None:
    delayed = await delayed_then_raised(race)
    async with race.central.transaction() as connection:
        assert await SQL["promote"].rows(connection, now=datetime.now(UTC) + AFTER_EVERY_DEADLINE, limit=10)
        await race.one.queue.raise_low_water()
    assert set((await marks(race)).values()) == {delayed}
    await everything_is_leased(race, 2)


async def test_two_promotes_at_once_let_a_row_in_once_and_not_before_a_new_delay(race: Race) -> None:
    delayed = await delayed_then_raised(race)
    async with open_transaction(race.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE"):
        [promoting] = await start_blocked(race.central, race.one.queue.promote(datetime.now(UTC) + timedelta(hours=1)))
        # Promoted, leased and requeued with a longer delay by others, while this one waited for the lane.
        await race.two.rows(
            race.central,
            "UPDATE ai_job_dispatches SET not_before = clock_timestamp() + interval '2 h' WHERE dispatch_id = $1",
            delayed,
        )
    assert await promoting == 0
    works = [core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE) for core in (race.one, race.two)]
    assert sorted(await asyncio.gather(*works)) == [0, 1]
    await everything_is_leased(race, 2)


async def test_ending_a_delayed_job_leaves_no_row_below_the_mark(race: Race) -> None:
    """`end_for_jobs` and the close behind it are two commits; a crash between them must not hide the row."""
    delayed = await delayed_then_raised(race)
    [row] = await race.one.rows(race.central, "SELECT * FROM ai_job_dispatches WHERE dispatch_id = $1", delayed)
    async with race.central.transaction() as connection:
        await SQL["end_for_jobs"].rows(
            connection, tenant_ids=[row["tenant_id"]], job_ids=[row["tenant_job_id"]], cycles=[1], statuses=["failed"]
        )
    assert await race.one.rows(race.central, BELOW) == []
    await race.one.queue.end_for_jobs([JobEnd(row["tenant_id"], row["tenant_job_id"], 1, "failed")])
    assert await race.finished(row["tenant_job_id"]) == [(1, "failed")]


async def test_two_control_planes_can_raise_marks_at_once(race: Race) -> None:
    for priority in range(4):
        await race.submit(priority=priority)
    await race.one.queue.lease_many(race.one.criteria(), ["w"] * 2)
    await asyncio.gather(*(core.queue.raise_low_water() for core in (race.one, race.two) for _ in range(3)))
    assert min((await marks(race)).values()) > 0
    await everything_is_leased(race, 2)


async def test_requeues_of_many_lanes_lock_the_lanes_in_order(race: Race) -> None:
    for priority in (0, 1, 2):
        await race.submit(priority=priority)
    leases = await race.one.queue.lease_many(race.one.criteria(), ["w"] * 3)
    first, *others = sorted(await marks(race))
    backs = [Requeue(lease.dispatch_id, lease.lease_token, attempt_counts=False) for lease in leases]
    async with open_transaction(race.central, "SELECT 1 FROM dispatch_lanes WHERE lane_id = $1 FOR UPDATE", first):
        [returning] = await start_blocked(race.central, race.one.queue.requeue(backs))
        async with race.central.transaction() as connection:
            query = "SELECT 1 FROM dispatch_lanes WHERE lane_id = ANY ($1::bigint[]) FOR UPDATE NOWAIT"
            assert len(await connection.fetch(query, others)) == 2
    assert len(await returning) == 3
    await everything_is_leased(race, 3)
