"""Which tenants and users wait for the same workers, and which lanes a lease takes next.

A lease asks this module which lanes to read, and takes their heads from the database: the cost is the same for one
waiting tenant or ten thousand. The state here decides only the order. It may lag behind other control planes: they
send notifications about new work, and a lease that finds too little work here reads the database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.affinity import Cold, Limits, pass_over, reachable, warm_workflows, warmest
from callsheet.dispatch.facts import Criteria, Lane, Route
from callsheet.dispatch.fairness import Contest, Order, Share, Turn


class Bound(NamedTuple):
    """A subject with a limit of jobs in flight: a concurrency identifier, a tenant, or a user of a tenant."""

    identifier: str = ""
    tenant_id: UUID | None = None
    user_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """A tenant's share of the workers: its weight, and how many of its jobs may run at once."""

    weight: float = 1.0
    max_running: int | None = None
    max_running_per_user: int | None = None


TermsOf = Callable[[UUID], Terms]


def bounds(identifier: str, tenant_id: UUID, user_id: UUID, terms: Terms) -> tuple[Bound, ...]:
    """The bounds that limit how many of these jobs may be in flight."""
    found = [Bound(identifier)] if identifier else []
    if terms.max_running is not None:
        found.append(Bound(tenant_id=tenant_id))
    if terms.max_running_per_user is not None:
        found.append(Bound(tenant_id=tenant_id, user_id=user_id))
    return tuple(found)


class Tenant:
    """A tenant in one arena: its share, and the shares of its users."""

    __slots__ = ("lines", "seats", "share", "tenant_id", "turn", "users")

    def __init__(self, tenant_id: UUID):
        self.tenant_id = tenant_id
        self.share = Share()
        self.users: dict[UUID, Share] = {}
        self.turn = Turn()
        # The lines in which the tenant waits, and how many seats each of its users has.
        self.lines: list[Line] = []
        self.seats: dict[UUID, int] = {}

    def user(self, user_id: UUID) -> Share:
        share = self.users.get(user_id)
        if share is None:
            share = self.users[user_id] = Share()
        return share


@dataclass(slots=True, eq=False)
class Seat:
    """The lanes of one user in one line. Jobs of all these lanes are taken in the order of their ids."""

    tenant: Tenant
    user_id: UUID
    user: Share
    line: Line
    bounds: tuple[Bound, ...] = ()
    lanes: dict[int, Lane] = field(default_factory=dict)
    # As far as this process knows, no job of the seat has a smaller id.
    oldest: int = 0
    # How many of its jobs the current draw wants.
    wanted: int = 0
    # How often in a row a job with loaded models was preferred to its oldest job.
    passed: int = 0
    # How many jobs the running statements of this process are taking.
    taking: int = 0

    @property
    def tenant_id(self) -> UUID:
        return self.tenant.tenant_id


class Bench:
    """The seats of one tenant in one line. Most tenants have one user there, so they need no contest."""

    __slots__ = ("_contest", "seats")

    def __init__(self) -> None:
        self.seats: dict[UUID, Seat] = {}
        self._contest: Contest[UUID] | None = None

    def __len__(self) -> int:
        """How many seats may be served."""
        return len(self.seats if self._contest is None else self._contest)

    def add(self, seat: Seat) -> None:
        self.seats[seat.user_id] = seat
        if self._contest is not None:
            self._contest.put(seat.user_id, seat.user)
        elif len(self.seats) > 1:
            self._compete()

    def remove(self, seat: Seat) -> None:
        del self.seats[seat.user_id]
        if self._contest is not None:
            self._contest.remove(seat.user_id)

    def close(self, user_id: UUID) -> None:
        if self._contest is None:
            self._compete()
        assert self._contest is not None
        self._contest.remove(user_id)

    def open(self, user_id: UUID) -> None:
        if self._contest is not None and user_id in self.seats:
            self._contest.put(user_id, self.seats[user_id].user)

    def moved_up(self, user_id: UUID) -> None:
        if self._contest is not None:
            self._contest.moved_up(user_id)

    def first(self) -> Seat:
        if self._contest is None:
            for seat in self.seats.values():
                return seat
        assert self._contest is not None
        first = self._contest.first()
        assert first is not None
        return self.seats[first[1]]

    def equally_due(self, most: int) -> list[Seat]:
        """The first seat and those that are as due, in order."""
        if self._contest is None:
            return [self.first()]
        return [self.seats[user_id] for user_id in self._contest.equally_due(most)]

    def _compete(self) -> None:
        self._contest = Contest()
        for seat in self.seats.values():
            self._contest.put(seat.user_id, seat.user)


