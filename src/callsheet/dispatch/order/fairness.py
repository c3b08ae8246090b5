"""The rule of the queue that decides whose turn it is, without a clock and without a database.

Within a priority, the next job is from the tenant with the fewest jobs in flight relative to its weight; then from the
tenant that was served least recently; then the oldest job. The same rule applies between the users of a tenant, with
equal weights.

"Recently" is counted in turns: each job moves its tenant forward by 1 / weight turns. So a tenant of weight 3 is served
three times as often as one of weight 1 even if nothing is in flight to compare, as with a single worker. A tenant that
gets new work starts at the current turn: turns cannot be saved up.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
# Smallest first: jobs in flight relative to weight, turn, number of the draw that served it last, oldest job.
Order = tuple[float, float, int, int]
ORDER_WIDTH = 4


@dataclass(slots=True)
class Contender:
    """A tenant, or a user of a tenant, that competes for the workers with others."""

    weight: float = 1.0
    in_flight: int = 0
    turn: float = 0.0
    # The number of the draw that served it last; 0: none yet.
    served: int = 0
    # The id of its oldest job when it last got work after having none.
    oldest: int = 0
    # How often in a row another equally due contender went first because of warm models (`affinity`).
    passed: int = 0

    def order(self) -> Order:
        return self.in_flight / self.weight, self.turn, self.served, self.oldest


class Turn:
    """The current turn of a group of contenders."""

    __slots__ = ("_draws", "_now")

    def __init__(self) -> None:
        self._now = 0.0
        self._draws = 0

    def arrive(self, contender: Contender, oldest: int) -> None:
        """Adds a contender that had no work before and has some now."""
        contender.turn = max(contender.turn, self._now)
        contender.oldest = oldest

    def serve(self, contender: Contender, count: int = 1) -> None:
        """Serves `count` jobs of the contender, one after the other."""
        step = 1 / contender.weight
        # Start at the current turn: turns are not saved up while a long job runs.
        if contender.turn < self._now:
            contender.turn = self._now
        contender.turn += count * step
        self._now = contender.turn - step
        self._draws += count
        contender.served = self._draws
        contender.passed = 0
        contender.in_flight += count

    def undo(self, contender: Contender, count: int = 1) -> None:
        """Takes back the serving of a contender that had no job left."""
        contender.turn -= count / contender.weight
        contender.in_flight -= count

    def is_like_new(self, contender: Contender) -> bool:
        """Whether the contender can be forgotten, because a new contender would be treated the same."""
        return contender.in_flight == 0 and contender.turn <= self._now


@dataclass(slots=True, eq=False)
class Member(Generic[Name]):
    name: Name
    contender: Contender
    # The number of the member's valid entry in the heap; 0 after the member was removed.
    number: int = 0


class Ranking(Generic[Name]):
    """Finds the member with the smallest order among many members whose orders change often. A member whose order
    became larger keeps its place in the heap until it is first. A member whose order became smaller (`moved_up`)
    gets a second entry; its first entry becomes invalid.
    """

    __slots__ = ("_heap", "_members", "_number")

    def __init__(self) -> None:
        self._members: dict[Name, Member[Name]] = {}
        # The order is stored as four parts, because heaps compare a nested tuple twice. Each entry has a unique number,
        # so two members are never compared.
        self._heap: list[tuple[float, float, int, int, int, Member[Name]]] = []
        self._number = 0

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __len__(self) -> int:
        return len(self._members)

    def put(self, name: Name, contender: Contender) -> None:
        if name not in self._members:
            member = self._members[name] = Member(name, contender)
            self._push(member)

    def moved_up(self, name: Name) -> None:
        member = self._members.get(name)
        if member is not None:
            self._push(member)

    def remove(self, name: Name) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            member.number = 0

    def first(self) -> tuple[Order, Name] | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            number, member = entry[4], entry[5]
            if member.number != number:
                heappop(heap)
                continue
            present = member.contender.order()
            if present <= entry[:ORDER_WIDTH]:
                return present, member.name
            heapreplace(heap, (*present, number, member))
        return None

    def equally_due(self, limit: int) -> list[Name]:
        """The first member, and in order those after it with equal jobs in flight (relative to weight) and the same
        turn.
        """
        taken: list[tuple[float, float, int, int, int, Member[Name]]] = []
        due: list[Name] = []
        equal: tuple[float, float] | None = None
        while len(due) < limit and (first := self.first()) is not None:
            order, name = first
            if equal is not None and order[:2] != equal:
                break
            equal = order[:2]
            due.append(name)
            taken.append(heappop(self._heap))
        for entry in taken:
            heappush(self._heap, entry)
        return due

    def _push(self, member: Member[Name]) -> None:
        self._number = member.number = self._number + 1
        heappush(self._heap, (*member.contender.order(), member.number, member))
        if len(self._heap) > 4 * len(self._members) + 64:
            self._heap = sorted((*each.contender.order(), each.number, each) for each in self._members.values())
