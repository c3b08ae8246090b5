"""How jobs end: canceled, retried, out of time, given up between lease and answer."""

from __future__ import annotations

import asyncio
import io

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.wire.errors import InsufficientTokens, InvalidTransition, NotFound, TooManyActiveJobs
from tests.support.database.outages import away
from tests.support.jobs.core import Core, Member, open_core, report
from tests.support.jobs.job_states import (
    ACCEPTED,
    POOLS,
    REFUNDED,
    RESERVED,
    STARTED,
    active_dispatch,
    cancel_job,
    deferred_job,
    ended_job,
    finished_dispatch,
    job_log_lines,
    pass_deadline,
    retry_job,
    running_job,
)
from tests.support.waiting import until


@pytest.mark.few_forms
@pytest.mark.parametrize("status", ["pending", "queued", "delayed", "processing", "waiting"])
@POOLS
async def test_a_job_can_be_canceled_in_every_active_state(core: Core, pool: str, status: str) -> None:
    ann = await core.member(pool)
    await core.complete((await running_job(core, ann))[1])
    if status == "pending":
        await core.databases.central.close()
        job = await core.submit(ann)
        assert job.status == "pending"
    elif status == "queued":
        job = await core.submit(ann)
    elif status == "waiting":
        job, _ = await deferred_job(core, ann)
    else:
        job, started = await running_job(core, ann)
        if status == "delayed":
            await core.fail(started, retryable=True)
    canceled = await cancel_job(core, ann, job)
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
    job, started = await deferred_job(core, ann)
    await cancel_job(core, ann, job)
    callback = core.room.leases.complete_callback
    assert (
        await callback(started.lease.dispatch_id, started.lease.cycle, {"output": "o"}, "provider:x")
    ).status == "canceled"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    await core.check_drained()


@pytest.mark.parametrize("status", ["completed", "failed", "canceled", "expired"])
async def test_a_job_that_has_ended_cannot_be_canceled_and_the_refusal_is_recorded(
    core: Core, ann: Member, status: str, logged: io.StringIO
) -> None:
    job = await ended_job(core, ann, status)
    before = await core.ledger(ann, job.id)
    logged.truncate(0)
    with pytest.raises(InvalidTransition) as refused:
        await cancel_job(core, ann, job)
    assert refused.value.data == {"from_status": status, "to_status": "canceled"}
    event = (await core.events(ann, job.id))[-1]
    assert (event["event"], event["from_status"], event["to_status"]) == ("job.transition_denied", status, "canceled")
    assert (event["actor"], event["reason"]) == ("user:x", "changed my mind")
    [line] = job_log_lines(logged)
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
    job = await ended_job(core, ann, status)
    old_deadline = (await core.job(ann, job.id))["deadline_at"]
    again = await retry_job(core, ann, job)
    assert (again.id, again.status, again.charge_cycle, again.error, again.started_at) == (
        *(job.id, "queued", 2),
        *(None, None),
    )
    row = await core.job(ann, job.id)
    assert (row["lease_seq"], row["completed_at"], row["result"]) == (0, None, None)
    assert row["deadline_at"] > old_deadline
    assert await core.balance(ann) == 90
    dispatch = await active_dispatch(core, job)
    assert (dispatch["charge_cycle"], dispatch["attempts"], dispatch["deadline_at"]) == (2, 0, row["deadline_at"])
    await core.complete(await core.start())
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED, (2, "JOB_RESERVE", -10), (2, "JOB_CONSUME", 0)]
    await core.check_drained()


@pytest.mark.parametrize("status", ["queued", "processing", "completed", "canceled"])
async def test_only_failed_and_expired_jobs_can_be_retried(core: Core, ann: Member, status: str) -> None:
    if status == "queued":
        job = await core.submit(ann)
    elif status == "processing":
        job, _ = await running_job(core, ann)
    else:
        job = await ended_job(core, ann, status)
    before = await core.ledger(ann, job.id)
    with pytest.raises(InvalidTransition) as refused:
        await retry_job(core, ann, job)
    assert refused.value.data == {"from_status": status, "to_status": "pending"}
    assert (await core.steps(ann, job.id))[-1] == f"{status}!pending"
    assert await core.ledger(ann, job.id) == before
    await core.check()


