"""How a lease ends: its job ends or goes back to the queue, and both databases agree about it.

To end a job, the pool is written first; to requeue it, central is written first. A later writer adopts what it finds.
"""

from __future__ import annotations

from typing import Any, cast

from callsheet.dispatch.facts import Ending, EndStatus, JobEnd, Known, PutBack
from callsheet.dispatch.queue import Queue
from callsheet.jobs.cycles import end_of_cycle
from callsheet.jobs.outcomes import Outcome, Report, recorded_outcome, settlement_of
from callsheet.jobs.states import Transition, target
from callsheet.jobs.transition_requests import TransitionRequest
from callsheet.jobs.transitions import Transitions
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import LeaseLost, NotFound


class LeaseSettlement:
    def __init__(self, queue: Queue, transitions: Transitions):
        self._queue = queue
        self._transitions = transitions

    async def holding(self, report: Report) -> Known | Outcome:
        """The dispatch if the report's lease still holds it; otherwise the recorded outcome."""
        known = await self._queue.find(report.dispatch_id)
        if known is None:
            raise NotFound("There is no such dispatch.")
        if known.lease_token == report.token and not known.finished:
            if known.worker_id != report.worker_id:
                raise NotFound("This worker has no such lease.")
            return known
        return recorded_outcome(known, report)

    async def recorded(self, report: Report) -> Outcome:
        """The outcome of a lease that has ended."""
        known = await self._queue.find(report.dispatch_id)
        if known is None:
            raise NotFound("There is no such dispatch.")
        return recorded_outcome(known, report)

    async def end_of(self, known: Known) -> EndStatus | None:
        """How the job ended while its lease was held: it was canceled, or its deadline passed. None while it runs."""
        return end_of_cycle(await self._transitions.state_of(known.cycle), known.charge_cycle)

    async def end(
        self,
        transition: Transition,
        known: Known,
        request: TransitionRequest,
        *,
        provider_job_id: str | None = None,
        error: str | None = None,
    ) -> Outcome:
        changed = await self._transitions.apply(transition, request)
        if changed is not None:
            end = cast("EndStatus", changed.status)
        else:
            found = await self.end_of(known)
            if found is None:
                # The job runs under a newer lease: this report is from a worker that lost its lease.
                raise LeaseLost()
            if found != target(transition).value and not _only_stopped(transition, found):
                await self._transitions.deny(transition, request)
            # Otherwise it is a repeated report, after a crash before the close.
            end = found
        is_complete = transition is Transition.COMPLETE
        await hit(Failpoint.COMPLETE_BEFORE_CLOSE if is_complete else Failpoint.FAIL_BEFORE_CLOSE)
        closed = await self._queue.close(Ending(known.dispatch_id, end, known.lease_token, provider_job_id, error))
        if closed is None:
            # The reaper requeued the dispatch meanwhile, in central only: it must not be leased again.
            await self._queue.end_for_jobs([JobEnd(*known.cycle, end)])
            return Outcome(known.job_id, end)
        settled = settlement_of(known, changed, closed.held_seconds or 0.0, closed.duration_seconds)
        return Outcome(known.job_id, end, settled)

    async def requeue(
        self, known: Known, back: PutBack, reason: str, report: Report, actor: str | None = None
    ) -> Outcome:
        returned = await (self._queue.put_back_behind(back) if back.wedged else self._queue.put_back([back]))
        if not returned:
            return await self.recorded(report)
        await hit(Failpoint.PUT_BACK_BEFORE_POOL)
        request = request_under_lease(known, report, actor=actor, reason=reason)
        changed = await self._transitions.apply(Transition.REQUEUE, request)
        if back.wedged:
            await hit(Failpoint.PRIORITY_BEFORE_POOL)
            await self._transitions.set_priority(known.cycle, returned[0].priority)
        settled = settlement_of(known, changed, returned[0].held_seconds)
        end = None if changed is not None else await self.end_of(known)
        if end is not None:
            await self._queue.end_for_jobs([JobEnd(*known.cycle, end)])
        return Outcome(known.job_id, end or "queued", settled)


def request_under_lease(known: Known, report: Report, *, actor: str | None = None, **changes: Any) -> TransitionRequest:
    """A transition that happens only while the job runs under the lease of the report."""
    return TransitionRequest(known.cycle, actor or worker_actor(report.worker_id), lease_seq=known.lease_seq, **changes)


def worker_actor(worker_id: str) -> str:
    """The worker as the actor of an event."""
    return f"worker:{worker_id}"


def _only_stopped(transition: Transition, end: EndStatus) -> bool:
    """A worker that stopped because the job had ended reports a failed run. That is not a denied transition."""
    return transition is Transition.FAIL and end in ("canceled", "expired")
