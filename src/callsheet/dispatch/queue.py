"""The queue: the only code that writes a lease. It knows central rows, and nothing about jobs or money.

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

from callsheet.dispatch.affinity import Cold, Limits
from callsheet.dispatch.arrivals import Arrival
from callsheet.dispatch.facts import (
    Beat,
    Closed,
    Criteria,
    Ending,
    Entry,
    Expired,
    Extended,
    JobEnd,
    Known,
    Lane,
    Lease,
    PutBack,
    Returned,
    Workflow,
)
from callsheet.dispatch.leasing import SQL, Answer, Asking, Leasing, lane_of, new_tokens, new_tuple, unless_all_none
from callsheet.dispatch.turns import Terms
from callsheet.dispatch.warm_leasing import Chosen, WarmLeasing
from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import Connection, Row, Statement
from callsheet.toolbox.batching import Batcher
from callsheet.wire.errors import InvalidRequest

# A route, and the lane that has work now. Without a lane: jobs that waited for a slot may be leased now.
Arrived = Callable[[int, str, str, Lane | None], None]
CLOSED_WIDTH = len(Closed._fields)
# Concurrent statements that lease for the same workers. The second runs while Python hands out the leases of the first,
# which takes as long as the statement. With only one, the database and Python would wait for each other.
LEASES_AT_ONCE = 2
# A job that is leased at creation, and the id of its worker.
Birth = tuple[Entry, str]


class Queue:
    def __init__(
        self,
        central: Database,
        arrived: Arrived | None = None,
        *,
        fair: bool = True,
        terms: Terms | None = None,
        affinity: Limits | None = None,
    ):
        self._central = central
        # Called after each commit that put work into a lane, to notify the other control planes.
        self._arrived = arrived or (lambda workflow_id, stage, provider, lane: None)
        self.leasing = Leasing(central, fair=fair, terms=terms)
        self.warm = WarmLeasing(central, self.leasing, affinity or Limits())
        self._asking: dict[Criteria, Batcher[Asking, Answer]] = {}
        # Pollers that got no lease from a shared statement because other pollers got all of its leases.
        self._asking_on: dict[Criteria, Batcher[Asking, Lease | None]] = {}
        self._beats: Batcher[Beat, Extended | None] = Batcher(self._heartbeat_batch)
        self._finds: Batcher[int, Known | None] = Batcher(self._find_batch)
        self._closings: Batcher[Ending, Closed | None] = Batcher(self._close_batch, isolate=(asyncpg.PostgresError,))
        self._births: Batcher[Birth, Lease | None] = Batcher(
            self._place_leased, isolate=(asyncpg.PostgresError,), abandoned=self._give_up_birth
        )

    async def enqueue(self, entries: Sequence[Entry]) -> int:
        """Creates a dispatch for each entry, unless one exists or existed; returns how many are new."""
        if not entries:
            return 0
        async with self._central.connection() as connection:
            placed = await self.place(connection, entries)
        self.tell_arrivals(placed)
        return len(placed)

    async def place(self, connection: Connection, entries: Sequence[Entry]) -> list[asyncpg.Record]:
        """The same within the caller's transaction. The caller calls `tell_arrivals` after its commit."""
        rows = await self._insert(connection, entries)
        without_lane = rows[0]["without_lane"]
        # More than one round only if a lane was removed in between.
        while without_lane:
            await self._open_lanes(connection, entries)
            more = await self._insert(connection, entries)
            without_lane = more[0]["without_lane"]
            rows += more
        return [row for row in rows if row["dispatch_id"] is not None]

    async def enqueue_leased(self, entry: Entry, worker_id: str) -> Lease | None:
        """Creates a dispatch that is leased to this worker at once. None if a dispatch exists or existed, a limit is
        reached or the worker is drained; the caller then has to queue the job."""
        if not self.leasing.is_bounded(entry):
            return await self._births((entry, worker_id))
        async with self._central.transaction() as connection:
            if not await self.leasing.room_for(connection, entry):
                return None
            return (await self._insert_leased(connection, [(entry, worker_id)]))[0]

    async def workflow(self, slug: str) -> Workflow:
        """The active workflow of that name."""
        async with self._central.connection() as connection:
            row = await SQL["find_workflow"].row(connection, slug=slug)
        if row is None:
            raise InvalidRequest.field("workflow", f"There is no active workflow {slug!r}.")
        return Workflow(*(row[name] for name in Workflow.__slots__))

    async def lease(
        self, criteria: Criteria, worker_id: str, poll_id: str | None = None, cold: Cold | None = None
    ) -> Lease | None:
        """`cold`: what the worker would have to load for each workflow; None if the worker does not report it."""
        if not criteria.workflow_ids:
            return None
        asking = worker_id, poll_id
        chosen = await self.warm.choose(criteria, cold) if cold else None
        if chosen is not None and (warm := await self._lease_warm(chosen, asking)) is not None:
            return warm
        first = self._asking.get(criteria)
        if first is None:
            run = partial(self.leasing.first_leases, criteria)
            first = self._asking[criteria] = Batcher(run, at_once=LEASES_AT_ONCE, abandoned=self._give_up_answer)
        try:
            lease, is_final = await first(asking)
        finally:
            # An idle batcher is removed; otherwise one for each set of workflows that a worker ever had would stay.
            if first.is_idle:
                self._asking.pop(criteria, None)
        return lease if is_final else await self._ask_on(criteria, asking)

    async def _lease_warm(self, chosen: Chosen, asking: Asking) -> Lease | None:
        """If the worker disconnects meanwhile, the lease goes back to the queue."""
        leasing = asyncio.ensure_future(self.warm.lease(chosen, asking))
        try:
            return await asyncio.shield(leasing)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_up(asking, await leasing))
            raise

    async def _ask_on(self, criteria: Criteria, asking: Asking) -> Lease | None:
        batcher = self._asking_on.get(criteria)
        if batcher is None:
            run = partial(self.leasing.leases, criteria)
            batcher = self._asking_on[criteria] = Batcher(run, abandoned=self._give_up)
        try:
            return await batcher(asking)
        finally:
            if batcher.is_idle:
                self._asking_on.pop(criteria, None)

    async def lease_many(self, criteria: Criteria, workers: Sequence[str], now: datetime | None = None) -> list[Lease]:
        """Up to one lease for each entry of `workers`, in order."""
        leases = await self.leasing.leases(criteria, [(worker_id, None) for worker_id in workers], now)
        return [lease for lease in leases if lease is not None]

    async def heartbeat(self, beat: Beat) -> Extended | None:
        """Extends the lease; None if the token no longer holds the lease."""
        return await self._beats(beat)

    async def find(self, dispatch_id: int) -> Known | None:
        return await self._finds(dispatch_id)

    async def put_back(self, entries: Sequence[PutBack], now: datetime | None = None) -> list[Returned]:
        """Puts each dispatch back into the queue if its token still holds the lease."""
        if not entries:
            return []
        async with self._central.connection() as connection:
            rows = await SQL["put_back"].rows(connection, entries=list(map(_back_as_json, entries)), now=now)
        return self._returned(rows)

    async def put_back_behind(self, entry: PutBack) -> list[Returned]:
        """Puts a dispatch back behind all others of its priority: into the lane of the next lower priority, because a
        lane is ordered by dispatch id, and the id of a dispatch never changes."""
        async with self._central.transaction() as connection:
            lane = await SQL["lane_behind"].row(connection, dispatch_id=entry.dispatch_id, token=entry.token)
            if lane is None:
                return []
            await SQL["open_lanes"].run(
                connection,
                workflow_ids=[lane["workflow_id"]],
                stages=[lane["stage"]],
                providers=[lane["provider"]],
                identifiers=[lane["concurrency_identifier"]],
                priorities=[lane["priority"]],
                tenant_ids=[lane["tenant_id"]],
                user_ids=[lane["user_id"]],
            )
            place = {"dispatch_id": entry.dispatch_id, "priority": lane["priority"]}
            await SQL["lock_lanes_behind"].rows(connection, **place)
            rows = await SQL["put_back"].rows(connection, entries=[_back_as_json(entry)], now=None)
            moved = await SQL["move_behind"].value(connection, **place) if rows else None
        behind = {"priority": lane["priority"], "lane_id": moved}
        return self._returned([dict(row) | behind for row in rows])

    async def workflow_slug(self, workflow_id: int) -> str:
        async with self._central.connection() as connection:
            row = await SQL["workflow_slug"].row(connection, workflow_id=workflow_id)
        return str(row["slug"]) if row else str(workflow_id)

    def _returned(self, rows: Sequence[Row]) -> list[Returned]:
        for row in rows:
            self.leasing.turns.end(row["dispatch_id"])
        self.tell_arrivals([row for row in rows if row["not_before"] is None])
        # A delayed dispatch cannot be leased yet, but it frees its slot if it has a limit.
        self._tell_free_slots([row for row in rows if row["not_before"] is not None])
        return [Returned(*(row[name] for name in Returned.__slots__)) for row in rows]

    async def wait_for_callback(
        self, dispatch_id: int, token: UUID, provider_job_id: str, expires_at: datetime
    ) -> float | None:
        """Returns how many seconds the lease was held, or None if the token does not hold the lease."""
        async with self._central.connection() as connection:
            row = await SQL["wait"].row(
                connection,
                dispatch_id=dispatch_id,
                token=token,
                provider_job_id=provider_job_id,
                expires_at=expires_at,
            )
        return row["held_seconds"] if row else None

    def close(self, ending: Ending) -> Coroutine[Any, Any, Closed | None]:
        """Moves a dispatch to history; None if it was closed before or the token does not hold the lease."""
        return self._closings(ending)

    async def close_many(self, endings: Sequence[Ending]) -> list[Closed | None]:
        return await self._close_batch(endings) if endings else []

    async def end_for_jobs(self, ends: Sequence[JobEnd]) -> None:
        """Closes dispatches without a lease. A leased dispatch is marked, and its worker learns it by heartbeat."""
        if not ends:
            return
        # One commit for both: in between, a dispatch could be leased, or a crash could leave it open.
        async with self._central.transaction() as connection:
            rows = await SQL["end_for_jobs"].rows(
                connection,
                tenant_ids=[end.tenant_id for end in ends],
                job_ids=[end.job_id for end in ends],
                cycles=[end.charge_cycle for end in ends],
                statuses=[end.status for end in ends],
            )
            free = [Ending(row["dispatch_id"], row["job_status"]) for row in rows if row["status"] != "leased"]
            closed = await _close_rows(connection, SQL["close_returned"], free) if free else []
        self._tell_closed(closed)

    async def find_expired(self, now: datetime | None = None, limit: int = 500) -> list[Expired]:
        async with self._central.connection() as connection:
            rows = await SQL["find_expired"].rows(connection, now=now, limit=limit)
        return [Expired(*(row[name] for name in Expired.__slots__)) for row in rows]

    async def find_overdue_heads(self, now: datetime | None = None, limit: int = 500) -> list[tuple[UUID, UUID, int]]:
        """Tenant, job and charge cycle of queued rows past their deadline at the heads of their lanes."""
        async with self._central.connection() as connection:
            rows = await SQL["find_overdue_heads"].rows(connection, now=now, limit=limit)
        return [(row["tenant_id"], row["job_id"], row["charge_cycle"]) for row in rows]

    async def promote(self, now: datetime | None = None, limit: int = 1000) -> int:
        """Puts rows whose delay is over into their lanes."""
        async with self._central.connection() as connection:
            rows = await SQL["promote"].rows(connection, now=now, limit=limit)
        self.tell_arrivals(rows)
        return len(rows)

    async def raise_low_water(self) -> None:
        """Raises the marks of all lanes."""
        await self.leasing.raise_low_water()

    async def keep(self) -> None:
        """A loop calls this to keep leases fast and their order fair."""
        await self.leasing.keep()

    def received(self, payload: str | None) -> None:
        """A notification from another control plane, or None if notifications may have been missed."""
        if payload is None:
            self.leasing.turns.be_unsure()
            return
        arrival = Arrival.read(payload)
        if arrival.lane is None:
            self.leasing.turns.free(*arrival.route)
        else:
            self.leasing.turns.arrive(arrival.lane)

    async def held_by(self, worker_id: str) -> list[asyncpg.Record]:
        async with self._central.connection() as connection:
            return await SQL["held_by_worker"].rows(connection, worker_id=worker_id)

    async def _insert(self, connection: Connection, entries: Sequence[Entry]) -> list[asyncpg.Record]:
        payload = [
            self._as_json(entry)
            # The same order everywhere: two processes that relay the same jobs wait for each other's rows.
            for entry in sorted(entries, key=lambda entry: (entry.job_id, entry.charge_cycle, entry.tenant_id))
        ]
        return await SQL["enqueue"].rows(connection, entries=payload)

    async def _place_leased(self, births: Sequence[Birth]) -> list[Lease | None]:
        async with self._central.connection() as connection:
            return await self._insert_leased(connection, births)

    async def _insert_leased(self, connection: Connection, births: Sequence[Birth]) -> list[Lease | None]:
        ordered = sorted(births, key=lambda birth: (birth[0].job_id, birth[0].charge_cycle))
        payload = [
            {**self._as_json(entry), "worker_id": worker_id, "token": str(token)}
            for (entry, worker_id), token in zip(ordered, new_tokens(len(ordered)), strict=True)
        ]
        rows = await SQL["enqueue_leased"].rows(connection, entries=payload)
        without_lane = rows[0]["without_lane"]
        while without_lane:
            await self._open_lanes(connection, [entry for entry, _ in births])
            more = await SQL["enqueue_leased"].rows(connection, entries=payload)
            without_lane = more[0]["without_lane"]
            rows += more
        placed = {(row["tenant_id"], row["job_id"], row["charge_cycle"]): row for row in rows if row["dispatch_id"]}
        found = {key: Lease(**{name: row[name] for name in Lease._fields}) for key, row in placed.items()}
        for entry, _ in births:
            row = placed.get((entry.tenant_id, entry.job_id, entry.charge_cycle))
            if row is not None:
                route = entry.workflow_id, entry.stage, entry.provider, entry.concurrency_identifier, entry.priority
                lane = Lane(row["lane_id"], *route, *self.leasing.whose(entry))
                self.leasing.turns.start(row["dispatch_id"], lane)
        return [found.get((entry.tenant_id, entry.job_id, entry.charge_cycle)) for entry, _ in births]

    async def _give_up_birth(self, birth: Birth, lease: Lease | None) -> None:
        await self._give_up((birth[1], None), lease)

    async def _open_lanes(self, connection: Connection, entries: Sequence[Entry]) -> None:
        await SQL["open_lanes"].run(
            connection,
            workflow_ids=[entry.workflow_id for entry in entries],
            stages=[entry.stage for entry in entries],
            providers=[entry.provider for entry in entries],
            identifiers=[entry.concurrency_identifier for entry in entries],
            priorities=[entry.priority for entry in entries],
            tenant_ids=[self.leasing.whose(entry)[0] for entry in entries],
            user_ids=[self.leasing.whose(entry)[1] for entry in entries],
        )

    async def _give_up_answer(self, asking: Asking, answer: Answer) -> None:
        await self._give_up(asking, answer[0])

    async def _give_up(self, asking: Asking, lease: Lease | None) -> None:
        # The poller disconnected: the lease goes back at once, and the attempt does not count.
        if lease is not None:
            await self.put_back([PutBack(lease.dispatch_id, lease.lease_token, attempt_counts=False)])

    async def _heartbeat_batch(self, beats: Sequence[Beat]) -> list[Extended | None]:
        async with self._central.connection() as connection:
            rows = await SQL["heartbeat"].rows(
                connection,
                dispatch_ids=[beat.dispatch_id for beat in beats],
                tokens=[beat.token for beat in beats],
                workers=[beat.worker_id for beat in beats],
                run_started=[beat.run_started for beat in beats],
                run_waiting=[beat.run_waiting for beat in beats],
                now=None,
            )
        extended = {
            (row["dispatch_id"], row["lease_token"]): Extended(
                row["tenant_id"],
                row["job_id"],
                row["charge_cycle"],
                row["lease_seq"],
                row["lease_expires_at"],
                row["ttl_seconds"],
                row["cancel_requested_at"] is not None,
            )
            for row in rows
        }
        return [extended.get((beat.dispatch_id, beat.token)) for beat in beats]

    async def _find_batch(self, dispatch_ids: Sequence[int]) -> list[Known | None]:
        async with self._central.connection() as connection:
            rows = await SQL["find"].rows(connection, Known, dispatch_ids=list(dispatch_ids))
        known = {row.dispatch_id: row for row in rows}
        return [known.get(dispatch_id) for dispatch_id in dispatch_ids]

    async def _close_batch(self, endings: Sequence[Ending]) -> list[Closed | None]:
        async with self._central.connection() as connection:
            try:
                rows = await _close_rows(connection, SQL["close"], endings)
            except asyncpg.UniqueViolationError:
                # The failed statement changed nothing.
                rows = await _close_rows(connection, SQL["close_returned"], endings)
        self._tell_closed(rows)
        closed = {row[0]: new_tuple(Closed, row[:CLOSED_WIDTH]) for row in rows}
        return [closed.get(ending.dispatch_id) for ending in endings]

    def _tell_closed(self, closed: Sequence[Row]) -> None:
        end = self.leasing.turns.end
        for row in closed:
            end(row["dispatch_id"])
        self._tell_free_slots(closed)

    def _tell_free_slots(self, rows: Sequence[Row]) -> None:
        # Jobs may be waiting for the free slot of a limit.
        for row in rows:
            if row["concurrency_identifier"]:
                self.tell_free(row["workflow_id"], row["stage"], row["provider"])

    def tell_free(self, workflow_id: int, stage: str, provider: str) -> None:
        """Jobs of this route that waited for a slot may be leased now."""
        self.leasing.turns.free(workflow_id, stage, provider)
        self._arrived(workflow_id, stage, provider, None)

    def tell_arrivals(self, rows: Sequence[Row]) -> None:
        """Called after the commit that put the rows into their lanes."""
        for row in rows:
            lane = lane_of(row)
            self.leasing.turns.arrive(lane, row["dispatch_id"])
            self._arrived(lane.workflow_id, lane.stage, lane.provider, lane)

    def _as_json(self, entry: Entry) -> dict[str, object]:
        lane_tenant_id, lane_user_id = self.leasing.whose(entry)
        return entry_as_json(entry) | {"lane_tenant_id": str(lane_tenant_id), "lane_user_id": str(lane_user_id)}


