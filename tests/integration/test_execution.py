"""The working life of a job: leased, started, kept alive, completed, failed, put back, ended by cancel or deadline."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from callsheet.dispatch.facts import Criteria
from callsheet.jobs.execution import FREE_REQUEUES, Failure, Report, StartedLease
from callsheet.plumbing.databases import Databases, open_databases
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import InsufficientTokens, InvalidTransition, LeaseLost, NotFound, TooManyActiveJobs
from callsheet.wire.jobs import Job
from tests.support.core import Core, Member, job_ids, open_core, report
from tests.support.waiting import until

POOLS = pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
ACCEPTED = [">pending", "pending>queued"]
STARTED = [*ACCEPTED, "queued>processing"]
RESERVED, CONSUMED, REFUNDED = (1, "JOB_RESERVE", -10), (1, "JOB_CONSUME", 0), (1, "JOB_REFUND", 10)


@pytest.fixture
async def ann(core: Core) -> Member:
    return await core.member("pool_1")


async def running(core: Core, member: Member, **changes: Any) -> tuple[Job, StartedLease]:
    job = await core.submit(member, **changes)
    started = await core.start()
    assert started.lease.job_id == job.id
    return job, started


async def cancel(core: Core, member: Member, job: Job) -> Job:
    return await core.room.endings.cancel(member.tenant_id, job.id, actor="user:x", reason="changed my mind")


async def retry(core: Core, member: Member, job: Job, **options: Any) -> Job:
    return await core.room.endings.retry(member.tenant_id, job.id, actor="user:x", **options)


async def hot(core: Core, job: Job) -> Any:
    row = await core.dispatch(job.id)
    assert row is not None
    return row


async def finished(core: Core, job: Job) -> Any:
    row = await core.dispatch(job.id, "dispatch_history")
    assert row is not None
    assert row["status"] in ("completed", "failed", "canceled", "expired")
    return row


async def overdue(core: Core, member: Member, job: Job) -> None:
    for database, table, name in (
        (member.pool, "ai_jobs", "id"),
        (core.databases.central, "ai_job_dispatches", "tenant_job_id"),
    ):
        query = f"UPDATE {table} SET deadline_at = clock_timestamp() - interval '1 s' WHERE {name} = $1"
        await core.rows(database, query, job.id)


@POOLS
async def test_a_job_is_leased_started_kept_alive_and_completed(core: Core, pool: str) -> None:
    ann = await core.member(pool, tokens=100)
    job, started = await running(core, ann, payload={"prompt": "a cat"}, cost=10)
    lease = started.lease
    assert (started.user_id, started.payload) == (ann.user_id, {"prompt": "a cat"})
    assert (lease.tenant_id, lease.charge_cycle, lease.lease_seq, lease.attempts) == (ann.tenant_id, 1, 1, 1)
    assert (lease.worker_id, lease.lease_seconds, lease.run_limit_seconds) == ("worker-1", 900, 3600)
    row = await core.job(ann, job.id)
    assert (row["status"], row["lease_seq"], row["completed_at"]) == ("processing", 1, None)
    assert row["started_at"] is not None
    extended = await core.room.execution.heartbeat(report(started), run_started=True)
    assert (extended.cancel_requested, extended.lease_expires_at > lease.lease_expires_at) == (False, True)

    outcome = await core.room.execution.complete(report(started), {"output": "o.mp4"}, provider_job_id="prompt-7")
    assert (outcome.job_id, outcome.status) == (job.id, "completed")
    row = await core.job(ann, job.id)
    assert (row["status"], row["result"], row["provider_job_id"]) == ("completed", {"output": "o.mp4"}, "prompt-7")
    assert row["completed_at"] is not None
    past = await finished(core, job)
    assert (past["status"], past["lease_token"], past["worker_id"], past["provider_job_id"]) == (
        *("completed", lease.lease_token),
        *("worker-1", "prompt-7"),
    )
    assert past["queue_wait_seconds"] >= 0
    assert past["duration_seconds"] >= 0
    events = await core.events(ann, job.id)
    assert await core.steps(ann, job.id) == [*STARTED, "processing>completed"]
    assert [event["actor"] for event in events] == ["user", "relay", "worker:worker-1", "worker:worker-1"]
    assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
    assert await core.lease() is None
    await core.check_drained()


async def test_a_heartbeat_extends_the_lease_but_never_past_the_run_limit(core: Core, ann: Member) -> None:
    job, started = await running(core, ann, lease_seconds=100, run_limit_seconds=1000)
    beat = core.room.execution.heartbeat
    extended = await beat(report(started), run_started=True)
    assert 90 < extended.ttl_seconds <= 100
    first_start = (await hot(core, job))["run_started_at"]
    assert (await beat(report(started), run_started=True)).lease_expires_at >= extended.lease_expires_at
    row = await hot(core, job)
    assert row["run_started_at"] == first_start
    assert row["heartbeat_at"] is not None

    # As if it had been running nearly as long as it may: the last lease ends with the limit.
    query = (
        "UPDATE ai_job_dispatches SET run_started_at = clock_timestamp() - interval '940 s', lease_expires_at = now()"
    )
    await core.rows(core.databases.central, query)
    for _ in range(2):
        assert 50 < (await beat(report(started))).ttl_seconds <= 60
    query = query.replace("940", "1200")
    await core.rows(core.databases.central, query)
    assert (await beat(report(started))).ttl_seconds <= 0
    await core.reap()
    assert await core.status(ann, job.id) == "queued"
    with pytest.raises(LeaseLost):
        await beat(report(started))


async def test_a_heartbeat_of_another_worker_with_the_right_token_is_refused(core: Core, ann: Member) -> None:
    job, started = await running(core, ann)
    before = (await hot(core, job))["lease_expires_at"]
    with pytest.raises(NotFound):
        await core.room.execution.heartbeat(
            Report(started.lease.dispatch_id, started.lease.lease_token, "another-worker")
        )
    assert (await hot(core, job))["lease_expires_at"] == before


async def test_heartbeats_that_arrive_together_are_each_answered_for_their_own_lease(core: Core, ann: Member) -> None:
    leases = [(await running(core, ann))[1] for _ in range(4)]
    await core.complete(leases[0])
    foreign = Report(leases[1].lease.dispatch_id, leases[2].lease.lease_token, "worker-1")
    answers = await asyncio.gather(
        *(core.room.execution.heartbeat(report(started)) for started in leases),
        core.room.execution.heartbeat(foreign),
        return_exceptions=True,
    )
    assert [type(answer).__name__ for answer in answers] == ["LeaseLost", *["Extended"] * 3, "NotFound"]


async def test_a_cancel_is_told_with_the_next_heartbeat_and_the_slot_stays_until_the_report(
    core: Core, ann: Member
) -> None:
    job, started = await running(core, ann)
    assert (await cancel(core, ann, job)).status == "canceled"
    assert await core.balance(ann) == 1000
    extended = await core.room.execution.heartbeat(report(started))
    assert extended.cancel_requested
    row = await hot(core, job)
    assert (row["status"], row["worker_id"]) == ("leased", "worker-1")
    assert await core.lease("worker-2") is None

    # Whatever it reports now, the job stays canceled and is refunded once.
    assert (await core.complete(started)).status == "canceled"
    assert (await finished(core, job))["status"] == "canceled"
    assert await core.steps(ann, job.id) == [*STARTED, "processing>canceled", "canceled!completed"]
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    assert (await core.job(ann, job.id))["result"] is None
    await core.check_drained()


@pytest.mark.parametrize("how", ["fail", "fail retryable", "requeue", "lease ends"])
async def test_a_canceled_job_that_was_running_is_never_run_again(core: Core, ann: Member, how: str) -> None:
    job, started = await running(core, ann)
    await cancel(core, ann, job)
    if how == "requeue":
        assert (await core.room.execution.requeue(report(started), "spot")).status == "canceled"
    elif how == "lease ends":
        await core.expire_lease(started.lease.dispatch_id)
        await core.reap()
    else:
        assert (await core.fail(started, retryable=how == "fail retryable")).status == "canceled"
    assert (await finished(core, job))["status"] == "canceled"
    assert await core.lease() is None
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@pytest.mark.parametrize("what", ["complete", "fail", "requeue", "retryable", "defer"])
async def test_a_repeated_report_is_answered_with_what_is_recorded(core: Core, ann: Member, what: str) -> None:
    job, started = await running(core, ann)
    execution, told = core.room.execution, report(started)

    async def say() -> str:
        match what:
            case "complete":
                outcome = await execution.complete(told, {"output": "o.mp4"})
            case "fail" | "retryable":
                outcome = await execution.fail(told, Failure("t", "m", retryable=what == "retryable"))
            case "requeue":
                outcome = await execution.requeue(told, "spot")
            case _:
                outcome = await execution.defer(told, "p-1", datetime.now(UTC) + timedelta(hours=1))
        assert outcome.job_id == job.id
        return outcome.status

    first = await say()
    steps, ledger = await core.steps(ann, job.id), await core.ledger(ann, job.id)
    recorded = {
        "complete": "completed",
        "fail": "failed",
        "requeue": "queued",
        "retryable": "queued",
        "defer": "waiting",
    }
    assert [first, *await asyncio.gather(say(), say()), await say()] == [recorded[what]] * 4
    assert (await core.steps(ann, job.id), await core.ledger(ann, job.id)) == (steps, ledger)
    await core.check()


async def test_a_report_after_the_job_was_completed_is_answered_with_that(core: Core, ann: Member) -> None:
    job, started = await running(core, ann)
    await core.complete(started)
    assert (await core.fail(started)).status == "completed"
    assert (await core.room.execution.requeue(report(started), "late")).status == "completed"
    with pytest.raises(LeaseLost, match="completed"):
        await core.room.execution.heartbeat(report(started))
    assert await core.status(ann, job.id) == "completed"
    await core.check_drained()


async def test_a_token_that_is_unknown_or_another_workers_finds_nothing_and_changes_nothing(
    core: Core, ann: Member
) -> None:
    job, started = await running(core, ann)
    lease, execution = started.lease, core.room.execution
    foreign = [
        Report(lease.dispatch_id, uuid4(), "worker-1"),
        Report(lease.dispatch_id, lease.lease_token, "worker-2"),
        Report(lease.dispatch_id + 1000, lease.lease_token, "worker-1"),
    ]
    later = datetime.now(UTC) + timedelta(hours=1)
    for stranger in foreign:
        for call in (
            execution.complete(stranger, {}),
            execution.fail(stranger, Failure("t", "m")),
            execution.fail(stranger, Failure("t", "m", retryable=True)),
            execution.requeue(stranger, "spot"),
            execution.defer(stranger, "p-1", later),
        ):
            with pytest.raises(NotFound):
                await call
    for stranger in (foreign[0], foreign[2]):
        with pytest.raises(NotFound):
            await execution.heartbeat(stranger)
    assert await core.steps(ann, job.id) == STARTED
    assert (await core.complete(started)).status == "completed"


async def test_a_worker_that_was_overtaken_has_lost_its_lease_and_changes_nothing(core: Core, ann: Member) -> None:
    job, old = await running(core, ann)
    await core.expire_lease(old.lease.dispatch_id)
    await core.reap()
    new = await core.start("worker-2")
    assert (new.lease.job_id, new.lease.lease_seq, new.lease.attempts) == (job.id, 2, 2)
    later = datetime.now(UTC) + timedelta(hours=1)
    for _ in ("while the new one runs", "after it has finished"):
        for call in (
            core.room.execution.heartbeat(report(old)),
            core.complete(old, {"output": "stale"}),
            core.fail(old),
            core.fail(old, retryable=True),
            core.room.execution.requeue(report(old), "spot"),
            core.room.execution.defer(report(old), "p-1", later),
        ):
            with pytest.raises(LeaseLost):
                await call
        if await core.status(ann, job.id) == "processing":
            await core.complete(new, {"output": "fresh"})
    assert (await core.job(ann, job.id))["result"] == {"output": "fresh"}
    assert await core.steps(ann, job.id) == [
        *STARTED,
        *("processing>queued", "queued>processing", "processing>completed"),
    ]
    assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
    await core.check_drained()


async def test_a_late_worker_may_still_complete_while_nobody_else_has_the_job(core: Core, ann: Member) -> None:
    """Its lease ran out, but no reaper has been there: the work is done, and there is nobody whose it is instead."""
    job, started = await running(core, ann)
    await core.expire_lease(started.lease.dispatch_id)
    assert (await core.complete(started)).status == "completed"
    await core.reap()
    assert await core.status(ann, job.id) == "completed"
    await core.check_drained()


async def test_a_retryable_failure_waits_its_delay_in_the_queue_and_is_tried_again(core: Core, ann: Member) -> None:
    job, started = await running(core, ann)
    before = datetime.now(UTC)
    assert (await core.fail(started, retryable=True)).status == "queued"
    row = await hot(core, job)
    assert (row["status"], row["attempts"], row["requeues"], row["last_error"]) == (
        *("queued", 1, 0),
        "The engine stopped.",
    )
    assert before < row["not_before"] <= before + timedelta(seconds=30)
    assert await core.status(ann, job.id) == "queued"
    events = await core.events(ann, job.id)
    assert events[-1]["reason"] == "failed, will be tried again: The engine stopped."
    assert await core.ledger(ann, job.id) == [RESERVED]

    assert await core.lease() is None
    assert await core.room.queue.promote() == 0
    assert await core.room.queue.promote(row["not_before"]) == 1
    again = await core.start("worker-2")
    assert (again.lease.job_id, again.lease.attempts, again.lease.lease_seq) == (job.id, 2, 2)
    await core.check()


async def test_the_delay_grows_with_the_attempts(core: Core, ann: Member) -> None:
    _, started = await running(core, ann, max_attempts=8)
    delays = []
    for _ in range(7):
        now = datetime.now(UTC)
        await core.fail(started, retryable=True)
        [row] = await core.rows(core.databases.central, "SELECT not_before FROM ai_job_dispatches")
        delays.append((row["not_before"] - now).total_seconds())
        await core.room.queue.promote(row["not_before"])
        started = await core.start()
    assert all(0 < delay <= 301 for delay in delays)
    assert delays[0] <= 11
    assert max(delays[3:]) > 11


@pytest.mark.parametrize("how", ["retryable failure", "lease ends"])
async def test_a_job_whose_attempts_are_used_up_fails_and_is_refunded(core: Core, ann: Member, how: str) -> None:
    job = await core.submit(ann, max_attempts=2)
    for attempt in (1, 2):
        started = await core.start(f"worker-{attempt}")
        if how == "lease ends":
            await core.expire_lease(started.lease.dispatch_id)
            await core.reap()
        else:
            await core.fail(started, retryable=True)
            await core.room.queue.promote(datetime.now(UTC) + timedelta(hours=1))
    row = await core.job(ann, job.id)
    assert row["status"] == "failed"
    assert row["error"]["type"] == ("lease_expired" if how == "lease ends" else "engine_error")
    assert await core.steps(ann, job.id) == [
        *STARTED,
        *("processing>queued", "queued>processing", "processing>failed"),
    ]
    assert (await finished(core, job))["attempts"] == 2
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@POOLS
async def test_a_failure_that_is_not_retryable_fails_at_once_and_keeps_what_admins_need(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job, started = await running(core, ann)
    assert (await core.fail(started)).status == "failed"
    error = (await core.job(ann, job.id))["error"]
    assert error == {
        "type": "engine_error",
        "message": "The engine stopped.",
        "details": {"node": 4},
        "traceback": "Traceback …",
    }
    assert (await finished(core, job))["last_error"] == "The engine stopped."
    assert (await core.events(ann, job.id))[-1]["reason"] == "The engine stopped."
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


async def test_a_requeue_gives_the_attempt_back_until_it_was_done_too_often(core: Core, ann: Member) -> None:
    job, started = await running(core, ann, max_attempts=2)
    assert (await core.room.execution.requeue(report(started), "spot instance")).status == "queued"
    row = await hot(core, job)
    assert (row["attempts"], row["requeues"], row["not_before"]) == (0, 1, None)
    assert (await core.events(ann, job.id))[-1]["reason"] == "Requeued: spot instance"

    await core.rows(core.databases.central, "UPDATE ai_job_dispatches SET requeues = $1", FREE_REQUEUES - 1)
    await core.room.execution.requeue(report(await core.start()), "spot")
    row = await hot(core, job)
    assert (row["attempts"], row["requeues"]) == (0, FREE_REQUEUES)
    # From now on each costs its attempt, and the second of two is the last.
    await core.room.execution.requeue(report(await core.start()), "spot")
    assert (await hot(core, job))["attempts"] == 1
    last = await core.room.execution.requeue(report(await core.start()), "spot")
    assert last.status == "failed"
    assert (await core.job(ann, job.id))["error"]["type"] == "attempts_exhausted"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


async def deferred(core: Core, member: Member, **changes: Any) -> tuple[Job, StartedLease]:
    job, started = await running(core, member, **changes)
    later = datetime.now(UTC) + timedelta(hours=1)
    assert (await core.room.execution.defer(report(started), "prediction-9", later)).status == "waiting"
    return job, started


@POOLS
async def test_a_deferred_job_frees_its_worker_and_the_callback_completes_it(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job, started = await deferred(core, ann)
    row = await hot(core, job)
    assert (row["status"], row["worker_id"], row["lease_token"], row["provider_job_id"]) == (
        *("waiting", None),
        *(None, "prediction-9"),
    )
    assert await core.room.queue.held_by("worker-1") == []
    assert await core.status(ann, job.id) == "processing"
    with pytest.raises(LeaseLost):
        await core.room.execution.heartbeat(report(started))
    await core.reap()
    assert await core.lease() is None

    callback = core.room.execution.complete_callback
    with pytest.raises(NotFound):
        await callback(row["dispatch_id"], 2, {"output": "o.png"}, "provider:x")
    with pytest.raises(NotFound):
        await callback(row["dispatch_id"] + 1000, 1, {"output": "o.png"}, "provider:x")
    for _ in ("first", "duplicate"):
        assert (await callback(row["dispatch_id"], 1, {"output": "o.png"}, "provider:x")).status == "completed"
    assert (await core.job(ann, job.id))["result"] == {"output": "o.png"}
    assert (await core.events(ann, job.id))[-1]["actor"] == "provider:x"
    assert (await finished(core, job))["provider_job_id"] == "prediction-9"
    assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
    await core.check_drained()


async def test_a_callback_for_a_job_that_does_not_wait_changes_nothing(core: Core, ann: Member) -> None:
    job, started = await running(core, ann)
    outcome = await core.room.execution.complete_callback(started.lease.dispatch_id, 1, {"output": "x"}, "provider:x")
    assert outcome.status == "leased"
    assert await core.steps(ann, job.id) == STARTED


async def test_a_wait_that_lasts_too_long_expires_and_a_late_callback_changes_nothing(core: Core, ann: Member) -> None:
    job, started = await deferred(core, ann)
    dispatch_id = started.lease.dispatch_id
    await core.expire_lease(dispatch_id)
    await core.reap()
    row = await core.job(ann, job.id)
    assert (row["status"], row["error"]["type"]) == ("expired", "callback_expired")
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    callback = core.room.execution.complete_callback
    assert (await callback(dispatch_id, 1, {"output": "late"}, "provider:x")).status == "expired"
    await core.check_drained()

    # Retried, the callback of the cycle before is as late as it was.
    await retry(core, ann, job)
    second = await core.start()
    later = datetime.now(UTC) + timedelta(hours=1)
    await core.room.execution.defer(report(second), "prediction-10", later)
    assert (await callback(dispatch_id, 1, {"output": "late"}, "provider:x")).status == "expired"
    with pytest.raises(NotFound):
        await callback(dispatch_id, 2, {"output": "late"}, "provider:x")
    assert await core.status(ann, job.id) == "processing"
    assert (await callback(second.lease.dispatch_id, 2, {"output": "fresh"}, "provider:x")).status == "completed"
    assert (await core.job(ann, job.id))["result"] == {"output": "fresh"}
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED, (2, "JOB_RESERVE", -10), (2, "JOB_CONSUME", 0)]
    await core.check_drained()


async def test_a_wait_never_outlives_the_deadline(core: Core, ann: Member) -> None:
    job, started = await running(core, ann)
    await core.room.execution.defer(report(started), "p-1", datetime.now(UTC) + timedelta(days=300))
    row = await hot(core, job)
    assert row["lease_expires_at"] == row["deadline_at"]


@pytest.mark.parametrize("status", ["pending", "queued", "delayed", "processing", "waiting"])
@POOLS
async def test_a_job_can_be_canceled_in_every_active_state(core: Core, pool: str, status: str) -> None:
    ann = await core.member(pool)
    await core.complete((await running(core, ann))[1])
    if status == "pending":
        await core.databases.central.close()
        job = await core.submit(ann)
        assert job.status == "pending"
    elif status == "queued":
        job = await core.submit(ann)
    elif status == "waiting":
        job, _ = await deferred(core, ann)
    else:
        job, started = await running(core, ann)
        if status == "delayed":
            await core.fail(started, retryable=True)
    canceled = await cancel(core, ann, job)
    if status == "pending":
        await core.databases.central.open()
        await core.relay()
        assert await core.rows(core.databases.central, "SELECT * FROM ai_job_dispatches") == []
    assert (canceled.id, canceled.status) == (job.id, "canceled")
    assert canceled.completed_at is not None
    last = (await core.events(ann, job.id))[-1]
    assert (last["to_status"], last["actor"], last["reason"]) == ("canceled", "user:x", "changed my mind")
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    assert await core.lease("worker-2") is None
    if status == "processing":
        assert (await core.complete(started)).status == "canceled"
    await core.check_drained()


async def test_a_callback_after_the_cancel_changes_nothing(core: Core, ann: Member) -> None:
    job, started = await deferred(core, ann)
    await cancel(core, ann, job)
    callback = core.room.execution.complete_callback
    assert (await callback(started.lease.dispatch_id, 1, {"output": "o"}, "provider:x")).status == "canceled"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


async def ended_as(core: Core, member: Member, status: str) -> Job:
    job, started = await running(core, member)
    if status == "completed":
        await core.complete(started)
    elif status == "failed":
        await core.fail(started)
    elif status == "canceled":
        await cancel(core, member, job)
        await core.complete(started)
    else:
        await overdue(core, member, job)
        await core.enforce_deadlines()
        await core.complete(started)
    assert await core.status(member, job.id) == status
    return job


@pytest.mark.parametrize("status", ["completed", "failed", "canceled", "expired"])
async def test_a_job_that_has_ended_cannot_be_canceled_and_the_refusal_is_recorded(
    core: Core, ann: Member, status: str, logged: io.StringIO
) -> None:
    job = await ended_as(core, ann, status)
    before = await core.ledger(ann, job.id)
    logged.truncate(0)
    with pytest.raises(InvalidTransition) as refused:
        await cancel(core, ann, job)
    assert refused.value.data == {"from_status": status, "to_status": "canceled"}
    event = (await core.events(ann, job.id))[-1]
    assert (event["event"], event["from_status"], event["to_status"]) == ("job.transition_denied", status, "canceled")
    assert (event["actor"], event["reason"]) == ("user:x", "changed my mind")
    [line] = told(logged)
    assert line == {
        "event": "job.transition_denied",
        "job_id": str(job.id),
        "from_status": status,
        "to_status": "canceled",
    }
    assert await core.status(ann, job.id) == status
    assert await core.ledger(ann, job.id) == before
    await core.check()


@pytest.mark.parametrize("status", ["failed", "expired"])
@POOLS
async def test_a_failed_or_expired_job_can_be_retried_in_a_new_charge_cycle(core: Core, pool: str, status: str) -> None:
    ann = await core.member(pool, tokens=100)
    job = await ended_as(core, ann, status)
    old_deadline = (await core.job(ann, job.id))["deadline_at"]
    again = await retry(core, ann, job)
    assert (again.id, again.status, again.charge_cycle, again.error, again.started_at) == (
        *(job.id, "queued", 2),
        *(None, None),
    )
    row = await core.job(ann, job.id)
    assert (row["lease_seq"], row["completed_at"], row["result"]) == (0, None, None)
    assert row["deadline_at"] > old_deadline
    assert await core.balance(ann) == 90
    dispatch = await hot(core, job)
    assert (dispatch["charge_cycle"], dispatch["attempts"], dispatch["deadline_at"]) == (2, 0, row["deadline_at"])
    await core.complete(await core.start())
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED, (2, "JOB_RESERVE", -10), (2, "JOB_CONSUME", 0)]
    await core.check_drained()


@pytest.mark.parametrize("status", ["queued", "processing", "completed", "canceled"])
async def test_no_other_job_can_be_retried(core: Core, ann: Member, status: str) -> None:
    if status == "queued":
        job = await core.submit(ann)
    elif status == "processing":
        job, _ = await running(core, ann)
    else:
        job = await ended_as(core, ann, status)
    before = await core.ledger(ann, job.id)
    with pytest.raises(InvalidTransition) as refused:
        await retry(core, ann, job)
    assert refused.value.data == {"from_status": status, "to_status": "pending"}
    assert (await core.steps(ann, job.id))[-1] == f"{status}!pending"
    assert await core.ledger(ann, job.id) == before
    await core.check()


async def test_a_retry_respects_the_wallet_and_the_cap_which_admins_may_pass(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=1).prepare()
    ann = await core.member("pool_2", tokens=25)
    job = await ended_as(core, ann, "failed")
    active = await core.submit(ann, cost=25)
    with pytest.raises(InsufficientTokens) as poor:
        await retry(core, ann, job, capped=False)
    assert poor.value.data == {"required_tokens": 10, "balance": 0}
    await core.credit(ann, 50)
    with pytest.raises(TooManyActiveJobs) as many:
        await retry(core, ann, job)
    assert many.value.data == {"active": 1, "limit": 1}
    assert await core.status(ann, job.id) == "failed"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    assert await core.balance(ann) == 50
    assert (await retry(core, ann, job, capped=False)).status == "queued"
    assert await core.balance(ann) == 40
    assert await core.status(ann, active.id) == "queued"
    await core.check()


async def test_cancel_and_retry_of_a_job_that_does_not_exist_find_nothing(core: Core, ann: Member) -> None:
    bob = await core.member("pool_2")
    job = await core.submit(bob)
    for call in (cancel, retry):
        with pytest.raises(NotFound):
            await call(core, ann, job)
    assert await core.steps(bob, job.id) == ACCEPTED


@pytest.mark.parametrize("status", ["pending", "queued", "delayed"])
@POOLS
async def test_a_job_nobody_took_in_time_fails_and_is_refunded(core: Core, pool: str, status: str) -> None:
    ann = await core.member(pool)
    await core.complete((await running(core, ann))[1])
    if status == "pending":
        await core.databases.central.close()
        job = await core.submit(ann)
        await core.databases.central.open()
    elif status == "queued":
        job = await core.submit(ann)
    else:
        job, started = await running(core, ann)
        await core.fail(started, retryable=True)
    await core.enforce_deadlines()
    assert await core.status(ann, job.id) in ("pending", "queued")
    await overdue(core, ann, job)
    # Past its deadline nobody gets it, also before the loop has come round.
    assert await core.lease() is None
    await core.enforce_deadlines()
    row = await core.job(ann, job.id)
    assert (row["status"], row["error"]["type"]) == ("failed", "queue_deadline")
    assert (await core.events(ann, job.id))[-1]["actor"] == "deadlines"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@pytest.mark.parametrize("status", ["processing", "waiting"])
@POOLS
async def test_a_job_that_runs_past_its_deadline_expires_and_is_refunded(core: Core, pool: str, status: str) -> None:
    ann = await core.member(pool)
    job, started = await (deferred if status == "waiting" else running)(core, ann)
    await overdue(core, ann, job)
    await core.enforce_deadlines()
    row = await core.job(ann, job.id)
    assert (row["status"], row["error"]["type"]) == ("expired", "deadline")
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    if status == "processing":
        # Its worker keeps the slot until it reports.
        assert (await hot(core, job))["status"] == "leased"
        assert (await core.room.execution.heartbeat(report(started))).cancel_requested
        assert (await core.complete(started)).status == "expired"
    assert (await finished(core, job))["status"] == "expired"
    await core.check_drained()


async def test_a_worker_that_vanishes_after_the_deadline_leaves_its_slot_when_the_lease_ends(
    core: Core, ann: Member
) -> None:
    job, started = await running(core, ann)
    await overdue(core, ann, job)
    await core.enforce_deadlines()
    await core.reap()
    assert (await hot(core, job))["status"] == "leased"
    await core.expire_lease(started.lease.dispatch_id)
    await core.reap()
    assert (await finished(core, job))["status"] == "expired"
    await core.check_drained()


async def test_a_dispatch_whose_job_has_ended_is_closed_on_the_way_to_the_next_one(core: Core) -> None:
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    left = [await core.submit(ann, priority=5), await core.submit(bob, priority=5)]
    for member, job in zip((ann, bob), left, strict=True):
        # Ended in its pool, and central was never told.
        await core.databases.central.close()
        await cancel(core, member, job)
        await core.databases.central.open()
        await core.rows(member.pool, "DELETE FROM outbox")
    wanted = await core.submit(bob)
    started = await core.start()
    assert started.lease.job_id == wanted.id
    assert [(await finished(core, job))["status"] for job in left] == ["canceled", "canceled"]
    await core.complete(started)
    await core.check_drained()


async def test_an_error_between_lease_and_answer_gives_the_lease_back_with_its_attempt(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    await ann.pool.close()
    with pytest.raises(asyncpg.InterfaceError):
        await core.lease()
    await ann.pool.open()
    row = await hot(core, job)
    assert (row["status"], row["attempts"], row["lease_seq"]) == ("queued", 0, 1)
    started = await core.start()
    assert (started.lease.lease_seq, started.lease.attempts) == (2, 1)
    await core.complete(started)
    assert await core.steps(ann, job.id) == [*STARTED, "processing>completed"]
    await core.check_drained()


async def test_a_poll_that_is_given_up_while_it_starts_gives_the_job_back(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    async with ann.pool.transaction() as connection:
        await connection.execute("SELECT 1 FROM ai_jobs FOR UPDATE")
        poll = asyncio.create_task(core.lease())
        waiting = "SELECT true FROM pg_locks WHERE NOT granted LIMIT 1"
        await until(lambda: connection.fetchval(waiting))
        poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    row = await hot(core, job)
    assert (row["status"], row["attempts"], row["lease_seq"]) == ("queued", 0, 1)
    assert await core.status(ann, job.id) == "queued"
    assert (await core.events(ann, job.id))[-1]["reason"] == "its worker was gone before it had the job"
    await core.complete(await core.start())
    await core.check_drained()


async def test_a_poll_that_is_given_up_while_it_leases_gives_the_lease_back(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    async with core.databases.central.transaction() as connection:
        await connection.execute("LOCK TABLE ai_job_dispatches")
        poll = asyncio.create_task(core.lease())
        await until(lambda: connection.fetchval("SELECT true FROM pg_locks WHERE NOT granted LIMIT 1"))
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll

    async def back() -> bool:
        row = await hot(core, job)
        return (row["status"], row["attempts"], row["lease_seq"]) == ("queued", 0, 1)

    await until(back)
    assert await core.steps(ann, job.id) == ACCEPTED
    await core.complete(await core.start())
    await core.check_drained()


async def test_a_worker_gets_only_its_workflows_its_stage_and_its_providers(core: Core, ann: Member) -> None:
    other = await core.add_workflow()
    jobs = {
        "mine": await core.submit(ann),
        "workflow": await core.submit(ann, workflow_id=other),
        "stage": await core.submit(ann, stage="staging"),
        "provider": await core.submit(ann, provider="cloud"),
    }
    ids = {job.id: name for name, job in jobs.items()}

    async def all_of(**changes: Any) -> set[str]:
        """What this worker would be given; everything goes back."""
        workflows = changes.pop("workflows", (core.workflow,))
        criteria = core.criteria(*workflows, **changes)
        given = [started async for started in leases(core, criteria)]
        for started in given:
            await core.room.execution.requeue(report(started), "only looking")
        return {ids[started.lease.job_id] for started in given}

    assert await all_of() == {"mine"}
    assert await all_of(workflows=(other,)) == {"workflow"}
    assert await all_of(workflows=(other, core.workflow)) == {"mine", "workflow"}
    assert await all_of(stage="staging") == {"stage"}
    assert await all_of(providers=("cloud",)) == {"provider"}
    assert await all_of(providers=("cloud", "self_hosted")) == {"mine", "provider"}
    assert await all_of(workflows=(other,), stage="staging") == set()
    assert await all_of(workflows=(other + 1000,)) == set()
    assert await all_of(providers=()) == set()
    await core.check()


async def leases(core: Core, criteria: Criteria) -> AsyncIterator[StartedLease]:
    while (started := await core.lease("worker-1", criteria)) is not None:
        yield started


async def test_a_worker_without_workflows_gets_nothing_ever(core: Core, ann: Member) -> None:
    await core.submit(ann)
    assert await core.lease("worker-1", Criteria(())) is None
    assert await core.room.queue.lease_many(Criteria(()), ["worker-1"]) == []


async def test_the_highest_priority_comes_first_and_then_the_oldest(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=100).prepare()
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    other = await core.add_workflow()
    wanted = []
    for number, priority in enumerate([0, 5, -1, 5, 0, 7, -1, 0]):
        member, workflow = ((ann, core.workflow), (bob, other))[number % 2]
        job = await core.submit(member, priority=priority, workflow_id=workflow)
        wanted.append((-priority, number, job.id))
    criteria = core.criteria(core.workflow, other)
    assert [started.lease.job_id async for started in leases(core, criteria)] == [job for *_, job in sorted(wanted)]


async def test_one_that_was_put_back_keeps_its_place(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=100).prepare()
    ann = await core.member("pool_1")
    jobs = [await core.submit(ann) for _ in range(6)]
    held = [await core.start() for _ in range(4)]
    await core.room.queue.raise_low_water()
    await core.room.execution.requeue(report(held[1]), "spot")
    await core.room.queue.raise_low_water()
    await core.fail(held[0], retryable=True)
    await core.room.queue.raise_low_water()
    await core.room.queue.promote(datetime.now(UTC) + timedelta(hours=1))
    order = [started.lease.job_id async for started in leases(core, core.criteria())]
    assert order == [jobs[0].id, jobs[1].id, jobs[4].id, jobs[5].id]


@pytest.fixture
async def planes(shared_settings: Settings, shared_databases: Databases) -> AsyncIterator[tuple[Core, Core]]:
    """Two control planes over the same databases, each with connections and batches of its own."""
    others = await open_databases(shared_settings)
    first, second = (open_core(databases, active_per_user=1000) for databases in (shared_databases, others))
    await first.prepare()
    second.workflow = first.workflow
    yield first, second
    await others.close()


async def test_a_raised_limit_wakes_whoever_waits_for_it(core: Core, ann: Member) -> None:
    await core.room.queue.set_limit("model-z", 0)
    await core.submit(ann, concurrency_identifier="model-z")
    assert await core.lease() is None
    core.notifications.clear()
    await core.room.queue.set_limit("model-z", 1)
    assert ("dispatch", f"{core.workflow}/production/self_hosted") in core.notifications
    assert await core.lease() is not None


async def test_a_queue_forgets_the_criteria_nobody_asks_with_any_more(core: Core) -> None:
    for number in range(1, 50):
        assert await core.room.queue.lease(Criteria((number,)), "worker-1") is None
    assert core.room.queue._lease_batchers == {}


LIVE = "SELECT count(*) FROM ai_job_dispatches WHERE concurrency_identifier = 'model-x' AND status <> 'queued'"


async def test_a_concurrency_limit_is_never_exceeded_and_never_left_unused(planes: tuple[Core, Core]) -> None:
    core, _ = planes
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    await core.room.queue.set_limit("model-x", 3)
    for number in range(20):
        # Two pools, two priorities, two identifiers: the limit is over all lanes of one.
        identifier = "" if number % 5 == 4 else "model-x"
        await core.submit((ann, bob)[number % 2], priority=number % 3, concurrency_identifier=identifier, cost=1)
    held, most, done = 0, 0, 0

    async def work(plane: Core, worker: str) -> None:
        nonlocal held, most, done
        while done < 20:
            started = await plane.lease(worker)
            if started is None:
                await asyncio.sleep(0.005)
                continue
            row = (await plane.rows(plane.databases.central, LIVE))[0]
            held += 1
            most = max(most, row["count"])
            await plane.complete(started)
            done += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(planes[number % 2], f"worker-{number}") for number in range(20)))
    assert (held, most) == (20, 3)
    await core.check_drained()


async def test_a_limit_counts_what_is_leased_or_waiting_and_a_slot_is_free_once(planes: tuple[Core, Core]) -> None:
    core, other = planes
    ann = await core.member("pool_1")
    await core.room.queue.set_limit("model-x", 2)
    for _ in range(8):
        await core.submit(ann, concurrency_identifier="model-x")
    first, second = await core.start(), await other.start()
    assert (await core.lease(), await other.lease()) == (None, None)
    later = datetime.now(UTC) + timedelta(hours=1)
    await core.room.execution.defer(report(first), "p-1", later)
    assert await core.lease() is None
    # A report that is repeated frees no second slot.
    for _ in range(3):
        await core.complete(second)
    third = await core.start()
    assert (await core.lease(), await other.lease()) == (None, None)
    await core.room.execution.complete_callback(first.lease.dispatch_id, 1, {}, "provider:x")
    fourth = await other.start()
    assert await core.lease() is None
    await core.expire_lease(third.lease.dispatch_id)
    await core.reap()
    await core.start()
    assert await core.lease() is None
    # Raised, lowered, shut: it holds from the next lease on.
    await core.room.queue.set_limit("model-x", 3)
    await core.start()
    await core.room.queue.set_limit("model-x", 1)
    await core.complete(fourth)
    assert await core.lease() is None
    await core.room.queue.set_limit("model-x", 0)
    assert await core.lease() is None
    # Another identifier, or none, does not wait for it.
    free = await core.submit(ann, concurrency_identifier="model-y", priority=-5)
    assert (await core.start()).lease.job_id == free.id
    await core.check()


async def test_many_leases_at_once_hand_out_each_job_once(planes: tuple[Core, Core]) -> None:
    core, other = planes
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    jobs = {(await core.submit((ann, bob)[number % 2], cost=1)).id for number in range(30)}
    given = await asyncio.gather(*((core, other)[number % 2].lease(f"worker-{number}") for number in range(40)))
    started = [lease for lease in given if lease is not None]
    assert len(started) == 30
    assert {lease.lease.job_id for lease in started} == jobs
    assert len({lease.lease.worker_id for lease in started}) == 30
    await asyncio.gather(*((other, core)[number % 2].complete(lease) for number, lease in enumerate(started)))
    await core.check_drained()


async def test_the_same_job_id_of_three_tenants_in_two_pools_never_crosses(core: Core) -> None:
    members = [await core.member("pool_1"), await core.member("pool_1"), await core.member("pool_2")]
    shared = uuid7()
    with job_ids(shared, shared, shared):
        jobs = [
            await core.submit(member, cost=10, payload={"of": number}, idempotency_key="key")
            for number, member in enumerate(members)
        ]
    assert {job.id for job in jobs} == {shared}
    leased = [await core.start() for _ in members]
    assert [(one.lease.tenant_id, one.payload) for one in leased] == [
        (member.tenant_id, {"of": number}) for number, member in enumerate(members)
    ]
    mixed = Report(leased[0].lease.dispatch_id, leased[2].lease.lease_token, "worker-1")
    with pytest.raises(NotFound):
        await core.room.execution.complete(mixed, {"output": "stolen"})
    await core.complete(leased[0], {"output": "a"})
    await core.fail(leased[1])
    assert [await core.status(member, shared) for member in members] == ["completed", "failed", "processing"]
    await core.room.endings.retry(members[1].tenant_id, shared, actor="user:x")
    await core.room.endings.cancel(members[2].tenant_id, shared, actor="user:x")
    assert [await core.status(member, shared) for member in members] == ["completed", "queued", "canceled"]
    assert [await core.balance(member) for member in members] == [990, 990, 1000]
    assert [(await core.job(member, shared))["result"] for member in members] == [{"output": "a"}, None, None]
    await core.drain()
    assert [await core.status(member, shared) for member in members] == ["completed", "completed", "canceled"]
    await core.check_drained()


def told(logged: io.StringIO) -> list[dict[str, Any]]:
    """The lines about jobs, without what every line has."""
    lines = [json.loads(line.lstrip("\0")) for line in logged.getvalue().splitlines()]
    about_jobs = [line for line in lines if line["event"].startswith("job.")]
    assert all(line["ts"].endswith("Z") for line in about_jobs)
    return [{key: line[key] for key in line if key not in ("ts", "level", "logger")} for line in about_jobs]


async def test_every_event_is_one_line_in_the_log(core: Core, ann: Member, logged: io.StringIO) -> None:
    job, started = await running(core, ann)
    await core.room.execution.requeue(report(started), "spot")
    await core.complete(await core.start(), {"output": "o.mp4", "metadata": {"frames": 3}})
    broken, failing = await running(core, ann)
    await core.fail(failing)

    def line(event: str, **fields: object) -> dict[str, object]:
        return {"event": event, "job_id": str(job.id), **fields}

    def step(from_status: str, to_status: str) -> dict[str, object]:
        return line("job.transition", from_status=from_status, to_status=to_status)

    lines = told(logged)
    assert [found for found in lines if found["job_id"] == str(job.id)] == [
        line("job.created", type="effect", credits_cost=10),
        step("pending", "queued"),
        step("queued", "processing"),
        step("processing", "queued"),
        step("queued", "processing"),
        step("processing", "completed"),
        line("job.completed", output={"frames": 3}),
    ]
    failed = [found for found in lines if found["job_id"] == str(broken.id)][-1]
    assert (failed["event"], failed["refund"], failed["error"]["type"]) == ("job.failed", 10, "engine_error")
    # As many transitions as the history has.
    for found in (job, broken):
        events = [event["event"] for event in await core.events(ann, found.id)]
        logged_events = [entry["event"] for entry in lines if entry["job_id"] == str(found.id)]
        assert [name for name in logged_events if name in ("job.created", "job.transition")] == events
