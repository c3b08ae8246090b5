"""Handles the reports of workers and providers about a lease: the run is alive, completed, failed or interrupted, or
it now waits for a provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import DispatchState, Heartbeat, LeaseExtension, Requeue
from callsheet.dispatch.queue import Queue
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.lease.outcomes import Failure, LeaseReport, ReportOutcome, settlement_of
from callsheet.jobs.lease.products import with_product
from callsheet.jobs.lease.settlement import WORKER, LeaseSettlement, request_under_lease
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import JobOutputFile, TransitionRequest
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.outages import backoff_seconds
from callsheet.wire.errors import LeaseLost, NotFound

SQL = statements("callsheet.jobs.lease")

RETRY_BASE_SECONDS = 5.0
REFUSAL_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 300.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing
RETRIED = "The run failed and will be retried:"
INTERRUPTED = "Requeued: the worker could not finish the job."


class ActorAndAction(NamedTuple):
    actor: str | None
    action: str | None


class LeaseReports:
    def __init__(self, queue: Queue, routing: TenantRouting, settlement: LeaseSettlement, free_requeues: int):
        self._queue = queue
        self._routing = routing
        self._settlement = settlement
        self._free_requeues = free_requeues

    async def holding(self, report: LeaseReport) -> DispatchState | ReportOutcome:
        """The dispatch if the report's lease still holds it; otherwise the recorded outcome."""
        return await self._settlement.holding(report)

    async def has_ended(self, dispatch: DispatchState) -> bool:
        """Whether the job ended while its lease was held: it was canceled, or its deadline passed."""
        return await self._settlement.end_of(dispatch) is not None

    async def heartbeat(
        self,
        report: LeaseReport,
        run_started: bool = False,
        run_waiting: bool = False,
        provider_job_id: str | None = None,
    ) -> LeaseExtension:
        extended = await self._queue.heartbeat(
            Heartbeat(report.dispatch_id, report.token, run_started, report.worker_id, run_waiting, provider_job_id)
        )
        if extended is None:
            recorded = await self._settlement.recorded(report)
            raise LeaseLost(f"The job is {recorded.status}.")
        return extended

    async def complete(
        self,
        report: LeaseReport,
        result: Mapping[str, Any],
        provider_job_id: str | None = None,
        outputs: Sequence[JobOutputFile] = (),
    ) -> ReportOutcome:
        dispatch = await self.holding(report)
        if isinstance(dispatch, ReportOutcome):
            return dispatch
        return await self.complete_held(dispatch, report, result, provider_job_id, outputs)

    async def complete_held(
        self,
        dispatch: DispatchState,
        report: LeaseReport,
        result: Mapping[str, Any],
        provider_job_id: str | None = None,
        outputs: Sequence[JobOutputFile] = (),
    ) -> ReportOutcome:
        """Completes a job. The caller has already called `holding`, to check the outputs first."""
        await hit(Failpoint.COMPLETE_BEFORE_POOL)
        delivered = with_product(dispatch.kind, dispatch.job_id, result)
        request = request_under_lease(
            dispatch, report, **delivered, provider_job_id=provider_job_id, outputs=tuple(outputs)
        )
        return await self._settlement.end(Transition.COMPLETE, dispatch, request, provider_job_id=provider_job_id)

    async def actor_and_action(self, tenant_id: UUID, job_id: UUID) -> ActorAndAction:
        """The actor of a task, and the action of a media task."""
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.connection() as connection:
            row = await SQL["get_actor_and_action"].row(connection, ActorAndAction, tenant_id=tenant_id, job_id=job_id)
        return row or ActorAndAction(None, None)

    async def complete_callback(
        self,
        dispatch_id: int,
        charge_cycle: int,
        result: Mapping[str, Any],
        actor: str,
        outputs: Sequence[JobOutputFile] = (),
    ) -> ReportOutcome:
        """Completes a job after a callback of its provider. A late callback (another cycle, an ended job) changes
        nothing.
        """
        dispatch = await self._waiting(dispatch_id, charge_cycle)
        if isinstance(dispatch, ReportOutcome):
            return dispatch
        request = TransitionRequest(
            dispatch.cycle,
            actor,
            lease_seq=dispatch.lease_seq,
            result=result,
            provider_job_id=dispatch.provider_job_id,
            outputs=tuple(outputs),
        )
        return await self._settlement.end(Transition.COMPLETE, dispatch, request)

    async def fail_callback(self, dispatch_id: int, charge_cycle: int, failure: Failure, actor: str) -> ReportOutcome:
        """Fails a job after a callback of its provider. No worker holds a lease for a retry, so the job ends and is
        refunded.
        """
        dispatch = await self._waiting(dispatch_id, charge_cycle)
        if isinstance(dispatch, ReportOutcome):
            return dispatch
        request = TransitionRequest(
            dispatch.cycle,
            actor,
            lease_seq=dispatch.lease_seq,
            reason=failure.sentence,
            reported=failure.message,
            provider_job_id=failure.provider_job_id or dispatch.provider_job_id,
            error=failure.after(dispatch.attempts, dispatch.max_attempts).as_error(),
        )
        return await self._settlement.end(
            Transition.FAIL, dispatch, request, provider_job_id=request.provider_job_id, error=failure.message
        )

    async def _waiting(self, dispatch_id: int, charge_cycle: int) -> DispatchState | ReportOutcome:
        dispatch = await self._queue.find(dispatch_id)
        if dispatch is None or dispatch.charge_cycle != charge_cycle:
            raise NotFound("There is no such dispatch.")
        return (
            ReportOutcome(dispatch.job_id, dispatch.status)
            if dispatch.finished or dispatch.status != "waiting"
            else dispatch
        )

    async def fail(self, report: LeaseReport, failure: Failure) -> ReportOutcome:
        dispatch = await self.holding(report)
        if isinstance(dispatch, ReportOutcome):
            return dispatch
        if failure.is_wedge and dispatch.wedges:
            failure = failure.for_good(await self._queue.workflow_slug(dispatch.workflow_id))
        if failure.retryable and dispatch.attempts < dispatch.max_attempts and dispatch.cancel_requested_at is None:
            requeue = Requeue(
                dispatch.dispatch_id,
                report.token,
                attempt_counts=True,
                delay_seconds=retry_delay(dispatch.attempts, failure),
                error=failure.message,
                wedged=failure.is_wedge,
            )
            reason, reported = (f"{RETRIED} {text}" for text in (failure.sentence, failure.message))
            return await self._settlement.requeue(dispatch, requeue, reason, report, reported=reported)
        return await self._fail(dispatch, report, failure)

    async def requeue(
        self, report: LeaseReport, reason: str, *, attempt_counts: bool = False, actor: str | None = None
    ) -> ReportOutcome:
        """Requeues a job whose run was interrupted.

        `attempt_counts`: the worker was revoked or disappeared. A job without attempts left then fails, because
        otherwise it would wait forever. If False, the job did not cause the interruption, and the first `free_requeues`
        attempts do not count. `actor`: the process or user that requeues the job, if not its worker.
        """
        dispatch = await self.holding(report)
        if isinstance(dispatch, ReportOutcome):
            return dispatch
        if attempt_counts:
            return await self._requeue_with_attempt(dispatch, report, reason, actor)
        return await self._requeue_without_attempt(dispatch, report, reason, actor)

    async def requeue_refused(
        self, dispatch: DispatchState, report: LeaseReport, failure: Failure, *, is_excluded: bool
    ) -> ReportOutcome:
        """Requeues a job whose graph the engine refused, for another worker. The caller has already called `holding`.

        `is_excluded`: the worker does not get the job again. Otherwise it may, so each refusal delays the job longer.
        After the free requeues the attempts count, and the job fails with the error of the engine.
        """
        costs = dispatch.requeues >= self._free_requeues
        if costs and dispatch.attempts >= dispatch.max_attempts:
            return await self._fail(dispatch, report, failure)
        refusals = dispatch.requeues + (0 if is_excluded else 1)
        requeue = Requeue(
            dispatch.dispatch_id,
            report.token,
            attempt_counts=costs,
            counts_as_requeue=True,
            delay_seconds=backoff_seconds(refusals, REFUSAL_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM) if refusals else 0,
            error=failure.message,
            refused=not is_excluded,
        )
        reason, reported = (f"Requeued: {text}" for text in (failure.sentence, failure.message))
        return await self._settlement.requeue(dispatch, requeue, reason, report, reported=reported)

    async def fail_refused(self, dispatch: DispatchState, report: LeaseReport, failure: Failure) -> ReportOutcome:
        """Fails a job that no worker can run. The caller has already called `holding`."""
        return await self._fail(dispatch, report, failure)

    async def requeue_held_by(
        self, worker_id: str, *, attempt_counts: bool, reason: str, actor: str
    ) -> list[tuple[int, ReportOutcome]]:
        """Requeues all jobs that a worker holds; returns each dispatch with its outcome."""
        outcomes = []
        for lease in await self._queue.held_by(worker_id):
            report = LeaseReport(lease.dispatch_id, lease.lease_token, worker_id)
            try:
                outcome = await self.requeue(report, reason, attempt_counts=attempt_counts, actor=actor)
            except (LeaseLost, NotFound):
                continue  # another process settled or requeued the lease at this moment
            if outcome.settled is not None:
                outcomes.append((lease.dispatch_id, outcome))
        return outcomes

    async def _requeue_without_attempt(
        self, dispatch: DispatchState, report: LeaseReport, reason: str, actor: str | None
    ) -> ReportOutcome:
        # A job that every worker requeues must not be requeued forever.
        costs = dispatch.requeues >= self._free_requeues
        if costs and dispatch.attempts >= dispatch.max_attempts:
            failure = Failure("attempts_exhausted", f"Requeued too often: {reason}")
            return await self._fail(dispatch, report, failure, actor)
        text = f"Requeued: {reason}"
        requeue = Requeue(dispatch.dispatch_id, report.token, attempt_counts=costs, counts_as_requeue=True, error=text)
        # A worker may give any text as its reason. Users read the reasons of the control plane and of operators.
        shown = INTERRUPTED if actor is None or actor.startswith(WORKER) else text
        return await self._settlement.requeue(dispatch, requeue, shown, report, actor, reported=text)

    async def _requeue_with_attempt(
        self, dispatch: DispatchState, report: LeaseReport, reason: str, actor: str | None
    ) -> ReportOutcome:
        if dispatch.attempts >= dispatch.max_attempts or dispatch.cancel_requested_at is not None:
            failure = Failure("lease_lost", f"No worker could finish the job: {reason}.")
            return await self._fail(dispatch, report, failure, actor)
        requeue = Requeue(dispatch.dispatch_id, report.token, attempt_counts=True, error=reason)
        return await self._settlement.requeue(dispatch, requeue, reason, report, actor)

    async def _fail(
        self, dispatch: DispatchState, report: LeaseReport, failure: Failure, actor: str | None = None
    ) -> ReportOutcome:
        request = request_under_lease(
            dispatch,
            report,
            actor=actor,
            reason=failure.sentence,
            reported=failure.message,
            provider_job_id=failure.provider_job_id or dispatch.provider_job_id,
            error=failure.after(dispatch.attempts, dispatch.max_attempts).as_error(),
        )
        return await self._settlement.end(
            Transition.FAIL, dispatch, request, provider_job_id=request.provider_job_id, error=failure.message
        )

    async def defer(self, report: LeaseReport, provider_job_id: str, expires_at: datetime) -> ReportOutcome:
        """Records that the job was submitted to a provider: the worker is free, and the job waits for the callback."""
        dispatch = await self.holding(report)
        if isinstance(dispatch, ReportOutcome):
            return dispatch
        held = await self._queue.wait_for_callback(report.dispatch_id, report.token, provider_job_id, expires_at)
        if held is None:
            return await self._settlement.recorded(report)
        return ReportOutcome(dispatch.job_id, "waiting", settlement_of(dispatch, None, held))


def retry_delay(attempts: int, failure: Failure) -> float:
    """Seconds before the next attempt: at least the provider's retry_after_seconds, up to a maximum, with jitter."""
    jittered = backoff_seconds(attempts, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)
    return min(RETRY_CAP_SECONDS, max(0.0, failure.retry_after_seconds) + jittered)
