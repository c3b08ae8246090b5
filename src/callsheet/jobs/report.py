"""What workers and providers report about a lease: it is alive, or its run completed, failed, was interrupted, or now
waits for a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import Beat, Extended, Known, PutBack
from callsheet.dispatch.queue import Queue
from callsheet.identity.routing import TenantRouting
from callsheet.jobs.outcomes import Failure, Outcome, Report, settlement_of
from callsheet.jobs.products import with_product
from callsheet.jobs.settlement import LeaseSettlement, request_under_lease
from callsheet.jobs.sql import SQL
from callsheet.jobs.states import Transition
from callsheet.jobs.transition_requests import Output, TransitionRequest
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.retry import backoff_seconds
from callsheet.wire.errors import LeaseLost, NotFound

RETRY_BASE_SECONDS = 5.0
RETRY_CAP_SECONDS = 300.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing


class ActorAndAction(NamedTuple):
    actor: str | None
    action: str | None


class LeaseReports:
    def __init__(self, queue: Queue, routing: TenantRouting, settlement: LeaseSettlement, free_requeues: int):
        self._queue = queue
        self._routing = routing
        self._settlement = settlement
        self._free_requeues = free_requeues

    async def holding(self, report: Report) -> Known | Outcome:
        """The dispatch if the report's lease still holds it; otherwise the recorded outcome."""
        return await self._settlement.holding(report)

    async def has_ended(self, known: Known) -> bool:
        """Whether the job ended while its lease was held: it was canceled, or its deadline passed."""
        return await self._settlement.end_of(known) is not None

    async def heartbeat(self, report: Report, run_started: bool = False, run_waiting: bool = False) -> Extended:
        extended = await self._queue.heartbeat(
            Beat(report.dispatch_id, report.token, run_started, report.worker_id, run_waiting)
        )
        if extended is None:
            recorded = await self._settlement.recorded(report)
            raise LeaseLost(f"The job is {recorded.status}.")
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
        delivered = with_product(known.kind, known.job_id, result)
        request = request_under_lease(
            known, report, **delivered, provider_job_id=provider_job_id, outputs=tuple(outputs)
        )
        return await self._settlement.end(Transition.COMPLETE, known, request, provider_job_id=provider_job_id)

    async def actor_and_action(self, tenant_id: UUID, job_id: UUID) -> ActorAndAction:
        """The actor of a task, and the action of a media task."""
        pool = await self._routing.pool_of(tenant_id)
        async with pool.connection() as connection:
            row = await SQL["get_actor_and_action"].row(connection, ActorAndAction, tenant_id=tenant_id, job_id=job_id)
        return row or ActorAndAction(None, None)

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
        request = TransitionRequest(
            known.cycle, actor, lease_seq=known.lease_seq, result=result, outputs=tuple(outputs)
        )
        return await self._settlement.end(Transition.COMPLETE, known, request)

    async def fail_callback(self, dispatch_id: int, charge_cycle: int, failure: Failure, actor: str) -> Outcome:
        """A provider reported a failure. No worker holds a lease for a retry, so the job ends and is refunded."""
        known = await self._waiting(dispatch_id, charge_cycle)
        if isinstance(known, Outcome):
            return known
        request = TransitionRequest(
            known.cycle, actor, lease_seq=known.lease_seq, reason=failure.message, error=failure.as_error()
        )
        return await self._settlement.end(Transition.FAIL, known, request, error=failure.message)

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
            back = PutBack(
                known.dispatch_id,
                report.token,
                attempt_counts=True,
                delay_seconds=retry_delay(known.attempts, failure),
                error=failure.message,
                wedged=failure.is_wedge,
            )
            reason = f"failed, will be tried again: {failure.message}"
            return await self._settlement.requeue(known, back, reason, report)
        return await self._fail(known, report, failure)

    async def requeue(
        self, report: Report, reason: str, *, attempt_counts: bool = False, actor: str | None = None
    ) -> Outcome:
        """Requeues a job whose run was interrupted.

        `attempt_counts`: the worker was revoked or disappeared. A job without attempts left then fails, because
        otherwise it would wait forever. Without it, the job did not cause the interruption, and the attempt does not
        count the first free_requeues times. `actor`: the process or user that requeues it, if not its worker.
        """
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        if attempt_counts:
            return await self._requeue_with_attempt(known, report, reason, actor)
        return await self._requeue_without_attempt(known, report, reason, actor)

    async def requeue_held_by(
        self, worker_id: str, *, attempt_counts: bool, reason: str, actor: str
    ) -> list[tuple[int, Outcome]]:
        """Requeues all jobs that a worker holds; returns each dispatch with its outcome."""
        outcomes = []
        for row in await self._queue.held_by(worker_id):
            report = Report(row["dispatch_id"], row["lease_token"], worker_id)
            try:
                outcome = await self.requeue(report, reason, attempt_counts=attempt_counts, actor=actor)
            except (LeaseLost, NotFound):
                continue  # another process settled or requeued the lease at this moment
            if outcome.settled is not None:
                outcomes.append((row["dispatch_id"], outcome))
        return outcomes

    async def _requeue_without_attempt(self, known: Known, report: Report, reason: str, actor: str | None) -> Outcome:
        # A job that every worker requeues must not circulate forever.
        costs = known.requeues >= self._free_requeues
        if costs and known.attempts >= known.max_attempts:
            failure = Failure("attempts_exhausted", f"Requeued too often: {reason}")
            return await self._fail(known, report, failure, actor)
        text = f"Requeued: {reason}"
        back = PutBack(known.dispatch_id, report.token, attempt_counts=costs, counts_as_requeue=True, error=text)
        return await self._settlement.requeue(known, back, text, report, actor)

    async def _requeue_with_attempt(self, known: Known, report: Report, reason: str, actor: str | None) -> Outcome:
        if known.attempts >= known.max_attempts or known.cancel_requested_at is not None:
            failure = Failure("lease_lost", f"No worker could finish it: {reason}.")
            return await self._fail(known, report, failure, actor)
        back = PutBack(known.dispatch_id, report.token, attempt_counts=True, error=reason)
        return await self._settlement.requeue(known, back, reason, report, actor)

    async def _fail(self, known: Known, report: Report, failure: Failure, actor: str | None = None) -> Outcome:
        request = request_under_lease(known, report, actor=actor, reason=failure.message, error=failure.as_error())
        return await self._settlement.end(Transition.FAIL, known, request, error=failure.message)

    async def defer(self, report: Report, provider_job_id: str, expires_at: datetime) -> Outcome:
        """The job was submitted to a provider: the worker is free, the job waits for the callback."""
        known = await self.holding(report)
        if isinstance(known, Outcome):
            return known
        held = await self._queue.wait_for_callback(report.dispatch_id, report.token, provider_job_id, expires_at)
        if held is None:
            return await self._settlement.recorded(report)
        return Outcome(known.job_id, "waiting", settlement_of(known, None, held))


def retry_delay(attempts: int, failure: Failure) -> float:
    """At least the provider's retry_after_seconds, up to a cap, with jitter."""
    jittered = backoff_seconds(attempts, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)
    return min(RETRY_CAP_SECONDS, max(0.0, failure.retry_after_seconds) + jittered)
