"""The autoscaler on real databases: fleets follow their queues, and no worker that has work is ended."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from callsheet.plumbing.database.databases import Databases
from callsheet.scaling.metrics import ScalingNumbers
from callsheet.wire.errors import Conflict, InvalidRequest, NotFound, WrongState
from callsheet.wire.fleet import UpdateFleetRequest
from callsheet.wire.operate.scaling import ScalingRequest, ScalingState
from tests.support.fleets.scaling_harness import NOW, ScalingHarness, fails, queue
from tests.support.http.fleet_api import join
from tests.support.jobs.core import Core, Member

STATE = set(ScalingState.model_fields)


async def test_a_fleet_grows_from_zero_to_one_at_the_first_job_and_shrinks_when_it_is_done(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await scaling.tick()
    assert scaling.cloud.calls == []
    await queue(core, ann, 1)
    await scaling.tick()
    await scaling.tick()
    assert scaling.cloud.calls == [("want", 1, 0)], "a worker that is coming is not ordered twice"
    [worker] = await scaling.register(fleet)
    started = await core.start(worker)
    await scaling.tick()
    assert await scaling.drains() == {}, "a worker with a job is left alone"
    await core.complete(started)
    await scaling.tick()
    assert await scaling.drains() == {worker: "autoscaler"}
    await scaling.tick()
    assert scaling.cloud.calls == [("want", 1, 0), ("end", worker)]
    await scaling.leave(worker)
    await scaling.tick()
    assert await scaling.drains() == {}, "a new worker of this name is not drained"
    assert await scaling.causes(fleet) == [
        ("steady", 0),
        ("first_job", 1),
        ("steady", 1),
        ("idle", 0),
        ("steady", 0),
    ]
    [events] = [[row["event"] for row in await scaling.rows("SELECT event FROM worker_audit_logs ORDER BY id")]]
    assert [event for event in events if event in ("drain", "ending")] == ["drain", "ending"]


async def test_a_worker_with_jobs_shorter_than_the_check_interval_is_kept(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 1)
    await scaling.tick()
    [worker] = await scaling.register(fleet)
    started = await core.start(worker)
    await scaling.tick()
    await core.complete(started)
    # The one that the look saw, and one that came and ended since.
    await scaling.rows("UPDATE worker_sessions SET jobs_completed = jobs_completed + 2, busy_seconds = 1")
    await scaling.tick()
    assert await scaling.drains() == {}
    await scaling.tick()
    assert await scaling.drains() == {worker: "autoscaler"}


async def test_an_unfilled_order_is_canceled_when_the_queue_is_empty(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    scaling.cloud.ordered = 0
    await scaling.fleet(maximum=3, warm_up_seconds=0)
    await queue(core, ann, 3)
    await scaling.tick()
    assert (scaling.cloud.ordered, scaling.cloud.calls) == (3, [("want", 3, 0)])
    await scaling.rows("DELETE FROM ai_job_dispatches")
    await scaling.tick()
    assert scaling.cloud.ordered == 0, "machines that come hours later would have nothing to do"


async def test_measured_run_times_decide_how_much_work_waits(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    fleet = await scaling.fleet(maximum=10, target_seconds=120)
    await queue(core, ann, 4)
    await scaling.rows(
        "INSERT INTO workflow_timings (workflow_id, average_seconds, samples) VALUES ($1, 90, 10)", core.workflow
    )
    await scaling.tick()
    state = await scaling.rules.get(fleet.id)
    assert (state.queued_jobs, state.queued_seconds, state.wanted) == (4, 360.0, 3)
    assert state.reason == "4 jobs wait (360 s of work), which needs 3 workers: 3 workers are ordered."


async def test_jobs_that_cannot_be_leased_now_order_no_worker(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 1)
    await scaling.rows("UPDATE ai_job_dispatches SET not_before = clock_timestamp() + interval '1 hour'")
    await scaling.tick()
    assert (await scaling.rules.get(fleet.id)).wanted == 0
    await queue(core, ann, 1, stage="staging")
    await scaling.tick()
    assert (await scaling.rules.get(fleet.id)).wanted == 0, "another stage is another queue"


async def test_free_workers_of_other_fleets_take_jobs_first(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    fleet = await scaling.fleet()
    [row] = await scaling.rows("SELECT slug FROM workflows WHERE id = $1", core.workflow)
    await join(scaling.room, "always-on", row["slug"], max_concurrency=2)
    await queue(core, ann, 2)
    await scaling.tick()
    assert (await scaling.rules.get(fleet.id)).wanted == 0
    await queue(core, ann, 1)
    await scaling.tick()
    assert (await scaling.rules.get(fleet.id)).wanted == 1


async def test_two_fleets_share_a_queue_and_a_failing_fleet_gets_no_part(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    small, large = await scaling.fleet("small", maximum=1), await scaling.fleet("large", maximum=5)
    await queue(core, ann, 1)
    await scaling.tick()
    assert (scaling.cloud.of(small.id), len(scaling.cloud.of(large.id))) == ([], 1), "one job, one worker"
    await scaling.rows("UPDATE fleet_scaling SET driver_failures = 3 WHERE fleet_id = $1", large.id)
    await scaling.tick()
    assert len(scaling.cloud.of(small.id)) == 1


async def test_workers_started_by_hand_count_and_are_not_ended(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet(maximum=2)
    await join(scaling.room, "by-hand", fleet_slug="gpu", stage="production")
    await queue(core, ann, 1)
    await scaling.tick()
    assert scaling.cloud.calls == [], "it takes the job"
    await queue(core, ann, 3)
    await scaling.tick()
    assert scaling.cloud.calls == [("want", 1, 0)], "the maximum counts it"
    await scaling.register(fleet)
    await scaling.rows("DELETE FROM ai_job_dispatches")
    await scaling.tick()
    assert await scaling.drains() == {"gpu-1": "autoscaler"}


async def test_a_persons_drain_is_neither_undone_nor_ended(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    fleet = await scaling.fleet(maximum=2, minimum=1)
    await scaling.tick()
    [worker] = await scaling.register(fleet)
    await scaling.room.workers.drain(worker, "user:ann", "new disk")
    await queue(core, ann, 3)
    await scaling.tick()
    await scaling.tick()
    assert await scaling.drains() == {worker: "user:ann"}
    assert scaling.cloud.calls == [("want", 1, 0), ("want", 2, 0)], "the machine is there, and one more may be"


async def test_an_operator_who_repeats_a_drain_of_the_autoscaler_keeps_the_worker(scaling: ScalingHarness) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    [worker] = await scaling.register(fleet)
    await scaling.tick()
    await scaling.scale(fleet, minimum=0)
    await scaling.tick()
    assert await scaling.drains() == {worker: "autoscaler"}
    await scaling.room.workers.drain(worker, "user:ann")
    await scaling.tick()
    assert await scaling.drains() == {worker: "user:ann"}
    assert scaling.cloud.of(fleet.id) == [worker]


async def test_new_work_brings_a_draining_worker_back_before_one_is_ordered(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet(minimum=2)
    await scaling.tick()
    one, two = await scaling.register(fleet)
    for each in (one, two):
        await queue(core, ann, 1)
        await core.start(each)
    await scaling.scale(fleet, maximum=1)
    await scaling.tick()
    assert list((await scaling.drains()).values()) == ["autoscaler"], "above the maximum a busy one finishes"
    await scaling.scale(fleet, maximum=2)
    await queue(core, ann, 3)
    await scaling.tick()
    assert await scaling.drains() == {}
    assert scaling.cloud.calls == [("want", 2, 0)]


async def test_a_worker_that_is_being_ended_cannot_be_undrained(scaling: ScalingHarness) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    [worker] = await scaling.register(fleet)
    await scaling.scale(fleet)
    await scaling.tick()
    scaling.cloud.fault = fails("end")
    await scaling.tick()
    with pytest.raises(WrongState, match="autoscaler is ending this worker"):
        await scaling.room.workers.undrain(worker, "user:ann")
    await scaling.rules.remove(fleet.id, "operator")
    await scaling.room.workers.undrain(worker, "user:ann")
    assert await scaling.drains() == {}, "where nothing scales the fleet any more, nobody ends it"


async def test_a_worker_that_never_registers_is_ended_and_replaced(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet(warm_up_seconds=0, maximum=1)
    await queue(core, ann, 1)
    await scaling.tick()
    assert scaling.cloud.of(fleet.id) == ["gpu-1"]
    await scaling.tick()
    await scaling.tick()
    await scaling.tick()
    await scaling.tick()
    assert ("end", "gpu-1") in scaling.cloud.calls
    assert scaling.cloud.peak == 1, "never above the maximum, not even for a moment"
    assert [name for name in scaling.cloud.of(fleet.id) if name != "gpu-1"]


async def test_an_unregistered_worker_stays_while_workers_with_unknown_ids_are_in_the_fleet(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    """Where workers register under other ids than the driver has, ending by its ids would end those at work."""
    fleet = await scaling.fleet(warm_up_seconds=0, minimum=1)
    await scaling.tick()
    await join(scaling.room, "another-name", fleet_slug="gpu", stage="production")
    for _ in range(4):
        await scaling.tick()
    assert scaling.cloud.of(fleet.id) == ["gpu-1"]


async def test_a_disabled_fleet_is_scaled_to_zero(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    await scaling.register(fleet)
    await queue(core, ann, 3)
    await scaling.room.fleets.update(fleet.id, UpdateFleetRequest(is_active=False), "operator")
    await scaling.tick()
    await scaling.tick()
    assert scaling.cloud.of(fleet.id) == []


async def test_no_worker_is_removed_while_a_pool_is_unavailable(
    scaling: ScalingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    await scaling.register(fleet)
    await scaling.scale(fleet)
    monkeypatch.setattr(Databases, "unavailable", property(lambda self: {"pool_2": "gone"}))
    await scaling.tick()
    assert await scaling.drains() == {}
    assert await scaling.causes(fleet) == [("below_minimum", 1), ("unknown_queue", 1)]
    reason = (await scaling.rules.get(fleet.id)).reason
    assert reason == "No worker goes: Pool pool_2 is not served, so its part of the queue is unknown."


@pytest.mark.parametrize(
    "column", ["installation_id = gen_random_uuid()", "central_database = 1", "central_system = 1"]
)
async def test_a_copy_of_the_database_scales_no_fleet_until_an_operator_confirms_it(
    scaling: ScalingHarness, core: Core, ann: Member, column: str
) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 4)
    await scaling.rows(f"UPDATE fleet_scaling SET {column}")
    await scaling.tick()
    await scaling.tick()
    assert scaling.cloud.calls == []
    assert await scaling.causes(fleet) == [("paused", 0)]
    await scaling.scale(fleet)
    await scaling.tick()
    assert scaling.cloud.calls == [("want", 3, 0)]


async def test_a_possible_copy_scales_no_fleet(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    await scaling.fleet()
    await queue(core, ann, 4)
    await scaling.rows("UPDATE installation SET possible_copy_at = now()")
    try:
        await scaling.tick()
    finally:
        await scaling.rows("UPDATE installation SET possible_copy_at = NULL")
    assert scaling.cloud.calls == []


@pytest.mark.parametrize("call", ["actual", "want"])
async def test_a_failing_driver_is_recorded_and_retried(
    scaling: ScalingHarness, core: Core, ann: Member, call: str
) -> None:
    fleet, other = await scaling.fleet(), await scaling.fleet("other", await core.add_workflow(), minimum=1)
    await queue(core, ann, 1)
    scaling.cloud.fault = fails(call)
    await scaling.tick()
    await scaling.tick()
    state = await scaling.rules.get(fleet.id)
    assert (state.driver_error, state.queued_jobs) == ("The cloud is away.", 1)
    since = state.driver_failing_since
    assert since is not None
    scaling.cloud.fault = lambda call, when: None
    await scaling.tick()
    await scaling.tick()
    assert (await scaling.rules.get(fleet.id)).driver_error is None
    assert [len(scaling.cloud.of(each.id)) for each in (fleet, other)] == [1, 1]


async def test_a_driver_that_timed_out_after_it_acted_is_not_asked_for_more(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet(maximum=2)
    await queue(core, ann, 3)
    scaling.cloud.fault = fails("want", "after")
    for _ in range(3):
        await scaling.tick()
    assert (len(scaling.cloud.of(fleet.id)), scaling.cloud.peak) == (2, 2)
    await scaling.register(fleet)
    await scaling.rows("DELETE FROM ai_job_dispatches")
    scaling.cloud.fault = fails("end", "after")
    for _ in range(3):
        await scaling.tick()
    assert scaling.cloud.of(fleet.id) == []


async def test_a_driver_with_a_bug_does_not_delay_other_fleets(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet(minimum=1)

    def broken(call: str, when: str) -> None:
        raise KeyError("region")

    scaling.cloud.fault = broken
    await scaling.tick()
    state = await scaling.rules.get(fleet.id)
    assert state.driver_error == "The driver failed with KeyError; the log has the traceback."
    await scaling.rows("UPDATE fleet_scaling SET driver = 'gone'")
    await scaling.tick()
    assert "no driver 'gone'" in str((await scaling.rules.get(fleet.id)).driver_error)


async def test_rules_are_checked_by_name_and_a_scaled_fleet_cannot_be_deleted(scaling: ScalingHarness) -> None:
    fleet = await scaling.fleet()
    for rules, field in [
        ({"driver": "nothing"}, "driver"),
        ({"minimum": 4}, "minimum"),
        ({"on_demand_minimum": 4}, "on_demand_minimum"),
    ]:
        with pytest.raises(InvalidRequest) as refused:
            await scaling.scale(fleet, **rules)
        assert [error.field for error in refused.value.errors] == [field]
    with pytest.raises(Conflict, match="Stop scaling the fleet first"):
        await scaling.room.fleets.delete(fleet.id, "operator")
    await scaling.rules.remove(fleet.id, "operator")
    with pytest.raises(NotFound, match="not scaled"):
        await scaling.rules.remove(fleet.id, "operator")
    await scaling.room.fleets.delete(fleet.id, "operator")
    with pytest.raises(NotFound, match="no such fleet"):
        await scaling.rules.put(fleet.id, ScalingRequest(driver="cloud"), "operator")


async def test_switching_the_autoscaler_off_undrains_its_workers(scaling: ScalingHarness) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    await scaling.register(fleet)
    await scaling.scale(fleet)
    await scaling.tick()
    assert len(await scaling.drains()) == 1
    await scaling.rules.remove(fleet.id, "operator")
    assert await scaling.drains() == {}
    [row] = await scaling.rows("SELECT desired_workers FROM gpu_fleets WHERE id = $1", fleet.id)
    assert row["desired_workers"] is None


async def test_decisions_are_listed_newest_first_and_old_ones_are_deleted(scaling: ScalingHarness) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    await scaling.scale(fleet, minimum=2)
    await scaling.tick()
    page = await scaling.rules.decisions(fleet.id, None, 1)
    assert [(each.wanted, each.cause) for each in page.items] == [(2, "below_minimum")]
    assert page.next_cursor is not None
    rest = await scaling.rules.decisions(fleet.id, int(page.next_cursor), 10)
    assert [each.wanted for each in rest.items] == [1]
    await scaling.rows("UPDATE scaling_decisions SET at = at - interval '91 days'")
    scaling.autoscaler._ticks = 0
    await scaling.tick()
    assert [each.cause for each in (await scaling.rules.decisions(fleet.id, None, 10)).items] == ["steady"]


async def test_a_job_says_that_a_worker_is_starting_and_how_long_that_takes(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await scaling.rows("""UPDATE fleet_scaling SET memory = '{"start_seconds": 40}'""")
    await queue(core, ann, 1)
    await scaling.tick()
    route = (core.workflow, "production", "self_hosted")
    found = (await scaling.room.capacity.of([route]))[route]
    assert found.scaling_up
    assert found.starts_in_seconds is not None
    assert 0 < found.starts_in_seconds <= 40
    scaling.cloud.fault = fails("actual")
    await scaling.tick()
    found = (await scaling.room.capacity.of([route]))[route]
    assert not found.scaling_up, "none is starting while the driver fails"
    assert (await scaling.room.fleets.get(fleet.id)).desired_workers == 1


async def test_the_list_of_fleets_shows_wanted_and_actual_size_reason_and_last_decisions(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await scaling.tick()
    await queue(core, ann, 1)
    await scaling.tick()
    [listed] = (await scaling.room.fleets.list(None, None, None, 10)).items
    assert listed.scaling is not None
    assert (listed.scaling.wanted, listed.scaling.actual, listed.scaling.existing) == (1, 0, 0)
    assert listed.scaling.reason == "1 job waits (60 s of work), which needs 1 worker: 1 worker is ordered."
    assert [each.cause for each in listed.scaling.decisions] == ["first_job", "steady"]
    assert listed.scaling == ScalingState(**(await scaling.rules.get(fleet.id)).model_dump(include=STATE))


async def test_the_metrics_come_from_the_leading_control_plane(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 1)
    await scaling.tick()
    scaling.cloud.fault = fails("actual")
    await scaling.tick()
    text = generate_latest(registry_of(scaling.numbers)).decode()
    for line in (
        "callsheet_autoscaler_leads 1.0",
        'callsheet_fleet_wanted_workers{fleet="gpu",stage="production"} 1.0',
        'callsheet_fleet_actual_workers{fleet="gpu",stage="production"} 0.0',
        'callsheet_fleet_queue_seconds{fleet="gpu",stage="production"} 60.0',
        'callsheet_scaling_decisions_total{cause="first_job",fleet="gpu",stage="production"} 1.0',
        'callsheet_scaling_driver_errors_total{fleet="gpu",stage="production"} 1.0',
    ):
        assert line in text
    await scaling.rules.remove(fleet.id, "operator")
    await scaling.autoscaler.tick(NOW)
    text = generate_latest(registry_of(scaling.numbers)).decode()
    assert "callsheet_autoscaler_leads 0.0" in text
    assert "wanted_workers{" not in text


def registry_of(numbers: ScalingNumbers) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(numbers)
    return registry
