"""Workers that are not ordered, because they could not register or could not run the waiting jobs."""

from __future__ import annotations

from callsheet.catalog.engines.environments import forget_unused
from callsheet.wire.fleet import Fleet
from tests.support.fleets.scaling_harness import ScalingHarness, an_autoscaler, queue
from tests.support.http.fleet_api import join
from tests.support.jobs.core import Core, Member

MODEL = '[{"kind": "model", "name": "sdxl.safetensors"}]'
IMAGE = "sha256('image')"


async def let_workers_lack(scaling: ScalingHarness, workflow: int) -> None:
    """All workers have engines that cannot run the workflow."""
    for query, values in (
        (f"INSERT INTO worker_environments (digest, inventory) VALUES ({IMAGE}, '{{}}') ON CONFLICT DO NOTHING", ()),
        (f"UPDATE comfyui_workers SET environment = {IMAGE}", ()),
        (
            "INSERT INTO environment_lacks (digest, workflow_id, lacks) "
            f"VALUES ({IMAGE}, $1, '{MODEL}') ON CONFLICT DO NOTHING",
            (workflow,),
        ),
    ):
        await scaling.rows(query, *values)


async def leave_all(scaling: ScalingHarness, fleet: Fleet) -> None:
    """The workers that the autoscaler ended are gone, for longer than an environment without workers is kept."""
    assert scaling.cloud.of(fleet.id) == []
    for worker in await scaling.registered(fleet):
        await scaling.leave(worker)
    await scaling.rows("UPDATE worker_environments SET last_used_at = last_used_at - interval '1 day'")
    async with scaling.core.databases.central.connection() as connection:
        await forget_unused(connection)


async def test_no_worker_is_ordered_that_could_not_register(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    """fleet.max_workers is the limit of all fleets together."""
    scaling.autoscaler = an_autoscaler(core.databases, scaling.cloud, max_workers=4)
    large = await scaling.fleet("large", maximum=6)
    await core.add_workflow("by-hand")
    await join(scaling.room, "by-hand", "by-hand")
    await queue(core, ann, 5)
    await scaling.tick()
    await scaling.register(large)
    assert len(scaling.cloud.of(large.id)) == 3
    other = await core.add_workflow()
    small = await scaling.fleet("small", other, maximum=2)
    await queue(core, await core.member(), 1, workflow_id=other)
    await scaling.tick()
    assert scaling.cloud.of(small.id) == []
    state = await scaling.rules.get(small.id)
    assert state.reason is not None
    assert state.reason.endswith("the installation has as many workers as fleet.max_workers allows.")


async def test_a_fleet_whose_image_lacks_a_model_starts_no_worker_until_an_operator_says_so(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 3)
    await scaling.tick()
    assert len(await scaling.register(fleet)) == 3
    await let_workers_lack(scaling, core.workflow)
    # They are idle, as they get none of the jobs, and leave; none is ordered in their place.
    await scaling.tick()
    state = await scaling.rules.get(fleet.id)
    assert str(state.reason).endswith(
        "3 workers go. 3 jobs are not counted, because the workers of the fleet cannot run them. "
        "No worker has the model sdxl.safetensors."
    )
    await scaling.tick()
    await leave_all(scaling, fleet)
    for _ in range(3):
        await scaling.tick()
    state = await scaling.rules.get(fleet.id)
    assert (state.wanted, state.queued_jobs, state.cause) == (0, 0, "cannot_run")
    assert state.reason == (
        "3 jobs wait that the workers of this fleet cannot run, so none is started. "
        "No worker has the model sdxl.safetensors."
    )
    assert (await scaling.causes(fleet))[-1] == ("cannot_run", 0)
    route = (core.workflow, "production", "self_hosted")
    assert (await scaling.room.capacity.of([route]))[route].missing == "No worker has the model sdxl.safetensors."
    assert scaling.cloud.of(fleet.id) == []
    # The operator has corrected the image, and sets the same rules again.
    await scaling.scale(fleet)
    await scaling.tick()
    assert len(scaling.cloud.of(fleet.id)) == 3


async def test_one_worker_is_started_after_some_hours_to_test_a_corrected_image(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 3)
    await scaling.tick()
    await scaling.register(fleet)
    await let_workers_lack(scaling, core.workflow)
    for _ in range(2):
        await scaling.tick()
    await leave_all(scaling, fleet)
    for _ in range(2):
        await scaling.rows("UPDATE fleet_environments SET seen_at = seen_at - interval '6 hours'")
        for _ in range(2):
            await scaling.tick()
        assert len(await scaling.register(fleet)) == 1, "one worker, whatever the number of jobs"
        await let_workers_lack(scaling, core.workflow)
        for _ in range(2):
            await scaling.tick()
        await leave_all(scaling, fleet)
        await scaling.tick()
        assert scaling.cloud.of(fleet.id) == []
    # A workflow that requires less is compared with the kept environment, without a worker.
    await scaling.rows("DELETE FROM environment_lacks")
    await scaling.tick()
    assert len(scaling.cloud.of(fleet.id)) == 3


async def test_an_environment_is_kept_as_long_as_a_scaled_fleet_has_it(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet(minimum=1)
    await scaling.tick()
    await scaling.register(fleet)
    await let_workers_lack(scaling, core.workflow)
    await scaling.tick()
    kept = "SELECT digest = sha256('image') AS is_image FROM fleet_environments"
    assert [row["is_image"] for row in await scaling.rows(kept)] == [True]
    # A worker with an unknown environment may run everything, and so may the next ones.
    await scaling.rows("UPDATE comfyui_workers SET environment = NULL")
    await scaling.tick()
    assert await scaling.rows(kept) == []
    await let_workers_lack(scaling, core.workflow)
    await scaling.tick()
    await scaling.rules.remove(fleet.id, "operator")
    assert await scaling.rows(kept) == []


async def test_a_free_worker_of_another_fleet_that_cannot_run_a_job_does_not_count(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    other = await scaling.fleet("other")
    await scaling.rules.remove(other.id, "operator")
    await join(scaling.room, "free", fleet_slug="other", stage=other.stage)
    await queue(core, ann, 1)
    await scaling.tick()
    assert scaling.cloud.of(fleet.id) == [], "the free worker takes it"
    await let_workers_lack(scaling, core.workflow)
    await scaling.tick()
    assert len(scaling.cloud.of(fleet.id)) == 1
