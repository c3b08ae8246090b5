"""Leases jobs: `turns` decides whose turn it is, and one statement takes the first rows of those lanes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from callsheet.dispatch.facts import Criteria, Lane, Lease
from callsheet.dispatch.lease.lane_marks import LaneMarks
from callsheet.dispatch.lease.slots import Slots
from callsheet.dispatch.lease.taking import Poller, take, undrawn_on_error
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.turns import Turns
from callsheet.dispatch.order.user_queues import Terms, UserQueue
from callsheet.dispatch.rows import LaneHead, TakenRow
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.dispatch")
# Rows that are read in addition to the wanted rows, because other processes may be taking the first rows at this
# moment.
SPARE_ROWS = 8
MAX_SPARE_ROWS = 2000
# Each round finds lanes that are empty or bounds that are reached. After this many rounds, the remaining pollers wait
# for the next lease.
MAX_ROUNDS = 100
# How often lanes with work are read from the database, in case a notification was lost.
STALE_SECONDS = 10.0
# After this time without a poll, the view of these workers is dropped.
IDLE_SECONDS = 60.0
# Reading the jobs in flight takes at most this fraction of the time, for any number of jobs.
MAX_READING_TIME = 0.02

# The lease, and whether the result is final. If it is not, there may be another job.
PollResult = tuple[Lease | None, bool]


@dataclass(slots=True)
class Round:
    """The result of one statement."""

    # The number of pollers that are not drained.
    pollers: int
    leases: dict[int, Lease]
    # Whether another round may find jobs, because lanes were found empty or bounds reached.
    may_find_more: bool


class Leasing:
    """Leases jobs. `fair`: share the workers fairly between tenants and users; otherwise jobs are leased strictly in
    order of arrival.

    `terms`: the default for a tenant without terms of its own.
    """

    def __init__(self, central: Database, *, fair: bool = True, terms: Terms | None = None):
        self._central = central
        self.is_fair = fair
        self.slots = Slots(central, terms or Terms())
        self.turns = Turns(self.slots.terms_of)
        self.marks = LaneMarks(central)
        self._used: dict[Criteria, float] = {}
        self._in_flight_due = 0.0
        self._stale_due = 0.0

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
        if not self.slots.has_terms:
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
            if not result.leases and not result.may_find_more:
                # Other processes were taking the rows at the head at this moment: look deeper.
                spare *= 8
        return [leases.get(place) for place in range(len(pollers))]

    async def read_terms(self) -> None:
        if await self.slots.read_terms():
            self.turns.terms_changed()

    async def maintain(self) -> None:
        """Keeps low-water marks close to the heads of their lanes, and this process's view close to the database."""
        await self.read_terms()
        await self.marks.raise_due()
        now = time.monotonic()
        if self.turns.views and now >= self._in_flight_due:
            await self._read_in_flight()
            self._in_flight_due = time.monotonic() + (time.monotonic() - now) / MAX_READING_TIME
        if now >= self._stale_due:
            self._stale_due = now + STALE_SECONDS
            self._drop_idle_views(now)
            self.turns.mark_stale()
            await self.marks.sweep()

    async def fresh_view(self, criteria: Criteria) -> QueueView:
        """The view of these workers, read from the database if notifications may have been missed."""
        if not self.slots.has_terms:
            await self.read_terms()
        view = self.turns.view(criteria)
        self._used[criteria] = time.monotonic()
        if view.is_stale:
            await self._read_lanes(view)
        return view

    def started(self, dispatch_id: int, lane: Lane, drawn_in: QueueView) -> None:
        """Records a lease from this lane that was drawn in this view."""
        self.turns.start(dispatch_id, lane, drawn_in=drawn_in)
        self.marks.leased(lane.lane_id)

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
            free_slots = await self.slots.locked(connection, bounded)
            drawn = view.draw(len(pollers), free_slots)
            if not drawn:
                return Round(len(pollers), {}, may_find_more=True)
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
        rows = await _take_drawn(connection, drawn, pollers, spare, now)
        given = [0] * len(drawn)
        leases: dict[int, Lease] = {}
        for row in rows:
            if (lease := row.lease) is None:
                break
            leases[row.poller - 1] = lease
            given[row.user_queue] += 1
            self.turns.start(lease.dispatch_id, lanes[row.lane_id], drawn_in=view)
            self.marks.leased(row.lane_id)
        found = next(row for row in rows if row.found_queues is not None)
        seen = [0] * len(drawn)
        for number, count, following in zip(
            found.found_queues or (), found.found_counts or (), found.found_next or (), strict=True
        ):
            seen[number] = count
            if following is not None:
                drawn[number][0].oldest = following
        may_find_more = False
        for (queue, count), got, rows_seen in zip(drawn, given, seen, strict=True):
            if got < count:
                view.undo(queue, count - got)
                may_find_more = may_find_more or rows_seen < count + spare
            # The user queue has no rows left, or other processes are taking the last ones at this moment.
            if rows_seen <= got or (got < count and rows_seen < count + spare):
                self.turns.leave(tuple(queue.lanes.values()), moment)
            for _ in range(got - count):
                view.start_of(queue)
        return Round(found.pollers, leases, may_find_more)

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
                free_slots = await self.slots.free(connection, view.closed) if view.closed else {}
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

    def _drop_idle_views(self, now: float) -> None:
        for view in tuple(self.turns.views):
            if self._used.get(view.criteria, now) < now - IDLE_SECONDS:
                self.turns.drop(view)
                self._used.pop(view.criteria, None)
            else:
                view.forget_idle()


async def _take_drawn(
    connection: Connection,
    drawn: Sequence[tuple[UserQueue, int]],
    pollers: Sequence[Poller],
    spare: int,
    now: datetime | None,
) -> list[TakenRow]:
    for queue, count in drawn:
        queue.taking += count
    try:
        return await take(connection, [(queue.lanes, count) for queue, count in drawn], pollers, spare, now)
    finally:
        for queue, count in drawn:
            queue.taking -= count
