"""Endings: exactly one terminal state and one settlement, whichever report, cancel or loop comes first (G1, G2)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from callsheet.dispatch.facts import JobCycle, Requeue
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.progress import ProgressReport
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import apply_transition, retry_job, start_jobs
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.wire.errors import InvalidTransition, TooManyActiveJobs
from callsheet.wire.jobs import Job
from callsheet.wire.worker.errors import LeaseLost
from tests.support.jobs.core import Core, open_core, report
from tests.support.jobs.race import COMPLETED, CONSUMED, QUEUED, REFUNDED, RESERVE, STARTED, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

LOCK_WALLET = "SELECT wallet_lock($1, $2)"
LOCK_JOB = "SELECT 1 FROM ai_jobs WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
AFTER_EVERY_DEADLINE = timedelta(days=400)


async def cancel(core: Core, race: Race, job: Job) -> Job:
    return await core.room.cancellation.cancel(race.ann.tenant_id, job.id, actor="user")


async def retry(core: Core, race: Race, job: Job) -> Job:
    return await core.room.retries.retry(race.ann.tenant_id, job.id, actor="user")


def move(race: Race, job: Job, **changes: object) -> TransitionRequest:
    return TransitionRequest(JobCycle(race.ann.tenant_id, job.id, 1), "test", **changes)  # type: ignore[arg-type]


async def enforce_far_ahead(core: Core, race: Race) -> None:
    pool = await core.databases.pool(race.ann.pool.name)
    await core.room.deadlines.enforce(pool, datetime.now(UTC) + AFTER_EVERY_DEADLINE)


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def test_complete_after_a_reap_is_refused_and_the_next_lease_completes(race: Race) -> None:
    job, older = await race.started("older")
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(older)) as completing:
        await race.two.expire_lease(older.lease.dispatch_id)
        await race.two.reap()
    with pytest.raises(LeaseLost):
        await completing
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")
    newer = await race.two.start("newer")
    await race.two.complete(newer)
    with pytest.raises(LeaseLost):
        await race.one.complete(older)
    await race.check_job(job.id, [*STARTED, "processing>queued", "queued>processing", "processing>completed"], CONSUMED)


async def test_complete_between_the_two_halves_of_a_reap_wins(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        await race.two.expire_lease(started.lease.dispatch_id)
        reap = paused_at(Failpoint.REQUEUE_BEFORE_POOL, race.two.reap())
        reaping = await reap.__aenter__()
    assert (await completing).status == "completed"
    # Before the reaper goes on: should it never do so, nothing is handed out again.
    await race.check_job(job.id, COMPLETED, CONSUMED)
    await reap.__aexit__(None, None, None)
    await reaping
    await race.check_job(job.id, COMPLETED, CONSUMED)
    assert await race.finished(job.id) == [(1, "completed")]


async def test_a_report_between_the_two_halves_of_a_reap_returns_queued(race: Race) -> None:
    job, started = await race.started()
    await race.two.expire_lease(started.lease.dispatch_id)
    async with paused_at(Failpoint.REQUEUE_BEFORE_POOL, race.two.reap()) as reaping:
        assert (await race.one.complete(started)).status == "queued"
    await reaping
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")


@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_reap_between_the_two_halves_of_complete_closes_the_dispatch(race: Race, attempts: int) -> None:
    job, started = await race.started(max_attempts=attempts)
    async with paused_at(Failpoint.COMPLETE_BEFORE_CLOSE, race.one.complete(started)) as completing:
        await race.two.expire_lease(started.lease.dispatch_id)
        await race.two.reap()
        await race.check_job(job.id, COMPLETED, CONSUMED)
    assert (await completing).status == "completed"
    await race.check_job(job.id, COMPLETED, CONSUMED)
    assert await race.finished(job.id) == [(1, "completed")]


async def test_complete_after_the_reaper_failed_the_job_adopts_the_failure(race: Race) -> None:
    job, started = await race.started(max_attempts=1)
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        await race.two.expire_lease(started.lease.dispatch_id)
        await race.two.reap()
    assert (await completing).status == "failed"
    await race.check_job(job.id, [*STARTED, "processing>failed", "failed!completed"], REFUNDED)


async def test_complete_after_cancel_adopts_the_cancel(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        assert (await cancel(race.two, race, job)).status == "canceled"
        beat = await race.two.room.leases.heartbeat(report(started))
        assert beat.cancel_requested
    assert (await completing).status == "canceled"
    await race.check_job(job.id, [*STARTED, "processing>canceled", "canceled!completed"], REFUNDED)
    assert await race.finished(job.id) == [(1, "canceled")]


async def test_cancel_that_waits_while_complete_commits_is_refused(race: Race) -> None:
    job, started = await race.started()
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [canceling] = await start_blocked(race.pool, cancel(race.one, race, job))
        assert (await race.two.complete(started)).status == "completed"
    with pytest.raises(InvalidTransition):
        await canceling
    await race.check_job(job.id, [*COMPLETED, "completed!canceled"], CONSUMED)


async def test_cancel_that_waits_for_the_job_of_an_open_complete_is_refused(race: Race) -> None:
    job, started = await race.started()
    async with race.pool.transaction() as connection:
        assert await apply_transition(connection, Transition.COMPLETE, [move(race, job, lease_seq=1, result={})])
        [canceling] = await start_blocked(race.pool, cancel(race.one, race, job))
    with pytest.raises(InvalidTransition):
        await canceling
    await race.one.complete(started)
    await race.check_job(job.id, [*COMPLETED, "completed!canceled"], CONSUMED)


async def test_cancel_that_waits_for_the_job_of_an_open_start_cancels_what_is_running(race: Race) -> None:
    job = await race.submit()
    async with race.pool.transaction() as connection:
        assert await start_jobs(connection, Transition.START, [move(race, job, new_lease_seq=1)])
        [canceling] = await start_blocked(race.pool, cancel(race.one, race, job))
    assert (await canceling).status == "canceled"
    await race.check_job(job.id, [*STARTED, "processing>canceled"], REFUNDED)


async def test_a_start_that_waits_for_an_open_cancel_is_refused(race: Race) -> None:
    job = await race.submit()
    async with race.pool.transaction() as connection:
        assert await apply_transition(connection, Transition.CANCEL, [move(race, job)], close_dispatch=True)
        [leasing] = await start_blocked(race.pool, race.one.lease())
    assert await leasing is None
    await race.one.relay()
    await race.check_job(job.id, [*QUEUED, "queued>canceled"], REFUNDED)
    assert await race.finished(job.id) == [(1, "canceled")]


async def test_a_complete_that_waits_for_an_open_start_of_a_newer_lease_is_refused(race: Race) -> None:
    job, started = await race.started()
    async with race.pool.transaction() as connection:
        assert await start_jobs(connection, Transition.START, [move(race, job, new_lease_seq=2)])
        [completing] = await start_blocked(race.pool, race.one.complete(started))
        queue, older = race.two.queue, started.lease
        await queue.requeue([Requeue(older.dispatch_id, older.lease_token, attempt_counts=False)])
        newer = await queue.lease(race.two.criteria(), "worker-2")
        assert newer is not None
        assert (newer.job_id, newer.lease_seq) == (job.id, 2)
    with pytest.raises(LeaseLost):
        await completing
    assert await race.one.steps(race.ann, job.id) == [*STARTED, "processing>queued", "queued>processing"]
    assert await race.one.ledger(race.ann, job.id) == [RESERVE]


async def test_a_cancel_before_a_stalled_start_wins(race: Race) -> None:
    job = await race.submit()
    async with paused_at(Failpoint.LEASE_BEFORE_START, race.one.lease()) as leasing:
        await cancel(race.two, race, job)
    assert await leasing is None
    await race.check_job(job.id, [*QUEUED, "queued>canceled"], REFUNDED)
    assert await race.finished(job.id) == [(1, "canceled")]


async def test_start_between_the_two_halves_of_a_cancel_is_refused_and_goes_on_to_the_next_row(race: Race) -> None:
    job = await race.submit()
    next_job = await race.submit()
    async with paused_at(Failpoint.CANCEL_BEFORE_RELAY, cancel(race.one, race, job)) as canceling:
        started = await race.two.start()
        assert started.lease.job_id == next_job.id
    assert (await canceling).status == "canceled"
    await race.check_job(job.id, [*QUEUED, "queued>canceled"], REFUNDED)
    assert await race.finished(job.id) == [(1, "canceled")]


async def test_fail_before_the_pool_half_of_complete_wins(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        assert (await race.two.fail(started)).status == "failed"
    assert (await completing).status == "failed"
    await race.check_job(job.id, [*STARTED, "processing>failed", "failed!completed"], REFUNDED)


async def test_fail_after_the_pool_half_of_complete_adopts_it(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_CLOSE, race.one.complete(started)) as completing:
        assert (await race.two.fail(started)).status == "completed"
    assert (await completing).status == "completed"
    await race.check_job(job.id, [*COMPLETED, "completed!failed"], CONSUMED)


async def test_a_retryable_failure_before_the_pool_half_of_complete_ends_the_lease(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        assert (await race.two.fail(started, retryable=True)).status == "queued"
    with pytest.raises(LeaseLost):
        await completing
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")


async def test_two_completes_with_one_token_consume_once(race: Race) -> None:
    job, started = await race.started()
    async with open_transaction(race.pool, LOCK_JOB, race.ann.tenant_id, job.id):
        tasks = await start_blocked(
            race.pool, race.one.complete(started, {"n": 1}), race.two.complete(started, {"n": 2})
        )
    assert [(await task).status for task in tasks] == ["completed", "completed"]
    await race.check_job(job.id, COMPLETED, CONSUMED)
    assert (await race.one.job(race.ann, job.id))["result"]["n"] == 1


async def test_complete_after_the_deadline_expired_the_job_adopts_the_expiry(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        await enforce_far_ahead(race.two, race)
    assert (await completing).status == "expired"
    await race.check_job(job.id, [*STARTED, "processing>expired", "expired!completed"], REFUNDED)


async def test_the_deadline_does_not_expire_a_job_that_completed_while_it_waited(race: Race) -> None:
    job, started = await race.started()
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [enforcing] = await start_blocked(race.pool, enforce_far_ahead(race.one, race))
        await race.two.complete(started)
    await enforcing
    await race.check_job(job.id, COMPLETED, CONSUMED)


async def test_the_deadline_of_a_waiting_job_does_not_fail_a_job_that_started_meanwhile(race: Race) -> None:
    job = await race.submit()
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [enforcing] = await start_blocked(race.pool, enforce_far_ahead(race.one, race))
        await race.two.start()
    await enforcing
    await race.check_job(job.id, STARTED, [RESERVE], dispatch="leased")


async def deferred(race: Race) -> tuple[Job, StartedLease]:
    job, started = await race.started()
    await race.one.room.leases.defer(report(started), "prediction-1", later())
    return job, started


EXPIRED_AND_RETRIED = [*STARTED, "processing>expired", "expired>pending"]
TWO_CYCLES = [*REFUNDED, (2, "JOB_RESERVE", -10)]


async def test_a_late_callback_of_the_earlier_cycle_changes_nothing_after_a_retry(race: Race) -> None:
    job, started = await deferred(race)
    await race.one.expire_lease(started.lease.dispatch_id)
    async with paused_at(Failpoint.REAP_BEFORE_CLOSE, race.one.reap()) as reaping:
        assert (await retry(race.two, race, job)).charge_cycle == 2
        outcome = await race.two.room.leases.complete_callback(
            started.lease.dispatch_id, started.lease.cycle, {"late": True}, "provider"
        )
        assert outcome.status == "expired"
    await reaping
    steps = [*EXPIRED_AND_RETRIED, "pending>queued", "queued!completed"]
    await race.check_job(job.id, steps, TWO_CYCLES, dispatch="queued")
    again = await race.two.room.leases.complete_callback(
        started.lease.dispatch_id, started.lease.cycle, {"late": True}, "provider"
    )
    assert again.status == "expired"
    await race.one.complete(await race.one.start())
    await race.check_job(
        job.id, [*steps, "queued>processing", "processing>completed"], [*TWO_CYCLES, (2, "JOB_CONSUME", 0)]
    )
    assert [cycle for cycle, _ in await race.finished(job.id)] == [1, 2]


async def test_a_callback_that_waits_while_its_job_expires_and_is_retried_changes_nothing(race: Race) -> None:
    job, started = await deferred(race)
    async with race.pool.transaction() as connection:
        await apply_transition(connection, Transition.EXPIRE, [move(race, job)])
        await retry_job(connection, move(race, job), has_budgets=False, paid_by_tenant=False)
        callback = race.one.room.leases.complete_callback(
            started.lease.dispatch_id, started.lease.cycle, {"late": True}, "provider"
        )
        [calling] = await start_blocked(race.pool, callback)
    assert (await calling).status == "expired"
    await race.two.relay()
    steps = [*EXPIRED_AND_RETRIED, "pending!completed", "pending>queued"]
    await race.check_job(job.id, steps, TWO_CYCLES, dispatch="queued")


async def test_callback_and_expiry_of_a_wait_settle_once(race: Race) -> None:
    job, started = await deferred(race)
    await race.one.expire_lease(started.lease.dispatch_id)
    callback = race.one.room.leases.complete_callback(
        started.lease.dispatch_id, started.lease.cycle, {"n": 1}, "provider"
    )
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [reaping] = await start_blocked(race.pool, race.two.reap())
        assert (await callback).status == "completed"
    await reaping
    await race.check_job(job.id, COMPLETED, CONSUMED)
    assert await race.finished(job.id) == [(1, "completed")]


@pytest.mark.parametrize("kind", ["queued", "leased", "waiting"])
async def test_a_retry_works_while_the_old_dispatch_still_exists(race: Race, kind: str) -> None:
    """The process that ended the first cycle died before it updated central."""
    job = await race.submit()
    started = await race.one.start() if kind != "queued" else None
    if started is None:
        point, work = Failpoint.EXPIRE_BEFORE_RELAY, enforce_far_ahead(race.one, race)
    elif kind == "leased":
        point, work = Failpoint.FAIL_BEFORE_CLOSE, race.one.fail(started)
    else:
        await race.one.room.leases.defer(report(started), "prediction-1", later())
        await race.one.expire_lease(started.lease.dispatch_id)
        point, work = Failpoint.REAP_BEFORE_CLOSE, race.one.reap()
    with armed({point: crash}), pytest.raises(Crashed):
        await work
    rows = await race.one.rows(race.central, "SELECT status FROM ai_job_dispatches WHERE workflow_id <> $1", race.aside)
    assert [row["status"] for row in rows] == [kind]
    assert (await retry(race.two, race, job)).charge_cycle == 2
    if started is not None:
        await race.two.expire_lease(started.lease.dispatch_id)
        await race.two.reap()
    newer = await race.two.start("newer")
    assert (newer.lease.job_id, newer.lease.charge_cycle, newer.lease.lease_seq) == (job.id, 2, 1)
    await race.two.complete(newer)
    await race.two.relay()
    ended = {"queued": [*QUEUED, "queued>failed"], "leased": [*STARTED, "processing>failed"]}
    first = ended.get(kind, [*STARTED, "processing>expired"])
    second = [f"{first[-1].partition('>')[2]}>pending", *COMPLETED[1:]]
    await race.check_job(job.id, [*first, *second], [*TWO_CYCLES, (2, "JOB_CONSUME", 0)])
    assert await race.finished(job.id) == [(1, first[-1].partition(">")[2]), (2, "completed")]


async def test_a_report_of_the_earlier_cycle_does_not_touch_the_retried_job(race: Race) -> None:
    job, started = await race.started()
    with armed({Failpoint.FAIL_BEFORE_CLOSE: crash}), pytest.raises(Crashed):
        await race.one.fail(started)
    await retry(race.two, race, job)
    assert (await race.one.complete(started)).status == "failed"
    steps = [*STARTED, "processing>failed", "failed>pending", "pending>queued", "queued!completed"]
    await race.check_job(job.id, steps, TWO_CYCLES, dispatch="queued")


async def test_two_retries_make_one_new_cycle(race: Race) -> None:
    job, started = await race.started()
    await race.one.fail(started)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        tasks = await start_blocked(race.pool, retry(race.one, race, job), retry(race.two, race, job))
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(response) for response in responses] == [Job, InvalidTransition]
    steps = (await race.one.steps(race.ann, job.id))[4:]
    assert [step for step in steps if "!" not in step] == ["failed>pending", "pending>queued"]
    assert [step.partition("!")[2] for step in steps if "!" in step] == ["pending"]
    assert await race.one.ledger(race.ann, job.id) == TWO_CYCLES
    await race.one.check()


async def test_a_retry_that_waits_for_a_submit_at_the_cap_counts_it(race: Race) -> None:
    job, started = await race.started()
    await race.one.fail(started)
    tight = open_core(race.one.databases, active_per_user=1)
    tight.workflow = race.one.workflow
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        tasks = await start_blocked(race.pool, tight.submit(race.ann), retry(tight, race, job))
    submitted, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(submitted, Job)
    assert isinstance(refused, TooManyActiveJobs)
    await race.check_job(job.id, [*STARTED, "processing>failed"], REFUNDED)


@pytest.mark.parametrize("poison", ["result", "settlement"])
async def test_one_poisoned_completion_of_twenty_leaves_nineteen_settled(race: Race, poison: str) -> None:
    """They share one statement; what it cannot do for one of them must not keep the others."""
    jobs = [await race.submit() for _ in range(20)]
    started = {found.lease.job_id: found for found in [await race.one.start(f"w{n}") for n in range(20)]}
    poisoned = jobs[7]
    results = {job.id: {"text": "fine"} for job in jobs}
    if poison == "result":
        results[poisoned.id] = {"text": "PostgreSQL has no \0 in jsonb"}
    else:
        query = "SELECT wallet_move($1, $2, 'JOB_REFUND', 10, $3, 1, NULL)"
        await race.one.rows(race.pool, query, race.ann.tenant_id, race.ann.user_id, poisoned.id)
    async with open_transaction(race.pool, LOCK_JOB, race.ann.tenant_id, jobs[0].id):
        [first] = await start_blocked(race.pool, race.one.complete(started[jobs[0].id], results[jobs[0].id]))
        # They gather behind the first, which waits: one batch.
        others = [asyncio.create_task(race.one.complete(started[job.id], results[job.id])) for job in jobs[1:]]
    responses = dict(
        zip([job.id for job in jobs], await asyncio.gather(first, *others, return_exceptions=True), strict=True)
    )
    refused = responses.pop(poisoned.id)
    assert isinstance(refused, asyncpg.PostgresError)
    assert {response.status for response in responses.values()} == {"completed"}
    for job in jobs:
        expected = STARTED if job is poisoned else COMPLETED
        assert await race.one.steps(race.ann, job.id) == expected
    if poison == "result":
        await race.check_job(poisoned.id, STARTED, [RESERVE], dispatch="leased")
        await race.one.complete(started[poisoned.id])
        await race.check_job(poisoned.id, COMPLETED, CONSUMED)


async def test_two_cancels_at_once_give_back_the_unspent_share_once(race: Race) -> None:
    job, started = await race.started(refund_on_cancel="unspent")
    lease = started.lease
    progress = ProgressReport(percent=30.0)
    await race.one.room.progress.record(lease.cycle, lease.lease_seq, progress)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        tasks = await start_blocked(race.pool, cancel(race.one, race, job), cancel(race.two, race, job))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["InvalidTransition", "Job"]
    assert await race.one.ledger(race.ann, job.id) == [RESERVE, (1, "JOB_REFUND", 7)]
    assert await race.one.balance(race.ann) == 997
    await race.one.check()
