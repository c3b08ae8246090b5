"""The part of the queue that one kind of worker may run, and the choice of the lanes for the next lease.

A lease asks this module which lanes to read, and takes their first rows from the database: the cost is the same for one
waiting tenant or ten thousand. The state of this module decides only the order. It may be older than the state of other
control planes: they send notifications about new work, and a lease that finds too little work here reads the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from uuid import UUID

from callsheet.dispatch.facts import Criteria, Lane
from callsheet.dispatch.order.affinity import AffinityLimits, Cold, pass_over, reachable, warm_workflows, warmest
from callsheet.dispatch.order.fairness import Order, Turn
from callsheet.dispatch.order.user_queues import (
    Bound,
    TenantInView,
    TenantQueue,
    TermsOf,
    UserQueue,
    WaitingTenants,
    bounds,
)


class QueueView:
    """Everything that one kind of worker may run."""

    def __init__(self, criteria: Criteria, terms_of: TermsOf):
        self.criteria = criteria
        self._terms_of = terms_of
        # Sorted by priority, the highest first; then by identifier.
        self._levels: dict[int, dict[str, WaitingTenants]] = {}
        self._tenants: dict[UUID, TenantInView] = {}
        self._turn = Turn()
        self.closed: set[Bound] = set()
        # Whether there may be lanes with work that this view does not know.
        self.is_stale = True

    @property
    def tenants_known(self) -> int:
        return len(self._tenants)

    def arrive(self, lane: Lane, oldest: int) -> None:
        """Records that the lane has work. Its oldest job has the id `oldest`."""
        line = self._line(lane.priority, lane.concurrency_identifier)
        tenant_queue = line.tenant_queues.get(lane.tenant_id)
        queue = tenant_queue.user_queues.get(lane.user_id) if tenant_queue is not None else None
        if queue is None:
            queue = self._add_user_queue(line, lane.tenant_id, lane.user_id, oldest)
        queue.lanes[lane.lane_id] = lane
        if oldest < queue.oldest:
            # The notification contained only an estimated id. This id was read from the database.
            queue.oldest = oldest
            queue.user.oldest = min(queue.user.oldest, oldest)
            queue.tenant.contender.oldest = min(queue.tenant.contender.oldest, oldest)
            self._moved_up(queue.tenant, queue.user_id)

    def leave(self, lane: Lane) -> None:
        """Records that the lane has no work."""
        line = self._levels.get(lane.priority, {}).get(lane.concurrency_identifier)
        tenant_queue = line.tenant_queues.get(lane.tenant_id) if line is not None else None
        queue = tenant_queue.user_queues.get(lane.user_id) if tenant_queue is not None else None
        if queue is not None and queue.lanes.pop(lane.lane_id, None) is not None and not queue.lanes:
            self._remove_user_queue(queue)

    def start(self, lane: Lane) -> None:
        """Counts a job of the lane as in flight that was not drawn in this view."""
        tenant = self._tenant(lane.tenant_id)
        tenant.contender.in_flight += 1
        tenant.user(lane.user_id).in_flight += 1

    def start_of(self, queue: UserQueue) -> None:
        """Counts a job of the user queue as in flight, in addition to the drawn jobs."""
        queue.tenant.contender.in_flight += 1
        queue.user.in_flight += 1

    def end(self, lane: Lane) -> None:
        """Records that a job of the lane is no longer in flight: it has ended, or it is in the queue again."""
        tenant = self._tenant(lane.tenant_id)
        contender, user = tenant.contender, tenant.user(lane.user_id)
        if contender.in_flight:
            contender.in_flight -= 1
        if user.in_flight:
            user.in_flight -= 1
        self._moved_up(tenant, lane.user_id)
        if self.closed:
            self.open(Bound(tenant_id=lane.tenant_id))
            self.open(Bound(tenant_id=lane.tenant_id, user_id=lane.user_id))

    def draw(self, wanted: int, free_slots: MutableMapping[Bound, int] | None = None) -> list[tuple[UserQueue, int]]:
        """The next user queues, and how many jobs to take from each. These jobs count as in flight from now on.

        `free_slots`: how many more jobs each bound allows; without it, bounds are not checked. If the next user queue
        has a bound that is not in `free_slots`, nothing is drawn.
        """
        drawn: list[UserQueue] = []
        uncounted: list[Bound] = []
        while wanted:
            queue = self._first() if free_slots is None else self._next(free_slots, uncounted)
            if queue is None:
                break
            if not queue.wanted:
                drawn.append(queue)
            line, tenant = queue.line, queue.tenant
            # A user queue that is alone at its priority is next each time.
            is_alone = line.user_queue_count == 1 and not queue.bounds and len(self._levels[line.priority]) == 1
            count = wanted if is_alone else 1
            wanted -= count
            queue.wanted += count
            queue.passed = 0
            self._turn.serve(tenant.contender, count)
            tenant.turn.serve(queue.user, count)
        counts = [(queue, queue.wanted) for queue in drawn]
        for queue, count in counts:
            queue.wanted = 0
            if uncounted:
                self.undo(queue, count)
        return [] if uncounted else counts

    def draw_warm(self, cold: Cold, limits: AffinityLimits) -> tuple[UserQueue, dict[int, Lane]] | None:
        """Draws one of the equally due jobs whose models are loaded (see `affinity`): its user queue, and the lanes to
        take it from. The job counts as in flight from now on. None, and nothing is drawn, if the next user queue has a
        bound or the choice is the same as that of `draw`."""
        first = self._first()
        if first is None or first.bounds:
            return None
        queue = self._warmest(first, cold, limits)
        wanted = warm_workflows([lane.workflow_id for lane in queue.lanes.values()], cold)
        if queue.passed >= limits.max_passed:
            wanted = None
        if queue is first and wanted is None:
            return None
        queue.passed = 0 if wanted is None else queue.passed + 1
        self._turn.serve(queue.tenant.contender)
        queue.tenant.turn.serve(queue.user)
        lanes = queue.lanes.items()
        return queue, {key: lane for key, lane in lanes if wanted is None or lane.workflow_id in wanted}

    def _warmest(self, first: UserQueue, cold: Cold, limits: AffinityLimits) -> UserQueue:
        line = first.line
        tenants = [self._tenants[tenant_id] for tenant_id in line.tenants.equally_due(limits.look_ahead)]
        tenants_due = reachable([tenant.contender for tenant in tenants], limits.max_passed)
        candidates: list[UserQueue] = []
        for tenant in tenants[: len(tenants_due)]:
            queues = line.tenant_queues[tenant.tenant_id].equally_due(limits.look_ahead - len(candidates))
            reached = reachable([queue.user for queue in queues], limits.max_passed)
            candidates += [queue for queue in queues[: len(reached)] if not queue.bounds]
            if len(candidates) >= limits.look_ahead:
                break
        chosen = warmest(candidates, _workflows_of, cold)
        pass_over(tenants_due, chosen.tenant.contender)
        pass_over([queue.user for queue in candidates if queue.tenant is chosen.tenant], chosen.user)
        return chosen

    def undo(self, queue: UserQueue, count: int) -> None:
        """Takes back `count` draws of the user queue that did not get a job."""
        self._turn.undo(queue.tenant.contender, count)
        queue.tenant.turn.undo(queue.user, count)
        self._moved_up(queue.tenant, queue.user_id)

    def close(self, bound: Bound) -> None:
        """Records that the bound is reached."""
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
            tenant.contender.weight = self._terms_of(tenant.tenant_id).weight
            for line in tenant.lines:
                for queue in line.tenant_queues[tenant.tenant_id].user_queues.values():
                    queue.bounds = self._bounds(line, tenant.tenant_id, queue.user_id)
                line.tenants.moved_up(tenant.tenant_id)

    def lanes(self) -> Iterator[Lane]:
        for tenant in self._tenants.values():
            for line in tenant.lines:
                for queue in line.tenant_queues[tenant.tenant_id].user_queues.values():
                    yield from queue.lanes.values()

    def forget_idle(self) -> None:
        """Forgets tenants and users without work, without jobs in flight and without a future turn."""
        for tenant in tuple(self._tenants.values()):
            for user_id, user in tuple(tenant.users.items()):
                if user_id not in tenant.queue_counts and tenant.turn.is_like_new(user):
                    del tenant.users[user_id]
            if not tenant.lines and self._turn.is_like_new(tenant.contender):
                del self._tenants[tenant.tenant_id]

    def _next(self, free_slots: MutableMapping[Bound, int], uncounted: list[Bound]) -> UserQueue | None:
        while True:
            queue = self._first()
            if queue is None or not queue.bounds:
                return queue
            refused = [bound for bound in queue.bounds if free_slots.get(bound, 0) <= 0]
            if not refused:
                for bound in queue.bounds:
                    free_slots[bound] -= 1
                return queue
            for bound in refused:
                if bound in free_slots:
                    self.close(bound)
                else:
                    uncounted.append(bound)
            if uncounted:
                return None

    def _first(self) -> UserQueue | None:
        for level in self._levels.values():
            if len(level) == 1 and not self.closed:
                # In the usual case there is one line, so there is nothing to compare.
                [line] = level.values()
                first = line.tenants.first()
                if first is not None:
                    return line.tenant_queues[first[1]].first()
                continue
            best: Order | None = None
            found: UserQueue | None = None
            for line in level.values():
                if self.closed and line.bound in self.closed:
                    continue
                first = line.tenants.first()
                if first is None:
                    continue
                order, tenant_id = first
                queue = line.tenant_queues[tenant_id].first()
                if best is None or found is None or (order, queue.oldest) < (best, found.oldest):
                    best, found = order, queue
            if found is not None:
                return found
        return None

    def _line(self, priority: int, identifier: str) -> WaitingTenants:
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = {}
            self._levels = dict(sorted(self._levels.items(), reverse=True))
        line = level.get(identifier)
        if line is None:
            line = level[identifier] = WaitingTenants(priority, identifier)
        return line

    def _add_user_queue(self, line: WaitingTenants, tenant_id: UUID, user_id: UUID, oldest: int) -> UserQueue:
        tenant = self._tenant(tenant_id)
        if not tenant.lines:
            self._turn.arrive(tenant.contender, oldest)
        if user_id not in tenant.queue_counts:
            tenant.turn.arrive(tenant.user(user_id), oldest)
        tenant.queue_counts[user_id] = tenant.queue_counts.get(user_id, 0) + 1
        tenant_queue = line.tenant_queues.get(tenant_id)
        if tenant_queue is None:
            tenant_queue = line.tenant_queues[tenant_id] = TenantQueue()
            tenant.lines.append(line)
        bounds = self._bounds(line, tenant_id, user_id)
        queue = UserQueue(tenant, user_id, tenant.user(user_id), line, bounds, oldest=oldest)
        tenant_queue.add(queue)
        line.user_queue_count += 1
        if self.closed and Bound(tenant_id=tenant_id, user_id=user_id) in self.closed:
            tenant_queue.close(user_id)
        self._enter(line, tenant)
        return queue

    def _remove_user_queue(self, queue: UserQueue) -> None:
        line, tenant, user_id = queue.line, queue.tenant, queue.user_id
        tenant.queue_counts[user_id] -= 1
        if not tenant.queue_counts[user_id]:
            del tenant.queue_counts[user_id]
        line.user_queue_count -= 1
        tenant_queue = line.tenant_queues[tenant.tenant_id]
        tenant_queue.remove(queue)
        if not tenant_queue.user_queues:
            del line.tenant_queues[tenant.tenant_id]
            tenant.lines.remove(line)
            line.tenants.remove(tenant.tenant_id)
            if not line.tenant_queues:
                level = self._levels[line.priority]
                del level[line.bound.identifier]
                if not level:
                    del self._levels[line.priority]
        else:
            self._enter(line, tenant)

    def _tenant(self, tenant_id: UUID) -> TenantInView:
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            tenant = self._tenants[tenant_id] = TenantInView(tenant_id)
            tenant.contender.weight = self._terms_of(tenant_id).weight
        return tenant

    def _moved_up(self, tenant: TenantInView, user_id: UUID) -> None:
        for line in tenant.lines:
            line.tenants.moved_up(tenant.tenant_id)
            line.tenant_queues[tenant.tenant_id].moved_up(user_id)

    def _bound_changed(self, bound: Bound) -> None:
        tenant = self._tenants.get(bound.tenant_id) if bound.tenant_id else None
        if tenant is None:
            return
        for line in tenant.lines:
            if bound.user_id:
                tenant_queue = line.tenant_queues[tenant.tenant_id]
                change = tenant_queue.close if bound in self.closed else tenant_queue.open
                change(bound.user_id)
            self._enter(line, tenant)

    def _enter(self, line: WaitingTenants, tenant: TenantInView) -> None:
        """Puts the tenant into the ranking, or removes it if neither it nor any of its users may be served."""
        is_closed = self.closed and Bound(tenant_id=tenant.tenant_id) in self.closed
        if is_closed or not len(line.tenant_queues[tenant.tenant_id]):
            line.tenants.remove(tenant.tenant_id)
        else:
            line.tenants.put(tenant.tenant_id, tenant.contender)

    def _bounds(self, line: WaitingTenants, tenant_id: UUID, user_id: UUID) -> tuple[Bound, ...]:
        return bounds(line.bound.identifier, tenant_id, user_id, self._terms_of(tenant_id))


def _workflows_of(queue: UserQueue) -> Iterable[int]:
    return (lane.workflow_id for lane in queue.lanes.values())
