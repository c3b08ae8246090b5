"""Tenants and users that wait for the same workers, and the limits that apply to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import Lane
from callsheet.dispatch.order.fairness import Contender, Ranking, Turn


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


class TenantInView:
    """A tenant in one view, and its users."""

    __slots__ = ("contender", "lines", "queue_counts", "tenant_id", "turn", "users")

    def __init__(self, tenant_id: UUID):
        self.tenant_id = tenant_id
        self.contender = Contender()
        self.users: dict[UUID, Contender] = {}
        self.turn = Turn()
        # The lines in which the tenant waits, and how many user queues each of its users has.
        self.lines: list[WaitingTenants] = []
        self.queue_counts: dict[UUID, int] = {}

    def user(self, user_id: UUID) -> Contender:
        user = self.users.get(user_id)
        if user is None:
            user = self.users[user_id] = Contender()
        return user


@dataclass(slots=True, eq=False)
class UserQueue:
    """The lanes of one user in one line. Jobs of all these lanes are taken in the order of their ids."""

    tenant: TenantInView
    user_id: UUID
    user: Contender
    line: WaitingTenants
    bounds: tuple[Bound, ...] = ()
    lanes: dict[int, Lane] = field(default_factory=dict)
    # No job of the user queue has a smaller id, as far as this process knows.
    oldest: int = 0
    # How many jobs of the queue the current draw wants.
    wanted: int = 0
    # How often in a row a job with loaded models was preferred to its oldest job.
    passed: int = 0
    # How many jobs the running statements of this process are taking.
    taking: int = 0

    @property
    def tenant_id(self) -> UUID:
        return self.tenant.tenant_id


class TenantQueue:
    """The queues of one tenant's users in one line. Most tenants have one user there, so they need no ranking."""

    __slots__ = ("_ranking", "user_queues")

    def __init__(self) -> None:
        self.user_queues: dict[UUID, UserQueue] = {}
        self._ranking: Ranking[UUID] | None = None

    def __len__(self) -> int:
        """The number of user queues that may be served."""
        return len(self.user_queues if self._ranking is None else self._ranking)

    def add(self, queue: UserQueue) -> None:
        self.user_queues[queue.user_id] = queue
        if self._ranking is not None:
            self._ranking.put(queue.user_id, queue.user)
        elif len(self.user_queues) > 1:
            self._rank()

    def remove(self, queue: UserQueue) -> None:
        del self.user_queues[queue.user_id]
        if self._ranking is not None:
            self._ranking.remove(queue.user_id)

    def close(self, user_id: UUID) -> None:
        if self._ranking is None:
            self._rank()
        assert self._ranking is not None
        self._ranking.remove(user_id)

    def open(self, user_id: UUID) -> None:
        if self._ranking is not None and user_id in self.user_queues:
            self._ranking.put(user_id, self.user_queues[user_id].user)

    def moved_up(self, user_id: UUID) -> None:
        if self._ranking is not None:
            self._ranking.moved_up(user_id)

    def first(self) -> UserQueue:
        if self._ranking is None:
            for queue in self.user_queues.values():
                return queue
        assert self._ranking is not None
        first = self._ranking.first()
        assert first is not None
        return self.user_queues[first[1]]

    def equally_due(self, limit: int) -> list[UserQueue]:
        """The first user queue and those that are as due, in order."""
        if self._ranking is None:
            return [self.first()]
        return [self.user_queues[user_id] for user_id in self._ranking.equally_due(limit)]

    def _rank(self) -> None:
        self._ranking = Ranking()
        for queue in self.user_queues.values():
            self._ranking.put(queue.user_id, queue.user)


class WaitingTenants:
    """The tenants that wait at one priority with one concurrency identifier."""

    __slots__ = ("bound", "priority", "tenant_queues", "tenants", "user_queue_count")

    def __init__(self, priority: int, identifier: str):
        self.priority = priority
        self.bound = Bound(identifier)
        self.tenants: Ranking[UUID] = Ranking()
        self.tenant_queues: dict[UUID, TenantQueue] = {}
        self.user_queue_count = 0
