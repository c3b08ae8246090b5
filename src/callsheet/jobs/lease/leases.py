"""Reports of workers and providers about a lease: the run is alive, completed, failed or interrupted, or it now waits
for a provider.

To end a job, the pool is written first. To requeue a job, central is written first. A later writer continues from the
state that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any, cast
from uuid import UUID

from callsheet.dispatch.facts import (
    DispatchEnd,
    DispatchState,
    EndStatus,
    Heartbeat,
    JobCycle,
    JobEnd,
    LeaseExtension,
    Requeue,
)
from callsheet.dispatch.queue import Queue
from callsheet.jobs.lease.outcomes import (
    Failure,
    LeaseEnded,
    LeaseReport,
    ReportOutcome,
    or_recorded,
    recorded_outcome,
    settlement_of,
)
from callsheet.jobs.lease.restarts import Restarts
from callsheet.jobs.machine.cycles import JobState, end_of_cycle
from callsheet.jobs.machine.states import Transition, target
from callsheet.jobs.machine.transition_requests import JobOutputFile, TransitionRequest, TransitionResult
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.outages import backoff_seconds
from callsheet.wire.errors import NotFound
from callsheet.wire.worker.errors import LeaseLost

RETRY_BASE_SECONDS = 5.0
REFUSAL_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 300.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing
RETRIED = "The run failed and will be retried:"
INTERRUPTED = "Requeued: the worker could not finish the job."
# An actor of events: the worker with the name that follows.
WORKER = "worker:"

# Makes what a completed job stores from its kind, its id and its result: at least the `result`.
Stored = Callable[[str, UUID, Mapping[str, Any]], Mapping[str, Any]]


class Leases:
    """`stored` makes what a completed job stores. `free_requeues`: how many interruptions cost no attempt."""

    def __init__(self, queue: Queue, transitions: Transitions, restarts: Restarts, stored: Stored, free_requeues: int):
        self._queue = queue
        self._transitions = transitions
        self._restarts = restarts
        self._stored = stored
        self._free_requeues = free_requeues

    async def holding(self, report: LeaseReport) -> DispatchState:
        """The dispatch if the report's lease still holds it. Raises LeaseEnded."""
        dispatch = await self._find(report.dispatch_id)
        if dispatch.lease_token == report.token and not dispatch.finished:
            if dispatch.worker_id != report.worker_id:
                raise NotFound("This worker has no such lease.")
            return dispatch
        raise LeaseEnded(recorded_outcome(dispatch, report))

    async def end_of(self, dispatch: DispatchState) -> EndStatus | None:
        """How the job ended while its lease was held: it was canceled, or its deadline passed. None while it runs."""
        return end_of_cycle(await self._transitions.state_of(dispatch.cycle), dispatch.charge_cycle)

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
            recorded = await self._recorded(report)
            raise LeaseLost(f"The job is {recorded.status}.")
        return extended

    @or_recorded
    async def complete(
        self,
        report: LeaseReport,
        result: Mapping[str, Any],
        provider_job_id: str | None = None,
        outputs: Sequence[JobOutputFile] = (),
        held: DispatchState | None = None,
    ) -> ReportOutcome:
        """`held`: the dispatch, if the caller has already called `holding`, to check the outputs first."""
        dispatch = held or await self.holding(report)
        await hit(Failpoint.COMPLETE_BEFORE_POOL)
        request = request_under_lease(
            dispatch,
            report,
            **self._stored(dispatch.kind, dispatch.job_id, result),
            provider_job_id=provider_job_id,
            outputs=tuple(outputs),
        )
        return await self._end(Transition.COMPLETE, dispatch, request)

    @or_recorded
    async def complete_callback(
        self,
        dispatch_id: int,
        job: JobCycle,
        result: Mapping[str, Any],
        actor: str,
        outputs: Sequence[JobOutputFile] = (),
    ) -> ReportOutcome:
        """Completes a job after a callback of its provider. A late callback (another cycle, an ended job) changes
        nothing.
        """
        dispatch = await self._waiting(dispatch_id, job)
        request = TransitionRequest(
            dispatch.cycle,
            actor,
            lease_seq=dispatch.lease_seq,
            result=result,
            provider_job_id=dispatch.provider_job_id,
            outputs=tuple(outputs),
        )
        return await self._end(Transition.COMPLETE, dispatch, request)

    @or_recorded
    async def fail_callback(self, dispatch_id: int, job: JobCycle, failure: Failure, actor: str) -> ReportOutcome:
        """Fails a job after a callback of its provider. No worker holds a lease for a retry, so the job ends and is
        refunded.
        """
        dispatch = await self._waiting(dispatch_id, job)
        request = TransitionRequest(
            dispatch.cycle, actor, lease_seq=dispatch.lease_seq, **_of_failure(dispatch, failure)
        )
        return await self._end(Transition.FAIL, dispatch, request)

    @or_recorded
    async def fail(self, report: LeaseReport, failure: Failure) -> ReportOutcome:
        dispatch = await self.holding(report)
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
            return await self._requeue(dispatch, requeue, reason, report, reported=reported)
        return await self.fail_held(dispatch, report, failure)

    async def fail_held(
        self, dispatch: DispatchState, report: LeaseReport, failure: Failure, actor: str | None = None
    ) -> ReportOutcome:
        """Fails a job that is not retried. The caller has already called `holding`."""
        request = request_under_lease(dispatch, report, actor=actor, **_of_failure(dispatch, failure))
        return await self._end(Transition.FAIL, dispatch, request)

    @or_recorded
    async def requeue(
        self, report: LeaseReport, reason: str, *, attempt_counts: bool = False, actor: str | None = None
    ) -> ReportOutcome:
        """Requeues a job whose run was interrupted.

        `attempt_counts`: the worker was revoked or disappeared. A job without attempts left then fails, because
        otherwise it would wait forever. If False, the job did not cause the interruption, and the first `free_requeues`
        attempts do not count. `actor`: the process or user that requeues the job, if not its worker.
        """
        dispatch = await self.holding(report)
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
            return await self.fail_held(dispatch, report, failure)
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
        return await self._requeue(dispatch, requeue, reason, report, reported=reported)

    async def return_unstarted(self, report: LeaseReport, reason: str, delay_seconds: float) -> None:
        """Requeues a job whose run never started. The attempt does not count."""
        try:
            dispatch = await self.holding(report)
        except LeaseEnded:
            return
        requeue = Requeue(report.dispatch_id, report.token, attempt_counts=False, delay_seconds=delay_seconds)
        await self._requeue(dispatch, requeue, reason, report)

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

    @or_recorded
    async def defer(self, report: LeaseReport, provider_job_id: str, expires_at: datetime) -> ReportOutcome:
        """Records that the job was submitted to a provider: the worker is free, and the job waits for the callback."""
        dispatch = await self.holding(report)
        held = await self._queue.wait_for_callback(report.dispatch_id, report.token, provider_job_id, expires_at)
        if held is None:
            return await self._recorded(report)
        return ReportOutcome(dispatch.job_id, "waiting", settlement_of(dispatch, None, held))

    async def _find(self, dispatch_id: int) -> DispatchState:
        dispatch = await self._queue.find(dispatch_id)
        if dispatch is None:
            raise NotFound("There is no such dispatch.")
        return dispatch

    async def _recorded(self, report: LeaseReport) -> ReportOutcome:
        """The outcome of a lease that has ended."""
        return recorded_outcome(await self._find(report.dispatch_id), report)

    async def _waiting(self, dispatch_id: int, job: JobCycle) -> DispatchState:
        """The dispatch if it waits for a callback. Raises LeaseEnded."""
        dispatch = await self._find(dispatch_id)
        if dispatch.cycle != job:
            # An earlier cycle, or another job: a central that lost its last changes gives the ids out again.
            raise NotFound("There is no such dispatch.")
        if dispatch.finished or dispatch.status != "waiting":
            raise LeaseEnded(ReportOutcome(dispatch.job_id, dispatch.status))
        return dispatch

    async def _requeue_without_attempt(
        self, dispatch: DispatchState, report: LeaseReport, reason: str, actor: str | None
    ) -> ReportOutcome:
        # A job that every worker requeues must not be requeued forever.
        costs = dispatch.requeues >= self._free_requeues
        if costs and dispatch.attempts >= dispatch.max_attempts:
            failure = Failure("attempts_exhausted", f"Requeued too often: {reason}")
            return await self.fail_held(dispatch, report, failure, actor)
        text = f"Requeued: {reason}"
        requeue = Requeue(dispatch.dispatch_id, report.token, attempt_counts=costs, counts_as_requeue=True, error=text)
        # A worker may give any text as its reason. Users read the reasons of the control plane and of operators.
        shown = INTERRUPTED if actor is None or actor.startswith(WORKER) else text
        return await self._requeue(dispatch, requeue, shown, report, actor, reported=text)

    async def _requeue_with_attempt(
        self, dispatch: DispatchState, report: LeaseReport, reason: str, actor: str | None
    ) -> ReportOutcome:
        if dispatch.attempts >= dispatch.max_attempts or dispatch.cancel_requested_at is not None:
            failure = Failure("lease_lost", f"No worker could finish the job: {reason}.")
            return await self.fail_held(dispatch, report, failure, actor)
        requeue = Requeue(dispatch.dispatch_id, report.token, attempt_counts=True, error=reason)
        return await self._requeue(dispatch, requeue, reason, report, actor)

    async def _requeue(
        self,
        dispatch: DispatchState,
        back: Requeue,
        reason: str,
        report: LeaseReport,
        actor: str | None = None,
        reported: str | None = None,
    ) -> ReportOutcome:
        """`reported`: the reason for operators, if users read another one."""
        returned = await (self._queue.requeue_behind(back) if back.wedged else self._queue.requeue([back]))
        if not returned:
            return await self._recorded(report)
        await hit(Failpoint.REQUEUE_BEFORE_POOL)
        request = request_under_lease(dispatch, report, actor=actor, reason=reason, reported=reported)
        changed = await self._transitions.apply(Transition.REQUEUE, request)
        if back.wedged:
            await hit(Failpoint.PRIORITY_BEFORE_POOL)
            await self._transitions.set_priority(dispatch.cycle, returned[0].lane.priority)
        settled = settlement_of(dispatch, changed, returned[0].held_seconds)
        end = None if changed is not None else await self.end_of(dispatch)
        if end is not None:
            await self._queue.end_for_jobs([JobEnd(*dispatch.cycle, end)])
        return ReportOutcome(dispatch.job_id, end or "queued", settled)

    async def _end(self, transition: Transition, dispatch: DispatchState, request: TransitionRequest) -> ReportOutcome:
        end: EndStatus | None = None
        changed = await self._transitions.apply(transition, request)
        if changed is None:
            job = await self._transitions.state_of(dispatch.cycle)
            end = end_of_cycle(job, dispatch.charge_cycle)
            if end is None:
                changed = await self._apply_again(transition, dispatch, job, request)
            elif job is not None and end != target(transition).value and not _only_stopped(transition, end):
                await self._transitions.deny(transition, request)
            # Otherwise it is a repeated report, after a crash before the close, or the pool lost the job.
        if changed is not None:
            end = cast("EndStatus", changed.status)
        assert end is not None
        is_complete = transition is Transition.COMPLETE
        await hit(Failpoint.COMPLETE_BEFORE_CLOSE if is_complete else Failpoint.FAIL_BEFORE_CLOSE)
        closed = await self._queue.close(
            DispatchEnd(dispatch.dispatch_id, end, dispatch.lease_token, request.provider_job_id, request.reported)
        )
        if closed is None:
            # The reaper requeued the dispatch meanwhile, in central only. The dispatch must not be leased again.
            await self._queue.end_for_jobs([JobEnd(*dispatch.cycle, end)])
            return ReportOutcome(dispatch.job_id, end)
        settled = settlement_of(dispatch, changed, closed.held_seconds or 0.0, closed.duration_seconds)
        return ReportOutcome(dispatch.job_id, end, settled)

    async def _apply_again(
        self, transition: Transition, dispatch: DispatchState, job: JobState | None, request: TransitionRequest
    ) -> TransitionResult:
        """Ends a job that does not run under the lease of its report."""
        restarted = await self._restarts.under(dispatch, job, request.actor)
        if restarted is not None:
            changed = await self._transitions.apply(transition, replace(request, lease_seq=restarted.lease_seq))
            if changed is not None:
                return changed
        # The job runs under a newer lease: this report is from a worker that lost its lease.
        raise LeaseLost()


