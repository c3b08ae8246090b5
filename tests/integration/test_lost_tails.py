"""One of the two databases lost its last changes, as after a failover to a standby that lagged behind: no job is lost,
none is charged twice, and none waits for the end of its lease (G1, G2, G3, G12)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from callsheet.jobs.lease.outcomes import Failure, StartedLease
from callsheet.wire.errors import NotFound
from callsheet.wire.worker.errors import LeaseLost
from tests.support.database.lost_tails import lost_tail
from tests.support.jobs.core import AFTER_EVERY_DEADLINE, Core, Member, open_core, report
from tests.support.jobs.job_states import (
    CONSUMED,
    REFUNDED,
    RESERVED,
    STARTED,
    active_dispatch,
    deferred_job,
    finished_dispatch,
    retry_job,
    running_job,
)


async def reconcile(core: Core) -> dict[str, int]:
    """Everything has settled, and the second look follows at once. Returns what was healed, by kind."""
    reconciler = core.room.reconciler
    reconciler.settle_seconds = reconciler.confirm_seconds = 0
    before = dict(reconciler.healed)
    for _ in range(4):
        await reconciler.tick(datetime.now(UTC))
    return {kind: count - before[kind] for kind, count in reconciler.healed.items() if count != before[kind]}


async def check(core: Core) -> None:
    """The ledger audits clean and nothing that is left contradicts itself; then everything ends."""
    await reconcile(core)
    await core.check()
    await core.drain()
    await core.check_drained()


class TestThePoolLostItsTail:
    async def test_a_finished_job_that_the_pool_forgot_is_not_charged(self, core: Core, ann: Member) -> None:
        async with lost_tail(ann.pool) as lose:
            job, started = await running_job(core, ann)
            await core.complete(started)
            await lose()
        assert await core.balance(ann) == 1000
        assert (await finished_dispatch(core, job))["status"] == "completed"
        assert await reconcile(core) == {}
        await check(core)

    async def test_a_client_that_repeats_its_forgotten_submit_gets_one_job_and_one_charge(
        self, core: Core, ann: Member
    ) -> None:
        async with lost_tail(ann.pool) as lose:
            first = await core.submit(ann, idempotency_key="order-1")
            await lose()
        again = await core.submit(ann, idempotency_key="order-1")
        assert again.id != first.id
        assert await reconcile(core) == {"orphaned_dispatch": 1}
        started = await core.start()
        assert started.lease.job_id == again.id
        await core.complete(started)
        assert await core.balance(ann) == 990
        await check(core)

    @pytest.mark.parametrize("end", ["complete", "fail", "retryable", "requeue"])
    async def test_the_report_of_a_forgotten_job_closes_its_dispatch_at_once(
        self, core: Core, ann: Member, end: str
    ) -> None:
        async with lost_tail(ann.pool) as lose:
            job, started = await running_job(core, ann)
            await lose()
        outcome = await ended(core, started, end)
        assert outcome.status == "failed"
        assert (await finished_dispatch(core, job))["status"] == "failed"
        await check(core)

    @pytest.mark.parametrize("end", ["complete", "fail"])
    async def test_a_job_whose_start_was_forgotten_ends_as_its_worker_reports(
        self, core: Core, ann: Member, end: str
    ) -> None:
        job = await core.submit(ann)
        async with lost_tail(ann.pool) as lose:
            started = await core.start()
            await lose()
        assert await core.status(ann, job.id) == "queued"
        await ended(core, started, end)
        assert await core.steps(ann, job.id) == [
            *STARTED,
            f"processing>{'completed' if end == 'complete' else 'failed'}",
        ]
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED if end == "complete" else REFUNDED]
        await check(core)

    @pytest.mark.parametrize("end", ["retryable", "requeue"])
    async def test_a_job_whose_start_was_forgotten_goes_back_and_starts_again(
        self, core: Core, ann: Member, end: str
    ) -> None:
        job = await core.submit(ann)
        async with lost_tail(ann.pool) as lose:
            started = await core.start()
            await lose()
        assert (await ended(core, started, end)).status == "queued"
        await core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
        again = await core.start("worker-2")
        assert (again.lease.job_id, again.lease.lease_seq) == (job.id, 2)
        await core.complete(again)
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    async def test_a_job_whose_second_start_was_forgotten_ends_under_the_second_lease(
        self, core: Core, ann: Member
    ) -> None:
        job, first = await running_job(core, ann)
        async with lost_tail(ann.pool) as lose:
            await core.room.leases.requeue(report(first), "spot")
            second = await core.start("worker-2")
            await lose()
        with pytest.raises(LeaseLost):
            await core.complete(first)
        await core.complete(second)
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    async def test_a_completion_that_the_pool_forgot_is_refunded(self, core: Core, ann: Member) -> None:
        job, started = await running_job(core, ann)
        async with lost_tail(ann.pool) as lose:
            await core.complete(started)
            await lose()
        # A repeated report says what is recorded, and delivers nothing again.
        assert (await core.complete(started)).status == "completed"
        assert await reconcile(core) == {"open_job_of_ended_dispatch": 1}
        assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
        assert (await core.job(ann, job.id))["error"]["type"] == "result_lost"
        await check(core)

    async def test_a_retry_that_the_pool_forgot_is_run_and_charged_once(self, core: Core, ann: Member) -> None:
        job, started = await running_job(core, ann)
        await core.fail(started)
        async with lost_tail(ann.pool) as lose:
            await retry_job(core, ann, job)
            second = await core.start()
            await lose()
        # Its user retries again: it is the same charge cycle, and the worker is at it.
        await retry_job(core, ann, job)
        assert await core.lease("worker-2") is None
        await core.complete(second)
        assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED, (2, "JOB_RESERVE", -10), (2, "JOB_CONSUME", 0)]
        await check(core)

    @pytest.mark.parametrize("status", ["completed", "failed", "expired"])
    async def test_a_wait_for_a_provider_whose_start_was_forgotten_ends(
        self, core: Core, ann: Member, status: str
    ) -> None:
        job = await core.submit(ann)
        async with lost_tail(ann.pool) as lose:
            started = await core.start()
            later = datetime.now(UTC) + AFTER_EVERY_DEADLINE
            await core.room.leases.defer(report(started), "prediction-9", later)
            await lose()
        await waited(core, started, status)
        assert await core.status(ann, job.id) == status
        await check(core)


class TestCentralLostItsTail:
    async def test_a_forgotten_dispatch_is_created_again_without_a_second_charge(self, core: Core, ann: Member) -> None:
        async with lost_tail(core.databases.central) as lose:
            job = await core.submit(ann)
            await lose()
        assert await reconcile(core) == {"missing_dispatch": 1}
        await core.complete(await core.start())
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    async def test_the_worker_of_a_forgotten_dispatch_delivers_nothing(self, core: Core, ann: Member) -> None:
        async with lost_tail(core.databases.central) as lose:
            job, started = await running_job(core, ann)
            await lose()
        with pytest.raises(NotFound):
            await core.complete(started)
        assert await reconcile(core) == {"missing_dispatch": 1}
        with pytest.raises(NotFound):
            await core.complete(started)
        await core.complete(await core.start("worker-2"))
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    @pytest.mark.parametrize("leases", [1, 3])
    async def test_the_next_worker_gets_a_job_whose_leases_were_forgotten_at_once(
        self, core: Core, ann: Member, leases: int
    ) -> None:
        job = await core.submit(ann)
        async with lost_tail(core.databases.central) as lose:
            for _ in range(leases - 1):
                await core.room.leases.requeue(report(await core.start()), "spot")
            lost = await core.start()
            await lose()
        assert lost.lease.lease_seq == leases
        again = await core.start("worker-2")
        assert (again.lease.job_id, again.lease.lease_seq) == (job.id, leases + 1)
        assert (await active_dispatch(core, job))["attempts"] == 1
        with pytest.raises(NotFound):
            await core.complete(lost)
        await core.complete(again)
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    @pytest.mark.parametrize("end", ["complete", "fail", "retryable", "requeue"])
    async def test_the_worker_that_holds_the_lease_again_decides_and_the_forgotten_one_is_fenced(
        self, core: Core, ann: Member, end: str
    ) -> None:
        job, first = await running_job(core, ann)
        async with lost_tail(core.databases.central) as lose:
            await core.room.leases.requeue(report(first), "spot")
            second = await core.start("worker-2")
            await lose()
        with pytest.raises(NotFound):
            await core.complete(second)
        status = (await ended(core, first, end)).status
        with pytest.raises(NotFound):
            await core.complete(second)
        if status == "queued":
            await core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
            third = await core.start("worker-3")
            assert third.lease.lease_seq > second.lease.lease_seq
            await core.complete(third)
        assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED if end == "fail" else CONSUMED]
        await check(core)

    @pytest.mark.parametrize("attempts", [1, 3])
    async def test_a_lease_that_no_worker_holds_any_more_is_reaped(
        self, core: Core, ann: Member, attempts: int
    ) -> None:
        """Also the last attempt of a job whose pool knows a later lease."""
        job = await core.submit(ann, max_attempts=attempts)
        for _ in range(attempts - 1):
            await core.fail(await core.start(), retryable=True)
            await core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
        old = await core.start()
        async with lost_tail(core.databases.central) as lose:
            await core.room.leases.requeue(report(old), "spot")
            await core.start("worker-2")
            await lose()
        await core.expire_lease(old.lease.dispatch_id)
        await core.reap()
        await core.reap()
        assert await core.status(ann, job.id) == "failed"
        assert await core.ledger(ann, job.id) == [RESERVED, REFUNDED]
        await check(core)

    async def test_a_forgotten_requeue_does_not_end_the_lease(self, core: Core, ann: Member) -> None:
        job, started = await running_job(core, ann)
        async with lost_tail(core.databases.central) as lose:
            await core.room.leases.requeue(report(started), "spot")
            await lose()
        assert await core.status(ann, job.id) == "queued"
        await core.complete(started)
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    async def test_a_forgotten_end_is_closed_and_not_run_again(self, core: Core, ann: Member) -> None:
        job, started = await running_job(core, ann)
        async with lost_tail(core.databases.central) as lose:
            await core.complete(started)
            await lose()
        assert (await core.complete(started)).status == "completed"
        assert (await finished_dispatch(core, job))["status"] == "completed"
        assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        await check(core)

    @pytest.mark.parametrize("status", ["completed", "failed", "expired"])
    async def test_a_wait_for_a_provider_that_came_back_ends(self, core: Core, ann: Member, status: str) -> None:
        """Central forgot that the wait had ended and that the job was leased again."""
        job, started = await deferred_job(core, ann)
        async with lost_tail(core.databases.central) as lose:
            await core.rows(
                core.databases.central, "UPDATE ai_job_dispatches SET status = 'queued', lease_expires_at = NULL"
            )
            await core.start("worker-2")
            await lose()
        await waited(core, started, status)
        assert await core.status(ann, job.id) == status
        await check(core)

    async def test_g4_the_id_of_a_forgotten_lane_leads_no_worker_to_another_workflow(
        self, core: Core, ann: Member
    ) -> None:
        other = await core.add_workflow()
        assert await core.lease() is None
        async with lost_tail(core.databases.central) as lose:
            await core.submit(ann)
            await lose()
        # As when the connection to central was lost.
        core.queue.received(None)
        job = await core.submit(ann, workflow_id=other)
        assert await core.lease() is None
        started = await core.start(criteria=core.criteria(other))
        assert started.lease.job_id == job.id

    async def test_jobs_of_a_forgotten_tenant_do_not_stop_the_repair_of_others(self, core: Core, ann: Member) -> None:
        kept = await core.submit(ann)
        await core.rows(core.databases.central, "DELETE FROM ai_job_dispatches")
        async with lost_tail(core.databases.central) as lose:
            bob = await core.member("pool_1")
            lost = await core.submit(bob)
            await lose()
        assert await reconcile(core) == {"missing_dispatch": 2}
        assert await core.dispatch(kept.id) is not None
        assert await core.dispatch(lost.id) is None
        assert await core.status(bob, lost.id) == "failed"
        assert await core.ledger(bob, lost.id) == [RESERVED, REFUNDED]

    async def test_the_deadline_ends_a_job_of_a_forgotten_tenant(self, core: Core, ann: Member) -> None:
        async with lost_tail(core.databases.central) as lose:
            bob = await core.member("pool_1")
            job = await core.submit(bob)
            await lose()
        for room in (core.room, open_core(core.databases).room):
            await room.deadlines.enforce(bob.pool, datetime.now(UTC) + AFTER_EVERY_DEADLINE)
        await core.relay()
        assert await core.status(bob, job.id) == "failed"
        assert await core.outbox(bob.pool) == []


async def ended(core: Core, started: StartedLease, end: str) -> Any:
    match end:
        case "complete":
            return await core.complete(started)
        case "requeue":
            return await core.room.leases.requeue(report(started), "spot")
        case _:
            return await core.fail(started, retryable=end == "retryable")


async def waited(core: Core, started: StartedLease, status: str) -> None:
    """Ends the wait for a provider."""
    lease = started.lease
    match status:
        case "completed":
            await core.room.leases.complete_callback(lease.dispatch_id, lease.cycle, {}, "provider:x")
        case "failed":
            failure = Failure("provider_failed", "The provider could not make the output.")
            await core.room.leases.fail_callback(lease.dispatch_id, lease.cycle, failure, "provider:x")
        case _:
            await core.expire_lease(lease.dispatch_id)
            await core.reap()
