"""Two autoscalers, a lease, a person, a crash at the same moment: no busy worker is ended, and the maximum holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from callsheet.fleet.fleets.retiring import begin_to_end, reinstate, retire
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.failpoints import Failpoint
from callsheet.plumbing.leadership import Leadership
from callsheet.scaling.driver import Actual, ScaledFleet
from callsheet.wire.errors import WrongState
from callsheet.wire.fleet import Fleet
from tests.support.fleets.scaling_harness import NOW, MemoryDriver, ScalingHarness, an_autoscaler, fails, harness
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import start_blocked
from tests.support.waiting import until


@pytest.fixture
async def scaling(race: Race) -> AsyncIterator[ScalingHarness]:
    """Of the first control plane."""
    opened = harness(race.one)
    yield opened
    await opened.autoscaler.stop()
    await opened.rows("DELETE FROM fleet_scaling")


async def an_idle_worker(scaling: ScalingHarness) -> tuple[Fleet, str]:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    [worker] = await scaling.register(fleet)
    await scaling.scale(fleet)
    return fleet, worker


async def test_one_of_two_autoscalers_acts_and_the_other_takes_over_when_it_dies(
    scaling: ScalingHarness, race: Race
) -> None:
    fleet = await scaling.fleet(minimum=1)
    second = an_autoscaler(race.two.databases, scaling.cloud)
    try:
        await scaling.tick()
        await second.tick(NOW)
        assert (scaling.autoscaler.leadership.is_held, second.leadership.is_held) == (True, False)
        assert scaling.cloud.calls == [("want", 1, 0)]
        await scaling.scale(fleet, minimum=2)
        # The first one dies: the kernel closes its connection.
        await scaling.autoscaler.leadership.close()

        async def follows() -> bool:
            await second.tick(NOW)
            return second.leadership.is_held

        await until(follows)
        assert scaling.cloud.calls == [("want", 1, 0), ("want", 2, 0)]
        await scaling.autoscaler.tick(NOW)
        assert not scaling.autoscaler.leadership.is_held
    finally:
        await second.stop()


async def test_a_process_that_lost_the_lock_records_nothing(race: Race) -> None:
    one, two = (Leadership(each.databases.central, "a test") for each in (race.one, race.two))
    try:
        assert await one.take()
        assert not await two.take()
        async with one.connection() as connection:
            process = connection.get_server_pid()
        async with race.central.connection() as connection:
            await connection.execute("SELECT pg_terminate_backend($1, 5000)", process)
        assert await two.take()
        with pytest.raises(DATABASE_AWAY):
            async with one.transaction() as connection:
                await connection.execute("SELECT 1")
        assert not await one.take()
    finally:
        await one.close()
        await two.close()


async def test_a_process_that_is_paused_loses_the_lock(race: Race) -> None:
    """Its session says nothing; the server ends it."""
    one = Leadership(race.one.databases.central, "a test", silent_seconds=0.2)
    two = Leadership(race.two.databases.central, "a test")
    try:
        assert await one.take()
        await until(two.take)
        # The first thing it hears is that its connection is gone.
        with suppress(*DATABASE_AWAY):
            await one.take()
        assert not await one.take()
    finally:
        await one.close()
        await two.close()


@pytest.mark.parametrize("point", [Failpoint.SCALING_RECORDED_BEFORE_DRIVER, Failpoint.SCALING_ORDERED_BEFORE_END])
async def test_the_next_autoscaler_executes_a_decision_once_after_a_crash(
    scaling: ScalingHarness, race: Race, point: Failpoint
) -> None:
    fleet = await scaling.fleet(maximum=2)
    for _ in range(4):
        await race.submit()
    assert await crashed_at(point, scaling.autoscaler.tick(NOW))
    await scaling.autoscaler.leadership.close()
    second = an_autoscaler(race.two.databases, scaling.cloud)
    try:
        for _ in range(3):
            await second.tick(NOW)
    finally:
        await second.stop()
    assert (len(scaling.cloud.of(fleet.id)), scaling.cloud.peak) == (2, 2)
    assert await scaling.causes(fleet) == [("first_job", 2), ("at_maximum", 2)], "decided once"


async def test_the_next_autoscaler_ends_the_worker_after_a_crash(scaling: ScalingHarness, race: Race) -> None:
    fleet, worker = await an_idle_worker(scaling)
    await scaling.tick()
    assert await crashed_at(Failpoint.SCALING_RECORDED_BEFORE_DRIVER, scaling.autoscaler.tick(NOW))
    assert scaling.cloud.of(fleet.id) == [worker]
    await scaling.autoscaler.leadership.close()
    second = an_autoscaler(race.two.databases, scaling.cloud)
    try:
        await second.tick(NOW)
    finally:
        await second.stop()
    assert scaling.cloud.of(fleet.id) == []


async def test_an_autoscaler_with_an_old_view_orders_nothing_above_the_maximum(
    scaling: ScalingHarness, race: Race
) -> None:
    """Both believe to lead: each has read before the other acted. Numbers are absolute, so they agree."""
    fleet = await scaling.fleet(maximum=2)
    for _ in range(4):
        await race.submit()
    scaling.cloud.fault = fails("want", "after")
    await scaling.tick()
    await scaling.autoscaler.leadership.close()
    second = an_autoscaler(race.two.databases, scaling.cloud)
    try:
        await second.tick(NOW)
        await second.leadership.close()
        await scaling.tick()
    finally:
        await second.stop()
    assert (len(scaling.cloud.of(fleet.id)), scaling.cloud.peak) == (2, 2)


async def test_a_lease_under_way_keeps_its_worker_from_being_retired(scaling: ScalingHarness, race: Race) -> None:
    _, worker = await an_idle_worker(scaling)
    await race.submit()
    async with race.one.databases.central.transaction() as connection:
        # A lease that has asked whether its worker is drained, and is not committed yet.
        assert await connection.fetchval("SELECT drained_workers(ARRAY[$1])", worker) == []
        [retiring] = await start_blocked(race.central, _retire(race, worker))
        await connection.execute(
            """UPDATE ai_job_dispatches SET status = 'leased', worker_id = $1, lease_token = gen_random_uuid(),
                   lease_seq = 1, attempts = 1, leased_at = now(), last_leased_at = now(),
                   lease_expires_at = now() + interval '1 h' WHERE workflow_id = $2""",
            worker,
            race.one.workflow,
        )
    assert await retiring == []
    assert await scaling.drains() == {}


async def _retire(race: Race, worker: str) -> list[str]:
    async with race.central.transaction() as connection:
        return await retire(connection, [worker], "A test.")


async def test_a_retired_worker_with_a_lease_is_not_ended(scaling: ScalingHarness, race: Race) -> None:
    fleet, worker = await an_idle_worker(scaling)
    await race.submit()
    started = await race.one.start(worker)
    async with race.central.transaction() as connection:
        assert await retire(connection, [worker], "A test.", also_busy=True) == [worker]
    for _ in range(3):
        await scaling.tick()
    assert scaling.cloud.of(fleet.id) == [worker]
    await race.one.complete(started)
    for _ in range(2):
        await scaling.tick()
    assert scaling.cloud.of(fleet.id) == []


async def test_no_lease_follows_a_worker_whose_end_is_recorded(scaling: ScalingHarness, race: Race) -> None:
    _, worker = await an_idle_worker(scaling)
    await race.submit()
    async with race.central.transaction() as connection:
        await retire(connection, [worker], "A test.")
        [leasing] = await start_blocked(race.one.databases.central, race.one.lease(worker))
        assert await begin_to_end(connection, [worker]) == [worker]
    assert await leasing is None


async def test_a_person_who_undrains_first_keeps_the_worker(scaling: ScalingHarness, race: Race) -> None:
    _, worker = await an_idle_worker(scaling)
    await scaling.tick()
    async with race.one.databases.central.transaction() as connection:
        await connection.execute("DELETE FROM worker_drains WHERE worker_id = $1", worker)
        [ending] = await start_blocked(race.central, _begin_to_end(race, worker))
    assert await ending == []


async def _begin_to_end(race: Race, worker: str) -> list[str]:
    async with race.central.transaction() as connection:
        return await begin_to_end(connection, [worker])


async def test_a_person_who_undrains_after_the_end_is_recorded_is_refused(scaling: ScalingHarness, race: Race) -> None:
    _, worker = await an_idle_worker(scaling)
    await scaling.tick()
    async with race.central.transaction() as connection:
        assert await begin_to_end(connection, [worker]) == [worker]
        [undraining] = await start_blocked(race.central, scaling.room.workers.undrain(worker, "user:ann"))
    with pytest.raises(WrongState, match="is ending this worker"):
        await undraining
    async with race.central.transaction() as connection:
        assert await reinstate(connection, [worker]) == []


async def test_rules_that_change_during_a_decision_apply(scaling: ScalingHarness, race: Race) -> None:
    """The decision by the old rules is dropped, and made again by the new ones at the next look."""
    fleet = await scaling.fleet(minimum=1)

    class Slow(MemoryDriver):
        async def actual(self, fleet: ScaledFleet) -> Actual:
            await scaling.rules.remove(fleet.id, "operator")
            return await MemoryDriver.actual(self, fleet)

    slow = Slow()
    scaling.autoscaler = an_autoscaler(race.one.databases, slow)
    await scaling.tick()
    assert slow.calls == []
    assert await scaling.causes(fleet) == []
