"""How a job is executed: leased and started, kept alive, completed, failed, put back.

To lease or put back, central is written first; to end, the pool is written first. A later writer adopts what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any, cast
from uuid import UUID

from callsheet.dispatch.affinity import Cold
from callsheet.dispatch.facts import Beat, Criteria, Ending, EndStatus, Entry, Extended, JobEnd, Known, Lease, PutBack
from callsheet.dispatch.queue import Queue
from callsheet.jobs.mover import Mover, ended_in
from callsheet.jobs.moves import SQL, Move, Output
from callsheet.jobs.products import with_product
from callsheet.jobs.reports import Failure, Outcome, Report, StartedLease, lease_of, recorded, settled_by
from callsheet.jobs.states import Happening, target
from callsheet.plumbing.database import PoolUnavailable
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.retry import backoff_seconds
from callsheet.wire.errors import LeaseLost, NotFound

NOT_TAKEN = "its worker was gone before it had the job"
# A job whose pool is not available is offered again after this time.
POOL_AWAY_SECONDS = 15.0
RETRY_BASE_SECONDS = 5.0
RETRY_CAP_SECONDS = 300.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing


class Execution:
    def __init__(self, queue: Queue, mover: Mover, free_requeues: int):
        self._queue = queue
        self._mover = mover
        self._free_requeues = free_requeues

    async def lease_and_start(
        self, criteria: Criteria, worker_id: str, poll_id: str | None = None, cold: Cold | None = None
    ) -> StartedLease | None:
        """The next job for this worker, or None. Leased dispatches whose job has ended are closed and skipped."""
        while True:
            lease = await self._queue.lease(criteria, worker_id, poll_id, cold)
            if lease is None:
                return None
            try:
                started = await self._start_or_release(lease, Happening.START)
            except PoolUnavailable:
                continue  # the job went back with a delay, so that it does not block the jobs of other pools
            if started is not None:
                return started

    async def begin(self, entry: Entry, worker_id: str) -> StartedLease | None:
        """Starts a job that its submitter runs at once: its dispatch is created leased. None if the job has to be
        queued, or has ended meanwhile."""
        lease = await self._queue.enqueue_leased(entry, worker_id)
        return None if lease is None else await self._start_or_release(lease, Happening.BEGIN)

    async def _start_or_release(self, lease: Lease, happening: Happening) -> StartedLease | None:
        start = asyncio.create_task(self._start(lease, happening))
        try:
            started = await asyncio.shield(start)
        except (Exception, asyncio.CancelledError) as error:
            delay = POOL_AWAY_SECONDS if isinstance(error, PoolUnavailable) else 0.0
            await asyncio.shield(self._release(lease, start, delay))
            raise
        if started is not None:
            await hit(Failpoint.START_BEFORE_ANSWER)
        return started

    async def _start(self, lease: Lease, happening: Happening = Happening.START) -> StartedLease | None:
        await hit(Failpoint.LEASE_BEFORE_START)
        move = Move(
            lease.tenant_id, lease.job_id, lease.charge_cycle, _worker(lease.worker_id), new_lease_seq=lease.lease_seq
        )
        moved = await self._mover.move(happening, move)
        if moved is not None:
            return StartedLease(lease, moved.user_id, moved.effect_id, moved.payload or {}, moved.task_actor)
        end = ended_in(await self._mover.look(lease.tenant_id, lease.job_id, lease.charge_cycle), lease.charge_cycle)
        if end is not None:
            await hit(Failpoint.START_BEFORE_CLOSE)
            await self._queue.close(Ending(lease.dispatch_id, end, lease.lease_token))
        # Otherwise a newer lease replaced this one while it stalled: change nothing.
        return None

    async def repeat(self, dispatch_id: int, token: UUID, worker_id: str) -> StartedLease | None:
        """Returns again a lease that the worker holds: the response was lost, or its signed URLs expired."""
        known = await self.holding(Report(dispatch_id, token, worker_id))
        if isinstance(known, Outcome):
            return None
        lease = lease_of(known)
        pool = await self._mover.pool_of(known.tenant_id)
        async with pool.connection() as connection:
            row = await SQL["payload_of_job"].row(connection, tenant_id=known.tenant_id, job_id=known.job_id)
        if row is not None and (row["charge_cycle"], row["lease_seq"]) == (known.charge_cycle, known.lease_seq):
            return StartedLease(lease, row["user_id"], row["effect_id"], row["payload"], row["actor"])
        # A process crashed between lease and start.
        return await self._start(lease)

    async def release(self, started: StartedLease, reason: str = NOT_TAKEN, *, delay_seconds: float = 0.0) -> None:
        """Puts back a lease: its response failed, or the worker disconnected. The attempt does not count."""
        lease = started.lease
        report = Report(lease.dispatch_id, lease.lease_token, lease.worker_id)
        known = await self.holding(report)
        if not isinstance(known, Outcome):
            back = PutBack(lease.dispatch_id, lease.lease_token, attempt_counts=False, delay_seconds=delay_seconds)
            await self._put_back(known, back, reason, report)

    async def _release(self, lease: Lease, start: asyncio.Task[StartedLease | None], delay_seconds: float) -> None:
        """Puts back a lease that no worker will run; the attempt does not count. The job follows after its start."""
        back = PutBack(lease.dispatch_id, lease.lease_token, attempt_counts=False, delay_seconds=delay_seconds)
        await self._queue.put_back([back])
        await asyncio.wait({start})
        if not start.cancelled() and start.exception() is None and start.result() is not None:
            await hit(Failpoint.PUT_BACK_BEFORE_POOL)
            actor = _worker(lease.worker_id)
            move = Move(lease.tenant_id, lease.job_id, lease.charge_cycle, actor, lease.lease_seq, reason=NOT_TAKEN)
            await self._mover.move(Happening.PUT_BACK, move)

    async def heartbeat(self, report: Report, run_started: bool = False, run_waiting: bool = False) -> Extended:
        extended = await self._queue.heartbeat(
            Beat(report.dispatch_id, report.token, run_started, report.worker_id, run_waiting)
        )
        if extended is None:
            settled = await self._settled(report)
            raise LeaseLost(f"The job is {settled.status}.")
        return extended

    async def complete(
        self,
        report: Report,
        result: Mapping[str, Any],
        provider_job_id: str | None = None,
        outputs: Sequence[Output] = (),
    ) -> Outcome:
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        return await self.complete_held(known, report, result, provider_job_id, outputs)

    async def complete_held(
        self,
        known: Known,
        report: Report,
        result: Mapping[str, Any],
        provider_job_id: str | None = None,
        outputs: Sequence[Output] = (),
    ) -> Outcome:
        """For a caller that has already called `holding`, to check the outputs first."""
        await hit(Failpoint.COMPLETE_BEFORE_POOL)
        kept = with_product(known.kind, known.job_id, result)
        move = self._move(known, report, **kept, provider_job_id=provider_job_id, outputs=tuple(outputs))
        return await self._end(Happening.COMPLETE, known, move, provider_job_id=provider_job_id)

    async def asked(self, tenant_id: UUID, job_id: UUID) -> tuple[str | None, str | None]:
        """The actor of a task, and the action of a media task."""
        pool = await self._mover.pool_of(tenant_id)
        async with pool.connection() as connection:
            row = await SQL["get_asked"].row(connection, tenant_id=tenant_id, job_id=job_id)
        return (row["actor"], row["action"]) if row else (None, None)

    async def complete_callback(
        self,
        dispatch_id: int,
        charge_cycle: int,
        result: Mapping[str, Any],
        actor: str,
        outputs: Sequence[Output] = (),
    ) -> Outcome:
        """A provider called back. A late callback (another cycle, an ended job) changes nothing."""
        known = await self._waiting(dispatch_id, charge_cycle)
        if isinstance(known, Outcome):
            return known
        move = Move(
            known.tenant_id,
            known.job_id,
            known.charge_cycle,
            actor,
            lease_seq=known.lease_seq,
            result=result,
            outputs=tuple(outputs),
        )
        return await self._end(Happening.COMPLETE, known, move)

    async def fail_callback(self, dispatch_id: int, charge_cycle: int, failure: Failure, actor: str) -> Outcome:
        """A provider reported a failure. No worker holds a lease for a retry, so the job ends and is refunded."""
        known = await self._waiting(dispatch_id, charge_cycle)
        if isinstance(known, Outcome):
            return known
        move = Move(
            known.tenant_id,
            known.job_id,
            known.charge_cycle,
            actor,
            lease_seq=known.lease_seq,
            reason=failure.message,
            error=failure.as_error(),
        )
        return await self._end(Happening.FAIL, known, move, error=failure.message)

    async def _waiting(self, dispatch_id: int, charge_cycle: int) -> Known | Outcome:
        known = await self._queue.find(dispatch_id)
        if known is None or known.charge_cycle != charge_cycle:
            raise NotFound("There is no such dispatch.")
        return Outcome(known.job_id, known.status) if known.finished or known.status != "waiting" else known

    async def fail(self, report: Report, failure: Failure) -> Outcome:
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        if failure.is_wedge and known.wedges:
            failure = failure.for_good(await self._queue.workflow_slug(known.workflow_id))
        if failure.retryable and known.attempts < known.max_attempts and known.cancel_requested_at is None:
            delay = retry_delay(known.attempts, failure)
            back = PutBack(
                known.dispatch_id,
                report.token,
                attempt_counts=True,
                delay_seconds=delay,
                error=failure.message,
                wedged=failure.is_wedge,
            )
            return await self._put_back(known, back, f"failed, will be tried again: {failure.message}", report)
        move = self._move(known, report, reason=failure.message, error=failure.as_error())
        return await self._end(Happening.FAIL, known, move, error=failure.message)

    async def requeue(self, report: Report, reason: str) -> Outcome:
        """For interruptions that the job did not cause: the attempt does not count the first free_requeues times."""
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        return await self._requeue(known, report, reason)

    async def _requeue(self, known: Known, report: Report, reason: str, actor: str | None = None) -> Outcome:
        # A job that every worker requeues must not circulate forever.
        costs = known.requeues >= self._free_requeues
        if costs and known.attempts >= known.max_attempts:
            failure = Failure("attempts_exhausted", f"Requeued too often: {reason}")
            move = self._move(known, report, actor=actor, reason=failure.message, error=failure.as_error())
            return await self._end(Happening.FAIL, known, move, error=failure.message)
        text = f"Requeued: {reason}"
        back = PutBack(known.dispatch_id, report.token, attempt_counts=costs, counts_as_requeue=True, error=text)
        return await self._put_back(known, back, text, report, actor)

    async def defer(self, report: Report, provider_job_id: str, expires_at: datetime) -> Outcome:
        """The job was submitted to a provider: the worker is free, the job waits for the callback."""
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        held = await self._queue.wait_for_callback(report.dispatch_id, report.token, provider_job_id, expires_at)
        if held is None:
            return await self._settled(report)
        return Outcome(known.job_id, "waiting", settled_by(known, None, held))

    async def put_back_held(
        self, worker_id: str, *, attempt_counts: bool, reason: str, actor: str
    ) -> list[tuple[int, Outcome]]:
        """Puts all jobs that a worker holds back into the queue; returns each dispatch with its outcome.

        Attempts do not count if the worker signed off. They count if it was revoked or disappeared; a job without
        attempts left then fails, because otherwise it would wait forever.
        """
        outcomes = []
        for row in await self._queue.held_by(worker_id):
            report = Report(row["dispatch_id"], row["lease_token"], worker_id)
            try:
                outcome = await self.take_back(report, attempt_counts=attempt_counts, reason=reason, actor=actor)
            except (LeaseLost, NotFound):
                continue  # another process settled or took back the lease at this moment
            if outcome.settled is not None:
                outcomes.append((row["dispatch_id"], outcome))
        return outcomes

    async def take_back(self, report: Report, *, attempt_counts: bool, reason: str, actor: str) -> Outcome:
        """Takes one lease from its worker."""
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        if not attempt_counts:
            return await self._requeue(known, report, reason, actor)
        if known.attempts >= known.max_attempts or known.cancel_requested_at is not None:
            failure = Failure("lease_lost", f"No worker could finish it: {reason}.")
            move = self._move(known, report, actor=actor, reason=failure.message, error=failure.as_error())
            return await self._end(Happening.FAIL, known, move, error=failure.message)
        back = PutBack(known.dispatch_id, report.token, attempt_counts=True, error=reason)
        return await self._put_back(known, back, reason, report, actor)

    async def has_ended(self, known: Known) -> bool:
        """Whether the job ended while its lease was held: it was canceled, or its deadline passed."""
        facts = await self._mover.look(known.tenant_id, known.job_id, known.charge_cycle)
        return ended_in(facts, known.charge_cycle) is not None

    async def holding(self, report: Report) -> Known | Outcome:
        """The dispatch if the report's lease still holds it; otherwise the recorded outcome."""
        known = await self._queue.find(report.dispatch_id)
        if known is None:
            raise NotFound("There is no such dispatch.")
        if known.lease_token == report.token and not known.finished:
            if known.worker_id != report.worker_id:
                raise NotFound("This worker has no such lease.")
            return known
        return recorded(known, report)

    async def _settled(self, report: Report) -> Outcome:
        known = await self._queue.find(report.dispatch_id)
        if known is None:
            raise NotFound("There is no such dispatch.")
        return recorded(known, report)

    def _move(self, known: Known, report: Report, *, actor: str | None = None, **changes: Any) -> Move:
        return Move(
            known.tenant_id,
            known.job_id,
            known.charge_cycle,
            actor or _worker(report.worker_id),
            lease_seq=known.lease_seq,
            **changes,
        )

    async def _end(
        self,
        happening: Happening,
        known: Known,
        move: Move,
        *,
        provider_job_id: str | None = None,
        error: str | None = None,
    ) -> Outcome:
        moved = await self._mover.move(happening, move)
        if moved is not None:
            end = cast("EndStatus", moved.status.value)
        else:
            facts = await self._mover.look(known.tenant_id, known.job_id, known.charge_cycle)
            found = ended_in(facts, known.charge_cycle)
            if found is None:
                # The job runs under a newer lease: this report is from a worker that lost its lease.
                raise LeaseLost()
            if found != target(happening).value and not _only_stopped(happening, found):
                await self._mover.deny(happening, move)
            # Otherwise it is a repeated report, after a crash before the close.
            end = found
        await hit(Failpoint.COMPLETE_BEFORE_CLOSE if happening is Happening.COMPLETE else Failpoint.FAIL_BEFORE_CLOSE)
        closed = await self._queue.close(Ending(known.dispatch_id, end, known.lease_token, provider_job_id, error))
        if closed is None:
            # The reaper put the dispatch back meanwhile, in central only: it must not be leased again.
            await self._queue.end_for_jobs([JobEnd(known.tenant_id, known.job_id, known.charge_cycle, end)])
            return Outcome(known.job_id, end)
        held = settled_by(known, moved, closed.held_seconds or 0.0, closed.duration_seconds)
        return Outcome(known.job_id, end, held)

    async def _put_back(
        self, known: Known, back: PutBack, reason: str, report: Report, actor: str | None = None
    ) -> Outcome:
        returned = await (self._queue.put_back_behind(back) if back.wedged else self._queue.put_back([back]))
        if not returned:
            return await self._settled(report)
        await hit(Failpoint.PUT_BACK_BEFORE_POOL)
        moved = await self._mover.move(Happening.PUT_BACK, self._move(known, report, actor=actor, reason=reason))
        if back.wedged:
            await hit(Failpoint.PRIORITY_BEFORE_POOL)
            await self._mover.follow_priority((known.tenant_id, known.job_id, known.charge_cycle), returned[0].priority)
        settled = settled_by(known, moved, returned[0].held_seconds)
        if moved is None:
            end = ended_in(
                await self._mover.look(known.tenant_id, known.job_id, known.charge_cycle), known.charge_cycle
            )
            if end is not None:
                await self._queue.end_for_jobs([JobEnd(known.tenant_id, known.job_id, known.charge_cycle, end)])
                return Outcome(known.job_id, end, settled)
        return Outcome(known.job_id, "queued", settled)


def retry_delay(attempts: int, failure: Failure) -> float:
    """At least the provider's retry_after_seconds, up to a cap, with jitter."""
    jittered = backoff_seconds(attempts, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)
    return min(RETRY_CAP_SECONDS, max(0.0, failure.retry_after_seconds) + jittered)


def _only_stopped(happening: Happening, end: EndStatus) -> bool:
    """A worker that stopped because the job had ended reports a failed run. That is not a denied transition."""
    return happening is Happening.FAIL and end in ("canceled", "expired")


def _worker(worker_id: str) -> str:
    return f"worker:{worker_id}"
