"""Leases: `turns` decides whose turn it is, and one statement takes the heads of those lanes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import urandom
from uuid import UUID

import asyncpg
from asyncpg.pgproto.pgproto import UUID as QuickUUID  # noqa: N811

from callsheet.dispatch.facts import EVERYBODY, Criteria, Entry, Lane, Lease
from callsheet.dispatch.turns import Arena, Bound, Seat, Terms, Turns, bounds
from callsheet.plumbing.database import DATABASE_AWAY, Database
from callsheet.plumbing.sql import Connection, Row, statements

SQL = statements("callsheet.dispatch")
LEASE_WIDTH = len(Lease._fields)
# `_make` of a named tuple calls this; a direct call takes half the time.
new_tuple = tuple.__new__
# After the lease's columns: the entry it is for, its seat and its lane.
LEASE_END = LEASE_WIDTH + 3
LANE_FIELDS = (
    *("lane_id", "workflow_id", "stage", "provider", "concurrency_identifier", "priority"),
    *("lane_tenant_id", "lane_user_id"),
)
# Rows read beyond the wanted ones, because other processes may be taking the first rows at this moment.
SPARE_ROWS = 8
DEEPEST = 2000
UNBOUNDED = 1_000_000_000
# Each round finds lanes that are empty or bounds that are reached. After this many rounds, the rest waits for the next
# lease.
MOST_ROUNDS = 100
# How often lanes with work are read from the database, in case a notification was lost.
UNSURE_SECONDS = 10.0
# Reading the jobs in flight takes at most this share of the time, however many there are.
SIGHT_SHARE = 0.02
# A page of lanes. A submit into one of them waits until the page is done.
SWEPT_AT_ONCE = 200
# Each lease leaves a dead index entry at the head of its lane. Fewer than this many cost little to scan.
WORN_ROWS = 64
SETTLE_SECONDS = 60.0
# The random bits of a UUID of version 4, and the bits that mark its version.
RANDOM_BITS = bytes.fromhex("ffffffffffff0fff3fffffffffffffff")
VERSION_BITS = bytes.fromhex("00000000000040008000000000000000")

# Id of the worker, and id of its poll, if it has one.
Asking = tuple[str, str | None]
# The lease, and whether the result is final. If it is not, there may be another job.
Answer = tuple[Lease | None, bool]


@dataclass(slots=True)
class Round:
    """The result of one statement."""

    asking: int
    leases: dict[int, Lease]
    # Whether the next draw will differ, because lanes were found empty or bounds reached.
    learned: bool


class Leasing:
    """`fair`: between tenants and users; otherwise jobs are leased strictly in order of arrival.
    `terms`: the default for a tenant without its own."""

    def __init__(self, central: Database, *, fair: bool = True, terms: Terms | None = None):
        self._central = central
        self.is_fair = fair
        self.default_terms = terms or Terms()
        self._terms: dict[UUID, Terms] | None = None
        self.turns = Turns(self._terms_of)
        # How many rows were leased from each lane since its mark was moved.
        self._leased: Counter[int] = Counter()
        self._used: dict[Criteria, float] = {}
        self._sight_due = 0.0
        self._unsure_due = 0.0

    def whose(self, entry: Entry) -> tuple[UUID, UUID]:
        """Tenant and user of the lane that the job waits in."""
        terms = self._terms_of(entry.tenant_id)
        bounded = terms.max_running is not None or terms.max_running_per_user is not None
        return (entry.tenant_id, entry.user_id) if self.is_fair or bounded else (EVERYBODY, EVERYBODY)

    async def first_leases(self, criteria: Criteria, asking: Sequence[Asking]) -> list[Answer]:
        """Like `leases`, but a worker that got a lease does not wait while the search goes on for the others."""
        leases = await self.leases(criteria, asking, until_some=True)
        is_final = all(lease is None for lease in leases)
        return [(lease, is_final or lease is not None) for lease in leases]

    async def leases(
        self,
        criteria: Criteria,
        asking: Sequence[Asking],
        now: datetime | None = None,
        *,
        until_some: bool = False,
    ) -> list[Lease | None]:
        """The lease for each entry, or None if no work was left or the worker is drained. With `until_some`, also None
        if other entries got a lease first."""
        if self._terms is None:
            await self.read_terms()
        arena = self.turns.arena(criteria)
        self._used[criteria] = time.monotonic()
        leases: dict[int, Lease] = {}
        spare, has_looked, rounds = SPARE_ROWS, False, 0
        while spare <= DEEPEST and rounds < MOST_ROUNDS:
            rounds += 1
            left = [place for place in range(len(asking)) if place not in leases]
            try:
                if arena.is_unsure:
                    has_looked = True
                    await self._look(arena)
                given = await self._round(arena, [asking[place] for place in left], spare, now)
                if given is None and not has_looked:
                    has_looked = True
                    await self._look(arena)
                    given = await self._round(arena, [asking[place] for place in left], spare, now)
            except DATABASE_AWAY:
                if not leases:
                    raise
                break
            if given is None:
                break
            leases |= {left[place]: lease for place, lease in given.leases.items()}
            if len(given.leases) >= given.asking or (until_some and leases):
                break
            if not given.leases and not given.learned:
                # Other processes were taking the rows at the head at this moment: look deeper.
                spare *= 8
        return [leases.get(place) for place in range(len(asking))]

    async def room_for(self, connection: Connection, entry: Entry) -> bool:
        """Whether one more job may be in flight. The limits it depends on stay locked until the transaction ends."""
        room = await self._locked_room(connection, self._bounds_of(entry))
        return all(free > 0 for free in room.values())

    def is_bounded(self, entry: Entry) -> bool:
        return bool(self._bounds_of(entry))

    async def read_terms(self) -> None:
        async with self._central.connection() as connection:
            rows = await SQL["terms"].rows(connection)
        terms = {
            row["id"]: Terms(
                row["weight"],
                _either(row["max_running"], self.default_terms.max_running),
                _either(row["max_running_per_user"], self.default_terms.max_running_per_user),
            )
            for row in rows
        }
        if terms != self._terms:
            self._terms = terms
            self.turns.terms_changed()

    async def keep(self) -> None:
        """Keeps low-water marks close to the heads of their lanes, and this process's view close to the database."""
        await self.read_terms()
        await self._raise_worn()
        now = time.monotonic()
        if self.turns.arenas and now >= self._sight_due:
            await self._see()
            self._sight_due = time.monotonic() + (time.monotonic() - now) / SIGHT_SHARE
        if now >= self._unsure_due:
            self._unsure_due = now + UNSURE_SECONDS
            self._forget_the_past(now)
            self.turns.be_unsure()
            await self.sweep()
            self._leased.clear()

    async def sure_arena(self, criteria: Criteria) -> Arena:
        """The arena of these workers, read from the database if notifications may have been missed."""
        if self._terms is None:
            await self.read_terms()
        arena = self.turns.arena(criteria)
        self._used[criteria] = time.monotonic()
        if arena.is_unsure:
            await self._look(arena)
        return arena

    def started(self, dispatch_id: int, lane: Lane, drawn_in: Arena) -> None:
        """Records a lease from this lane that was drawn in this arena."""
        self.turns.start(dispatch_id, lane, drawn_in=drawn_in)
        self._leased[lane.lane_id] += 1

    async def raise_low_water(self, lane_ids: Sequence[int] | None = None) -> None:
        """Moves the lanes' marks up to their first queued row. Two statements: the second must see the commits that the
        first waited for."""
        async with self._central.transaction() as connection:
            rows = await SQL["lock_lanes"].rows(connection, lane_ids=lane_ids)
            await SQL["raise_low_water"].run(connection, lane_ids=[row["lane_id"] for row in rows])

    async def sweep(self, settle_seconds: float = SETTLE_SECONDS) -> int:
        """Removes lanes without a dispatch, moves the marks of the others, and records which have no work."""
        removed, after = 0, 0
        while True:
            async with self._central.transaction() as connection:
                rows = await SQL["lock_lanes_after"].rows(
                    connection, after=after, limit=SWEPT_AT_ONCE, settle_seconds=settle_seconds
                )
                lane_ids = [row["lane_id"] for row in rows]
                if lane_ids:
                    await SQL["raise_low_water"].run(connection, lane_ids=lane_ids)
                    removed += await SQL["remove_lanes"].run(connection, lane_ids=lane_ids)
            if len(lane_ids) < SWEPT_AT_ONCE:
                return removed
            after = lane_ids[-1]

    async def _round(self, arena: Arena, asking: Sequence[Asking], spare: int, now: datetime | None) -> Round | None:
        """None if no lane has work."""
        moment = self.turns.moment
        drawn = arena.draw(len(asking))
        if not drawn:
            return None
        bounded = {bound for seat, _ in drawn for bound in seat.bounds}
        if not bounded:
            async with given_back_on_error(arena, drawn), self._central.connection() as connection:
                # The seats share the spare rows: the full number for each would be most of the statement's cost.
                return await self._take(connection, arena, drawn, moment, asking, spare // len(drawn), now)
        for seat, count in drawn:
            arena.take_back(seat, count)
        # The counts must be read after the locks were acquired.
        async with self._central.transaction() as connection:
            room = await self._locked_room(connection, bounded)
            drawn = arena.draw(len(asking), room)
            if not drawn:
                return Round(len(asking), {}, learned=True)
            async with given_back_on_error(arena, drawn):
                return await self._take(connection, arena, drawn, moment, asking, 0, now)

    async def _take(
        self,
        connection: Connection,
        arena: Arena,
        drawn: Sequence[tuple[Seat, int]],
        moment: int,
        asking: Sequence[Asking],
        spare: int,
        now: datetime | None,
    ) -> Round:
        # Look behind the rows that other statements of this process are about to take.
        spare += max(seat.taking for seat, _ in drawn)
        # A copy, because lanes may leave their seats during the statement.
        of = {lane_id: lane for seat, _ in drawn for lane_id, lane in seat.lanes.items()}
        rows = await _run_take(connection, drawn, asking, spare, now)
        given = [0] * len(drawn)
        leases: dict[int, Lease] = {}
        for row in rows if rows[0]["dispatch_id"] is not None else ():
            lease = new_tuple(Lease, row[:LEASE_WIDTH])
            asked, number, lane_id = row[LEASE_WIDTH:LEASE_END]
            leases[asked - 1] = lease
            given[number] += 1
            self.turns.start(lease.dispatch_id, of[lane_id], drawn_in=arena)
            self._leased[lane_id] += 1
        found_row = next(row for row in rows if row["found_seats"] is not None)
        seen = [0] * len(drawn)
        for number, count, following in zip(
            found_row["found_seats"], found_row["found_counts"] or (), found_row["found_next"] or (), strict=True
        ):
            seen[number] = count
            if following is not None:
                drawn[number][0].oldest = following
        learned = False
        for (seat, count), got, rows_seen in zip(drawn, given, seen, strict=True):
            if got < count:
                arena.take_back(seat, count - got)
                learned = learned or rows_seen < count + spare
            # The seat has no rows left, or other processes are taking the last ones at this moment.
            if rows_seen <= got or (got < count and rows_seen < count + spare):
                self.turns.leave(tuple(seat.lanes.values()), moment)
            for _ in range(got - count):
                arena.start_of(seat)
        return Round(found_row["asking"], leases, learned)

    async def _look(self, arena: Arena) -> None:
        """Reads which lanes have work, and which closed bounds have room again."""
        criteria = arena.criteria
        arena.is_unsure = False
        try:
            async with self._central.connection() as connection:
                rows = await SQL["lanes_with_work"].rows(
                    connection,
                    workflow_ids=list(criteria.workflow_ids),
                    stage=criteria.stage,
                    providers=list(criteria.providers),
                )
                room = await self._room(connection, arena.closed) if arena.closed else {}
        except BaseException:
            arena.is_unsure = True
            raise
        for row in rows:
            self.turns.arrive(lane_of(row), row["dispatch_id"])
        for bound, free in room.items():
            if free > 0:
                arena.open(bound)

    async def _see(self) -> None:
        moment = self.turns.begin_to_look()
        async with self._central.connection() as connection:
            rows = await SQL["in_flight"].rows(connection)
        lanes = {row["lane_id"]: row for row in rows}
        known = {lane_id: lane_of(row) for lane_id, row in lanes.items()}
        self.turns.see({row["dispatch_id"]: known[row["lane_id"]] for row in rows}, moment)

    async def _raise_worn(self) -> None:
        """Raises the marks of the lanes that this process leased many rows from. Not of all lanes: each raised mark
        leaves a dead row, and while a long session blocks vacuum, every lease scans those."""
        worn = sorted(lane_id for lane_id, rows in self._leased.items() if rows >= WORN_ROWS)
        for lane_id in worn:
            del self._leased[lane_id]
        if worn:
            await self.raise_low_water(worn)

    def _forget_the_past(self, now: float) -> None:
        for arena in tuple(self.turns.arenas):
            if self._used.get(arena.criteria, now) < now - SETTLE_SECONDS:
                self.turns.drop(arena)
                self._used.pop(arena.criteria, None)
            else:
                arena.forget_the_past()

    async def _locked_room(self, connection: Connection, wanted: Iterable[Bound]) -> dict[Bound, int]:
        wanted = tuple(wanted)
        await SQL["lock_bounds"].rows(
            connection,
            identifiers=[bound.identifier for bound in wanted if bound.identifier],
            tenant_ids=[*{bound.tenant_id for bound in wanted if bound.tenant_id}],
        )
        return await self._room(connection, wanted)

    async def _room(self, connection: Connection, wanted: Iterable[Bound]) -> dict[Bound, int]:
        """How many more jobs of each bound may be in flight."""
        wanted = tuple(wanted)
        users = [bound for bound in wanted if bound.user_id]
        rows = await SQL["count_bounds"].rows(
            connection,
            identifiers=[bound.identifier for bound in wanted if bound.identifier],
            tenant_ids=[bound.tenant_id for bound in wanted if bound.tenant_id and not bound.user_id],
            users_tenants=[bound.tenant_id for bound in users],
            users=[bound.user_id for bound in users],
        )
        counted = {Bound(row["identifier"] or "", row["tenant_id"], row["user_id"]): row for row in rows}
        return {bound: self._most(bound, row) - row["in_use"] for bound, row in counted.items()}

    def _most(self, bound: Bound, row: asyncpg.Record) -> int:
        most: int | None = row["most"]
        if bound.tenant_id is not None:
            terms = self._terms_of(bound.tenant_id)
            most = terms.max_running_per_user if bound.user_id else terms.max_running
        return UNBOUNDED if most is None else most

    def _terms_of(self, tenant_id: UUID) -> Terms:
        if self._terms is None or tenant_id == EVERYBODY:
            return Terms() if tenant_id == EVERYBODY else self.default_terms
        return self._terms.get(tenant_id, self.default_terms)

    def _bounds_of(self, entry: Entry) -> tuple[Bound, ...]:
        terms = self._terms_of(entry.tenant_id)
        return bounds(entry.concurrency_identifier, entry.tenant_id, entry.user_id, terms)


async def _run_take(
    connection: Connection,
    drawn: Sequence[tuple[Seat, int]],
    asking: Sequence[Asking],
    spare: int,
    now: datetime | None,
) -> list[asyncpg.Record]:
    lane_ids: list[int] = []
    seats: list[int] = []
    wanted: list[int] = []
    for number, (seat, count) in enumerate(drawn):
        seat.taking += count
        lane_ids += seat.lanes
        seats += [number] * len(seat.lanes)
        wanted += [count] * len(seat.lanes)
    # Default values are not sent: each element of an array costs half a microsecond here.
    has_one_each = seats == list(range(len(drawn)))
    try:
        return await SQL["take"].rows(
            connection,
            lane_ids=lane_ids,
            seats=[] if has_one_each else seats,
            wanted=[] if has_one_each and len(drawn) == len(asking) else wanted,
            workers=[worker_id for worker_id, _ in asking],
            poll_ids=unless_all_none([poll_id for _, poll_id in asking]),
            tokens=new_tokens(len(asking)),
            spare=spare,
            now=now,
        )
    finally:
        for seat, count in drawn:
            seat.taking -= count


class given_back_on_error:  # noqa: N801 (a context manager, as in contextlib)
    """If the statement fails, the drawn jobs no longer count as in flight."""

    def __init__(self, arena: Arena, drawn: Sequence[tuple[Seat, int]]):
        self._arena = arena
        self._drawn = drawn

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            for seat, count in self._drawn:
                self._arena.take_back(seat, count)


def lane_of(row: Row) -> Lane:
    return Lane(*map(row.__getitem__, LANE_FIELDS))


def new_tokens(count: int) -> list[UUID]:
    """Random UUIDs (version 4) from one call of `urandom`: this takes a fifth of the time of `uuid4` calls."""
    length = 16 * count
    bits = int.from_bytes(urandom(length), "big") & int.from_bytes(RANDOM_BITS * count, "big")
    drawn = (bits | int.from_bytes(VERSION_BITS * count, "big")).to_bytes(length, "big")
    return [QuickUUID(drawn[start : start + 16]) for start in range(0, length, 16)]


def unless_all_none(values: list[str | None]) -> list[str | None]:
    """For an array that is read by index: an empty array means the same, and costs nothing to send."""
    return values if any(values) else []


def _either(value: int | None, otherwise: int | None) -> int | None:
    return otherwise if value is None else value
