"""The queue: the only code that writes leases. It uses rows of central, and knows nothing about jobs or money.

Leases, heartbeats, look-ups and closes that arrive together share one statement and one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import (
    ClosedDispatch,
    Criteria,
    DispatchEnd,
    DispatchState,
    ExpiredDispatch,
    Heartbeat,
    HeldLease,
    JobCycle,
    JobEnd,
    Lane,
    LaneKey,
    Lease,
    LeaseExtension,
    QueueEntry,
    Requeue,
    RequeuedDispatch,
    Workflow,
)
from callsheet.dispatch.lease.leasing import SQL, Leasing, PollResult
from callsheet.dispatch.lease.taking import Poller, unless_all_none
from callsheet.dispatch.lease.warm_leasing import WarmChoice, WarmLeasing
from callsheet.dispatch.order.affinity import AffinityLimits, Cold
from callsheet.dispatch.order.user_queues import Terms
from callsheet.dispatch.placing import LeasedEntry, Placed, Placing, open_lanes
from callsheet.dispatch.queue_notifications import Arrival
from callsheet.dispatch.rows import EndedDispatch, LaneHead
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import AsJson, Connection
from callsheet.toolbox.batching import Batcher
from callsheet.wire.errors import InvalidRequest

# A route, and the lane that has work now. Without a lane: jobs that waited for a slot may be leased now.
Announce = Callable[[int, str, str, Lane | None], None]
# Number of concurrent statements that lease for the same workers. The second statement runs while Python hands out the
# leases of the first, which takes as long as the statement. With only one, the database and Python would wait for each
# other.
LEASES_AT_ONCE = 2
_requeue_as_json = AsJson(Requeue)


class Queue:
    def __init__(
        self,
        central: Database,
        announce: Announce | None = None,
        *,
        fair: bool = True,
        terms: Terms | None = None,
        affinity: AffinityLimits | None = None,
    ):
        self._central = central
        # Called after each commit that put work into a lane, to notify the other control planes.
        self._announce = announce or (lambda workflow_id, stage, provider, lane: None)
        self.leasing = Leasing(central, fair=fair, terms=terms)
        self.placing = Placing(self.leasing.slots, is_fair=fair)
        self.warm = WarmLeasing(central, self.leasing, affinity or AffinityLimits())
        self._polls: dict[Criteria, Batcher[Poller, PollResult]] = {}
        # Pollers that got no lease from a shared statement because other pollers got all of its leases.
        self._second_polls: dict[Criteria, Batcher[Poller, Lease | None]] = {}
        self._heartbeats: Batcher[Heartbeat, LeaseExtension | None] = Batcher(self._heartbeat_batch)
        self._finds: Batcher[int, DispatchState | None] = Batcher(self._find_batch)
        self._ends: Batcher[DispatchEnd, ClosedDispatch | None] = Batcher(
            self._close_batch, isolate=(asyncpg.PostgresError,)
        )
        self._leased_entries: Batcher[LeasedEntry, Lease | None] = Batcher(
            self._place_leased, isolate=(asyncpg.PostgresError,), abandoned=self._return_new_lease
        )

    async def enqueue(self, entries: Sequence[QueueEntry]) -> int:
        """Creates a dispatch for each entry, unless one exists or existed; returns how many are new."""
        if not entries:
            return 0
        async with self._central.connection() as connection:
            placed = await self.placing.place(connection, entries)
        self.announce_arrivals(placed)
        return len(placed)

    async def enqueue_leased(self, entry: QueueEntry, worker_id: str) -> Lease | None:
        """Creates a dispatch that is leased to this worker at once. None if a dispatch exists or existed, a limit is
        reached or the worker is drained; the caller then has to queue the job."""
        if not self.leasing.slots.is_bounded(entry):
            return await self._leased_entries((entry, worker_id))
        async with self._central.transaction() as connection:
            if not await self.leasing.slots.has_free(connection, entry):
                return None
            return (await self._started(connection, [(entry, worker_id)]))[0]

    async def workflow(self, slug: str) -> Workflow:
        """The active workflow of that name."""
        async with self._central.connection() as connection:
            workflow = await SQL["find_workflow"].row(connection, Workflow, slug=slug)
        if workflow is None:
            raise InvalidRequest.field("workflow", f"There is no active workflow {slug!r}.")
        return workflow

    async def lease(
        self, criteria: Criteria, worker_id: str, poll_id: str | None = None, cold: Cold | None = None
    ) -> Lease | None:
        """The next lease for a worker, or None. `cold`: what the worker would have to load for each workflow; None
        if the worker does not report it.
        """
        if not criteria.workflow_ids:
            return None
        poller = worker_id, poll_id
        chosen = await self.warm.choose(criteria, cold) if cold else None
        if chosen is not None and (warm := await self._lease_warm(chosen, poller)) is not None:
            return warm
        first = self._polls.get(criteria)
        if first is None:
            run = partial(self.leasing.first_leases, criteria)
            first = self._polls[criteria] = Batcher(run, at_once=LEASES_AT_ONCE, abandoned=self._return_polled_lease)
        try:
            lease, is_final = await first(poller)
        finally:
            # An idle batcher is removed; otherwise one for each set of workflows that a worker ever had would stay.
            if first.is_idle:
                self._polls.pop(criteria, None)
        return lease if is_final else await self._lease_again(criteria, poller)

    async def _lease_warm(self, chosen: WarmChoice, poller: Poller) -> Lease | None:
        """Leases a chosen job. If the worker disconnects meanwhile, the lease goes back to the queue."""
        leasing = asyncio.ensure_future(self.warm.lease(chosen, poller))
        try:
            return await asyncio.shield(leasing)
        except asyncio.CancelledError:
            await asyncio.shield(self._return_lease(poller, await leasing))
            raise

    async def _lease_again(self, criteria: Criteria, poller: Poller) -> Lease | None:
        batcher = self._second_polls.get(criteria)
        if batcher is None:
            run = partial(self.leasing.leases, criteria)
            batcher = self._second_polls[criteria] = Batcher(run, abandoned=self._return_lease)
        try:
            return await batcher(poller)
        finally:
            if batcher.is_idle:
                self._second_polls.pop(criteria, None)

    async def lease_many(self, criteria: Criteria, workers: Sequence[str], now: datetime | None = None) -> list[Lease]:
        """Up to one lease for each entry of `workers`, in order."""
        leases = await self.leasing.leases(criteria, [(worker_id, None) for worker_id in workers], now)
        return [lease for lease in leases if lease is not None]

    async def heartbeat(self, heartbeat: Heartbeat) -> LeaseExtension | None:
        """Extends the lease; None if the token no longer holds the lease."""
        return await self._heartbeats(heartbeat)

    async def find(self, dispatch_id: int) -> DispatchState | None:
        return await self._finds(dispatch_id)

    async def requeue(self, entries: Sequence[Requeue], now: datetime | None = None) -> list[RequeuedDispatch]:
        """Puts each dispatch back into the queue if its token still holds the lease."""
        if not entries:
            return []
        async with self._central.connection() as connection:
            rows = await SQL["requeue"].rows(
                connection, RequeuedDispatch, entries=list(map(_requeue_as_json, entries)), now=now
            )
        return self._announce_requeued(rows)

    async def requeue_behind(self, entry: Requeue) -> list[RequeuedDispatch]:
        """Requeues a dispatch behind all others of its priority: into the lane of the next lower priority, because a
        lane is ordered by dispatch id, and the id of a dispatch never changes."""
        async with self._central.transaction() as connection:
            lane = await SQL["lane_behind"].row(connection, LaneKey, dispatch_id=entry.dispatch_id, token=entry.token)
            if lane is None:
                return []
            await open_lanes(connection, [lane])
            place = {"dispatch_id": entry.dispatch_id, "priority": lane.priority}
            await SQL["lock_lanes_behind"].column(connection, **place)
            rows = await SQL["requeue"].rows(connection, RequeuedDispatch, entries=[_requeue_as_json(entry)], now=None)
            moved = []
            for row in rows:
                lane_id = await SQL["move_behind"].value(connection, **place)
                moved.append(row._replace(lane=row.lane._replace(priority=lane.priority, lane_id=lane_id)))
        return self._announce_requeued(moved)

    async def workflow_slug(self, workflow_id: int) -> str:
        async with self._central.connection() as connection:
            slug: str | None = await SQL["workflow_slug"].value(connection, workflow_id=workflow_id)
        return slug or str(workflow_id)

    def _announce_requeued(self, rows: list[RequeuedDispatch]) -> list[RequeuedDispatch]:
        for row in rows:
            self.leasing.turns.end(row.dispatch_id)
        self.announce_arrivals([(row.lane, row.dispatch_id) for row in rows if row.not_before is None])
        # A delayed dispatch cannot be leased yet, but it frees its slot if it has a limit.
        self._announce_free_slots([row for row in rows if row.not_before is not None])
        return rows

    async def wait_for_callback(
        self, dispatch_id: int, token: UUID, provider_job_id: str, expires_at: datetime
    ) -> float | None:
        """Returns how many seconds the lease was held, or None if the token does not hold the lease."""
        async with self._central.connection() as connection:
            held_seconds: float | None = await SQL["wait"].value(
                connection,
                dispatch_id=dispatch_id,
                token=token,
                provider_job_id=provider_job_id,
                expires_at=expires_at,
            )
        return held_seconds

    def close(self, end: DispatchEnd) -> Coroutine[Any, Any, ClosedDispatch | None]:
        """Moves a dispatch to history; None if it was closed before or the token does not hold the lease."""
        return self._ends(end)

    async def close_many(self, ends: Sequence[DispatchEnd]) -> list[ClosedDispatch | None]:
        return await self._close_batch(ends) if ends else []

    async def end_for_jobs(self, ends: Sequence[JobEnd]) -> None:
        """Closes dispatches without a lease. A leased dispatch is marked, and its worker gets the end with its next
        heartbeat.
        """
        if not ends:
            return
        # Both changes share one commit. Otherwise a dispatch could be leased in between, or a crash could leave it
        # open.
        async with self._central.transaction() as connection:
            rows = await SQL["end_for_jobs"].rows(
                connection,
                EndedDispatch,
                tenant_ids=[end.tenant_id for end in ends],
                job_ids=[end.job_id for end in ends],
                cycles=[end.charge_cycle for end in ends],
                statuses=[end.status for end in ends],
            )
            free = [DispatchEnd(row.dispatch_id, row.job_status) for row in rows if row.status != "leased"]
            closed = await _close_rows(connection, free, may_be_closed=True) if free else []
        self._announce_closed(closed)

    async def find_expired(self, now: datetime | None = None, limit: int = 500) -> list[ExpiredDispatch]:
        async with self._central.connection() as connection:
            return await SQL["find_expired"].rows(connection, ExpiredDispatch, now=now, limit=limit)

    async def find_overdue_heads(self, now: datetime | None = None, limit: int = 500) -> list[JobCycle]:
        """The jobs of queued rows past their deadline at the heads of their lanes."""
        async with self._central.connection() as connection:
            return await SQL["find_overdue_heads"].rows(connection, JobCycle, now=now, limit=limit)

    async def promote(self, now: datetime | None = None, limit: int = 1000) -> int:
        """Puts rows whose delay has ended into their lanes."""
        async with self._central.connection() as connection:
            rows = await SQL["promote"].rows(connection, LaneHead, now=now, limit=limit)
        self.announce_arrivals([(row.lane, row.dispatch_id) for row in rows])
        return len(rows)

    async def raise_low_water(self) -> None:
        """Raises the marks of all lanes."""
        await self.leasing.marks.raise_low_water()

    async def maintain(self) -> None:
        """Keeps leases fast and their order fair. A loop calls this."""
        await self.leasing.maintain()

    def received(self, payload: str | None) -> None:
        """Handles a notification from another control plane, or None if notifications may have been missed."""
        if payload is None:
            self.leasing.turns.forget_lanes()
            return
        arrival = Arrival.read(payload)
        if arrival.lane is None:
            self.leasing.turns.free(*arrival.route)
        else:
            self.leasing.turns.arrive(arrival.lane)

    async def held_by(self, worker_id: str) -> list[HeldLease]:
        async with self._central.connection() as connection:
            return await SQL["held_by_worker"].rows(connection, HeldLease, worker_id=worker_id)

    async def _place_leased(self, entries: Sequence[LeasedEntry]) -> list[Lease | None]:
        async with self._central.connection() as connection:
            return await self._started(connection, entries)

    async def _started(self, connection: Connection, entries: Sequence[LeasedEntry]) -> list[Lease | None]:
        placed = await self.placing.place_leased(connection, entries)
        for lease, lane in placed.values():
            self.leasing.turns.start(lease.dispatch_id, lane)
        found = [placed.get(entry.cycle) for entry, _ in entries]
        return [None if each is None else each[0] for each in found]

    async def _return_new_lease(self, entry: LeasedEntry, lease: Lease | None) -> None:
        await self._return_lease((entry[1], None), lease)

    async def _return_polled_lease(self, poller: Poller, result: PollResult) -> None:
        await self._return_lease(poller, result[0])

    async def _return_lease(self, poller: Poller, lease: Lease | None) -> None:
        # The poller disconnected: the lease goes back at once, and the attempt does not count.
        if lease is not None:
            await self.requeue([Requeue(lease.dispatch_id, lease.lease_token, attempt_counts=False)])

    async def _heartbeat_batch(self, heartbeats: Sequence[Heartbeat]) -> list[LeaseExtension | None]:
        async with self._central.connection() as connection:
            rows = await SQL["heartbeat"].rows(
                connection,
                LeaseExtension,
                dispatch_ids=[each.dispatch_id for each in heartbeats],
                tokens=[each.token for each in heartbeats],
                workers=[each.worker_id for each in heartbeats],
                run_started=[each.run_started for each in heartbeats],
                run_waiting=[each.run_waiting for each in heartbeats],
                provider_job_ids=[each.provider_job_id for each in heartbeats],
                now=None,
            )
        extended = {(row.dispatch_id, row.lease_token): row for row in rows}
        return [extended.get((each.dispatch_id, each.token)) for each in heartbeats]

    async def _find_batch(self, dispatch_ids: Sequence[int]) -> list[DispatchState | None]:
        async with self._central.connection() as connection:
            rows = await SQL["find"].rows(connection, DispatchState, dispatch_ids=list(dispatch_ids))
        found = {row.dispatch_id: row for row in rows}
        return [found.get(dispatch_id) for dispatch_id in dispatch_ids]

    async def _close_batch(self, ends: Sequence[DispatchEnd]) -> list[ClosedDispatch | None]:
        async with self._central.connection() as connection:
            try:
                rows = await _close_rows(connection, ends)
            except asyncpg.UniqueViolationError:
                rows = await _close_rows(connection, ends, may_be_closed=True)
        self._announce_closed(rows)
        closed = {row.dispatch_id: row for row in rows}
        return [closed.get(end.dispatch_id) for end in ends]

    def _announce_closed(self, closed: Sequence[ClosedDispatch]) -> None:
        end = self.leasing.turns.end
        for row in closed:
            end(row.dispatch_id)
        self._announce_free_slots(closed)

    def _announce_free_slots(self, rows: Sequence[ClosedDispatch | RequeuedDispatch]) -> None:
        # Jobs may be waiting for the free slot of a limit.
        for row in rows:
            route = row.lane if isinstance(row, RequeuedDispatch) else row
            if route.concurrency_identifier:
                self.announce_free_slot(route.workflow_id, route.stage, route.provider)

    def announce_free_slot(self, workflow_id: int, stage: str, provider: str) -> None:
        """Announces that jobs of this route that waited for a slot may be leased now."""
        self.leasing.turns.free(workflow_id, stage, provider)
        self._announce(workflow_id, stage, provider, None)

    def announce_arrivals(self, placed: Sequence[Placed]) -> None:
        """Announces new work. Called after the commit that put the dispatches into their lanes."""
        for lane, dispatch_id in placed:
            self.leasing.turns.arrive(lane, dispatch_id)
            self._announce(lane.workflow_id, lane.stage, lane.provider, lane)


async def _close_rows(
    connection: Connection, ends: Sequence[DispatchEnd], *, may_be_closed: bool = False
) -> list[ClosedDispatch]:
    """Closes rows. `may_be_closed`: check whether the history already has a row of the dispatch, which costs time."""
    ordered = sorted(ends, key=itemgetter(0))
    dispatch_ids, statuses, tokens, provider_job_ids, errors = map(list, zip(*ordered, strict=True))
    return await SQL["close_returned" if may_be_closed else "close"].rows(
        connection,
        ClosedDispatch,
        dispatch_ids=dispatch_ids,
        tokens=tokens,
        # A status that all rows share is sent once: each text of an array costs a microsecond.
        statuses=statuses if len(set(statuses)) > 1 else statuses[:1],
        provider_job_ids=unless_all_none(provider_job_ids),
        errors=unless_all_none(errors),
    )