class Line:
    """The tenants that wait at one priority with one concurrency identifier."""

    __slots__ = ("benches", "bound", "priority", "seats", "tenants")

    def __init__(self, priority: int, identifier: str):
        self.priority = priority
        self.bound = Bound(identifier)
        self.tenants: Contest[UUID] = Contest()
        self.benches: dict[UUID, Bench] = {}
        self.seats = 0


class Arena:
    """Everything that one kind of worker may run."""

    def __init__(self, criteria: Criteria, terms_of: TermsOf):
        self.criteria = criteria
        self._terms_of = terms_of
        # By priority, the highest first; then by identifier.
        self._levels: dict[int, dict[str, Line]] = {}
        self._tenants: dict[UUID, Tenant] = {}
        self._turn = Turn()
        self.closed: set[Bound] = set()
        # Whether there may be lanes with work that this arena does not know.
        self.is_unsure = True

    @property
    def tenants_known(self) -> int:
        return len(self._tenants)

    def arrive(self, lane: Lane, oldest: int) -> None:
        """The lane has work; its oldest job has this id."""
        line = self._line(lane.priority, lane.concurrency_identifier)
        bench = line.benches.get(lane.tenant_id)
        seat = bench.seats.get(lane.user_id) if bench is not None else None
        if seat is None:
            seat = self._sit_down(line, lane.tenant_id, lane.user_id, oldest)
        seat.lanes[lane.lane_id] = lane
        if oldest < seat.oldest:
            # A notification only gave an estimated id; now the id was read from the database.
            seat.oldest = oldest
            seat.user.oldest = min(seat.user.oldest, oldest)
            seat.tenant.share.oldest = min(seat.tenant.share.oldest, oldest)
            self._moved_up(seat.tenant, seat.user_id)

    def leave(self, lane: Lane) -> None:
        """The lane has no work."""
        line = self._levels.get(lane.priority, {}).get(lane.concurrency_identifier)
        bench = line.benches.get(lane.tenant_id) if line is not None else None
        seat = bench.seats.get(lane.user_id) if bench is not None else None
        if seat is not None and seat.lanes.pop(lane.lane_id, None) is not None and not seat.lanes:
            self._stand_up(seat)

    def start(self, lane: Lane) -> None:
        """A job of the lane is in flight that was not drawn in this arena."""
        tenant = self._tenant(lane.tenant_id)
        tenant.share.in_flight += 1
        tenant.user(lane.user_id).in_flight += 1

    def start_of(self, seat: Seat) -> None:
        """A job of the seat is in flight beyond the number that was drawn."""
        seat.tenant.share.in_flight += 1
        seat.user.in_flight += 1

    def end(self, lane: Lane) -> None:
        """A job of the lane that was in flight has ended, or is in the queue again."""
        tenant = self._tenant(lane.tenant_id)
        share, user = tenant.share, tenant.user(lane.user_id)
        if share.in_flight:
            share.in_flight -= 1
        if user.in_flight:
            user.in_flight -= 1
        self._moved_up(tenant, lane.user_id)
        if self.closed:
            self.open(Bound(tenant_id=lane.tenant_id))
            self.open(Bound(tenant_id=lane.tenant_id, user_id=lane.user_id))

    def draw(self, wanted: int, room: MutableMapping[Bound, int] | None = None) -> list[tuple[Seat, int]]:
        """The next seats, and how many jobs of each; these jobs count as in flight from now on. `room`: how many more
        jobs each bound allows; without it, bounds are not checked. If the next seat has a bound that is not in `room`,
        nothing is drawn."""
        drawn: list[Seat] = []
        uncounted: list[Bound] = []
        while wanted:
            seat = self._first() if room is None else self._next(room, uncounted)
            if seat is None:
                break
            if not seat.wanted:
                drawn.append(seat)
            line, tenant = seat.line, seat.tenant
            # If only one seat waits at its priority, it is next again each time.
            is_alone = line.seats == 1 and not seat.bounds and len(self._levels[line.priority]) == 1
            count = wanted if is_alone else 1
            wanted -= count
            seat.wanted += count
            seat.passed = 0
            self._turn.serve(tenant.share, count)
            tenant.turn.serve(seat.user, count)
        counts = [(seat, seat.wanted) for seat in drawn]
        for seat, count in counts:
            seat.wanted = 0
            if uncounted:
                self.take_back(seat, count)
        return [] if uncounted else counts

    def draw_warm(self, cold: Cold, limits: Limits) -> tuple[Seat, dict[int, Lane]] | None:
        """Draws one of the equally due jobs whose models are loaded (see `affinity`): its seat, and the lanes to take
        it from. The job counts as in flight from now on. None, and nothing is drawn, if the next seat has a bound or
        the choice is the same as that of `draw`."""
        first = self._first()
        if first is None or first.bounds:
            return None
        seat = self._warmest(first, cold, limits)
        wanted = warm_workflows([lane.workflow_id for lane in seat.lanes.values()], cold)
        if seat.passed >= limits.most_passed:
            wanted = None
        if seat is first and wanted is None:
            return None
        seat.passed = 0 if wanted is None else seat.passed + 1
        self._turn.serve(seat.tenant.share)
        seat.tenant.turn.serve(seat.user)
        lanes = seat.lanes.items()
        return seat, {key: lane for key, lane in lanes if wanted is None or lane.workflow_id in wanted}

    def _warmest(self, first: Seat, cold: Cold, limits: Limits) -> Seat:
        line = first.line
        tenants = [self._tenants[tenant_id] for tenant_id in line.tenants.equally_due(limits.look_ahead)]
        tenants_due = reachable([tenant.share for tenant in tenants], limits.most_passed)
        candidates: list[Seat] = []
        for tenant in tenants[: len(tenants_due)]:
            seats = line.benches[tenant.tenant_id].equally_due(limits.look_ahead - len(candidates))
            reached = reachable([seat.user for seat in seats], limits.most_passed)
            candidates += [seat for seat in seats[: len(reached)] if not seat.bounds]
            if len(candidates) >= limits.look_ahead:
                break
        chosen = warmest(candidates, _workflows_of, cold)
        pass_over(tenants_due, chosen.tenant.share)
        pass_over([seat.user for seat in candidates if seat.tenant is chosen.tenant], chosen.user)
        return chosen

    def take_back(self, seat: Seat, count: int) -> None:
        """`count` draws of the seat did not get a job."""
        self._turn.take_back(seat.tenant.share, count)
        seat.tenant.turn.take_back(seat.user, count)
        self._moved_up(seat.tenant, seat.user_id)

    def close(self, bound: Bound) -> None:
        """The bound is reached."""
        self.closed.add(bound)
        self._bound_changed(bound)

    def open(self, bound: Bound) -> None:
        if bound in self.closed:
            self.closed.remove(bound)
            self._bound_changed(bound)

    def open_all(self) -> None:
        for bound in tuple(self.closed):
            self.open(bound)

    def terms_changed(self) -> None:
        """Applies changed weights and bounds of tenants."""
        self.open_all()
        for tenant in self._tenants.values():
            tenant.share.weight = self._terms_of(tenant.tenant_id).weight
            for line in tenant.lines:
                for seat in line.benches[tenant.tenant_id].seats.values():
                    seat.bounds = self._bounds(line, tenant.tenant_id, seat.user_id)
                line.tenants.moved_up(tenant.tenant_id)

    def lanes(self) -> Iterator[Lane]:
        for tenant in self._tenants.values():
            for line in tenant.lines:
                for seat in line.benches[tenant.tenant_id].seats.values():
                    yield from seat.lanes.values()

    def forget_the_past(self) -> None:
        """Forgets tenants and users without work, without jobs in flight and without a future turn."""
        for tenant in tuple(self._tenants.values()):
            for user_id, user in tuple(tenant.users.items()):
                if user_id not in tenant.seats and tenant.turn.is_like_new(user):
                    del tenant.users[user_id]
            if not tenant.lines and self._turn.is_like_new(tenant.share):
                del self._tenants[tenant.tenant_id]

    def _next(self, room: MutableMapping[Bound, int], uncounted: list[Bound]) -> Seat | None:
        while True:
            seat = self._first()
            if seat is None or not seat.bounds:
                return seat
            refused = [bound for bound in seat.bounds if room.get(bound, 0) <= 0]
            if not refused:
                for bound in seat.bounds:
                    room[bound] -= 1
                return seat
            for bound in refused:
                if bound in room:
                    self.close(bound)
                else:
                    uncounted.append(bound)
            if uncounted:
                return None

    def _first(self) -> Seat | None:
        for level in self._levels.values():
            if len(level) == 1 and not self.closed:
                # The usual case: one line, so there is nothing to compare.
                [line] = level.values()
                first = line.tenants.first()
                if first is not None:
                    return line.benches[first[1]].first()
                continue
            best: Order | None = None
            found: Seat | None = None
            for line in level.values():
                if self.closed and line.bound in self.closed:
                    continue
                first = line.tenants.first()
                if first is None:
                    continue
                order, tenant_id = first
                seat = line.benches[tenant_id].first()
                if best is None or found is None or (order, seat.oldest) < (best, found.oldest):
                    best, found = order, seat
            if found is not None:
                return found
        return None

    def _line(self, priority: int, identifier: str) -> Line:
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = {}
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        line = level.get(identifier)
        if line is None:
            line = level[identifier] = Line(priority, identifier)
        return line

    def _sit_down(self, line: Line, tenant_id: UUID, user_id: UUID, oldest: int) -> Seat:
        tenant = self._tenant(tenant_id)
        if not tenant.lines:
            self._turn.arrive(tenant.share, oldest)
        if user_id not in tenant.seats:
            tenant.turn.arrive(tenant.user(user_id), oldest)
        tenant.seats[user_id] = tenant.seats.get(user_id, 0) + 1
        bench = line.benches.get(tenant_id)
        if bench is None:
            bench = line.benches[tenant_id] = Bench()
            tenant.lines.append(line)
        bounds = self._bounds(line, tenant_id, user_id)
        seat = Seat(tenant, user_id, tenant.user(user_id), line, bounds, oldest=oldest)
        bench.add(seat)
        line.seats += 1
        if self.closed and Bound(tenant_id=tenant_id, user_id=user_id) in self.closed:
            bench.close(user_id)
        self._enter(line, tenant)
        return seat

    def _stand_up(self, seat: Seat) -> None:
        line, tenant, user_id = seat.line, seat.tenant, seat.user_id
        tenant.seats[user_id] -= 1
        if not tenant.seats[user_id]:
            del tenant.seats[user_id]
        line.seats -= 1
        bench = line.benches[tenant.tenant_id]
        bench.remove(seat)
        if not bench.seats:
            del line.benches[tenant.tenant_id]
            tenant.lines.remove(line)
            line.tenants.remove(tenant.tenant_id)
            if not line.benches:
                level = self._levels[line.priority]
                del level[line.bound.identifier]
                if not level:
                    del self._levels[line.priority]
        else:
            self._enter(line, tenant)

    def _tenant(self, tenant_id: UUID) -> Tenant:
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            tenant = self._tenants[tenant_id] = Tenant(tenant_id)
            tenant.share.weight = self._terms_of(tenant_id).weight
        return tenant

    def _moved_up(self, tenant: Tenant, user_id: UUID) -> None:
        for line in tenant.lines:
            line.tenants.moved_up(tenant.tenant_id)
            line.benches[tenant.tenant_id].moved_up(user_id)

    def _bound_changed(self, bound: Bound) -> None:
        tenant = self._tenants.get(bound.tenant_id) if bound.tenant_id else None
        if tenant is None:
            return
        for line in tenant.lines:
            if bound.user_id:
                bench = line.benches[tenant.tenant_id]
                change = bench.close if bound in self.closed else bench.open
                change(bound.user_id)
            self._enter(line, tenant)

    def _enter(self, line: Line, tenant: Tenant) -> None:
        """Puts the tenant into the contest, or removes it if neither it nor any of its users may be served."""
        is_closed = self.closed and Bound(tenant_id=tenant.tenant_id) in self.closed
        if is_closed or not len(line.benches[tenant.tenant_id]):
            line.tenants.remove(tenant.tenant_id)
        else:
            line.tenants.put(tenant.tenant_id, tenant.share)

    def _bounds(self, line: Line, tenant_id: UUID, user_id: UUID) -> tuple[Bound, ...]:
        return bounds(line.bound.identifier, tenant_id, user_id, self._terms_of(tenant_id))


