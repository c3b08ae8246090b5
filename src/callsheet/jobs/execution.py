"""The working life of a job: leased and started, kept alive, completed, failed, put back.

To hand out or put back, central comes first; to end, the pool comes first. Whoever comes later adopts what it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, cast
from uuid import UUID

from callsheet.dispatch.facts import Beat, Criteria, Ending, EndStatus, Extended, JobEnd, Known, Lease, PutBack
from callsheet.dispatch.queue import Queue
from callsheet.jobs.mover import Mover, ended_in
from callsheet.jobs.moves import Move
from callsheet.jobs.states import Happening, target
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.retry import backoff_seconds
from callsheet.wire.errors import LeaseLost, NotFound

# After this many requeues a requeue costs its attempt, so that a job nobody can keep does not circle for ever.
FREE_REQUEUES = 20
RETRY_BASE_SECONDS = 5.0
RETRY_CAP_SECONDS = 300.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing


@dataclass(frozen=True, slots=True)
class StartedLease:
    lease: Lease
    user_id: UUID
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    type: str
    message: str
    details: Mapping[str, Any] | None = None
    traceback: str | None = None
    retryable: bool = False

    def as_error(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "message": self.message,
            "details": self.details,
            "traceback": self.traceback,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Who reports on which lease."""

    dispatch_id: int
    token: UUID
    worker_id: str


@dataclass(frozen=True, slots=True)
class Outcome:
    job_id: UUID
    status: str


