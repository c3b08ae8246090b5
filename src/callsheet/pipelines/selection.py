"""What a run does next: a pure function of what is known about it. The same run, votes and seed choose the same.

Two questions, because the second needs rows that only the first can name: which step's candidates are to have children,
or whether a new base is due (`next_group`); and which of them has one now (`Draw.parent`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from random import Random

from callsheet.wire.pipelines import Strategy

# random() returns multiples of this, and is the one method whose sequence Python promises to keep.
_RESOLUTION = 2**53


class Mode(StrEnum):
    CHILD_GENERATION = "child_generation"
    BASE_GENERATION = "base_generation"
    NO_WORK = "no_work"


class Idle(StrEnum):
    """Why there is no work."""

    DONE = "done"
    WAITING = "waiting"
    APPROVAL_NEEDED = "approval_needed"


@dataclass(frozen=True, slots=True)
class StepState:
    """One step of a run, from the first to the last."""

    position: int
    has_eligible: bool
    """Whether a candidate of it may have one more child; of the best `top_k`, where that counts."""
    in_flight: int = 0
    """Jobs under way that make candidates of this step."""
    is_gated: bool = False
    """Whether its candidates wait for a person's approval."""
    is_narrowed: bool = False
    """Whether only its best go on, however many there are."""


@dataclass(frozen=True, slots=True)
class RunState:
    strategy: Strategy
    target_leaves: int
    leaves: int
    """Active candidates of the last step; counting up to the target is enough, and only where no candidate can go
    on."""
    bases: int
    """Active candidates of the first step."""
    steps: Sequence[StepState]

    @property
    def in_flight(self) -> int:
        return sum(step.in_flight for step in self.steps)


@dataclass(frozen=True, slots=True)
class Choice:
    """`position` is that of the parents, for children; the new candidate's is one more."""

    mode: Mode
    position: int = 0
    idle: Idle | None = None


def next_group(run: RunState) -> Choice:
    if run.strategy is Strategy.BREADTH_FIRST:
        return _breadth_first(run)
    return _finish_first(run)


def _finish_first(run: RunState) -> Choice:
    """Depth-first. A new base only where nothing can go on and the leaves, and what is to become one, are too
    few."""
    parents = [step for step in _parents(run) if step.has_eligible]
    open_steps = [step.position for step in parents if not step.is_gated]
    if open_steps:
        return Choice(Mode.CHILD_GENERATION, max(open_steps))
    if parents:
        # Not a new base: it would be before the same gate.
        return Choice(Mode.NO_WORK, idle=Idle.APPROVAL_NEEDED)
    if run.leaves + run.in_flight < run.target_leaves:
        return Choice(Mode.BASE_GENERATION)
    return _rest(run)


def _breadth_first(run: RunState) -> Choice:
    """As many bases as leaves are wanted, then step by step. A step is filled before its best go on, or the candidates
    that come last would never be among them."""
    if run.bases + run.steps[0].in_flight < run.target_leaves:
        return Choice(Mode.BASE_GENERATION)
    for step in _parents(run):
        if step.in_flight:
            return Choice(Mode.NO_WORK, idle=Idle.WAITING)
        if step.has_eligible and step.is_gated:
            return Choice(Mode.NO_WORK, idle=Idle.APPROVAL_NEEDED)
        if step.has_eligible:
            return Choice(Mode.CHILD_GENERATION, step.position)
    if run.leaves + run.in_flight < run.target_leaves and not any(step.is_narrowed for step in _parents(run)):
        # Branches were left alone, or leaves killed. Where only the best go on, a new base need not be among them.
        return Choice(Mode.BASE_GENERATION)
    return _rest(run)


def _parents(run: RunState) -> Iterator[StepState]:
    """Every step but the last: a leaf has no children."""
    return iter(run.steps[:-1])


def _rest(run: RunState) -> Choice:
    return Choice(Mode.NO_WORK, idle=Idle.WAITING if run.in_flight else Idle.DONE)


@dataclass(frozen=True, slots=True)
class Call:
    """A drawn number: the candidate that has it is chosen if it has more points than these."""

    number: int
    points: int


class Draw:
    """The n-th draw of a run: everything about it that is left to chance, and the same every time."""

    def __init__(self, run_seed: int, number: int):
        self._random = Random(f"{run_seed}:{number}")  # noqa: S311 (to be repeated, not to be secret)

    def parent(self, elos: Sequence[int]) -> int:
        """Which one of the parents: a raffle in which each has as many tickets as points of ELO, or one each where
        no candidate has any.

        Their order is part of the draw: they come in the order they were made.
        """
        tickets = list(accumulate(elos))
        chance = self._random.random()
        if not tickets[-1]:
            return int(chance * len(elos))
        return bisect_right(tickets, int(chance * tickets[-1]))

    def calls(self, first: int, last: int, highest: int, count: int) -> list[Call]:
        """The next calls of the same raffle, where there are too many to read their tickets: any number from first to
        last, and any part of the highest ELO.

        Each parent's number comes up as often as any other's, and it is taken in as many of those cases as it has
        points: the chances are those of the tickets.
        """
        return [
            Call(first + self._below(last - first + 1), self._below(highest) if highest else -1) for _ in range(count)
        ]

    def _below(self, most: int) -> int:
        return int(self._random.random() * most)

    def seed(self) -> int:
        """For the engine; asked for after the parent, or without one."""
        return int(self._random.random() * _RESOLUTION)


def first_called(calls: Sequence[Call], elos: Mapping[int, int]) -> int | None:
    """Whose number it was; `elos` of the parents by their numbers, of those at least that were called."""
    return next((call.number for call in calls if elos.get(call.number, -1) > call.points), None)
