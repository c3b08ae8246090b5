"""The reconciler repairs differences between a job and its dispatch, and changes nothing else (G1, G2, G12)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from callsheet.dispatch.facts import DispatchEnd
from callsheet.dispatch.queue_notifications import CHANNEL
from callsheet.identity.audit_log import AuditLog
from callsheet.jobs.operate.operations import DispatchOperations
from callsheet.jobs.repair.discrepancies import Discrepancy
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import NotFound
from callsheet.wire.job_errors import job_error, sentence_of
from callsheet.wire.jobs import Job
from tests.support.database.outages import away
from tests.support.jobs.core import AFTER_EVERY_DEADLINE, Core, Member, open_core, report
from tests.support.jobs.job_states import (
    ACCEPTED,
    POOLS,
    REFUNDED,
    RESERVED,
    STARTED,
    active_dispatch,
    cancel_job,
    finished_dispatch,
    running_job,
)


def hasty(core: Core) -> None:
    """What is there has settled, and the second look follows at once."""
    core.room.reconciler.settle_seconds = 0
    core.room.reconciler.confirm_seconds = 0


async def reconcile(core: Core, ticks: int = 2) -> dict[str, int]:
    """The first tick looks, the second one looks again and heals. What was healed, by kind."""
    hasty(core)
    before = dict(core.room.reconciler.healed)
    for _ in range(ticks):
        await core.room.reconciler.tick(datetime.now(UTC))
    after = core.room.reconciler.healed
    return {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]}


async def lose_dispatch(core: Core, job: Job) -> None:
    rows = await core.rows(
        core.databases.central, "DELETE FROM ai_job_dispatches WHERE tenant_job_id = $1 RETURNING 1", job.id
    )
    assert len(rows) == 1


async def crashed(point: Failpoint, work: Any) -> None:
    with armed({point: crash}), pytest.raises(Crashed):
        await work


async def never_relayed(core: Core, member: Member) -> UUID:
    """The job was accepted, and its row in the outbox, which central would have received, is lost."""
    await crashed(Failpoint.SUBMIT_BEFORE_RELAY, core.submit(member))
    [row] = await core.rows(member.pool, "DELETE FROM outbox RETURNING job_id")
    return UUID(str(row["job_id"]))


async def left_alone(core: Core) -> None:
    assert await reconcile(core, 3) == {}
    await core.check()


@POOLS
async def test_a_job_that_was_not_relayed_is_dispatched(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job_id = await never_relayed(core, ann)
    assert await core.status(ann, job_id) == "pending"
    assert await reconcile(core) == {"missing_dispatch": 1}
    assert await core.steps(ann, job_id) == ACCEPTED
    await left_alone(core)
    await core.complete(await core.start())
    assert await core.steps(ann, job_id) == [*STARTED, "processing>completed"]
    await core.check_drained()


@POOLS
async def test_a_queued_job_whose_dispatch_was_lost_gets_another(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job, other = await core.submit(ann, priority=3), await core.submit(ann)
    await lose_dispatch(core, job)
    core.notifications.clear()
    assert await reconcile(core) == {"missing_dispatch": 1}
    made = await active_dispatch(core, job)
    assert (made["priority"], made["lease_seq"], made["attempts"], made["status"]) == (3, 0, 0, "queued")
    # A worker may be waiting for this job.
    assert [channel for channel, _ in core.notifications] == [CHANNEL]
    await left_alone(core)
    assert (await core.start()).lease.job_id == job.id
    assert (await core.start()).lease.job_id == other.id


@POOLS
async def test_a_running_job_whose_dispatch_was_lost_is_requeued_and_its_worker_loses_the_lease(
    core: Core, pool: str
) -> None:
    ann = await core.member(pool)
    job, first = await running_job(core, ann)
    await core.room.leases.requeue(report(first), "spot")
    second = await core.start()
    await lose_dispatch(core, job)
    assert await reconcile(core) == {"missing_dispatch": 1}
    again = [*STARTED, "processing>queued", "queued>processing", "processing>queued"]
    assert await core.steps(ann, job.id) == again
    assert (await active_dispatch(core, job))["lease_seq"] == 2
    await left_alone(core)
    with pytest.raises(NotFound):
        await core.complete(second)
    third = await core.start("worker-3")
    assert third.lease.lease_seq == 3
    await core.complete(third)
    assert await core.steps(ann, job.id) == [*again, "queued>processing", "processing>completed"]
    await core.check_drained()


async def test_a_retried_job_is_dispatched_again_in_its_own_cycle(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await core.fail(started)
    await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    await core.rows(core.databases.central, "DELETE FROM ai_job_dispatches WHERE charge_cycle = 2")
    assert await reconcile(core) == {"missing_dispatch": 1}
    assert (await active_dispatch(core, job))["charge_cycle"] == 2
    await core.drain()
    await core.check_drained()


async def orphan(core: Core, job: Job, cycle: int = 1, job_id: UUID | None = None) -> UUID:
    """A dispatch like the job's, of a job that does not exist, or of this one."""
    stranger = job_id or uuid7()
    await core.rows(
        core.databases.central,
        """INSERT INTO ai_job_dispatches (tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id,
               stage, provider, concurrency_identifier, priority, kind, deadline_at)
           SELECT tenant_id, user_id, $2, $3, lane_id, workflow_id, stage, provider, concurrency_identifier, priority,
               kind, deadline_at
           FROM ai_job_dispatches WHERE tenant_job_id = $1""",
        job.id,
        stranger,
        cycle,
    )
    return stranger