def request_under_lease(
    dispatch: DispatchState, report: LeaseReport, *, actor: str | None = None, **changes: Any
) -> TransitionRequest:
    """A transition that is applied only while the job runs under the lease of the report."""
    return TransitionRequest(
        dispatch.cycle,
        actor or worker_actor(report.worker_id),
        lease_seq=dispatch.lease_seq,
        trace=report.trace,
        **changes,
    )


def worker_actor(worker_id: str) -> str:
    """The worker as the actor of an event."""
    return f"{WORKER}{worker_id}"


def retry_delay(attempts: int, failure: Failure) -> float:
    """Seconds before the next attempt: at least the provider's retry_after_seconds, up to a maximum, with jitter."""
    jittered = backoff_seconds(attempts, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)
    return min(RETRY_CAP_SECONDS, max(0.0, failure.retry_after_seconds) + jittered)


def _of_failure(dispatch: DispatchState, failure: Failure) -> dict[str, Any]:
    return {
        "reason": failure.sentence,
        "reported": failure.message,
        "provider_job_id": failure.provider_job_id or dispatch.provider_job_id,
        "error": failure.after(dispatch.attempts, dispatch.max_attempts).as_error(),
    }


def _only_stopped(transition: Transition, end: EndStatus) -> bool:
    """Whether the worker stopped because the job had ended, and reported a failed run. That is not a denied
    transition.
    """
    return transition is Transition.FAIL and end in ("canceled", "expired")
