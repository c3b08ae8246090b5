"""A lease's life: started, kept alive, reported on, requeued, deferred."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from callsheet.dispatch.facts import DispatchEnd
from callsheet.jobs.lease.leases import INTERRUPTED
from callsheet.jobs.lease.outcomes import Failure, LeaseReport
from callsheet.settings import JobSettings
from callsheet.wire.errors import NotFound
from callsheet.wire.job_errors import UNKNOWN
from callsheet.wire.worker.errors import LeaseLost
from tests.support.jobs.core import Core, Member, open_core, report
from tests.support.jobs.job_states import (
    CONSUMED,
    POOLS,
    REFUNDED,
    RESERVED,
    STARTED,
    active_dispatch,
    cancel_job,
    deferred_job,
    finished_dispatch,
    retry_job,
    running_job,
)


@POOLS
async def test_a_job_is_leased_started_kept_alive_and_completed(core: Core, pool: str) -> None:
    ann = await core.member(pool, tokens=100)
    job, started = await running_job(core, ann, payload={"prompt": "a cat"}, cost=10)
    lease = started.lease
    assert (started.user_id, started.payload) == (ann.user_id, {"prompt": "a cat"})
    assert (lease.tenant_id, lease.charge_cycle, lease.lease_seq, lease.attempts) == (ann.tenant_id, 1, 1, 1)
    assert (lease.worker_id, lease.lease_seconds, lease.run_limit_seconds) == ("worker-1", 900, 3600)
    row = await core.job(ann, job.id)
    assert (row["status"], row["lease_seq"], row["completed_at"]) == ("processing", 1, None)
    assert row["started_at"] is not None
    extended = await core.room.leases.heartbeat(report(started), run_started=True)
    assert (extended.cancel_requested, extended.lease_expires_at > lease.lease_expires_at) == (False, True)

    outcome = await core.room.leases.complete(report(started), {"output": "o.mp4"}, provider_job_id="prompt-7")
    assert (outcome.job_id, outcome.status) == (job.id, "completed")
    row = await core.job(ann, job.id)
    assert (row["status"], row["result"], row["provider_job_id"]) == ("completed", {"output": "o.mp4"}, "prompt-7")
    assert row["completed_at"] is not None
    past = await finished_dispatch(core, job)
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
    job, started = await running_job(core, ann, lease_seconds=100, run_limit_seconds=1000)
    beat = core.room.leases.heartbeat
    extended = await beat(report(started), run_started=True)
    assert 90 < extended.ttl_seconds <= 100
    first_start = (await active_dispatch(core, job))["run_started_at"]
    assert (await beat(report(started), run_started=True)).lease_expires_at >= extended.lease_expires_at
    row = await active_dispatch(core, job)
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


async def test_waiting_for_the_engine_does_not_count_for_the_run_limit(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann, lease_seconds=100, run_limit_seconds=1000)
    beat = core.room.leases.heartbeat
    # As if it had been leased longer ago than a run may take.
    long_ago = "UPDATE ai_job_dispatches SET last_leased_at = now() - interval '1200 s', lease_expires_at = now()"
    await core.rows(core.databases.central, long_ago)
    # A worker that does not know the word is bound by its lease.
    assert (await beat(report(started))).ttl_seconds <= 0
    assert 90 < (await beat(report(started), run_waiting=True)).ttl_seconds <= 100
    assert (await active_dispatch(core, job))["run_started_at"] is None
    await core.rows(core.databases.central, long_ago)
    assert 90 < (await beat(report(started), run_started=True)).ttl_seconds <= 100
    await core.rows(core.databases.central, long_ago)
    # From the start on it counts, whatever is said.
    over = "UPDATE ai_job_dispatches SET run_started_at = now() - interval '1200 s', lease_expires_at = now()"
    await core.rows(core.databases.central, over)
    assert (await beat(report(started), run_waiting=True)).ttl_seconds <= 0


async def test_a_heartbeat_of_another_worker_with_the_right_token_is_refused(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    before = (await active_dispatch(core, job))["lease_expires_at"]
    with pytest.raises(NotFound):
        await core.room.leases.heartbeat(
            LeaseReport(started.lease.dispatch_id, started.lease.lease_token, "another-worker")
        )
    assert (await active_dispatch(core, job))["lease_expires_at"] == before


async def test_heartbeats_that_arrive_together_each_get_the_response_for_their_own_lease(
    core: Core, ann: Member
) -> None:
    leases = [(await running_job(core, ann))[1] for _ in range(4)]
    await core.complete(leases[0])
    foreign = LeaseReport(leases[1].lease.dispatch_id, leases[2].lease.lease_token, "worker-1")
    responses = await asyncio.gather(
        *(core.room.leases.heartbeat(report(started)) for started in leases),
        core.room.leases.heartbeat(foreign),
        return_exceptions=True,
    )
    assert [type(response).__name__ for response in responses] == ["LeaseLost", *["LeaseExtension"] * 3, "NotFound"]


@pytest.mark.parametrize("started_first", [True, False])
async def test_concurrent_heartbeats_of_one_lease_keep_the_start_of_the_run(
    core: Core, ann: Member, started_first: bool
) -> None:
    job, started = await running_job(core, ann)
    _, other = await running_job(core, ann)
    beats = [
        core.room.leases.heartbeat(report(started), has_started) for has_started in (started_first, not started_first)
    ]
    # The first is alone with the database, and the others wait for it and go together.
    await asyncio.gather(core.room.leases.heartbeat(report(other)), *beats)
    assert (await active_dispatch(core, job))["run_started_at"] is not None


async def test_a_worker_that_stops_for_a_cancel_leaves_no_refusal_in_the_jobs_history(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await cancel_job(core, ann, job)
    stopped = Failure("canceled", "The job was canceled.")
    assert (await core.room.leases.fail(report(started), stopped)).status == "canceled"
    assert await core.steps(ann, job.id) == [*STARTED, "processing>canceled"]
    assert (await finished_dispatch(core, job))["status"] == "canceled"
    await core.check_drained()


async def test_the_next_heartbeat_reports_a_cancel_and_the_slot_stays_until_the_report(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    assert (await cancel_job(core, ann, job)).status == "canceled"
    assert await core.balance(ann) == 1000
    extended = await core.room.leases.heartbeat(report(started))
    assert extended.cancel_requested
    row = await active_dispatch(core, job)
    assert (row["status"], row["worker_id"]) == ("leased", "worker-1")
    assert await core.lease("worker-2") is None

    # Whatever it reports now, the job stays canceled and is refunded once.
    assert (await core.complete(started)).status == "canceled"
    assert (await finished_dispatch(core, job))["status"] == "canceled"
    assert await core.steps(ann, job.id) == [*STARTED, "processing>canceled", "canceled!completed"]
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    assert (await core.job(ann, job.id))["result"] is None
    await core.check_drained()


@pytest.mark.parametrize("how", ["fail", "fail retryable", "requeue", "lease ends"])
async def test_a_canceled_job_that_was_running_is_never_run_again(core: Core, ann: Member, how: str) -> None:
    job, started = await running_job(core, ann)
    await cancel_job(core, ann, job)
    if how == "requeue":
        assert (await core.room.leases.requeue(report(started), "spot")).status == "canceled"
    elif how == "lease ends":
        await core.expire_lease(started.lease.dispatch_id)
        await core.reap()
    else:
        assert (await core.fail(started, retryable=how == "fail retryable")).status == "canceled"
    assert (await finished_dispatch(core, job))["status"] == "canceled"
    assert await core.lease() is None
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@pytest.mark.few_forms
@pytest.mark.parametrize("what", ["complete", "fail", "requeue", "retryable", "defer"])
async def test_a_repeated_report_returns_what_is_recorded(core: Core, ann: Member, what: str) -> None:
    job, started = await running_job(core, ann)
    reports, worker_report = core.room.leases, report(started)

    async def send() -> str:
        match what:
            case "complete":
                outcome = await reports.complete(worker_report, {"output": "o.mp4"})
            case "fail" | "retryable":
                outcome = await reports.fail(worker_report, Failure("t", "m", retryable=what == "retryable"))
            case "requeue":
                outcome = await reports.requeue(worker_report, "spot")
            case _:
                outcome = await reports.defer(worker_report, "p-1", datetime.now(UTC) + timedelta(hours=1))
        assert outcome.job_id == job.id
        return outcome.status

    first = await send()
    steps, ledger = await core.steps(ann, job.id), await core.ledger(ann, job.id)
    recorded = {
        "complete": "completed",
        "fail": "failed",
        "requeue": "queued",
        "retryable": "queued",
        "defer": "waiting",
    }
    assert [first, *await asyncio.gather(send(), send()), await send()] == [recorded[what]] * 4
    assert (await core.steps(ann, job.id), await core.ledger(ann, job.id)) == (steps, ledger)
    await core.check()


async def test_a_report_after_the_job_was_completed_returns_completed(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await core.complete(started)
    assert (await core.fail(started)).status == "completed"
    assert (await core.room.leases.requeue(report(started), "late")).status == "completed"
    with pytest.raises(LeaseLost, match="completed"):
        await core.room.leases.heartbeat(report(started))
    assert await core.status(ann, job.id) == "completed"
    await core.check_drained()


async def test_a_token_that_is_unknown_or_another_workers_finds_nothing_and_changes_nothing(
    core: Core, ann: Member
) -> None:
    job, started = await running_job(core, ann)
    lease, reports = started.lease, core.room.leases
    foreign = [
        LeaseReport(lease.dispatch_id, uuid4(), "worker-1"),
        LeaseReport(lease.dispatch_id, lease.lease_token, "worker-2"),
        LeaseReport(lease.dispatch_id + 1000, lease.lease_token, "worker-1"),
    ]
    later = datetime.now(UTC) + timedelta(hours=1)
    for stranger in foreign:
        for call in (
            reports.complete(stranger, {}),
            reports.fail(stranger, Failure("t", "m")),
            reports.fail(stranger, Failure("t", "m", retryable=True)),
            reports.requeue(stranger, "spot"),
            reports.defer(stranger, "p-1", later),
        ):
            with pytest.raises(NotFound):
                await call
    for stranger in (foreign[0], foreign[2]):
        with pytest.raises(NotFound):
            await reports.heartbeat(stranger)
    assert await core.steps(ann, job.id) == STARTED
    assert (await core.complete(started)).status == "completed"


async def test_a_worker_that_was_overtaken_has_lost_its_lease_and_changes_nothing(core: Core, ann: Member) -> None:
    job, old = await running_job(core, ann)
    await core.expire_lease(old.lease.dispatch_id)
    await core.reap()
    new = await core.start("worker-2")
    assert (new.lease.job_id, new.lease.lease_seq, new.lease.attempts) == (job.id, 2, 2)
    later = datetime.now(UTC) + timedelta(hours=1)
    for _ in ("while the new one runs", "after it has finished"):
        for call in (
            core.room.leases.heartbeat(report(old)),
            core.complete(old, {"output": "stale"}),
            core.fail(old),
            core.fail(old, retryable=True),
            core.room.leases.requeue(report(old), "spot"),
            core.room.leases.defer(report(old), "p-1", later),
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


async def test_a_late_worker_may_still_complete_while_no_other_worker_has_the_job(core: Core, ann: Member) -> None:
    """The lease expired, but the reaper has not run: the work is done, and no other worker has the job."""
    job, started = await running_job(core, ann)
    await core.expire_lease(started.lease.dispatch_id)
    assert (await core.complete(started)).status == "completed"
    await core.reap()
    assert await core.status(ann, job.id) == "completed"
    await core.check_drained()


async def test_a_retryable_failure_waits_its_delay_in_the_queue_and_is_tried_again(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    before = datetime.now(UTC)
    assert (await core.fail(started, retryable=True)).status == "queued"
    row = await active_dispatch(core, job)
    assert (row["status"], row["attempts"], row["requeues"], row["last_error"]) == (
        *("queued", 1, 0),
        "The engine stopped.",
    )
    assert before < row["not_before"] <= before + timedelta(seconds=30)
    assert await core.status(ann, job.id) == "queued"
    events = await core.events(ann, job.id)
    assert (events[-1]["reason"], events[-1]["reported"]) == (
        f"The run failed and will be retried: {UNKNOWN}",
        "The run failed and will be retried: The engine stopped.",
    )
    assert await core.ledger(ann, job.id) == [RESERVED]

    assert await core.lease() is None
    assert await core.queue.promote() == 0
    assert await core.queue.promote(row["not_before"]) == 1
    again = await core.start("worker-2")
    assert (again.lease.job_id, again.lease.attempts, again.lease.lease_seq) == (job.id, 2, 2)
    await core.check()


async def test_the_delay_grows_with_the_attempts(core: Core, ann: Member) -> None:
    _, started = await running_job(core, ann, max_attempts=8)
    delays = []
    for _ in range(7):
        now = datetime.now(UTC)
        await core.fail(started, retryable=True)
        [row] = await core.rows(core.databases.central, "SELECT not_before FROM ai_job_dispatches")
        delays.append((row["not_before"] - now).total_seconds())
        await core.queue.promote(row["not_before"])
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
            await core.queue.promote(datetime.now(UTC) + timedelta(hours=1))
    row = await core.job(ann, job.id)
    assert row["status"] == "failed"
    assert row["error"]["type"] == ("lease_expired" if how == "lease ends" else "engine_error")
    assert (row["error"]["details"]["attempts"], row["error"]["details"]["max_attempts"]) == (2, 2)
    assert await core.steps(ann, job.id) == [
        *STARTED,
        *("processing>queued", "queued>processing", "processing>failed"),
    ]
    assert (await finished_dispatch(core, job))["attempts"] == 2
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@POOLS
async def test_a_failure_that_is_not_retryable_fails_at_once_and_keeps_the_details_for_admins(
    core: Core, pool: str
) -> None:
    ann = await core.member(pool)
    job, started = await running_job(core, ann)
    assert (await core.fail(started)).status == "failed"
    error = (await core.job(ann, job.id))["error"]
    assert error == {
        "type": "engine_error",
        "message": UNKNOWN,
        "reported": "The engine stopped.",
        "details": {"node": 4, "attempts": 1, "max_attempts": 3},
        "traceback": "Traceback …",
    }
    assert (await finished_dispatch(core, job))["last_error"] == "The engine stopped."
    event = (await core.events(ann, job.id))[-1]
    assert (event["reason"], event["reported"]) == (UNKNOWN, "The engine stopped.")
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


async def test_a_requeue_does_not_count_the_attempt_until_there_were_too_many(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann, max_attempts=2)
    assert (await core.room.leases.requeue(report(started), "spot instance")).status == "queued"
    row = await active_dispatch(core, job)
    assert (row["attempts"], row["requeues"], row["not_before"]) == (0, 1, None)
    event = (await core.events(ann, job.id))[-1]
    assert (event["reason"], event["reported"]) == (INTERRUPTED, "Requeued: spot instance")

    await core.rows(
        core.databases.central, "UPDATE ai_job_dispatches SET requeues = $1", JobSettings().free_requeues - 1
    )
    await core.room.leases.requeue(report(await core.start()), "spot")
    row = await active_dispatch(core, job)
    assert (row["attempts"], row["requeues"]) == (0, JobSettings().free_requeues)
    # From now on each costs its attempt, and the second of two is the last.
    await core.room.leases.requeue(report(await core.start()), "spot")
    assert (await active_dispatch(core, job))["attempts"] == 1
    last = await core.room.leases.requeue(report(await core.start()), "spot")
    assert last.status == "failed"
    assert (await core.job(ann, job.id))["error"]["type"] == "attempts_exhausted"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@POOLS
async def test_a_deferred_job_frees_its_worker_and_the_callback_completes_it(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job, started = await deferred_job(core, ann)
    row = await active_dispatch(core, job)
    assert (row["status"], row["worker_id"], row["lease_token"], row["provider_job_id"]) == (
        *("waiting", None),
        *(None, "prediction-9"),
    )
    assert await core.queue.held_by("worker-1") == []
    assert await core.status(ann, job.id) == "processing"
    with pytest.raises(LeaseLost):
        await core.room.leases.heartbeat(report(started))
    await core.reap()
    assert await core.lease() is None

    callback, cycle = core.room.leases.complete_callback, started.lease.cycle
    with pytest.raises(NotFound):
        await callback(row["dispatch_id"], cycle._replace(charge_cycle=2), {"output": "o.png"}, "provider:x")
    with pytest.raises(NotFound):
        await callback(row["dispatch_id"], cycle._replace(job_id=uuid4()), {"output": "o.png"}, "provider:x")
    with pytest.raises(NotFound):
        await callback(row["dispatch_id"] + 1000, cycle, {"output": "o.png"}, "provider:x")
    for _ in ("first", "duplicate"):
        assert (await callback(row["dispatch_id"], cycle, {"output": "o.png"}, "provider:x")).status == "completed"
    assert (await core.job(ann, job.id))["result"] == {"output": "o.png"}
    assert (await core.events(ann, job.id))[-1]["actor"] == "provider:x"
    assert (await finished_dispatch(core, job))["provider_job_id"] == "prediction-9"
    assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
    await core.check_drained()


async def test_a_callback_for_a_job_that_does_not_wait_changes_nothing(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    outcome = await core.room.leases.complete_callback(
        started.lease.dispatch_id, started.lease.cycle, {"output": "x"}, "provider:x"
    )
    assert outcome.status == "leased"
    assert await core.steps(ann, job.id) == STARTED


async def test_a_wait_that_lasts_too_long_expires_and_a_late_callback_changes_nothing(core: Core, ann: Member) -> None:
    job, started = await deferred_job(core, ann)
    dispatch_id = started.lease.dispatch_id
    await core.expire_lease(dispatch_id)
    await core.reap()
    row = await core.job(ann, job.id)
    assert (row["status"], row["error"]["type"]) == ("expired", "callback_expired")
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    callback = core.room.leases.complete_callback
    assert (await callback(dispatch_id, started.lease.cycle, {"output": "late"}, "provider:x")).status == "expired"
    await core.check_drained()

    # Retried, the callback of the cycle before is as late as it was.
    await retry_job(core, ann, job)
    second = await core.start()
    later = datetime.now(UTC) + timedelta(hours=1)
    await core.room.leases.defer(report(second), "prediction-10", later)
    assert (await callback(dispatch_id, started.lease.cycle, {"output": "late"}, "provider:x")).status == "expired"
    with pytest.raises(NotFound):
        await callback(dispatch_id, second.lease.cycle, {"output": "late"}, "provider:x")
    assert await core.status(ann, job.id) == "processing"
    assert (
        await callback(second.lease.dispatch_id, second.lease.cycle, {"output": "fresh"}, "provider:x")
    ).status == "completed"
    assert (await core.job(ann, job.id))["result"] == {"output": "fresh"}
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED, (2, "JOB_RESERVE", -10), (2, "JOB_CONSUME", 0)]
    await core.check_drained()


async def test_a_wait_never_outlives_the_deadline(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await core.room.leases.defer(report(started), "p-1", datetime.now(UTC) + timedelta(days=300))
    row = await active_dispatch(core, job)
    assert row["lease_expires_at"] == row["deadline_at"]


async def test_a_dispatch_that_came_back_after_it_was_finished_is_closed_without_a_second_line(
    core: Core, ann: Member
) -> None:
    done, started = await running_job(core, ann)
    await core.complete(started)
    again = """
        INSERT INTO ai_job_dispatches (
            tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id, stage, provider, priority, kind,
            deadline_at)
        SELECT h.tenant_id, l.user_id, h.tenant_job_id, h.charge_cycle, l.lane_id, workflow_id, stage, provider,
            priority, h.kind, clock_timestamp() + interval '1 day'
        FROM dispatch_history h JOIN dispatch_lanes l USING (workflow_id, stage, provider, priority)
        WHERE h.dispatch_id = $1 RETURNING dispatch_id"""
    async with core.databases.central.connection() as connection:
        returned = await connection.fetchval(again, started.lease.dispatch_id)
    _, other = await running_job(core, ann, priority=1)
    endings = [
        DispatchEnd(returned, "failed"),
        DispatchEnd(other.lease.dispatch_id, "completed", other.lease.lease_token),
    ]
    nothing, closed = await core.queue.close_many(endings)
    assert nothing is None
    assert closed is not None
    assert closed.dispatch_id == other.lease.dispatch_id
    assert await core.dispatch(done.id) is None
    assert (await finished_dispatch(core, done))["dispatch_id"] == started.lease.dispatch_id


async def test_lease_attempts_and_free_requeues_are_settings_and_a_job_may_have_its_own(core: Core) -> None:
    strict = open_core(core.databases, lease_seconds=60, max_attempts=1, free_requeues=0)
    strict.workflow = core.workflow
    ann = await strict.member()
    job, started = await running_job(strict, ann)
    assert started.lease.lease_seconds == 60
    # The first requeue counts as an attempt, and it was the only one.
    assert (await strict.room.leases.requeue(report(started), "spot")).status == "failed"
    assert (await strict.job(ann, job.id))["error"]["type"] == "attempts_exhausted"
    _, started = await running_job(strict, ann, lease_seconds=30, max_attempts=2)
    assert started.lease.lease_seconds == 30
    assert (await strict.room.leases.requeue(report(started), "spot")).status == "queued"


async def test_a_changed_setting_does_not_affect_a_repeated_idempotency_key(core: Core, ann: Member) -> None:
    """G5: the settings are not part of the request."""
    first = await core.submitted(ann, idempotency_key="once")
    other = open_core(core.databases, max_attempts=7)
    other.workflow = core.workflow
    again = await other.submitted(ann, idempotency_key="once")
    assert (again.job.id, again.replayed) == (first.job.id, True)


async def test_a_job_that_is_leased_and_returned_all_day_keeps_its_last_hundred_leases(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    for _ in range(104):
        started = await core.start()
        await core.room.starter.return_lease(started)
    dispatch = await active_dispatch(core, job)
    assert (dispatch["attempts"], dispatch["requeues"]) == (0, 0)
    assert len(dispatch["past_lease_tokens"]) == len(dispatch["past_workers"]) == 100
    assert dispatch["past_lease_tokens"][-1] == started.lease.lease_token
    # The last one can still report.
    assert (await core.room.leases.fail(report(started), Failure(UNKNOWN, "late"))).status == "queued"
