"""A worker is given a job whose models it has loaded, as far as that is fair; nothing is lost on the way."""

from __future__ import annotations

import asyncio

import pytest

from callsheet.dispatch.facts import Lease
from callsheet.dispatch.order.affinity import AffinityLimits, Cold
from callsheet.dispatch.queue import Queue
from callsheet.jobs.lease.outcomes import StartedLease
from tests.support.jobs.core import Core, Member, report


@pytest.fixture
async def other(core: Core) -> int:
    """A second workflow, whose models are not loaded."""
    return await core.add_workflow()


async def take(core: Core, other: int, cold: Cold | None = None, worker: str = "gpu-1") -> StartedLease:
    """By a worker that has the models of the core's workflow loaded."""
    cold = {core.workflow: 0.0, other: 1.0} if cold is None else cold
    started = await core.room.starter.lease_and_start(core.criteria(core.workflow, other), worker, None, cold)
    assert started is not None
    return started


async def test_jobs_of_one_user_with_loaded_models_go_first_up_to_a_limit(core: Core, ann: Member, other: int) -> None:
    cold = await core.submit(ann, workflow_id=other)
    given = []
    # There are always warm ones.
    for _ in range(3):
        await core.submit(ann)
    for _ in range(6):
        started = await take(core, other)
        given.append(started.lease.job_id == cold.id)
        await core.room.leases.complete(report(started), {})
        await core.submit(ann)
    assert given == [False, False, False, False, True, False]
    assert core.queue.warm.preferred >= 4
    await core.check()


async def test_a_worker_that_reports_no_models_is_served_in_turn(core: Core, ann: Member, other: int) -> None:
    first = await core.submit(ann, workflow_id=other)
    await core.submit(ann)
    assert (await take(core, other, {})).lease.job_id == first.id
    assert core.queue.warm.preferred == 0


async def test_a_setting_turns_warm_leases_off(core: Core, ann: Member, other: int) -> None:
    queue = Queue(core.databases.central, affinity=AffinityLimits(look_ahead=0))
    criteria = core.criteria(core.workflow, other)
    assert await queue.lease(criteria, "gpu-1") is None
    first = await core.submit(ann, workflow_id=other)
    await core.submit(ann)
    queue.leasing.turns.mark_stale()
    lease = await queue.lease(criteria, "gpu-1", cold={core.workflow: 0.0, other: 1.0})
    assert lease is not None
    assert lease.job_id == first.id


async def test_the_next_job_is_leased_if_another_worker_took_the_warm_job(core: Core, ann: Member, other: int) -> None:
    """What is known of lanes may be behind what another control plane has taken."""
    cold = await core.submit(ann, workflow_id=other)
    await core.submit(ann)
    await core.queue.leasing.fresh_view(core.criteria(core.workflow, other))
    elsewhere = Queue(core.databases.central)
    taken = await elsewhere.lease(core.criteria(), "gpu-2")
    assert taken is not None
    assert (await take(core, other)).lease.job_id == cold.id
    assert core.queue.warm.preferred == 0


async def test_two_workers_that_want_the_same_warm_job_both_get_one(core: Core, ann: Member, other: int) -> None:
    cold, warm = await core.submit(ann, workflow_id=other), await core.submit(ann)
    both = await asyncio.gather(take(core, other), take(core, other, worker="gpu-2"))
    assert {started.lease.job_id for started in both} == {cold.id, warm.id}
    await core.check()


async def test_a_poll_that_leaves_while_its_warm_job_is_taken_gives_it_back(
    core: Core, ann: Member, other: int
) -> None:
    await core.submit(ann, workflow_id=other)
    warm = await core.submit(ann)
    queue, reached, go_on = core.queue, asyncio.Event(), asyncio.Event()
    lease_of = queue.warm.lease

    async def slow(*values: object) -> Lease | None:
        reached.set()
        await go_on.wait()
        return await lease_of(*values)  # type: ignore[arg-type]

    queue.warm.lease = slow  # type: ignore[method-assign]
    criteria = core.criteria(core.workflow, other)
    waiting = asyncio.create_task(queue.lease(criteria, "gpu-1", cold={core.workflow: 0.0, other: 1.0}))
    await reached.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    queue.warm.lease = lease_of  # type: ignore[method-assign]
    assert (await take(core, other)).lease.job_id == warm.id
    await core.check()


async def test_a_drained_worker_gets_no_warm_job_either(core: Core, ann: Member, other: int) -> None:
    await core.submit(ann, workflow_id=other)
    await core.submit(ann)
    await core.rows(
        core.databases.central, "INSERT INTO worker_drains (worker_id, drained_by) VALUES ('gpu-1', 'operator')"
    )
    criteria = core.criteria(core.workflow, other)
    assert await core.queue.lease(criteria, "gpu-1", cold={core.workflow: 0.0, other: 1.0}) is None
    for _ in range(2):
        await take(core, other, worker="gpu-2")
    await core.check()