@POOLS
async def test_a_dispatch_without_a_job_is_closed(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job = await core.submit(ann)
    stranger = await orphan(core, job)
    assert await reconcile(core) == {"orphaned_dispatch": 1}
    assert await core.dispatch(stranger) is None
    closed = await core.dispatch(stranger, "dispatch_history")
    assert closed is not None
    assert closed["status"] == "failed"
    assert (await active_dispatch(core, job))["status"] == "queued"
    await left_alone(core)


async def test_a_dispatch_of_an_unknown_charge_cycle_is_closed(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    await core.rows(core.databases.central, "UPDATE ai_job_dispatches SET charge_cycle = 7")
    assert await reconcile(core, 3) == {"orphaned_dispatch": 1, "missing_dispatch": 1}
    assert (await active_dispatch(core, job))["charge_cycle"] == 1
    await left_alone(core)


async def test_the_worker_of_a_dispatch_without_a_job_is_notified_once(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    stranger = await orphan(core, job)
    leases = await core.queue.lease_many(core.criteria(), ["worker-1", "worker-1"])
    assert {lease.job_id for lease in leases} == {job.id, stranger}
    assert await reconcile(core, 4) == {"orphaned_dispatch": 1}
    row = await core.dispatch(stranger)
    assert row is not None
    assert row["cancel_requested_at"] is not None
    await core.expire_lease(row["dispatch_id"])
    await core.reap()
    assert await core.dispatch(stranger) is None


@POOLS
async def test_a_queued_dispatch_of_an_ended_job_is_closed_as_the_job_ended(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job = await core.submit(ann)
    await crashed(Failpoint.CANCEL_BEFORE_RELAY, cancel_job(core, ann, job))
    await core.rows(ann.pool, "DELETE FROM outbox")
    assert (await active_dispatch(core, job))["status"] == "queued"
    assert await reconcile(core) == {"open_dispatch_of_ended_job": 1}
    assert (await finished_dispatch(core, job))["status"] == "canceled"
    await core.check_drained()


async def test_the_worker_of_a_dispatch_of_an_ended_job_is_notified_and_its_report_closes_it(
    core: Core, ann: Member
) -> None:
    job, started = await running_job(core, ann)
    await crashed(Failpoint.COMPLETE_BEFORE_CLOSE, core.complete(started))
    assert await reconcile(core, 4) == {"open_dispatch_of_ended_job": 1}
    assert (await active_dispatch(core, job))["cancel_requested_at"] is not None
    assert (await core.complete(started)).status == "completed"
    assert (await finished_dispatch(core, job))["status"] == "completed"
    await core.check_drained()


async def test_an_open_dispatch_of_an_earlier_cycle_is_closed(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await crashed(Failpoint.FAIL_BEFORE_CLOSE, core.fail(started))
    await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    assert await reconcile(core) == {"open_dispatch_of_ended_job": 1}
    await core.expire_lease(started.lease.dispatch_id)
    await core.reap()
    rows = await core.rows(core.databases.central, "SELECT charge_cycle, status FROM dispatch_history")
    assert [(row["charge_cycle"], row["status"]) for row in rows] == [(1, "failed")]
    await core.drain()
    await core.check_drained()


async def test_a_queued_dispatch_of_an_earlier_cycle_is_closed_as_that_cycle_ended(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await core.enforce_deadlines(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
    await core.relay()
    await core.expire_lease(started.lease.dispatch_id)
    await core.reap()
    assert await core.status(ann, job.id) == "expired"
    await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    await core.relay()
    await core.rows(core.databases.central, "DELETE FROM dispatch_history WHERE tenant_job_id = $1", job.id)
    await orphan(core, job, cycle=1, job_id=job.id)
    assert await reconcile(core) == {"open_dispatch_of_ended_job": 1}
    rows = await core.rows(core.databases.central, "SELECT charge_cycle, status FROM dispatch_history")
    assert [(row["charge_cycle"], row["status"]) for row in rows] == [(1, "expired")]
    await core.drain()
    await core.check_drained()


ENDS = [("failed", "failed"), ("canceled", "canceled"), ("expired", "expired"), ("completed", "failed")]


@pytest.mark.few_forms
@POOLS
@pytest.mark.parametrize(("end", "status"), ENDS)
async def test_a_running_job_whose_dispatch_has_ended_ends_too_and_is_refunded(
    core: Core, pool: str, end: Any, status: str
) -> None:
    ann = await core.member(pool)
    job, started = await running_job(core, ann)
    assert await core.queue.close(DispatchEnd(started.lease.dispatch_id, end, error="The engine stopped."))
    assert await reconcile(core) == {"open_job_of_ended_dispatch": 1}
    assert await core.steps(ann, job.id) == [*STARTED, f"processing>{status}"]
    # Nothing was delivered, so nothing is charged, whatever the queue says.
    assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
    error = (await core.job(ann, job.id))["error"]
    expected = {
        "failed": job_error("dispatch_ended", "The engine stopped."),
        "canceled": None,
        "expired": job_error("expired", "The engine stopped."),
        "completed": job_error("result_lost", sentence_of("result_lost")),
    }
    assert error == expected[end]
    await core.check_drained()


@pytest.mark.parametrize(("end", "status"), [*ENDS[:2], ("expired", "failed"), ENDS[3]])
async def test_a_queued_job_whose_dispatch_has_ended_ends_too(core: Core, ann: Member, end: Any, status: str) -> None:
    job = await core.submit(ann)
    assert await core.queue.close(DispatchEnd((await active_dispatch(core, job))["dispatch_id"], end))
    assert await reconcile(core) == {"open_job_of_ended_dispatch": 1}
    assert await core.steps(ann, job.id) == [*ACCEPTED, f"queued>{status}"]
    assert await core.balance(ann) == 1000
    await core.check_drained()


@POOLS
async def test_a_job_whose_requeue_was_not_recorded_becomes_queued(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    job, started = await running_job(core, ann)
    work = core.room.leases.requeue(report(started), "spot")
    await crashed(Failpoint.REQUEUE_BEFORE_POOL, work)
    assert await core.status(ann, job.id) == "processing"
    assert await reconcile(core) == {"status_of_job": 1}
    assert await core.steps(ann, job.id) == [*STARTED, "processing>queued"]
    await left_alone(core)


@POOLS
async def test_a_queue_restored_from_a_backup_continues_the_lease_numbers_of_its_jobs(core: Core, pool: str) -> None:
    ann = await core.member(pool)
    _, first = await running_job(core, ann)
    await core.room.leases.requeue(report(first), "spot")
    await core.start("worker-2")
    # The queue as it was before any of that.
    await core.rows(
        core.databases.central,
        """UPDATE ai_job_dispatches SET status = 'queued', worker_id = NULL, lease_token = NULL, lease_seq = 0,
               attempts = 0, lease_expires_at = NULL, past_lease_tokens = '{}'""",
    )
    assert await reconcile(core, 4) == {"leases_of_dispatch": 1, "status_of_job": 1}
    await left_alone(core)
    third = await core.start("worker-3")
    assert third.lease.lease_seq == 3
    await core.complete(third)
    await core.check_drained()


async def test_a_job_follows_the_priority_of_its_dispatch(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    await core.rows(ann.pool, "UPDATE ai_jobs SET priority = 9")
    assert await reconcile(core) == {"priority_of_job": 1}
    assert (await core.job(ann, job.id))["priority"] == 0
    await left_alone(core)


async def test_a_crash_between_queue_and_job_leaves_the_order_to_the_queue(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    room = core.room
    operations = DispatchOperations(
        room.dispatch, room.leases, room.cancellation, room.transitions, AuditLog(core.databases)
    )
    work = operations.change_priority((await active_dispatch(core, job))["dispatch_id"], 4, "admin:x")
    await crashed(Failpoint.PRIORITY_BEFORE_POOL, work)
    assert ((await core.job(ann, job.id))["priority"], (await active_dispatch(core, job))["priority"]) == (0, 4)
    assert await reconcile(core) == {"priority_of_job": 1}
    assert (await core.job(ann, job.id))["priority"] == 4
    await left_alone(core)


@pytest.mark.parametrize("status", ["pending", "processing"])
async def test_a_crash_while_a_dispatch_is_made_again_is_healed_by_the_next_round(
    core: Core, ann: Member, status: str
) -> None:
    if status == "pending":
        job_id = await never_relayed(core, ann)
    else:
        job, _ = await running_job(core, ann)
        await lose_dispatch(core, job)
        job_id = job.id
    hasty(core)
    with armed({Failpoint.RECONCILE_BEFORE_POOL: crash}), pytest.raises(Crashed):
        await reconcile(core)
    assert await core.status(ann, job_id) == status
    assert await reconcile(core) == {"status_of_job": 1}
    assert await core.status(ann, job_id) == "queued"
    await core.drain()
    await core.check_drained()


async def test_a_recent_difference_is_left_to_the_process_that_works_on_it(core: Core, ann: Member) -> None:
    lost, held, ended = await core.submit(ann), await core.submit(ann, priority=1), await core.submit(ann, priority=2)
    await lose_dispatch(core, lost)
    await orphan(core, held)
    await core.queue.close(DispatchEnd((await active_dispatch(core, ended))["dispatch_id"], "failed"))
    core.room.reconciler.confirm_seconds = 0
    for _ in range(3):
        await core.room.reconciler.tick(datetime.now(UTC))
    assert sum(core.room.reconciler.healed.values()) == 0
    assert await core.dispatch(lost.id) is None


async def test_no_repair_happens_before_a_second_check(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    await lose_dispatch(core, job)
    core.room.reconciler.settle_seconds = 0
    for _ in range(3):
        await core.room.reconciler.tick(datetime.now(UTC))
    assert await core.dispatch(job.id) is None
    core.room.reconciler.confirm_seconds = 0
    await core.room.reconciler.tick(datetime.now(UTC))
    assert await core.dispatch(job.id) is not None


async def test_a_difference_that_is_gone_at_the_second_check_is_not_repaired(core: Core, ann: Member) -> None:
    job, started = await running_job(core, ann)
    await crashed(Failpoint.COMPLETE_BEFORE_CLOSE, core.complete(started))
    lost = await never_relayed(core, ann)
    await reconcile(core, 1)
    # Meanwhile both end in the usual way.
    await core.complete(started)
    await core.room.cancellation.cancel(ann.tenant_id, lost, actor="user")
    assert await reconcile(core, 3) == {}
    assert (await finished_dispatch(core, job))["status"] == "completed"
    await core.check_drained()


async def test_a_healthy_job_is_never_repaired_in_any_state(core: Core, ann: Member) -> None:
    await left_alone(core)
    job = await core.submit(ann)
    await left_alone(core)
    started = await core.start()
    await left_alone(core)
    await core.room.leases.requeue(report(started), "spot")
    await left_alone(core)
    await core.fail(await core.start(), retryable=True)
    await left_alone(core)
    await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user")
    await left_alone(core)


async def test_a_round_is_bounded_and_the_next_goes_on_behind_it(core: Core) -> None:
    core.room.reconciler.batch = 2
    members = [await core.member(pool) for pool in ("pool_1", "pool_2")]
    jobs = [await core.submit(members[number % 2]) for number in range(6)]
    orphans = [await orphan(core, job) for job in jobs]
    for job in jobs:
        await lose_dispatch(core, job)
    seen = [sum((await reconcile(core, 1)).values()) for _ in range(12)]
    # Two of each pool and two of central at most, per tick.
    assert max(seen) <= 6
    assert sum(seen) == 12
    assert all([await core.dispatch(job.id) for job in jobs])
    assert not any([await core.dispatch(stranger) for stranger in orphans])
    await core.check()


async def test_an_unavailable_pool_does_not_prevent_repairs_in_other_pools(databases: Databases) -> None:
    core = await open_core(databases).prepare()
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    jobs = [await core.submit(member) for member in (ann, bob)]
    for job in jobs:
        await lose_dispatch(core, job)
    hasty(core)
    async with away(bob.pool):
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                await core.room.reconciler.tick(datetime.now(UTC))
    assert core.room.reconciler.healed["missing_dispatch"] == 1
    assert await core.dispatch(jobs[0].id) is not None
    assert await reconcile(core, 3) == {"missing_dispatch": 1}
    await core.check()


async def test_each_repair_is_logged(core: Core, ann: Member, logged: Any) -> None:
    job = await core.submit(ann)
    await lose_dispatch(core, job)
    await reconcile(core)
    [line] = [line for line in logged.getvalue().splitlines() if "reconciler.healed" in line]
    assert str(job.id) in line
    assert json.loads(line.lstrip("\0"))["kind"] == "missing_dispatch"


def test_every_kind_is_counted_from_the_start(core: Core) -> None:
    assert dict(core.room.reconciler.healed) == {kind.value: 0 for kind in Discrepancy}