async def test_a_retry_respects_the_wallet_and_the_cap_which_admins_may_pass(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=1).prepare()
    ann = await core.member("pool_2", tokens=25)
    job = await ended_job(core, ann, "failed")
    active = await core.submit(ann, cost=25)
    with pytest.raises(InsufficientTokens) as poor:
        await retry_job(core, ann, job, capped=False)
    assert poor.value.data == {"required_tokens": 10, "balance": 0, "paid_by": "user"}
    await core.credit(ann, 50)
    with pytest.raises(TooManyActiveJobs) as many:
        await retry_job(core, ann, job)
    assert many.value.data == {"active": 1, "limit": 1, "setting": "jobs.active_per_user"}
    assert await core.status(ann, job.id) == "failed"
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    assert await core.balance(ann) == 50
    assert (await retry_job(core, ann, job, capped=False)).status == "queued"
    assert await core.balance(ann) == 40
    assert await core.status(ann, active.id) == "queued"
    await core.check()


async def test_cancel_and_retry_of_a_job_that_does_not_exist_find_nothing(core: Core, ann: Member) -> None:
    bob = await core.member("pool_2")
    job = await core.submit(bob)
    for call in (cancel_job, retry_job):
        with pytest.raises(NotFound):
            await call(core, ann, job)
    assert await core.steps(bob, job.id) == ACCEPTED


@pytest.mark.few_forms
@pytest.mark.parametrize("status", ["pending", "queued", "delayed"])
@POOLS
async def test_a_job_that_no_worker_took_in_time_fails_and_is_refunded(core: Core, pool: str, status: str) -> None:
    ann = await core.member(pool)
    await core.complete((await running_job(core, ann))[1])
    if status == "pending":
        await core.databases.central.close()
        job = await core.submit(ann)
        await core.databases.central.open()
    elif status == "queued":
        job = await core.submit(ann)
    else:
        job, started = await running_job(core, ann)
        await core.fail(started, retryable=True)
    await core.enforce_deadlines()
    assert await core.status(ann, job.id) in ("pending", "queued")
    await pass_deadline(core, ann, job)
    # Past its deadline no worker gets it, even before the loop has run.
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
    job, started = await (deferred_job if status == "waiting" else running_job)(core, ann)
    await pass_deadline(core, ann, job)
    await core.enforce_deadlines()
    row = await core.job(ann, job.id)
    assert (row["status"], row["error"]["type"]) == ("expired", "deadline")
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    if status == "processing":
        # Its worker keeps the slot until it reports.
        assert (await active_dispatch(core, job))["status"] == "leased"
        assert (await core.room.leases.heartbeat(report(started))).cancel_requested
        assert (await core.complete(started)).status == "expired"
    assert (await finished_dispatch(core, job))["status"] == "expired"
    await core.check_drained()


async def test_a_worker_that_vanishes_after_the_deadline_leaves_its_slot_when_the_lease_ends(
    core: Core, ann: Member
) -> None:
    job, started = await running_job(core, ann)
    await pass_deadline(core, ann, job)
    await core.enforce_deadlines()
    await core.reap()
    assert (await active_dispatch(core, job))["status"] == "leased"
    await core.expire_lease(started.lease.dispatch_id)
    await core.reap()
    assert (await finished_dispatch(core, job))["status"] == "expired"
    await core.check_drained()


async def test_a_dispatch_whose_job_has_ended_is_closed_on_the_way_to_the_next_one(core: Core) -> None:
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    left = [await core.submit(ann, priority=5), await core.submit(bob, priority=5)]
    for member, job in zip((ann, bob), left, strict=True):
        # The job ended in its pool, and central got no message.
        await core.databases.central.close()
        await cancel_job(core, member, job)
        await core.databases.central.open()
        await core.rows(member.pool, "DELETE FROM outbox")
    wanted = await core.submit(bob)
    started = await core.start()
    assert started.lease.job_id == wanted.id
    assert [(await finished_dispatch(core, job))["status"] for job in left] == ["canceled", "canceled"]
    await core.complete(started)
    await core.check_drained()


async def test_an_error_between_lease_and_response_returns_the_lease_without_counting_the_attempt(
    core: Core, ann: Member
) -> None:
    job = await core.submit(ann)
    async with away(ann.pool):
        with pytest.raises(ConnectionRefusedError):
            await core.lease()
    row = await active_dispatch(core, job)
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
    row = await active_dispatch(core, job)
    assert (row["status"], row["attempts"], row["lease_seq"]) == ("queued", 0, 1)
    assert await core.status(ann, job.id) == "queued"
    assert (await core.events(ann, job.id))[-1]["reason"] == "The worker disconnected before it received the job."
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
        row = await active_dispatch(core, job)
        return (row["status"], row["attempts"], row["lease_seq"]) == ("queued", 0, 1)

    await until(back)
    assert await core.steps(ann, job.id) == ACCEPTED
    await core.complete(await core.start())
    await core.check_drained()
