"""A job that stops engines: it goes behind others of its priority, and fails the second time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from callsheet.jobs.lease.outcomes import Failure
from tests.support.jobs.core import Core, Member, report
from tests.support.jobs.job_states import REFUNDED, RESERVED, active_dispatch, finished_dispatch, running_job

WEDGE = Failure(
    "engine_stuck", "The engine stopped working on the run.", {"node_id": "3", "node_type": "Broken"}, retryable=True
)


async def later(core: Core) -> None:
    await core.queue.promote(datetime.now(UTC) + timedelta(days=1))


async def test_a_job_that_stopped_an_engine_goes_behind_younger_jobs_of_its_priority(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    younger = await core.submit(ann)
    outcome = await core.room.leases.fail(report(started), WEDGE)
    assert outcome.status == "queued"
    await later(core)
    row = await active_dispatch(core, job)
    assert (row["attempts"], row["wedges"], row["priority"]) == (1, 1, -1)
    assert (await core.job(ann, job.id))["priority"] == -1
    first, second = await core.lease(), await core.lease()
    assert first is not None
    assert second is not None
    assert [each.lease.job_id for each in (first, second)] == [younger.id, job.id]
    assert [each.lease.wedges for each in (first, second)] == [0, 1]


async def test_a_job_that_stops_a_second_engine_fails_and_names_workflow_and_node(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann, cost=10)
    await core.room.leases.fail(report(started), WEDGE)
    await later(core)
    again = await core.lease()
    assert again is not None
    assert (await core.room.leases.fail(report(again), WEDGE)).status == "failed"
    row = await core.job(ann, job.id)
    assert row["error"]["type"] == "engine_stuck"
    slug = await core.queue.workflow_slug(again.lease.workflow_id)
    assert f"workflow {slug}, node 3 (Broken)" in row["error"]["reported"]
    assert row["error"]["details"]["workflow"] == slug
    assert (await finished_dispatch(core, job))["attempts"] == 2
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


async def test_jobs_with_other_failures_keep_their_place_and_all_their_attempts(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await core.room.leases.fail(report(started), Failure("out_of_memory", "No memory.", retryable=True))
    row = await active_dispatch(core, job)
    assert (row["attempts"], row["wedges"], row["priority"]) == (1, 0, 0)


async def test_a_wedge_that_is_reported_twice_counts_once(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    for _ in range(2):
        assert (await core.room.leases.fail(report(started), WEDGE)).status == "queued"
    row = await active_dispatch(core, job)
    assert (row["attempts"], row["wedges"], row["priority"]) == (1, 1, -1)
