"""Leases the next job for a worker and starts it. Central is written first, then the pool."""

from __future__ import annotations

import asyncio
from uuid import UUID

from callsheet.dispatch.facts import Criteria, DispatchEnd, Lease, QueueEntry, Requeue
from callsheet.dispatch.order.affinity import Cold
from callsheet.dispatch.queue import Queue
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.lease.leases import Leases, worker_actor
from callsheet.jobs.lease.outcomes import LeaseEnded, LeaseReport, StartedLease, lease_of
from callsheet.jobs.lease.restarts import Restarts
from callsheet.jobs.machine.cycles import end_of_cycle
from callsheet.jobs.machine.rows import JobPayload
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions
from callsheet.plumbing.database.errors import PoolUnavailable
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit

SQL = statements("callsheet.jobs.lease")

NOT_TAKEN = "The worker disconnected before it received the job."
# Delay in seconds before a job whose pool is unavailable is offered again.
POOL_AWAY_SECONDS = 15.0


class Starter:
    def __init__(
        self, queue: Queue, routing: TenantRouting, transitions: Transitions, leases: Leases, restarts: Restarts
    ):
        self._queue = queue
        self._routing = routing
        self._transitions = transitions
        self._leases = leases
        self._restarts = restarts

    async def lease_and_start(
        self, criteria: Criteria, worker_id: str, poll_id: str | None = None, cold: Cold | None = None
    ) -> StartedLease | None:
        """The next job for this worker, or None. Leased dispatches whose job has ended are closed and skipped."""
        while True:
            lease = await self._queue.lease(criteria, worker_id, poll_id, cold)
            if lease is None:
                return None
            try:
                started = await self._start_or_return(lease, Transition.START)
            except PoolUnavailable:
                continue  # The job went back with a delay, so that it does not block the jobs of other pools.
            if started is not None:
                return started

    async def start_synchronous(self, entry: QueueEntry, worker_id: str) -> StartedLease | None:
        """Starts a job that its submitter runs at once: its dispatch is created leased. None if the job has to be
        queued, or has ended meanwhile.
        """
        lease = await self._queue.enqueue_leased(entry, worker_id)
        return None if lease is None else await self._start_or_return(lease, Transition.START_SYNCHRONOUS)

    async def repeat(self, dispatch_id: int, token: UUID, worker_id: str) -> StartedLease | None:
        """Returns again a lease that the worker holds: the response was lost, or its signed URLs expired."""
        try:
            dispatch = await self._leases.holding(LeaseReport(dispatch_id, token, worker_id))
        except LeaseEnded:
            return None
        lease = lease_of(dispatch)
        pool = await self._routing.pool_of_tenant(dispatch.tenant_id)
        async with pool.connection() as connection:
            job = await SQL["payload_of_job"].row(
                connection, JobPayload, tenant_id=dispatch.tenant_id, job_id=dispatch.job_id
            )
        if job is not None and (job.charge_cycle, job.lease_seq) == (dispatch.charge_cycle, dispatch.lease_seq):
            return StartedLease(lease, job.user_id, job.effect_id, job.payload, job.actor)
        # A process crashed between lease and start.
        return await self._start(lease, Transition.START)

    async def return_lease(self, started: StartedLease, reason: str = NOT_TAKEN, *, delay_seconds: float = 0.0) -> None:
        """Returns a lease whose run never started: its response failed, or the worker disconnected. The attempt does
        not count."""
        lease = started.lease
        report = LeaseReport(lease.dispatch_id, lease.lease_token, lease.worker_id)
        await self._leases.return_unstarted(report, reason, delay_seconds)

    async def _start_or_return(self, lease: Lease, transition: Transition) -> StartedLease | None:
        start = asyncio.create_task(self._start(lease, transition))
        try:
            started = await asyncio.shield(start)
        except (Exception, asyncio.CancelledError) as error:
            delay = POOL_AWAY_SECONDS if isinstance(error, PoolUnavailable) else 0.0
            await asyncio.shield(self._return_during_start(lease, start, delay))
            raise
        if started is not None:
            await hit(Failpoint.START_BEFORE_RESPONSE)
        return started

    async def _start(self, lease: Lease, transition: Transition) -> StartedLease | None:
        await hit(Failpoint.LEASE_BEFORE_START)
        request = TransitionRequest(lease.cycle, worker_actor(lease.worker_id), new_lease_seq=lease.lease_seq)
        job = await self._transitions.start(transition, request)
        if job is not None:
            return StartedLease(lease, job.user_id, job.effect_id, job.payload, job.task_actor)
        state = await self._transitions.state_of(lease.cycle)
        end = end_of_cycle(state, lease.charge_cycle)
        if end is not None:
            await hit(Failpoint.START_BEFORE_CLOSE)
            await self._queue.close(DispatchEnd(lease.dispatch_id, end, lease.lease_token))
            return None
        restarted = await self._restarts.under(lease, state, request.actor)
        if restarted is None:
            return None  # A newer lease replaced this one while the start was delayed: change nothing.
        lease_seq, job = restarted
        renumbered = lease._replace(lease_seq=lease_seq)
        return StartedLease(renumbered, job.user_id, job.effect_id, job.payload, job.task_actor)

    async def _return_during_start(
        self, lease: Lease, start: asyncio.Task[StartedLease | None], delay_seconds: float
    ) -> None:
        """Returns a lease that no worker will run; the attempt does not count. The job follows after its start."""
        await self._queue.requeue([_back(lease, delay_seconds)])
        await asyncio.wait({start})
        started = None if start.cancelled() or start.exception() is not None else start.result()
        if started is not None:
            await hit(Failpoint.REQUEUE_BEFORE_POOL)
            request = TransitionRequest(
                lease.cycle, worker_actor(lease.worker_id), lease_seq=started.lease.lease_seq, reason=NOT_TAKEN
            )
            await self._transitions.apply(Transition.REQUEUE, request)


def _back(lease: Lease, delay_seconds: float) -> Requeue:
    return Requeue(lease.dispatch_id, lease.lease_token, attempt_counts=False, delay_seconds=delay_seconds)
