"""Workers that are not ordered, because they could not register or could not run what waits."""

from __future__ import annotations

from tests.support.core import Core, Member
from tests.support.fleet import join
from tests.support.scaling import ScalingHarness, an_autoscaler, queue


async def let_workers_lack(scaling: ScalingHarness, workflow: int) -> None:
    """All workers have engines that cannot run the workflow."""
    for query, values in (
        ("INSERT INTO worker_environments (digest, inventory) VALUES (sha256('image'), '{}')", ()),
        ("UPDATE comfyui_workers SET environment = sha256('image')", ()),
        ("INSERT INTO environment_lacks (digest, workflow_id, lacks) VALUES (sha256('image'), $1, '[]')", (workflow,)),
    ):
        await scaling.rows(query, *values)


async def test_no_worker_is_ordered_that_could_not_register(scaling: ScalingHarness, core: Core, ann: Member) -> None:
    """fleet.max_workers is the limit of all fleets together."""
    scaling.autoscaler = an_autoscaler(core.databases, scaling.cloud, most_workers=4)
    large = await scaling.fleet("large", maximum=6)
    await core.add_workflow("by-hand")
    await join(scaling.room, "by-hand", "by-hand")
    await queue(core, ann, 5)
    await scaling.look()
    await scaling.register(large)
    assert len(scaling.cloud.of(large.id)) == 3
    other = await core.add_workflow()
    small = await scaling.fleet("small", other, maximum=2)
    await queue(core, await core.member(), 1, workflow_id=other)
    await scaling.look()
    assert scaling.cloud.of(small.id) == []
    state = await scaling.rules.get(small.id)
    assert state.reason is not None
    assert state.reason.endswith("the installation has as many workers as fleet.max_workers allows.")


async def test_no_worker_is_ordered_for_jobs_that_the_workers_of_the_fleet_cannot_run(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    await queue(core, ann, 3)
    await scaling.look()
    assert len(await scaling.register(fleet)) == 3
    await let_workers_lack(scaling, core.workflow)
    # They are idle, as they get none of the jobs, and leave; none is ordered in their place.
    for _ in range(2):
        await scaling.look()
    assert scaling.cloud.of(fleet.id) == []
    for worker in await scaling.registered(fleet):
        await scaling.leave(worker)
    await scaling.look()
    state = await scaling.rules.get(fleet.id)
    assert (state.wanted, state.queued_jobs) == (0, 0)
    assert state.reason == (
        "No job waits and no worker runs. 3 jobs are not counted: the workers of the fleet cannot run their workflow."
    )
    # Nothing is known of the image any more: the next worker says what it has.
    await scaling.rows("DELETE FROM worker_environments")
    await scaling.look()
    assert len(scaling.cloud.of(fleet.id)) == 3


async def test_a_free_worker_of_another_fleet_that_cannot_run_a_job_does_not_count(
    scaling: ScalingHarness, core: Core, ann: Member
) -> None:
    fleet = await scaling.fleet()
    other = await scaling.fleet("other")
    await scaling.rules.remove(other.id, "operator")
    await join(scaling.room, "free", fleet_slug="other", stage=other.stage)
    await queue(core, ann, 1)
    await scaling.look()
    assert scaling.cloud.of(fleet.id) == [], "the free worker takes it"
    await let_workers_lack(scaling, core.workflow)
    await scaling.look()
    assert len(scaling.cloud.of(fleet.id)) == 1