async def _close_rows(connection: Connection, statement: Statement, endings: Sequence[Ending]) -> list[asyncpg.Record]:
    ordered = sorted(endings, key=itemgetter(0))
    dispatch_ids, statuses, tokens, provider_job_ids, errors = map(list, zip(*ordered, strict=True))
    return await statement.rows(
        connection,
        dispatch_ids=dispatch_ids,
        tokens=tokens,
        # A status that all rows share is sent once: each text of an array costs a microsecond.
        statuses=statuses if len(set(statuses)) > 1 else statuses[:1],
        provider_job_ids=unless_all_none(provider_job_ids),
        errors=unless_all_none(errors),
    )


def _back_as_json(entry: PutBack) -> dict[str, object]:
    return {
        "dispatch_id": entry.dispatch_id,
        "token": str(entry.token),
        "attempt_counts": entry.attempt_counts,
        "counts_as_requeue": entry.counts_as_requeue,
        "only_expired": entry.only_expired,
        "delay_seconds": entry.delay_seconds,
        "error": entry.error,
        "wedged": entry.wedged,
    }


def entry_as_json(entry: Entry) -> dict[str, object]:
    # Not dataclasses.asdict: its deep copies cost as much as all other Python code for a job.
    return {
        "tenant_id": str(entry.tenant_id),
        "user_id": str(entry.user_id),
        "job_id": str(entry.job_id),
        "charge_cycle": entry.charge_cycle,
        "workflow_id": entry.workflow_id,
        "stage": entry.stage,
        "provider": entry.provider,
        "concurrency_identifier": entry.concurrency_identifier,
        "priority": entry.priority,
        "kind": entry.kind,
        "max_attempts": entry.max_attempts,
        "lease_seconds": entry.lease_seconds,
        "run_limit_seconds": entry.run_limit_seconds,
        "deadline_at": entry.deadline_at.isoformat(),
    }
