"""Central's data about jobs, which is compared with their pools, and repairs of dispatches that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle, QueueEntry, columns_of
from callsheet.dispatch.queue import Queue
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.dispatch", "repair_statements.sql")


class CentralState(NamedTuple):
    """Central's data about a job in a charge cycle: an open dispatch, a finished one, or neither."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    dispatch_id: int | None = None
    status: str | None = None
    priority: int | None = None
    lease_seq: int | None = None
    # The worker that holds the lease gets the end of the job with its next heartbeat.
    holder_notified: bool = False
    end_status: str | None = None
    last_error: str | None = None
    # Whether the dispatch finished at least settle_seconds ago.
    has_settled: bool | None = None

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class OpenDispatch(NamedTuple):
    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: str
    priority: int
    lease_seq: int
    cancel_requested_at: datetime | None
    has_settled: bool

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class DispatchRepair:
    def __init__(self, central: Database, queue: Queue):
        self._central = central
        self._queue = queue

    async def central_states(self, keys: Sequence[JobCycle], settle_seconds: float) -> Mapping[JobCycle, CentralState]:
        async with self._central.ordinary() as connection:
            rows = await SQL["central_states"].rows(
                connection, CentralState, **columns_of(keys), settle_seconds=settle_seconds
            )
        return {row.cycle: row for row in rows}

    async def page(self, after: int, limit: int, settle_seconds: float) -> Sequence[OpenDispatch]:
        """Open dispatches in the order of their ids."""
        async with self._central.ordinary() as connection:
            return await SQL["open_dispatches"].rows(
                connection, OpenDispatch, after=after, limit=limit, settle_seconds=settle_seconds
            )

    async def raise_lease_seq(self, key: JobCycle, lease_seq: int, token: UUID | None = None) -> bool:
        """Raises lease_seq of a dispatch that this token holds, or of one that no lease holds. False if lease_seq was
        not behind, or if another lease holds the dispatch.
        """
        async with self._central.connection() as connection:
            return await _raise_lease_seq(connection, key, lease_seq, token) > 0

    async def recreate(self, entry: QueueEntry, lease_seq: int) -> bool:
        """Creates the missing dispatch of a job, with the job's lease_seq; False if a dispatch exists or existed."""
        async with self._central.transaction() as connection:
            placed = await self._queue.placing.place(connection, [entry])
            if placed:
                await _raise_lease_seq(connection, entry.cycle, lease_seq)
        self._queue.announce_arrivals(placed)
        return bool(placed)


async def _raise_lease_seq(connection: Connection, key: JobCycle, lease_seq: int, token: UUID | None = None) -> int:
    return await SQL["raise_lease_seq"].run(connection, **key._asdict(), lease_seq=lease_seq, token=token)