class Execution:
    def __init__(self, queue: Queue, mover: Mover):
        self._queue = queue
        self._mover = mover

    async def lease_and_start(self, criteria: Criteria, worker_id: str) -> StartedLease | None:
        """The next job for this worker, or None. A dispatch whose job has ended is closed on the way."""
        while True:
            lease = await self._queue.lease(criteria, worker_id)
            if lease is None:
                return None
            start = asyncio.create_task(self._start(lease))
            try:
                started = await asyncio.shield(start)
            except (Exception, asyncio.CancelledError):
                await asyncio.shield(self._release(lease, start))
                raise
            if started is not None:
                await hit(Failpoint.START_BEFORE_ANSWER)
                return started

    async def _start(self, lease: Lease) -> StartedLease | None:
        await hit(Failpoint.LEASE_BEFORE_START)
        move = Move(
            lease.tenant_id, lease.job_id, lease.charge_cycle, _worker(lease.worker_id), new_lease_seq=lease.lease_seq
        )
        moved = await self._mover.move(Happening.START, move)
        if moved is not None:
            return StartedLease(lease, moved.user_id, moved.payload or {})
        end = ended_in(await self._mover.look(lease.tenant_id, lease.job_id), lease.charge_cycle)
        if end is not None:
            await hit(Failpoint.START_BEFORE_CLOSE)
            await self._queue.close(Ending(lease.dispatch_id, end, lease.lease_token))
        # Otherwise a newer lease overtook this one while it stalled; it is not ours to touch.
        return None

    async def _release(self, lease: Lease, start: asyncio.Task[StartedLease | None]) -> None:
        """Nobody will run it: back at once, with its attempt; and the job too, once its start has come to an end."""
        await self._queue.put_back([PutBack(lease.dispatch_id, lease.lease_token, keep_attempt=False)])
        await asyncio.wait({start})
        if not start.cancelled() and start.exception() is None and start.result() is not None:
            await hit(Failpoint.PUT_BACK_BEFORE_POOL)
            actor, reason = _worker(lease.worker_id), "its worker was gone before it had the job"
            move = Move(lease.tenant_id, lease.job_id, lease.charge_cycle, actor, lease.lease_seq, reason=reason)
            await self._mover.move(Happening.PUT_BACK, move)

    async def heartbeat(self, report: Report, run_started: bool = False) -> Extended:
        extended = await self._queue.heartbeat(Beat(report.dispatch_id, report.token, run_started, report.worker_id))
        if extended is None:
            settled = await self._settled(report)
            raise LeaseLost(f"The job is {settled.status}.")
        return extended

    async def complete(self, report: Report, result: Mapping[str, Any], provider_job_id: str | None = None) -> Outcome:
        known = await self._holding(report)
        if isinstance(known, Outcome):
            return known
        await hit(Failpoint.COMPLETE_BEFORE_POOL)
        move = self._move(known, report, result=result, provider_job_id=provider_job_id)
        return await self._end(Happening.COMPLETE, known, move, provider_job_id=provider_job_id)

    async def complete_callback(
        self, dispatch_id: int, charge_cycle: int, result: Mapping[str, Any], actor: str
    ) -> Outcome:
        """A provider called back. What is late (another cycle, an ended job) changes nothing."""
        known = await self._queue.find(dispatch_id)
        if known is None or known.charge_cycle != charge_cycle:
            raise NotFound("There is no such dispatch.")
        if known.finished or known.status != "waiting":
            return Outcome(known.job_id, known.status)
        move = Move(known.tenant_id, known.job_id, known.charge_cycle, actor, lease_seq=known.lease_seq, result=result)
        return await self._end(Happening.COMPLETE, known, move)

    async def fail(self, report: Report, failure: Failure) -> Outcome:
        known = await self._holding(report)
        if isinstance(known, Outcome):
            return known
        if failure.retryable and known.attempts < known.max_attempts and known.cancel_requested_at is None:
            delay = backoff_seconds(known.attempts, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)
            back = PutBack(known.dispatch_id, report.token, True, delay_seconds=delay, error=failure.message)
            return await self._put_back(known, back, f"failed, will be tried again: {failure.message}", report)
        move = self._move(known, report, reason=failure.message, error=failure.as_error())
        return await self._end(Happening.FAIL, known, move, error=failure.message)

    async def requeue(self, report: Report, reason: str) -> Outcome:
        """For interruptions that are not the job's fault: the attempt is given back."""
        known = await self._holding(report)
        if isinstance(known, Outcome):
            return known
        costs = known.requeues >= FREE_REQUEUES
        if costs and known.attempts >= known.max_attempts:
            failure = Failure("attempts_exhausted", f"Requeued too often: {reason}")
            move = self._move(known, report, reason=failure.message, error=failure.as_error())
            return await self._end(Happening.FAIL, known, move, error=failure.message)
        text = f"Requeued: {reason}"
        back = PutBack(known.dispatch_id, report.token, costs, counts_as_requeue=True, error=text)
        return await self._put_back(known, back, text, report)

    async def defer(self, report: Report, provider_job_id: str, expires_at: datetime) -> Outcome:
        """Submitted to a provider: the worker is free, the job waits for its callback."""
        known = await self._holding(report)
        if isinstance(known, Outcome):
            return known
        if not await self._queue.wait_for_callback(report.dispatch_id, report.token, provider_job_id, expires_at):
            return await self._settled(report)
        return Outcome(known.job_id, "waiting")

    async def _holding(self, report: Report) -> Known | Outcome:
        """The dispatch while this report's lease holds it; what is recorded where it was settled before."""
        known = await self._queue.find(report.dispatch_id)
        if known is None:
            raise NotFound("There is no such dispatch.")
        if known.lease_token == report.token and not known.finished:
            if known.worker_id != report.worker_id:
                raise NotFound("There is no such lease of this worker.")
            return known
        return _recorded(known, report)

    async def _settled(self, report: Report) -> Outcome:
        known = await self._queue.find(report.dispatch_id)
        if known is None:
            raise NotFound("There is no such dispatch.")
        return _recorded(known, report)

    def _move(self, known: Known, report: Report, **changes: Any) -> Move:
        return Move(
            known.tenant_id,
            known.job_id,
            known.charge_cycle,
            _worker(report.worker_id),
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
            facts = await self._mover.look(known.tenant_id, known.job_id)
            found = ended_in(facts, known.charge_cycle)
            if found is None:
                # The job runs under a newer lease: this report comes from a worker that was overtaken.
                raise LeaseLost()
            if found != target(happening).value:
                await self._mover.deny(happening, move)
            # Otherwise it is the same report again, after a crash before the close.
            end = found
        await hit(Failpoint.COMPLETE_BEFORE_CLOSE if happening is Happening.COMPLETE else Failpoint.FAIL_BEFORE_CLOSE)
        if not await self._queue.close(Ending(known.dispatch_id, end, known.lease_token, provider_job_id, error)):
            # Reaped meanwhile, in central only: it must not be handed out again.
            await self._queue.end_for_jobs([JobEnd(known.tenant_id, known.job_id, known.charge_cycle, end)])
        return Outcome(known.job_id, end)

    async def _put_back(self, known: Known, back: PutBack, reason: str, report: Report) -> Outcome:
        returned = await self._queue.put_back([back])
        if not returned:
            return await self._settled(report)
        await hit(Failpoint.PUT_BACK_BEFORE_POOL)
        moved = await self._mover.move(Happening.PUT_BACK, self._move(known, report, reason=reason))
        if moved is None:
            end = ended_in(await self._mover.look(known.tenant_id, known.job_id), known.charge_cycle)
            if end is not None:
                await self._queue.end_for_jobs([JobEnd(known.tenant_id, known.job_id, known.charge_cycle, end)])
                return Outcome(known.job_id, end)
        return Outcome(known.job_id, "queued")


def _recorded(known: Known, report: Report) -> Outcome:
    """The answer to a report whose lease is over."""
    if known.finished and known.lease_token == report.token:
        return Outcome(known.job_id, known.status)
    if report.token not in known.past_lease_tokens:
        raise NotFound("There is no such lease of this worker.")
    if not known.finished and known.lease_token is None and known.past_lease_tokens[-1] == report.token:
        return Outcome(known.job_id, known.status)
    if known.finished and known.lease_token is None:
        return Outcome(known.job_id, known.status)
    raise LeaseLost()


def _worker(worker_id: str) -> str:
    return f"worker:{worker_id}"
