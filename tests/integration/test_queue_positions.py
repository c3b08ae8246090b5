"""The position of a job in the queue counts the jobs that would be leased before it, and no others."""

from __future__ import annotations

from typing import Any

from callsheet.dispatch.positions import MAX_AHEAD, QueuePosition
from callsheet.plumbing.database.databases import Databases
from callsheet.toolbox.ids import uuid7
from callsheet.wire.jobs import Job
from tests.support.jobs.core import Core, Member, job_ids, open_core, report

COPY = """
INSERT INTO ai_job_dispatches (tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, deadline_at)
SELECT tenant_id, user_id, gen_random_uuid(), 1, lane_id, workflow_id, stage, provider, concurrency_identifier,
    priority, kind, deadline_at
FROM ai_job_dispatches, generate_series(1, $2) WHERE tenant_job_id = $1
"""


async def position_of(core: Core, member: Member, job: Job) -> QueuePosition | None:
    key = (member.tenant_id, job.id, job.charge_cycle)
    return (await core.room.dispatch.positions.of_jobs([key])).get(key)


async def ahead(core: Core, member: Member, job: Job) -> int | None:
    found = await position_of(core, member, job)
    assert found is not None
    return found.ahead


async def crowd(core: Core, job: Job, count: int) -> None:
    """So many more of the same lane, behind it."""
    await core.rows(core.databases.central, COPY, job.id, count)


async def test_earlier_and_more_urgent_jobs_are_ahead(core: Core, ann: Member) -> None:
    jobs = [await core.submit(ann, priority=priority) for priority in (0, 5, 0, -1)]
    assert [await ahead(core, ann, job) for job in jobs] == [1, 0, 2, 3]
    # As a worker takes them.
    for number in (1, 0, 2, 3):
        assert (await core.start()).lease.job_id == jobs[number].id


async def test_only_jobs_for_the_same_workers_are_ahead(core: Core, ann: Member) -> None:
    other = await core.add_workflow()
    changes: list[dict[str, Any]] = [{"workflow_id": other}, {"stage": "staging"}, {"provider": "cloud"}]
    for change in changes:
        await core.submit(ann, **change)
    job = await core.submit(ann)
    assert await ahead(core, ann, job) == 0


async def test_running_and_delayed_jobs_are_not_ahead(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=100).prepare()
    ann = await core.member()
    running, delayed, job = [await core.submit(ann) for _ in range(3)]
    assert (await core.start()).lease.job_id == running.id
    later = await core.start()
    await core.fail(later, retryable=True)
    assert await ahead(core, ann, job) == 0
    found = await position_of(core, ann, delayed)
    assert found is not None
    assert (found.status, found.not_before is not None, found.ahead) == ("queued", True, 0)
    held = await position_of(core, ann, running)
    assert held is not None
    assert (held.status, held.ahead, held.last_leased_at is not None) == ("leased", None, True)


async def test_positions_skip_a_lane_at_its_limit_as_a_lease_does(core: Core, ann: Member) -> None:
    await core.room.dispatch.limits.set("narrow", 1, "test")
    await core.room.dispatch.limits.set("wide", 9, "test")
    first, second = [await core.submit(ann, concurrency_identifier="narrow") for _ in range(2)]
    wide = await core.submit(ann, concurrency_identifier="wide")
    plain = await core.submit(ann)
    assert [await ahead(core, ann, job) for job in (first, second, wide, plain)] == [0, 1, 2, 3]
    assert (await core.start()).lease.job_id == first.id
    # The limit of `narrow` is reached: jobs that wait for it delay only jobs that also wait for it.
    assert [await ahead(core, ann, job) for job in (second, wide, plain)] == [0, 0, 1]
    found = await position_of(core, ann, second)
    assert found is not None
    assert (found.max_concurrent, found.in_use) == (1, 1)
    assert (await core.start()).lease.job_id == wide.id
    page = await core.room.dispatch.limits.page(None, 10)
    assert [(one.identifier, one.max_concurrent, one.in_use) for one in page.items] == [
        ("narrow", 1, 1),
        ("wide", 9, 1),
    ]


async def test_positions_are_counted_up_to_a_thousand(core: Core, ann: Member) -> None:
    first = await core.submit(ann, priority=1)
    await crowd(core, first, 400)
    second = await core.submit(ann)
    assert await ahead(core, ann, second) == 401
    await crowd(core, second, 900)
    last = await core.submit(ann)
    assert await ahead(core, ann, last) == MAX_AHEAD == 1001


async def test_raised_low_water_marks_hide_no_job(core: Core, ann: Member) -> None:
    jobs = [await core.submit(ann) for _ in range(4)]
    started = [await core.start(), await core.start()]
    await core.queue.raise_low_water()
    assert [await ahead(core, ann, job) for job in jobs[2:]] == [0, 1]
    await core.room.leases.requeue(report(started[0]), "spot")
    assert [await ahead(core, ann, job) for job in (jobs[0], *jobs[2:])] == [0, 1, 2]


async def test_a_job_of_another_tenant_with_the_same_id_has_its_own_position(core: Core, ann: Member) -> None:
    bob = await core.member("pool_2")
    shared = uuid7()
    with job_ids(shared, shared):
        mine = await core.submit(ann)
        theirs = await core.submit(bob, priority=3)
    assert await ahead(core, ann, mine) == 1
    assert await ahead(core, bob, theirs) == 0
    keys = [(ann.tenant_id, shared, 1), (bob.tenant_id, shared, 1), (ann.tenant_id, shared, 2)]
    assert set(await core.room.dispatch.positions.of_jobs(keys)) == set(keys[:2])


async def test_a_finished_or_unknown_job_has_no_position(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    await core.complete(await core.start())
    assert await position_of(core, ann, job) is None
    assert await core.room.dispatch.positions.of_jobs([]) == {}
