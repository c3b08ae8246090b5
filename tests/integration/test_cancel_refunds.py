"""The refund of a cancel: everything, or the unspent share of the run, by the workflow's rule at submit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from callsheet.jobs.lease.outcomes import Failure, StartedLease
from callsheet.jobs.lease.progress import ProgressReport
from callsheet.jobs.submit.new_jobs import NewTask
from callsheet.wire.errors import InvalidTransition
from tests.support.jobs.core import Core, Member, report

LINES = "SELECT type, amount, kept FROM token_transactions WHERE job_id = $1 ORDER BY id"


async def lines(core: Core, member: Member, job_id: UUID) -> list[tuple[str, int, int]]:
    return [(row["type"], row["amount"], row["kept"]) for row in await core.rows(member.pool, LINES, job_id)]


async def running(core: Core, member: Member, percent: float | None = None, **changes: Any) -> StartedLease:
    """A job that costs 100 and keeps what it spent, whose worker said so much of it is done."""
    await core.submit(member, **{"cost": 100, "refund_on_cancel": "unspent", **changes})
    started = await core.start()
    if percent is not None:
        await report_progress(core, started, percent)
    return started


async def report_progress(core: Core, started: StartedLease, percent: float, elapsed_ms: int | None = None) -> None:
    lease = started.lease
    progress = ProgressReport(percent=percent, elapsed_ms=elapsed_ms)
    await core.room.progress.record(lease.cycle, lease.lease_seq, progress)


async def cancel(core: Core, member: Member, job_id: UUID) -> None:
    await core.room.cancellation.cancel(member.tenant_id, job_id, actor="user:ann")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("percent", "refunded"), [(None, 100), (0.0, 100), (0.9, 100), (40.0, 60), (99.5, 1), (100.0, 0)]
)
async def test_canceling_a_running_job_refunds_the_share_of_its_remaining_progress(
    core: Core, ann: Member, percent: float | None, refunded: int
) -> None:
    started = await running(core, ann, percent)
    await cancel(core, ann, started.lease.job_id)
    assert await lines(core, ann, started.lease.job_id) == [
        ("JOB_RESERVE", -100, 0),
        ("JOB_REFUND", refunded, 100 - refunded),
    ]
    assert await core.balance(ann) == 900 + refunded
    await core.check()


AGO = "UPDATE ai_jobs SET started_at = clock_timestamp() - make_interval(secs => $2) WHERE id = $1"
REPORTED = "UPDATE job_progress SET updated_at = clock_timestamp() - make_interval(secs => $2) WHERE job_id = $1"


async def test_the_time_since_the_engine_started_counts_if_it_is_more_than_the_progress(
    core: Core, ann: Member
) -> None:
    started = await running(core, ann, run_limit_seconds=1000)
    await core.rows(ann.pool, AGO, started.lease.job_id, 900.0)
    # 305 seconds of work when it said so, 200 seconds ago: whatever else it waited for is not its own.
    await report_progress(core, started, 10.0, elapsed_ms=305_000)
    await core.rows(ann.pool, REPORTED, started.lease.job_id, 200.0)
    await cancel(core, ann, started.lease.job_id)
    [_, (_, refunded, kept)] = await lines(core, ann, started.lease.job_id)
    assert refunded + kept == 100
    # The upper limit allows for a pause of the machine between two statements.
    assert 50 <= kept <= 60


async def test_canceling_a_job_that_no_engine_has_started_refunds_everything(core: Core, ann: Member) -> None:
    started = await running(core, ann, run_limit_seconds=10)
    await core.rows(ann.pool, AGO, started.lease.job_id, 9.0)
    await cancel(core, ann, started.lease.job_id)
    assert await lines(core, ann, started.lease.job_id) == [("JOB_RESERVE", -100, 0), ("JOB_REFUND", 100, 0)]


async def test_the_run_time_of_a_task_counts_without_progress_reports(core: Core, ann: Member) -> None:
    started = await running(core, ann, run_limit_seconds=1000, kind="task", task=NewTask("copy"))
    await core.rows(ann.pool, AGO, started.lease.job_id, 505.0)
    await cancel(core, ann, started.lease.job_id)
    [_, (_, _, kept)] = await lines(core, ann, started.lease.job_id)
    assert 50 <= kept <= 60


async def test_canceling_a_job_beyond_its_run_limit_refunds_nothing(core: Core, ann: Member) -> None:
    started = await running(core, ann, run_limit_seconds=10, kind="task", task=NewTask("copy"))
    await core.rows(ann.pool, AGO, started.lease.job_id, 86_400.0)
    await cancel(core, ann, started.lease.job_id)
    assert await lines(core, ann, started.lease.job_id) == [("JOB_RESERVE", -100, 0), ("JOB_REFUND", 0, 100)]
    await core.check()


async def test_canceling_a_waiting_job_refunds_everything_also_after_an_attempt(core: Core, ann: Member) -> None:
    waiting = await core.submit(ann, cost=100, refund_on_cancel="unspent")
    await cancel(core, ann, waiting.id)
    started = await running(core, ann, 80.0)
    await core.room.leases.fail(report(started), Failure("engine_lost", "gone", retryable=True))
    await cancel(core, ann, started.lease.job_id)
    for job_id in (waiting.id, started.lease.job_id):
        assert await lines(core, ann, job_id) == [("JOB_RESERVE", -100, 0), ("JOB_REFUND", 100, 0)]


async def test_a_cancel_refunds_everything_by_default(core: Core, ann: Member) -> None:
    started = await running(core, ann, 80.0, refund_on_cancel="all")
    await cancel(core, ann, started.lease.job_id)
    assert await lines(core, ann, started.lease.job_id) == [("JOB_RESERVE", -100, 0), ("JOB_REFUND", 100, 0)]


async def test_a_failed_job_is_refunded_completely(core: Core, ann: Member) -> None:
    started = await running(core, ann, 80.0)
    await core.room.leases.fail(report(started), Failure("broken", "it broke", retryable=False))
    assert await lines(core, ann, started.lease.job_id) == [("JOB_RESERVE", -100, 0), ("JOB_REFUND", 100, 0)]


async def test_the_progress_of_an_earlier_lease_does_not_count(core: Core, ann: Member) -> None:
    first = await running(core, ann, 80.0)
    await core.room.leases.requeue(report(first), "spot")
    again = await core.start()
    assert again.lease.job_id == first.lease.job_id
    await cancel(core, ann, again.lease.job_id)
    assert await lines(core, ann, again.lease.job_id) == [("JOB_RESERVE", -100, 0), ("JOB_REFUND", 100, 0)]


async def test_a_second_cancel_refunds_nothing(core: Core, ann: Member) -> None:
    started = await running(core, ann, 40.0)
    await cancel(core, ann, started.lease.job_id)
    with pytest.raises(InvalidTransition):
        await cancel(core, ann, started.lease.job_id)
    assert await core.balance(ann) == 960
    again = "SELECT wallet_refund($1, $2, $3, 1, 0)"
    with pytest.raises(asyncpg.UniqueViolationError):
        await core.rows(ann.pool, again, ann.tenant_id, ann.user_id, started.lease.job_id)
    assert await core.balance(ann) == 960
    await core.check()


@pytest.mark.few_forms
@pytest.mark.parametrize("spent", ["-5", "1.5", "'NaN'", "'Infinity'", "'-Infinity'"])
async def test_no_share_makes_a_refund_larger_than_the_reserve(core: Core, ann: Member, spent: str) -> None:
    job = await core.submit(ann, cost=100)
    refund = f"SELECT wallet_refund($1, $2, $3, 1, {spent})"
    await core.rows(ann.pool, refund, ann.tenant_id, ann.user_id, job.id)
    [_, (_, refunded, kept)] = await lines(core, ann, job.id)
    assert (refunded, kept) in {(100, 0), (0, 100)}


async def test_g2_reserve_refund_and_kept_tokens_add_up_to_zero(core: Core) -> None:
    maximum = 2**53
    for cost in (0, 1, 2, 3, 7, 10**6 + 1, maximum - 1, maximum):
        for percent in (0.0, 1e-12, 1 / 3, 33.3, 50.0, 99.999999, 100.0):
            member = await core.member(tokens=maximum)
            started = await running(core, member, percent, cost=cost)
            await cancel(core, member, started.lease.job_id)
            [_, (_, refunded, kept)] = await lines(core, member, started.lease.job_id)
            assert (refunded + kept, 0 <= kept <= cost) == (cost, True)
            assert await core.balance(member) == maximum - kept
    await core.check()
