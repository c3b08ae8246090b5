"""Leases jobs: `turns` decides whose turn it is, and one statement takes the first rows of those lanes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import urandom
from uuid import UUID

from asyncpg.pgproto.pgproto import UUID as QuickUUID  # noqa: N811

from callsheet.dispatch.facts import NO_OWNER, Criteria, Lane, LaneKey, Lease, QueueEntry
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.turns import Turns
from callsheet.dispatch.order.user_queues import Bound, Terms, UserQueue, bounds
from callsheet.dispatch.rows import BoundUse, LaneHead, TakenRow, TenantTerms
from callsheet.plumbing.database.database import DATABASE_AWAY, Database
from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.dispatch")
# Rows that are read in addition to the wanted rows, because other processes may be taking the first rows at this
# moment.
SPARE_ROWS = 8
MAX_SPARE_ROWS = 2000
UNBOUNDED = 1_000_000_000
# Each round finds lanes that are empty or bounds that are reached. After this many rounds, the remaining pollers wait
# for the next lease.
MAX_ROUNDS = 100
# How often lanes with work are read from the database, in case a notification was lost.
STALE_SECONDS = 10.0
# Reading the jobs in flight takes at most this fraction of the time, for any number of jobs.
MAX_READING_TIME = 0.02
# Lanes per page. A submit into one of these lanes waits until the page is done.
SWEPT_AT_ONCE = 200
# Each lease leaves a dead index entry at the head of its lane. Fewer than this many cost little to scan.
LEASES_PER_RAISE = 64
SETTLE_SECONDS = 60.0
# The random bits of a UUID of version 4, and the bits that mark its version.
RANDOM_BITS = bytes.fromhex("ffffffffffff0fff3fffffffffffffff")
VERSION_BITS = bytes.fromhex("00000000000040008000000000000000")

# Id of the worker, and id of its poll, if it has one.
Poller = tuple[str, str | None]
# The lease, and whether the result is final. If it is not, there may be another job.
PollResult = tuple[Lease | None, bool]


@dataclass(slots=True)
class Round:
    """The result of one statement."""

    # The number of pollers that are not drained.
    pollers: int
    leases: dict[int, Lease]
    # Whether the next draw will differ, because lanes were found empty or bounds reached.
    next_draw_differs: bool


class Leasing:
    """Leases jobs. `fair`: share the workers fairly between tenants and users; otherwise jobs are leased strictly in
    order of arrival.

    `terms`: the default for a tenant without terms of its own.
    """

    def __init__(self, central: Database, *, fair: bool = True, terms: Terms | None = None):
        self._central = central
        self.is_fair = fair
        self.default_terms = terms or Terms()
        self._terms: dict[UUID, Terms] | None = None
        self.turns = Turns(self._terms_of)
        # How many rows were leased from each lane since its mark was moved.
        self._leased: Counter[int] = Counter()
        self._used: dict[Criteria, float] = {}
        self._in_flight_due = 0.0
        self._stale_due = 0.0

    def lane_owner(self, entry: QueueEntry) -> tuple[UUID, UUID]:
        """Tenant and user of the lane that the job waits in."""
        terms = self._terms_of(entry.tenant_id)
        bounded = terms.max_running is not None or terms.max_running_per_user is not None
        return (entry.tenant_id, entry.user_id) if self.is_fair or bounded else (NO_OWNER, NO_OWNER)

    def lane_key(self, entry: QueueEntry) -> LaneKey:
        """The lane that the job waits in."""
        return LaneKey(
            entry.workflow_id,
            entry.stage,
            entry.provider,
            entry.concurrency_identifier,
            entry.priority,
            *self.lane_owner(entry),
        )

    async def first_leases(self, criteria: Criteria, pollers: Sequence[Poller]) -> list[PollResult]:
        """Like `leases`, but a worker that got a lease does not wait while the search continues for the others."""
        leases = await self.leases(criteria, pollers, until_some=True)
        is_final = all(lease is None for lease in leases)
        return [(lease, is_final or lease is not None) for lease in leases]

    async def leases(
        self,
        criteria: Criteria,
        pollers: Sequence[Poller],
        now: datetime | None = None,
        *,
        until_some: bool = False,
    ) -> list[Lease | None]:
        """The lease for each entry, or None if no work was left or the worker is drained. With `until_some`, also None
        if other entries got a lease first."""
        if self._terms is None:
            await self.read_terms()
        view = self.turns.view(criteria)
        self._used[criteria] = time.monotonic()
        leases: dict[int, Lease] = {}
        spare, has_read_lanes, rounds = SPARE_ROWS, False, 0
        while spare <= MAX_SPARE_ROWS and rounds < MAX_ROUNDS:
            rounds += 1
            left = [place for place in range(len(pollers)) if place not in leases]
            try:
                if view.is_stale:
                    has_read_lanes = True
                    await self._read_lanes(view)
                result = await self._round(view, [pollers[place] for place in left], spare, now)
                if result is None and not has_read_lanes:
                    has_read_lanes = True
                    await self._read_lanes(view)
                    result = await self._round(view, [pollers[place] for place in left], spare, now)
            except DATABASE_AWAY:
                if not leases:
                    raise
                break
            if result is None:
                break
            leases |= {left[place]: lease for place, lease in result.leases.items()}
            if len(result.leases) >= result.pollers or (until_some and leases):
                break
            if not result.leases and not result.next_draw_differs:
                # Other processes were taking the rows at the head at this moment: look deeper.
                spare *= 8
        return [leases.get(place) for place in range(len(pollers))]

    async def has_free_slot(self, connection: Connection, entry: QueueEntry) -> bool:
        """Whether one more job may be in flight. The limits it depends on stay locked until the transaction ends."""
        free_slots = await self._locked_free_slots(connection, self._bounds_of(entry))
        return all(free > 0 for free in free_slots.values())

    def is_bounded(self, entry: QueueEntry) -> bool:
        return bool(self._bounds_of(entry))

    async def read_terms(self) -> None:
        async with self._central.connection() as connection:
            rows = await SQL["terms"].rows(connection, TenantTerms)
        terms = {
            row.tenant_id: Terms(
                row.weight,
                _either(row.max_running, self.default_terms.max_running),
                _either(row.max_running_per_user, self.default_terms.max_running_per_user),
            )
            for row in rows
        }
        if terms != self._terms:
            self._terms = terms
            self.turns.terms_changed()

    async def maintain(self) -> None:
        """Keeps low-water marks close to the heads of their lanes, and this process's view close to the database."""
        await self.read_terms()
        await self._raise_marks()
        now = time.monotonic()
        if self.turns.views and now >= self._in_flight_due:
            await self._read_in_flight()
            self._in_flight_due = time.monotonic() + (time.monotonic() - now) / MAX_READING_TIME
        if now >= self._stale_due:
            self._stale_due = now + STALE_SECONDS
            self._drop_idle_views(now)
            self.turns.mark_stale()
            await self.sweep()
            self._leased.clear()

    async def fresh_view(self, criteria: Criteria) -> QueueView:
        """The view of these workers, read from the database if notifications may have been missed."""
        if self._terms is None:
            await self.read_terms()
        view = self.turns.view(criteria)
        self._used[criteria] = time.monotonic()
        if view.is_stale:
            await self._read_lanes(view)
        return view

    def started(self, dispatch_id: int, lane: Lane, drawn_in: QueueView) -> None:
        """Records a lease from this lane that was drawn in this view."""
        self.turns.start(dispatch_id, lane, drawn_in=drawn_in)
        self._leased[lane.lane_id] += 1

    async def raise_low_water(self, lane_ids: Sequence[int] | None = None) -> None:
        """Moves the marks of the lanes up to their first queued row. This takes two statements, because the second
        must see the commits that the first waited for.
        """
        async with self._central.transaction() as connection:
            locked = await SQL["lock_lanes"].column(connection, lane_ids=lane_ids)
            await SQL["raise_low_water"].run(connection, lane_ids=locked)

    async def sweep(self, settle_seconds: float = SETTLE_SECONDS) -> int:
        """Removes lanes without dispatches, moves the marks of the others, and records which lanes have no work."""
        removed, after = 0, 0
        while True:
            async with self._central.transaction() as connection:
                lane_ids: list[int] = await SQL["lock_lanes_after"].column(
                    connection, after=after, limit=SWEPT_AT_ONCE, settle_seconds=settle_seconds
                )
                if lane_ids:
                    await SQL["raise_low_water"].run(connection, lane_ids=lane_ids)
                    removed += await SQL["remove_lanes"].run(connection, lane_ids=lane_ids)
            if len(lane_ids) < SWEPT_AT_ONCE:
                return removed
            after = lane_ids[-1]

    async def _round(
        self, view: QueueView, pollers: Sequence[Poller], spare: int, now: datetime | None
    ) -> Round | None:
        """Runs one round of leases. None if no lane has work."""
        moment = self.turns.moment
        drawn = view.draw(len(pollers))
        if not drawn:
            return None
        bounded = {bound for queue, _ in drawn for bound in queue.bounds}
        if not bounded:
            async with undrawn_on_error(view, drawn), self._central.connection() as connection:
                # The user queues share the spare rows: reading the full number for each queue would be most of the
                # cost.
                return await self._take(connection, view, drawn, moment, pollers, spare // len(drawn), now)
        for queue, count in drawn:
            view.undo(queue, count)
        # The counts must be read after the locks were acquired.
        async with self._central.transaction() as connection:
            free_slots = await self._locked_free_slots(connection, bounded)
            drawn = view.draw(len(pollers), free_slots)
            if not drawn:
                return Round(len(pollers), {}, next_draw_differs=True)
            async with undrawn_on_error(view, drawn):
                return await self._take(connection, view, drawn, moment, pollers, 0, now)

    async def _take(
        self,
        connection: Connection,
        view: QueueView,
        drawn: Sequence[tuple[UserQueue, int]],
        moment: int,
        pollers: Sequence[Poller],
        spare: int,
        now: datetime | None,
    ) -> Round:
        # Skip the rows that other statements of this process are about to take.
        spare += max(queue.taking for queue, _ in drawn)
        # A copy, because lanes may leave their user queues during the statement.
        lanes = {lane_id: lane for queue, _ in drawn for lane_id, lane in queue.lanes.items()}
        rows = await _run_take(connection, drawn, pollers, spare, now)
        given = [0] * len(drawn)
        leases: dict[int, Lease] = {}
        for row in rows:
            if (lease := row.lease) is None:
                break
            leases[row.poller - 1] = lease
            given[row.user_queue] += 1
            self.turns.start(lease.dispatch_id, lanes[row.lane_id], drawn_in=view)
            self._leased[row.lane_id] += 1
        found = next(row for row in rows if row.found_queues is not None)
        seen = [0] * len(drawn)
        for number, count, following in zip(
            found.found_queues or (), found.found_counts or (), found.found_next or (), strict=True
        ):
            seen[number] = count
            if following is not None:
                drawn[number][0].oldest = following
        next_draw_differs = False
        for (queue, count), got, rows_seen in zip(drawn, given, seen, strict=True):
            if got < count:
                view.undo(queue, count - got)
                next_draw_differs = next_draw_differs or rows_seen < count + spare
            # The user queue has no rows left, or other processes are taking the last ones at this moment.
            if rows_seen <= got or (got < count and rows_seen < count + spare):
                self.turns.leave(tuple(queue.lanes.values()), moment)
            for _ in range(got - count):
                view.start_of(queue)
        return Round(found.pollers, leases, next_draw_differs)

    async def _read_lanes(self, view: QueueView) -> None:
        """Reads which lanes have work, and which closed bounds have room again."""
        criteria = view.criteria
        view.is_stale = False
        try:
            async with self._central.connection() as connection:
                heads = await SQL["lanes_with_work"].rows(
                    connection,
                    LaneHead,
                    workflow_ids=list(criteria.workflow_ids),
                    stage=criteria.stage,
                    providers=list(criteria.providers),
                )
                free_slots = await self._free_slots(connection, view.closed) if view.closed else {}
        except BaseException:
            view.is_stale = True
            raise
        for head in heads:
            self.turns.arrive(head.lane, head.dispatch_id)
        for bound, free in free_slots.items():
            if free > 0:
                view.open(bound)

    async def _read_in_flight(self) -> None:
        moment = self.turns.begin_reading()
        async with self._central.connection() as connection:
            rows = await SQL["in_flight"].rows(connection, LaneHead)
        # One object for each lane, however many of its jobs are in flight.
        lanes = {row.lane.lane_id: row.lane for row in rows}
        self.turns.see({row.dispatch_id: lanes[row.lane.lane_id] for row in rows}, moment)

    async def _raise_marks(self) -> None:
        """Raises the marks of the lanes that this process leased many rows from. Other lanes are left out: each
        raised mark leaves a dead row, and while a long session blocks vacuum, every lease scans the dead rows.
        """
        due = sorted(lane_id for lane_id, rows in self._leased.items() if rows >= LEASES_PER_RAISE)
        for lane_id in due:
            del self._leased[lane_id]
        if due:
            await self.raise_low_water(due)

    def _drop_idle_views(self, now: float) -> None:
        for view in tuple(self.turns.views):
            if self._used.get(view.criteria, now) < now - SETTLE_SECONDS:
                self.turns.drop(view)
                self._used.pop(view.criteria, None)
            else:
                view.forget_idle()

    async def _locked_free_slots(self, connection: Connection, wanted: Iterable[Bound]) -> dict[Bound, int]:
        wanted = tuple(wanted)
        await SQL["lock_bounds"].run(
            connection,
            identifiers=[bound.identifier for bound in wanted if bound.identifier],
            tenant_ids=[*{bound.tenant_id for bound in wanted if bound.tenant_id}],
        )
        return await self._free_slots(connection, wanted)

    async def _free_slots(self, connection: Connection, wanted: Iterable[Bound]) -> dict[Bound, int]:
        """How many more jobs of each bound may be in flight."""
        wanted = tuple(wanted)
        users = [bound for bound in wanted if bound.user_id]
        rows = await SQL["count_bounds"].rows(
            connection,
            BoundUse,
            identifiers=[bound.identifier for bound in wanted if bound.identifier],
            tenant_ids=[bound.tenant_id for bound in wanted if bound.tenant_id and not bound.user_id],
            users_tenants=[bound.tenant_id for bound in users],
            users=[bound.user_id for bound in users],
        )
        counted = {Bound(row.identifier or "", row.tenant_id, row.user_id): row for row in rows}
        return {bound: self._limit_of(bound, row.max_concurrent) - row.in_use for bound, row in counted.items()}

    def _limit_of(self, bound: Bound, max_concurrent: int | None) -> int:
        if bound.tenant_id is not None:
            terms = self._terms_of(bound.tenant_id)
            max_concurrent = terms.max_running_per_user if bound.user_id else terms.max_running
        return UNBOUNDED if max_concurrent is None else max_concurrent

    def _terms_of(self, tenant_id: UUID) -> Terms:
        if self._terms is None or tenant_id == NO_OWNER:
            return Terms() if tenant_id == NO_OWNER else self.default_terms
        return self._terms.get(tenant_id, self.default_terms)

    def _bounds_of(self, entry: QueueEntry) -> tuple[Bound, ...]:
        terms = self._terms_of(entry.tenant_id)
        return bounds(entry.concurrency_identifier, entry.tenant_id, entry.user_id, terms)


async def _run_take(
    connection: Connection,
    drawn: Sequence[tuple[UserQueue, int]],
    pollers: Sequence[Poller],
    spare: int,
    now: datetime | None,
) -> list[TakenRow]:
    lane_ids: list[int] = []
    user_queues: list[int] = []
    wanted: list[int] = []
    for number, (queue, count) in enumerate(drawn):
        queue.taking += count
        lane_ids += queue.lanes
        user_queues += [number] * len(queue.lanes)
        wanted += [count] * len(queue.lanes)
    # Default values are not sent: each element of an array costs half a microsecond here.
    has_one_each = user_queues == list(range(len(drawn)))
    try:
        return await SQL["take"].rows(
            connection,
            TakenRow,
            lane_ids=lane_ids,
            user_queues=[] if has_one_each else user_queues,
            wanted=[] if has_one_each and len(drawn) == len(pollers) else wanted,
            workers=[worker_id for worker_id, _ in pollers],
            poll_ids=unless_all_none([poll_id for _, poll_id in pollers]),
            tokens=new_tokens(len(pollers)),
            spare=spare,
            now=now,
        )
    finally:
        for queue, count in drawn:
            queue.taking -= count


class undrawn_on_error:  # noqa: N801 (a context manager, as in contextlib)
    """Removes the drawn jobs from the jobs in flight if the statement fails."""

    def __init__(self, view: QueueView, drawn: Sequence[tuple[UserQueue, int]]):
        self._view = view
        self._drawn = drawn

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            for queue, count in self._drawn:
                self._view.undo(queue, count)


def new_tokens(count: int) -> list[UUID]:
    """Random UUIDs (version 4) from one call of `urandom`. This takes a fifth of the time of `uuid4` calls."""
    length = 16 * count
    bits = int.from_bytes(urandom(length), "big") & int.from_bytes(RANDOM_BITS * count, "big")
    drawn = (bits | int.from_bytes(VERSION_BITS * count, "big")).to_bytes(length, "big")
    return [QuickUUID(drawn[start : start + 16]) for start in range(0, length, 16)]


def unless_all_none(values: list[str | None]) -> list[str | None]:
    """The values for an array that is read by index; an empty list if all are None, because an empty array means the
    same and costs nothing to send.
    """
    return values if any(values) else []


def _either(value: int | None, otherwise: int | None) -> int | None:
    return otherwise if value is None else value
