"""The loops that handle expired leases and passed deadlines. Safe on any number of control planes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import cast
from uuid import UUID

from callsheet.dispatch.facts import Ending, EndStatus, Expired, JobEnd, PutBack
from callsheet.dispatch.queue import Queue
from callsheet.jobs.mover import Mover, ended_in
from callsheet.jobs.moves import SQL, Move
from callsheet.jobs.relay import Relay
from callsheet.jobs.states import Happening
from callsheet.plumbing.database import Database, unless_unavailable
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.together import all_of
from callsheet.wire.jobs import JobStatus

ACTOR = "reaper"
BATCH = 500
# Called for each lease that was taken from its worker, with the new status of its job.
Reaped = Callable[[Expired, str], Awaitable[None]]


class Reaper(Loop):
    """Only the reaper reclaims leases. With attempts left, the job is requeued; otherwise it fails and is refunded."""

    name = "reaper"
    interval_seconds = 5.0

    def __init__(self, queue: Queue, mover: Mover, reaped: Reaped | None = None):
        super().__init__()
        self._queue = queue
        self._mover = mover
        self._reaped = reaped

    async def tick(self, now: datetime) -> bool:
        # Leases use the database's clock; `now` only paces the loop.
        return await self.reap()

    async def reap(self, at: datetime | None = None) -> bool:
        expired = await self._queue.find_expired(at, BATCH)
        await all_of(unless_unavailable(self._reap_one(lease, at)) for lease in expired)
        overdue = await self._queue.find_overdue_heads(at, BATCH)
        await all_of(unless_unavailable(self._forget_ended(*key)) for key in overdue)
        return len(expired) == BATCH

    async def _reap_one(self, lease: Expired, at: datetime | None) -> None:
        if lease.status == "waiting":
            error = {"type": "callback_expired", "message": "The provider did not call back in time."}
            await self._end(Happening.EXPIRE, lease, error)
            return
        if lease.cancel_requested_at is not None or lease.attempts >= lease.max_attempts:
            error = {"type": "lease_expired", "message": "No worker could finish it."}
            became = await self._end(Happening.FAIL, lease, error)
        else:
            became = await self._put_back(lease, at)
        if became is not None and self._reaped is not None:
            await self._reaped(lease, became)

    async def _forget_ended(self, tenant_id: UUID, job_id: UUID, charge_cycle: int) -> None:
        """A crash can leave an open dispatch whose job has ended. A lease would close it, but past its deadline it is
        no longer leased. If the job is active, the loop Deadlines ends it."""
        end = ended_in(await self._mover.look(tenant_id, job_id, charge_cycle), charge_cycle)
        if end is not None:
            await self._queue.end_for_jobs([JobEnd(tenant_id, job_id, charge_cycle, end)])

    async def _put_back(self, lease: Expired, at: datetime | None) -> str | None:
        assert lease.lease_token is not None
        back = PutBack(
            lease.dispatch_id, lease.lease_token, attempt_counts=True, only_expired=True, error="Lease expired."
        )
        if not await self._queue.put_back([back], at):
            return None
        await hit(Failpoint.PUT_BACK_BEFORE_POOL)
        move = self._move(lease, reason="lease expired")
        if await self._mover.move(Happening.PUT_BACK, move) is None:
            end = ended_in(
                await self._mover.look(lease.tenant_id, lease.job_id, lease.charge_cycle), lease.charge_cycle
            )
            if end is not None:
                await self._queue.end_for_jobs([JobEnd(lease.tenant_id, lease.job_id, lease.charge_cycle, end)])
                return end
        return "queued"

    async def _end(self, happening: Happening, lease: Expired, error: dict[str, str]) -> str | None:
        """The end status of the job if this reaper took the lease; otherwise None."""
        move = self._move(lease, reason=error["message"], error=error)
        moved = await self._mover.move(happening, move)
        if moved is not None:
            end: EndStatus | None = cast("EndStatus", moved.status.value)
        else:
            end = ended_in(
                await self._mover.look(lease.tenant_id, lease.job_id, lease.charge_cycle), lease.charge_cycle
            )
        if end is not None:
            await hit(Failpoint.REAP_BEFORE_CLOSE)
            ending = Ending(lease.dispatch_id, end, lease.lease_token, error=error["message"])
            if not await self._queue.close(ending):
                # The worker put the dispatch back meanwhile: it must not be leased again. Or another reaper ended it.
                await self._queue.end_for_jobs([JobEnd(lease.tenant_id, lease.job_id, lease.charge_cycle, end)])
                return None
        return end

    @staticmethod
    def _move(lease: Expired, **changes: object) -> Move:
        # The reaper must not move a job that a newer lease has started meanwhile.
        return Move(
            lease.tenant_id,
            lease.job_id,
            lease.charge_cycle,
            ACTOR,
            up_to_lease_seq=lease.lease_seq,
            **changes,  # type: ignore[arg-type]
        )


class Deadlines(Loop):
    """Ends jobs past their deadline: a waiting job fails, a running job expires; both are refunded."""

    name = "deadlines"
    interval_seconds = 5.0

    def __init__(self, pools: Callable[[], Sequence[Database]], mover: Mover, relay: Relay):
        super().__init__()
        self._pools = pools
        self._mover = mover
        self._relay = relay

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.enforce(pool) for pool in self._pools()))

    async def enforce(self, pool: Database, at: datetime | None = None) -> bool:
        async with pool.connection() as connection:
            rows = await SQL["find_overdue"].rows(connection, now=at, limit=BATCH)
        await all_of(
            self._end(Move(row["tenant_id"], row["job_id"], row["charge_cycle"], "deadlines"), JobStatus(row["status"]))
            for row in rows
        )
        return len(rows) == BATCH

    async def _end(self, move: Move, status: JobStatus) -> None:
        runs = status is JobStatus.PROCESSING
        error = (
            {"type": "deadline", "message": "It did not finish in time."}
            if runs
            else {"type": "queue_deadline", "message": "No worker took it in time."}
        )
        happening = Happening.EXPIRE if runs else Happening.FAIL
        ending = Move(move.tenant_id, move.job_id, move.charge_cycle, move.actor, reason=error["message"], error=error)
        moved = await self._mover.move(happening, ending, tell_central="close", only_from=status)
        if moved is not None:
            await hit(Failpoint.EXPIRE_BEFORE_RELAY)
            end = cast("EndStatus", moved.status.value)
            await self._relay.close_now(JobEnd(move.tenant_id, move.job_id, move.charge_cycle, end))
