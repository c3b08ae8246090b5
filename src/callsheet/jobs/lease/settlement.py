"""Ends a lease: its job ends or goes back to the queue, in both databases.

To end a job, the pool is written first. To requeue a job, central is written first. A later writer continues from the
state that it finds.
"""

from __future__ import annotations

from typing import Any, cast

from callsheet.dispatch.facts import DispatchEnd, DispatchState, EndStatus, JobEnd, Requeue
from callsheet.dispatch.queue import Queue
from callsheet.jobs.lease.outcomes import LeaseReport, ReportOutcome, recorded_outcome, settlement_of
from callsheet.jobs.machine.cycles import end_of_cycle
from callsheet.jobs.machine.states import Transition, target
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import LeaseLost, NotFound

# An actor of events: the worker with the name that follows.
WORKER = "worker:"


class LeaseSettlement:
    def __init__(self, queue: Queue, transitions: Transitions):
        self._queue = queue
        self._transitions = transitions

    async def holding(self, report: LeaseReport) -> DispatchState | ReportOutcome:
        """The dispatch if the report's lease still holds it; otherwise the recorded outcome."""
        dispatch = await self._queue.find(report.dispatch_id)
        if dispatch is None:
            raise NotFound("There is no such dispatch.")
        if dispatch.lease_token == report.token and not dispatch.finished:
            if dispatch.worker_id != report.worker_id:
                raise NotFound("This worker has no such lease.")
            return dispatch
        return recorded_outcome(dispatch, report)

    async def recorded(self, report: LeaseReport) -> ReportOutcome:
        """The outcome of a lease that has ended."""
        dispatch = await self._queue.find(report.dispatch_id)
        if dispatch is None:
            raise NotFound("There is no such dispatch.")
        return recorded_outcome(dispatch, report)

    async def end_of(self, dispatch: DispatchState) -> EndStatus | None:
        """How the job ended while its lease was held: it was canceled, or its deadline passed. None while it runs."""
        return end_of_cycle(await self._transitions.state_of(dispatch.cycle), dispatch.charge_cycle)

    async def end(
        self,
        transition: Transition,
        dispatch: DispatchState,
        request: TransitionRequest,
        *,
        provider_job_id: str | None = None,
        error: str | None = None,
    ) -> ReportOutcome:
        changed = await self._transitions.apply(transition, request)
        if changed is not None:
            end = cast("EndStatus", changed.status)
        else:
            found = await self.end_of(dispatch)
            if found is None:
                # The job runs under a newer lease: this report is from a worker that lost its lease.
                raise LeaseLost()
            if found != target(transition).value and not _only_stopped(transition, found):
                await self._transitions.deny(transition, request)
            # Otherwise it is a repeated report, after a crash before the close.
            end = found
        is_complete = transition is Transition.COMPLETE
        await hit(Failpoint.COMPLETE_BEFORE_CLOSE if is_complete else Failpoint.FAIL_BEFORE_CLOSE)
        closed = await self._queue.close(
            DispatchEnd(dispatch.dispatch_id, end, dispatch.lease_token, provider_job_id, error)
        )
        if closed is None:
            # The reaper requeued the dispatch meanwhile, in central only. The dispatch must not be leased again.
            await self._queue.end_for_jobs([JobEnd(*dispatch.cycle, end)])
            return ReportOutcome(dispatch.job_id, end)
        settled = settlement_of(dispatch, changed, closed.held_seconds or 0.0, closed.duration_seconds)
        return ReportOutcome(dispatch.job_id, end, settled)

    async def requeue(
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
            return await self.recorded(report)
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


def _only_stopped(transition: Transition, end: EndStatus) -> bool:
    """Whether the worker stopped because the job had ended, and reported a failed run. That is not a denied
    transition.
    """
    return transition is Transition.FAIL and end in ("canceled", "expired")
