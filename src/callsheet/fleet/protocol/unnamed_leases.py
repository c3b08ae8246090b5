"""Requeues leases that central has and their worker does not name: the response that gave the lease was lost, or a
database lost the end of the lease (a failover without synchronous replication, a restore).

Workers name the leases that they hold in their polls and heartbeats.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from callsheet.fleet.protocol.authentication import LeaseOfWorker, WorkerPrincipal
from callsheet.fleet.registry.held_leases import HeldLeases
from callsheet.jobs.lease.outcomes import LeaseReport
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.clock import Clock, SystemClock

SQL = statements("callsheet.fleet.protocol")

# The response that gives a younger lease to the worker may be on its way.
SILENT_SECONDS = 10.0
# Time between two requests without the name of a lease. One is not enough: a control plane that was frozen may read a
# request that is older than the lease.
CONFIRM_SECONDS = 3.0
# A lease that was missed once is forgotten after this time.
FORGET_SECONDS = 600.0
REASON = "its worker does not have it any more"


class MissedLeases:
    """The leases that their workers did not name, and since when. Pure."""

    def __init__(self) -> None:
        self._since: dict[UUID, float] = {}

    def lost(
        self, held: Sequence[LeaseOfWorker], named: Collection[UUID] | None, now: float
    ) -> Sequence[LeaseOfWorker]:
        """The leases of a worker that it has lost: two of its requests did not name them."""
        for token in [token for token, since in self._since.items() if now - since > FORGET_SECONDS]:
            del self._since[token]
        for token in named or ():
            self._since.pop(token, None)
        silent = [lease for lease in unnamed(held, named) if lease.silent_seconds > SILENT_SECONDS]
        since = {lease.lease_token: self._since.setdefault(lease.lease_token, now) for lease in silent}
        return [lease for lease in silent if now - since[lease.lease_token] >= CONFIRM_SECONDS]


class UnnamedLeases:
    def __init__(self, databases: Databases, held: HeldLeases, clock: Clock | None = None):
        self._databases = databases
        self._held = held
        self._clock = clock or SystemClock()
        self._missed = MissedLeases()

    async def requeue(
        self, worker: WorkerPrincipal, held: Sequence[LeaseOfWorker], named: Collection[UUID] | None
    ) -> Sequence[LeaseOfWorker]:
        """Requeues the leases that the worker has lost. Returns the other leases."""
        lost = self._missed.lost(held, named, self._clock.monotonic())
        for lease in lost:
            await self._held.requeue_one(
                LeaseReport(lease.dispatch_id, lease.lease_token, worker.worker_id),
                worker.session_id,
                # Without a heartbeat, the worker never had the lease.
                attempt_counts=lease.heartbeated,
                reason=REASON,
                actor=worker.actor,
            )
        return [lease for lease in held if lease not in lost]

    async def look(self, worker: WorkerPrincipal, named: Collection[UUID]) -> None:
        """Requeues the leases that a worker does not name in its heartbeats. A worker that is full does not poll."""
        async with self._databases.central.connection() as connection:
            held = await SQL["leases_of_worker"].rows(connection, LeaseOfWorker, worker_id=worker.worker_id)
        await self.requeue(worker, held, named)


def unnamed(held: Sequence[LeaseOfWorker], named: Collection[UUID] | None) -> Sequence[LeaseOfWorker]:
    """The leases that the worker does not name. `named` is None if the worker names no leases at all."""
    return [] if named is None else [lease for lease in held if lease.lease_token not in named]
