"""Bulk actions: each job of the filter is changed once, after any crash, and the counts are right."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from callsheet.operate.all_jobs import bulk_loop
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import InvalidRequest
from tests.support.jobs.bulk_actions import BulkHarness, counts
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.crashes import crashed_at

TOKENS = 1000
BULK_FAILPOINTS = [
    Failpoint.BULK_READ_BEFORE_ACT,
    Failpoint.BULK_ACTED_BEFORE_OUTCOME,
    Failpoint.BULK_BATCH_BEFORE_COUNTS,
]
TWICE = [(1, "JOB_RESERVE", -10), (1, "JOB_REFUND", 10), (2, "JOB_RESERVE", -10)]


@pytest.fixture
def bulk(core: Core) -> BulkHarness:
    return BulkHarness.of(core)


@pytest.fixture
async def bob(core: Core) -> Member:
    return await core.member("pool_2", TOKENS)


async def test_all_failed_jobs_of_a_filter_are_retried_once_in_every_pool(
    bulk: BulkHarness, ann: Member, bob: Member
) -> None:
    core = bulk.core
    of_ann, of_bob = await bulk.failed(ann, 3), await bulk.failed(bob, 2)
    other = await core.submit(ann)
    action = await bulk.start("retry", status=["failed"])
    assert counts(action) == ("running", 0, 0, 0, 0)
    [late] = await bulk.failed(ann, priority=1)
    await core.fail(await core.start())
    await bulk.finish()
    ended = await bulk.get(action)
    assert counts(ended) == ("completed", 5, 5, 0, 0)
    assert ended.is_collected
    assert ended.finished_at is not None
    for member, ids in ((ann, of_ann), (bob, of_bob)):
        for job_id in ids:
            assert await core.status(member, job_id) == "queued"
            assert await core.ledger(member, job_id) == TWICE
            assert await bulk.changes(member, job_id, action) == ["job.transition"]
    # A job that was created after the action was started, and one that failed after that.
    assert await core.status(ann, late) == await core.status(ann, other.id) == "failed"
    await core.check()


async def test_active_jobs_are_canceled_and_refunded(bulk: BulkHarness, ann: Member, bob: Member) -> None:
    core = bulk.core
    jobs = [await core.submit(ann) for _ in range(2)]
    untouched = await core.submit(bob)
    action = await bulk.start("cancel", tenant_id=str(ann.tenant_id))
    assert [status.value for status in action.filter.status] == ["pending", "processing", "queued"]
    await bulk.finish()
    assert counts(await bulk.get(action)) == ("completed", 2, 2, 0, 0)
    assert [await core.status(ann, job.id) for job in jobs] == ["canceled"] * 2
    assert await core.balance(ann) == TOKENS
    assert await core.status(bob, untouched.id) == "queued"
    await core.check()


async def test_the_priority_of_queued_jobs_is_set_and_running_jobs_are_refused(bulk: BulkHarness, ann: Member) -> None:
    core = bulk.core
    running, queued = await core.submit(ann), await core.submit(ann)
    action = await bulk.start("set_priority", 7, job_id=[str(running.id), str(queued.id)])
    with patch.object(bulk_loop, "MAX_BATCHES", 1):
        await bulk.tick()
    # It is found while it is queued, and runs when its turn comes.
    await core.start()
    await bulk.finish()
    ended = await bulk.get(action)
    assert counts(ended) == ("completed", 2, 1, 1, 0)
    assert [(each.code, each.jobs) for each in ended.refusals] == [("wrong_state", 1)]
    assert (await core.job(ann, queued.id))["priority"] == 7
    assert (await core.job(ann, running.id))["priority"] == 0
    await core.check()


async def test_refusals_are_counted_by_their_reason(bulk: BulkHarness, ann: Member) -> None:
    core = bulk.core
    poor = await core.member("pool_1", 10)
    [broke] = await bulk.failed(poor)
    [mine] = await bulk.failed(ann)
    [retried] = await bulk.failed(ann)
    action = await bulk.start("retry", status=["failed"])
    with patch.object(bulk_loop, "MAX_BATCHES", 1):
        await bulk.tick()
    # After the jobs were found: one user has no tokens left, and another one retries a job, which fails again.
    await core.submit(poor)
    await core.room.retries.retry(ann.tenant_id, retried, actor="user")
    await bulk.finish()
    ended = await bulk.get(action)
    assert counts(ended) == ("completed", 3, 1, 2, 0)
    assert {each.code: each.jobs for each in ended.refusals} == {"insufficient_tokens": 1, "wrong_state": 1}
    assert all(each.example for each in ended.refusals)
    assert (await core.job(ann, mine))["charge_cycle"] == 2
    assert (await core.job(ann, retried))["charge_cycle"] == 2
    assert (await core.job(poor, broke))["charge_cycle"] == 1
    await core.check()


@pytest.mark.parametrize("action", ["retry", "cancel", "set_priority"])
@pytest.mark.parametrize("point", BULK_FAILPOINTS)
async def test_a_control_plane_killed_in_a_batch_changes_no_job_twice(
    bulk: BulkHarness, ann: Member, action: str, point: Failpoint
) -> None:
    core = bulk.core
    ids = await bulk.failed(ann, 3) if action == "retry" else [(await core.submit(ann)).id for _ in range(3)]
    started = await bulk.start(action, 4 if action == "set_priority" else None, tenant_id=str(ann.tenant_id))
    assert await crashed_at(point, bulk.finish())
    if action == "retry":
        # What was retried may fail again before another control plane goes on: it is not retried a second time.
        while (lease := await core.lease()) is not None:
            await core.fail(lease)
    await bulk.expire_lease(started)
    survivor = BulkHarness.of(open_core(core.databases))
    await survivor.finish()
    assert counts(await survivor.get(started)) == ("completed", 3, 3, 0, 0)
    for job_id in ids:
        if action == "set_priority":
            assert (await core.job(ann, job_id))["priority"] == 4
        else:
            assert await bulk.changes(ann, job_id, started) == ["job.transition"]
        assert (await core.job(ann, job_id))["charge_cycle"] == (2 if action == "retry" else 1)
    await core.check()


@pytest.mark.parametrize("point", [Failpoint.RETRY_BEFORE_RELAY, Failpoint.CANCEL_BEFORE_RELAY])
async def test_a_control_plane_killed_inside_the_use_case_changes_no_job_twice(
    bulk: BulkHarness, ann: Member, point: Failpoint
) -> None:
    core = bulk.core
    action = "retry" if point is Failpoint.RETRY_BEFORE_RELAY else "cancel"
    ids = await bulk.failed(ann, 2) if action == "retry" else [(await core.submit(ann)).id for _ in range(2)]
    started = await bulk.start(action, tenant_id=str(ann.tenant_id))
    assert await crashed_at(point, bulk.finish())
    await bulk.expire_lease(started)
    await BulkHarness.of(open_core(core.databases)).finish()
    assert counts(await bulk.get(started)) == ("completed", 2, 2, 0, 0)
    for job_id in ids:
        assert await bulk.changes(ann, job_id, started) == ["job.transition"]
    await core.drain()
    await core.check_drained()


async def test_a_stopped_action_changes_no_further_job(bulk: BulkHarness, ann: Member) -> None:
    core = bulk.core
    ids = await bulk.failed(ann, 4)
    action = await bulk.start("retry", tenant_id=str(ann.tenant_id))
    with patch.object(bulk_loop, "MAX_BATCHES", 2), patch.object(bulk_loop, "BATCH", 1):
        await bulk.tick()
    assert counts(await bulk.get(action)) == ("running", 4, 1, 0, 3)
    stopped = await bulk.stop(action)
    assert (stopped.state.value, stopped.stopped_by is not None) == ("stopped", True)
    await bulk.finish()
    assert counts(await bulk.get(action)) == ("stopped", 4, 1, 0, 3)
    assert sorted([await core.status(ann, job_id) for job_id in ids]) == ["failed", "failed", "failed", "queued"]
    # Stopping again, or what has ended, changes nothing.
    assert counts(await bulk.stop(action)) == ("stopped", 4, 1, 0, 3)
    await core.check()


async def test_many_jobs_are_found_in_steps_and_each_only_once(bulk: BulkHarness, ann: Member) -> None:
    await bulk.failed(ann, 5)
    action = await bulk.start("retry", tenant_id=str(ann.tenant_id))
    with patch.object(bulk_loop, "MAX_READ", 2), patch.object(bulk_loop, "MAX_BATCHES", 1):
        await bulk.tick()
        assert not (await bulk.get(action)).is_collected
        await bulk.finish()
    assert counts(await bulk.get(action)) == ("completed", 5, 5, 0, 0)


async def test_the_jobs_of_an_old_action_are_cleared_and_its_counts_stay(bulk: BulkHarness, ann: Member) -> None:
    await bulk.failed(ann, 2)
    action = await bulk.start("retry", tenant_id=str(ann.tenant_id))
    await bulk.finish()
    central, items = bulk.core.databases.central, "SELECT FROM bulk_action_jobs"
    assert len(await bulk.core.rows(ann.pool, items)) == 2
    await bulk.core.rows(central, "UPDATE bulk_actions SET finished_at = now() - interval '8 days'")
    await bulk.finish()
    assert await bulk.core.rows(ann.pool, items) == []
    assert counts(await bulk.get(action)) == ("completed", 2, 2, 0, 0)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("action", "priority", "statuses", "field"),
    [
        ("retry", None, ["completed"], "filter.status"),
        ("cancel", None, ["failed", "canceled"], "filter.status"),
        ("set_priority", 3, ["processing"], "filter.status"),
        ("set_priority", None, [], "priority"),
        ("retry", 3, [], "priority"),
    ],
)
async def test_an_impossible_action_is_refused(
    bulk: BulkHarness, action: str, priority: int | None, statuses: list[str], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await bulk.start(action, priority, status=statuses)
    assert [problem.field for problem in refused.value.errors] == [field]