class Turns:
    """The arenas of this control plane. The first lease with new criteria creates an arena."""

    def __init__(self, terms_of: TermsOf):
        self._terms_of = terms_of
        self._arenas: dict[Criteria, Arena] = {}
        self._on_route: dict[Route, list[Arena]] = {}
        # Each dispatch in flight: its lane, and the moment at which it was first seen in flight.
        self._held: dict[int, tuple[Lane, int]] = {}
        # Dispatches that ended since `begin_to_look`; None if no look is in progress.
        self._ended: set[int] | None = None
        # The moment of each lane's latest arrival.
        self._arrived: dict[int, int] = {}
        self._youngest = 0
        self.moment = 0

    def arena(self, criteria: Criteria) -> Arena:
        arena = self._arenas.get(criteria)
        if arena is None:
            arena = self._arenas[criteria] = Arena(criteria, self._terms_of)
            for route in _routes(criteria):
                self._on_route.setdefault(route, []).append(arena)
            for lane, _ in self._held.values():
                if criteria.matches(*lane.route):
                    arena.start(lane)
        return arena

    @property
    def arenas(self) -> Collection[Arena]:
        return self._arenas.values()

    def drop(self, arena: Arena) -> None:
        """Drops an arena for which no worker has polled lately."""
        for lane in tuple(arena.lanes()):
            self._arrived.pop(lane.lane_id, None)
        del self._arenas[arena.criteria]
        for route in _routes(arena.criteria):
            self._on_route[route].remove(arena)
            if not self._on_route[route]:
                del self._on_route[route]

    def arrive(self, lane: Lane, oldest: int | None = None) -> None:
        """The lane has work; its oldest job has this id. None: the job is younger than all known jobs."""
        if oldest is None:
            oldest = self._youngest + 1
        self._youngest = max(self._youngest, oldest)
        arenas = self._on_route.get(lane.route)
        if not arenas:
            return
        self.moment += 1
        self._arrived[lane.lane_id] = self.moment
        for arena in arenas:
            arena.arrive(lane, oldest)

    def leave(self, lanes: Iterable[Lane], moment: int) -> None:
        """The lanes had no work at that moment. A lane that got work since then stays."""
        for lane in lanes:
            if self._arrived.get(lane.lane_id, 0) <= moment:
                self._arrived.pop(lane.lane_id, None)
                for arena in self._on_route.get(lane.route, ()):
                    arena.leave(lane)

    def free(self, workflow_id: int, stage: str, provider: str) -> None:
        """A slot of a bound may be free for jobs of this route."""
        for arena in self._on_route.get((workflow_id, stage, provider), ()):
            arena.open_all()

    def start(self, dispatch_id: int, lane: Lane, drawn_in: Arena | None = None) -> None:
        if dispatch_id in self._held:
            return
        self.moment += 1
        self._held[dispatch_id] = lane, self.moment
        if self._ended is not None:
            self._ended.discard(dispatch_id)
        for arena in self._on_route.get(lane.route, ()):
            if arena is not drawn_in:
                arena.start(lane)

    def end(self, dispatch_id: int) -> None:
        held = self._held.pop(dispatch_id, None)
        if held is None:
            return
        if self._ended is not None:
            self._ended.add(dispatch_id)
        for arena in self._on_route.get(held[0].route, ()):
            arena.end(held[0])

    def begin_to_look(self) -> int:
        """Called before all dispatches in flight are read. Returns the moment."""
        self._ended = set()
        return self.moment

    def see(self, held: Mapping[int, Lane], moment: int) -> None:
        """Applies the dispatches of all control planes in flight at that moment. Changes here since then are kept."""
        ended, self._ended = self._ended or set(), None
        for dispatch_id, (_, since) in tuple(self._held.items()):
            if since <= moment and dispatch_id not in held:
                self.end(dispatch_id)
        for dispatch_id, lane in held.items():
            if dispatch_id not in ended:
                self.start(dispatch_id, lane)

    def be_unsure(self) -> None:
        """Notifications may have been missed."""
        for arena in self._arenas.values():
            arena.is_unsure = True
            arena.open_all()

    def terms_changed(self) -> None:
        for arena in self._arenas.values():
            arena.terms_changed()


def _workflows_of(seat: Seat) -> Iterable[int]:
    return (lane.workflow_id for lane in seat.lanes.values())


def _routes(criteria: Criteria) -> Iterable[Route]:
    return product(dict.fromkeys(criteria.workflow_ids), (criteria.stage,), dict.fromkeys(criteria.providers))
