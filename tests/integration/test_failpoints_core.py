"""A crash at each named gap between two commits: what is left is lawful, and the next start brings each job to its end.

Each job has a twin in the other pool: another tenant's job with the same id, which must not change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.show.reader import require_job
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from tests.support.database.lost_tails import lost_tail
from tests.support.jobs.core import Core, Member, job_ids, open_core, report
from tests.support.jobs.crashes import CORE_FAILPOINTS, crashed_at

COST = 10
TOKENS = 100
RESERVE, CONSUME, REFUND = ("JOB_RESERVE", -COST), ("JOB_CONSUME", 0), ("JOB_REFUND", COST)

ACCEPTED = (">pending", "pending>queued")
RUN = ("queued>processing",)
BACK = ("processing>queued",)
AT_ONCE = (">pending", "pending>processing")
DONE = ("processing>completed",)


@dataclass(slots=True)
class TwinJobs:
    """A job of ann, and a job of bob with the same id in the other pool."""

    core: Core
    ann: Member
    bob: Member
    job_id: UUID

    @classmethod
    async def open(cls, core: Core) -> TwinJobs:
        ann, bob = await core.member("pool_1", TOKENS), await core.member("pool_2", TOKENS)
        twin_jobs = cls(core, ann, bob, uuid7())
        with job_ids(twin_jobs.job_id):
            # Behind ann's, so that a lease takes hers.
            await core.submit(bob, cost=COST, priority=-1)
        return twin_jobs

    async def submit(self, **changes: int) -> None:
        with job_ids(self.job_id):
            await self.core.submit(self.ann, cost=COST, **changes)

    async def submit_at_once(self, **changes: int) -> StartedLease | None:
        """A synchronous job, run by the control plane that accepted it."""
        with job_ids(self.job_id):
            new = self.core.new_job(self.ann, cost=COST, kind="copy", **changes)
            return (await self.core.room.synchronous.submit(new, "plane"))[1]

    async def leased(self, **changes: int) -> StartedLease:
        await self.submit(**changes)
        return await self.core.start()

    async def cancel(self) -> None:
        await self.core.room.cancellation.cancel(self.ann.tenant_id, self.job_id, actor="user")

    async def retry(self) -> None:
        await self.core.room.retries.retry(self.ann.tenant_id, self.job_id, actor="user")

    async def enforce_deadlines(self) -> None:
        # Only in ann's pool: the twin is not late.
        await self.core.room.deadlines.enforce(self.ann.pool, datetime.now(UTC) + timedelta(days=2))

    async def expire(self, started: StartedLease) -> None:
        await self.core.expire_lease(started.lease.dispatch_id)


@dataclass(frozen=True, slots=True)
class Crash:
    """`happens` crashes at `point`; after the drain the job has this history and these ledger lines."""

    point: Failpoint
    happens: Callable[[TwinJobs], Awaitable[bool]]
    history: tuple[str, ...]
    ledger: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.point}-{self.happens.__name__}"


CRASHES: list[Crash] = []


def crash(point: Failpoint, history: tuple[str, ...], *ledger: tuple[str, int]) -> Callable[..., None]:
    def register(happens: Callable[[TwinJobs], Awaitable[bool]]) -> None:
        CRASHES.append(Crash(point, happens, history, ledger))

    return register


@crash(Failpoint.SUBMIT_BEFORE_RELAY, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def submitted_but_not_relayed(twin_jobs: TwinJobs) -> bool:
    return await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, twin_jobs.submit())


@crash(Failpoint.RELAY_BEFORE_QUEUED, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def relayed_but_not_marked(twin_jobs: TwinJobs) -> bool:
    return await crashed_at(Failpoint.RELAY_BEFORE_QUEUED, twin_jobs.submit())


@crash(Failpoint.RELAY_BEFORE_QUEUED, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def relayed_by_the_loop_but_not_marked(twin_jobs: TwinJobs) -> bool:
    await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, twin_jobs.submit())
    return await crashed_at(Failpoint.RELAY_BEFORE_QUEUED, twin_jobs.core.relay())


@crash(Failpoint.RELAY_BEFORE_QUEUED, (">pending", "pending>canceled"), RESERVE, REFUND)
async def relayed_after_an_unseen_cancel(twin_jobs: TwinJobs) -> bool:
    await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, twin_jobs.submit())
    [row] = await twin_jobs.core.outbox(twin_jobs.ann.pool)
    await twin_jobs.cancel()
    # As the relay does that had read its row before the cancel: the dispatch comes when everything is over.
    job = await require_job(twin_jobs.ann.pool, twin_jobs.ann.tenant_id, row["job_id"])
    operation = twin_jobs.core.room.relay.dispatch_now(job.row.entry)
    return await crashed_at(Failpoint.RELAY_BEFORE_QUEUED, operation)


@crash(Failpoint.SUBMIT_BEFORE_RELAY, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def a_synchronous_job_accepted_but_without_a_dispatch(twin_jobs: TwinJobs) -> bool:
    return await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, twin_jobs.submit_at_once())


@crash(Failpoint.LEASE_BEFORE_START, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def born_leased_but_not_started(twin_jobs: TwinJobs) -> bool:
    return await crashed_at(Failpoint.LEASE_BEFORE_START, twin_jobs.submit_at_once())


@crash(Failpoint.LEASE_BEFORE_START, (*ACCEPTED, "queued>failed"), RESERVE, REFUND)
async def born_leased_with_one_attempt_but_not_started(twin_jobs: TwinJobs) -> bool:
    return await crashed_at(Failpoint.LEASE_BEFORE_START, twin_jobs.submit_at_once(max_attempts=1))


@crash(Failpoint.START_BEFORE_RESPONSE, (*AT_ONCE, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def born_leased_and_started_but_not_run(twin_jobs: TwinJobs) -> bool:
    return await crashed_at(Failpoint.START_BEFORE_RESPONSE, twin_jobs.submit_at_once())


@crash(Failpoint.START_BEFORE_CLOSE, (">pending", "pending>canceled"), RESERVE, REFUND)
async def created_as_leased_after_an_unseen_cancel(twin_jobs: TwinJobs) -> bool:
    await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, twin_jobs.submit_at_once())
    job = await require_job(twin_jobs.ann.pool, twin_jobs.ann.tenant_id, twin_jobs.job_id)
    await twin_jobs.cancel()
    operation = twin_jobs.core.room.starter.start_synchronous(job.row.entry, "plane")
    return await crashed_at(Failpoint.START_BEFORE_CLOSE, operation)


@crash(Failpoint.COMPLETE_BEFORE_POOL, (*AT_ONCE, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def run_at_once_but_its_result_was_lost(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.submit_at_once()
    assert started is not None
    return await crashed_at(Failpoint.COMPLETE_BEFORE_POOL, twin_jobs.core.complete(started))


@crash(Failpoint.COMPLETE_BEFORE_CLOSE, (*AT_ONCE, *DONE), RESERVE, CONSUME)
async def run_at_once_and_completed_but_not_closed(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.submit_at_once()
    assert started is not None
    return await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, twin_jobs.core.complete(started))


@crash(Failpoint.RELAY_BEFORE_CLOSED, (*ACCEPTED, "queued>canceled"), RESERVE, REFUND)
async def closed_in_central_but_still_in_the_outbox(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    return await crashed_at(Failpoint.RELAY_BEFORE_CLOSED, twin_jobs.cancel())


@crash(Failpoint.RELAY_BEFORE_CLOSED, (*ACCEPTED, "queued>canceled"), RESERVE, REFUND)
async def closed_by_the_loop_but_still_in_the_outbox(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    await crashed_at(Failpoint.CANCEL_BEFORE_RELAY, twin_jobs.cancel())
    return await crashed_at(Failpoint.RELAY_BEFORE_CLOSED, twin_jobs.core.relay())


@crash(Failpoint.LEASE_BEFORE_START, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def leased_but_not_started(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    return await crashed_at(Failpoint.LEASE_BEFORE_START, twin_jobs.core.lease())


@crash(Failpoint.LEASE_BEFORE_START, (*ACCEPTED, "queued>failed"), RESERVE, REFUND)
async def leased_for_the_last_time_but_not_started(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit(max_attempts=1)
    return await crashed_at(Failpoint.LEASE_BEFORE_START, twin_jobs.core.lease())


@crash(Failpoint.START_BEFORE_RESPONSE, (*ACCEPTED, *RUN, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def started_but_no_worker_got_the_response(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    return await crashed_at(Failpoint.START_BEFORE_RESPONSE, twin_jobs.core.lease())


@crash(Failpoint.START_BEFORE_CLOSE, (*ACCEPTED, "queued>canceled"), RESERVE, REFUND)
async def leased_a_job_that_had_ended(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    await crashed_at(Failpoint.CANCEL_BEFORE_RELAY, twin_jobs.cancel())
    return await crashed_at(Failpoint.START_BEFORE_CLOSE, twin_jobs.core.lease())


@crash(Failpoint.COMPLETE_BEFORE_POOL, (*ACCEPTED, *RUN, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def reported_but_not_recorded(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    return await crashed_at(Failpoint.COMPLETE_BEFORE_POOL, twin_jobs.core.complete(started))


@crash(Failpoint.COMPLETE_BEFORE_CLOSE, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def completed_but_the_dispatch_is_open(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    return await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, twin_jobs.core.complete(started))


@crash(Failpoint.COMPLETE_BEFORE_CLOSE, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def completed_and_reported_again(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    crashed = await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, twin_jobs.core.complete(started))
    again = await open_core(twin_jobs.core.databases).complete(started)
    assert again.status == "completed"
    return crashed


@crash(Failpoint.COMPLETE_BEFORE_CLOSE, (*ACCEPTED, *RUN, *DONE), RESERVE, CONSUME)
async def called_back_but_the_dispatch_is_open(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    reports = twin_jobs.core.room.leases
    await reports.defer(report(started), "prediction-1", datetime.now(UTC) + timedelta(hours=1))
    callback = reports.complete_callback(started.lease.dispatch_id, started.lease.cycle, {"outputs": []}, "provider")
    return await crashed_at(Failpoint.COMPLETE_BEFORE_CLOSE, callback)


@crash(Failpoint.FAIL_BEFORE_CLOSE, (*ACCEPTED, *RUN, "processing>failed"), RESERVE, REFUND)
async def failed_but_the_dispatch_is_open(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    return await crashed_at(Failpoint.FAIL_BEFORE_CLOSE, twin_jobs.core.fail(started))


@crash(Failpoint.REQUEUE_BEFORE_POOL, (*ACCEPTED, *RUN, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def requeued_but_the_job_seems_to_run(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    return await crashed_at(
        Failpoint.REQUEUE_BEFORE_POOL, twin_jobs.core.room.leases.requeue(report(started), "spot notice")
    )


@crash(Failpoint.REQUEUE_BEFORE_POOL, (*ACCEPTED, *RUN, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def failed_retryably_but_the_job_seems_to_run(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    return await crashed_at(Failpoint.REQUEUE_BEFORE_POOL, twin_jobs.core.fail(started, retryable=True))


@crash(Failpoint.REQUEUE_BEFORE_POOL, (*ACCEPTED, *RUN, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def reaped_but_the_job_seems_to_run(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.expire(await twin_jobs.leased())
    return await crashed_at(Failpoint.REQUEUE_BEFORE_POOL, twin_jobs.core.reap())


@crash(Failpoint.REQUEUE_BEFORE_POOL, (*ACCEPTED, *RUN, "processing>canceled"), RESERVE, REFUND)
async def requeued_a_job_that_was_canceled(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    await twin_jobs.cancel()
    return await crashed_at(
        Failpoint.REQUEUE_BEFORE_POOL, twin_jobs.core.room.leases.requeue(report(started), "spot notice")
    )


@crash(Failpoint.CANCEL_BEFORE_RELAY, (*ACCEPTED, "queued>canceled"), RESERVE, REFUND)
async def canceled_but_still_in_the_queue(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    return await crashed_at(Failpoint.CANCEL_BEFORE_RELAY, twin_jobs.cancel())


@crash(Failpoint.CANCEL_BEFORE_RELAY, (*ACCEPTED, *RUN, "processing>canceled"), RESERVE, REFUND)
async def canceled_but_its_worker_does_not_know(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.leased()
    return await crashed_at(Failpoint.CANCEL_BEFORE_RELAY, twin_jobs.cancel())


@crash(
    Failpoint.RETRY_BEFORE_RELAY,
    (*ACCEPTED, *RUN, "processing>failed", "failed>pending", "pending>queued", *RUN, *DONE),
    RESERVE,
    REFUND,
    RESERVE,
    CONSUME,
)
async def retried_but_not_relayed(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.core.fail(await twin_jobs.leased())
    return await crashed_at(Failpoint.RETRY_BEFORE_RELAY, twin_jobs.retry())


@crash(
    Failpoint.RETRY_BEFORE_RELAY,
    (*ACCEPTED, *RUN, "processing>expired", "expired>pending", "pending>queued", *RUN, *DONE),
    RESERVE,
    REFUND,
    RESERVE,
    CONSUME,
)
async def retried_while_the_old_dispatch_is_held(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.leased()
    await crashed_at(Failpoint.EXPIRE_BEFORE_RELAY, twin_jobs.enforce_deadlines())
    return await crashed_at(Failpoint.RETRY_BEFORE_RELAY, twin_jobs.retry())


@crash(Failpoint.RESTART_BEFORE_POOL, (*ACCEPTED, *RUN, *BACK, *RUN, *DONE), RESERVE, CONSUME)
async def leased_after_central_lost_a_lease_but_not_started(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    async with lost_tail(twin_jobs.core.databases.central) as lose:
        await twin_jobs.core.start()
        await lose()
    # As when the connection to central was lost.
    twin_jobs.core.queue.received(None)
    return await crashed_at(Failpoint.RESTART_BEFORE_POOL, twin_jobs.core.start("worker-2"))


@crash(Failpoint.REAP_BEFORE_CLOSE, (*ACCEPTED, *RUN, "processing>failed"), RESERVE, REFUND)
async def reaped_the_last_attempt_but_the_dispatch_is_open(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.expire(await twin_jobs.leased(max_attempts=1))
    return await crashed_at(Failpoint.REAP_BEFORE_CLOSE, twin_jobs.core.reap())


@crash(Failpoint.REAP_BEFORE_CLOSE, (*ACCEPTED, *RUN, "processing>expired"), RESERVE, REFUND)
async def waited_in_vain_but_the_dispatch_is_open(twin_jobs: TwinJobs) -> bool:
    started = await twin_jobs.leased()
    await twin_jobs.core.room.leases.defer(report(started), "prediction-1", datetime.now(UTC) + timedelta(hours=1))
    await twin_jobs.expire(started)
    return await crashed_at(Failpoint.REAP_BEFORE_CLOSE, twin_jobs.core.reap())


@crash(Failpoint.EXPIRE_BEFORE_RELAY, (*ACCEPTED, "queued>failed"), RESERVE, REFUND)
async def too_late_but_still_in_the_queue(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.submit()
    return await crashed_at(Failpoint.EXPIRE_BEFORE_RELAY, twin_jobs.enforce_deadlines())


@crash(Failpoint.EXPIRE_BEFORE_RELAY, (*ACCEPTED, *RUN, "processing>expired"), RESERVE, REFUND)
async def too_late_but_its_worker_does_not_know(twin_jobs: TwinJobs) -> bool:
    await twin_jobs.leased()
    return await crashed_at(Failpoint.EXPIRE_BEFORE_RELAY, twin_jobs.enforce_deadlines())


def test_every_failpoint_of_the_core_is_tested() -> None:
    assert {crash.point for crash in CRASHES} == CORE_FAILPOINTS


@pytest.mark.parametrize("crash", CRASHES, ids=str)
async def test_g1_g2_g12_a_crash_at_a_failpoint_loses_no_job_and_charges_once(core: Core, crash: Crash) -> None:
    twin_jobs = await TwinJobs.open(core)
    assert await crash.happens(twin_jobs), "the operation never came to its failpoint"
    await core.check()

    survivor = open_core(core.databases)
    await survivor.drain()
    await survivor.check_drained()

    assert tuple(await survivor.steps(twin_jobs.ann, twin_jobs.job_id)) == crash.history
    lines = [(type, amount) for _, type, amount in await survivor.ledger(twin_jobs.ann, twin_jobs.job_id)]
    assert tuple(lines) == crash.ledger
    assert await survivor.balance(twin_jobs.ann) == TOKENS + sum(amount for _, amount in crash.ledger)

    assert await survivor.steps(twin_jobs.bob, twin_jobs.job_id) == [*ACCEPTED, *RUN, *DONE]
    assert await survivor.balance(twin_jobs.bob) == TOKENS - COST
