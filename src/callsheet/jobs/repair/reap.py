"""The loop that reclaims expired leases. Safe on any number of control planes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from callsheet.dispatch.facts import DispatchEnd, EndStatus, ExpiredDispatch, JobCycle, JobEnd, Requeue
from callsheet.dispatch.queue import Queue
from callsheet.jobs.lease.restarts import Restarts
from callsheet.jobs.machine.cycles import end_of_cycle
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.database.errors import unless_unavailable
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.job_errors import job_error, sentence_of

ACTOR = "reaper"
BATCH = 500
EXPIRED = "The lease expired: its worker stopped sending heartbeats."
log = get_logger(__name__)
# Called for each lease that was taken from its worker, with the new status of its job.
Reaped = Callable[[ExpiredDispatch, str], Awaitable[None]]


class Reaper(Loop):
    """Reclaims expired leases; no other loop does. A job with attempts left is requeued. Otherwise it fails and is
    refunded.
    """

    name = "reaper"
    interval_seconds = 5.0

    def __init__(self, queue: Queue, transitions: Transitions, restarts: Restarts, reaped: Reaped):
        super().__init__()
        self._queue = queue
        self._transitions = transitions
        self._restarts = restarts
        self._reaped = reaped

    async def tick(self, now: datetime) -> bool:
        # Leases use the database's clock. `now` is only for the pace of the loop.
        return await self.reap()

    async def reap(self, at: datetime | None = None) -> bool:
        expired = await self._queue.find_expired(at, BATCH)
        await all_of(unless_unavailable(self._reap_one(lease, at)) for lease in expired)
        overdue = await self._queue.find_overdue_heads(at, BATCH)
        await all_of(unless_unavailable(self._close_if_ended(JobCycle(*key))) for key in overdue)
        return len(expired) == BATCH

    async def _reap_one(self, lease: ExpiredDispatch, at: datetime | None) -> None:
        if lease.status == "waiting":
            error = _error("callback_expired", lease)
            await self._end(Transition.EXPIRE, lease, error)
            return
        if lease.cancel_requested_at is not None or lease.attempts >= lease.max_attempts:
            error = _error("lease_expired", lease)
            status = await self._end(Transition.FAIL, lease, error)
        else:
            status = await self._requeue(lease, at)
        if status is None:
            return
        log.warning(
            "lease.recovered",
            job_id=str(lease.job_id),
            worker_id=lease.worker_id,
            reason=EXPIRED,
            status=status,
            attempts=lease.attempts,
            max_attempts=lease.max_attempts,
        )
        await self._reaped(lease, status)

    async def _close_if_ended(self, job: JobCycle) -> EndStatus | None:
        """Closes the dispatch of a job that has ended; returns how the job ended.

        A crash can leave such a dispatch open. A lease would close it, but past its deadline it is no longer leased.
        If the job is active, the loop Deadlines ends it.
        """
        end = end_of_cycle(await self._transitions.state_of(job), job.charge_cycle)
        if end is not None:
            await self._queue.end_for_jobs([JobEnd(*job, end)])
        return end

    async def _requeue(self, lease: ExpiredDispatch, at: datetime | None) -> str | None:
        assert lease.lease_token is not None
        back = Requeue(
            lease.dispatch_id, lease.lease_token, attempt_counts=True, only_expired=True, error="Lease expired."
        )
        if not await self._queue.requeue([back], at):
            return None
        await hit(Failpoint.REQUEUE_BEFORE_POOL)
        if await self._transitions.apply(Transition.REQUEUE, _request(lease, "lease expired")) is not None:
            return "queued"
        return await self._close_if_ended(lease.cycle) or "queued"

    async def _end(self, transition: Transition, lease: ExpiredDispatch, error: dict[str, Any]) -> str | None:
        """Ends the lease. Returns the new status of the job if this reaper took the lease, otherwise None."""
        request = _request(lease, error["message"], error)
        ended = await self._transitions.apply(transition, request)
        end: EndStatus | None = None
        if ended is None:
            job = await self._transitions.state_of(lease.cycle)
            end = end_of_cycle(job, lease.charge_cycle)
            if end is None and (restarted := await self._restarts.under(lease, job, ACTOR)) is not None:
                again = replace(request, up_to_lease_seq=restarted.lease_seq)
                ended = await self._transitions.apply(transition, again)
        if ended is not None:
            end = cast("EndStatus", ended.status)
        if end is not None:
            await hit(Failpoint.REAP_BEFORE_CLOSE)
            ending = DispatchEnd(lease.dispatch_id, end, lease.lease_token, error=error["message"])
            if not await self._queue.close(ending):
                # The worker requeued the dispatch meanwhile, and the dispatch must not be leased again; or another
                # reaper ended it.
                await self._queue.end_for_jobs([JobEnd(*lease.cycle, end)])
                return None
        return end


def _error(type: str, lease: ExpiredDispatch) -> dict[str, Any]:
    details = {"attempts": lease.attempts, "max_attempts": lease.max_attempts, "worker": lease.worker_id}
    return job_error(type, sentence_of(type), details)


def _request(lease: ExpiredDispatch, reason: str, error: dict[str, Any] | None = None) -> TransitionRequest:
    # The reaper must not change a job that a newer lease has started meanwhile.
    return TransitionRequest(
        lease.cycle,
        ACTOR,
        up_to_lease_seq=lease.lease_seq,
        reason=reason,
        provider_job_id=lease.provider_job_id,
        error=error,
    )
