"""Chooses the next job of a run. Pure: the same run, votes and seed result in the same choice.

There are two questions, because the second needs rows that only the first can name. `next_group`: does a step's
candidate get a child, or is a new base due? `Draw.parent`: which candidate of that step gets the child?
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from random import Random

from callsheet.wire.pipelines.pipelines import Strategy

# random() returns multiples of this. It is the only method whose sequence Python guarantees to keep.
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
    """Whether a candidate of it may get another child. If only the best become parents: whether one of the best may."""
    in_flight: int = 0
    """Active jobs that make candidates of this step."""
    is_gated: bool = False
    """Whether its candidates wait for a person's approval."""
    is_narrowed: bool = False
    """Whether only its best candidates become parents."""


@dataclass(frozen=True, slots=True)
class RunState:
    strategy: Strategy
    target_leaves: int
    leaves: int
    """Active candidates of the last step, counted up to the target. 0 while another candidate is eligible."""
    bases: int
    """Active candidates of the first step."""
    steps: Sequence[StepState]

    @property
    def in_flight(self) -> int:
        return sum(step.in_flight for step in self.steps)


@dataclass(frozen=True, slots=True)
class Choice:
    """The next job. `position`: the step of the parents. The new candidate belongs to the next step."""

    mode: Mode
    position: int = 0
    idle: Idle | None = None


def next_group(run: RunState) -> Choice:
    if run.strategy is Strategy.BREADTH_FIRST:
        return _breadth_first(run)
    return _finish_first(run)


def _finish_first(run: RunState) -> Choice:
    """Depth-first. A new base is started only if no candidate is eligible, and leaves and active jobs are fewer than
    the target."""
    parents = [step for step in _parents(run) if step.has_eligible]
    open_steps = [step.position for step in parents if not step.is_gated]
    if open_steps:
        return Choice(Mode.CHILD_GENERATION, max(open_steps))
    if parents:
        # A new base would wait for the same approval.
        return Choice(Mode.NO_WORK, idle=Idle.APPROVAL_NEEDED)
    if run.leaves + run.in_flight < run.target_leaves:
        return Choice(Mode.BASE_GENERATION)
    return _rest(run)


def _breadth_first(run: RunState) -> Choice:
    """Breadth-first: first as many bases as leaves are wanted, then step by step. A step is completed before its
    best candidates become parents. Otherwise the candidates that are made last would never be among the best.
    """
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
        # Branches failed or leaves were killed. If only the best candidates become parents, a new base may not be one
        # of them.
        return Choice(Mode.BASE_GENERATION)
    return _rest(run)


def _parents(run: RunState) -> Iterator[StepState]:
    """Every step except the last: a leaf has no children."""
    return iter(run.steps[:-1])


def _rest(run: RunState) -> Choice:
    return Choice(Mode.NO_WORK, idle=Idle.WAITING if run.in_flight else Idle.DONE)


@dataclass(frozen=True, slots=True)
class Sample:
    """A drawn number of a candidate. The sample is accepted if that candidate is eligible and has more points."""

    number: int
    points: int


class Draw:
    """The n-th draw of a run: all its random choices. The same seed and number repeat them."""

    def __init__(self, run_seed: int, number: int):
        self._random = Random(f"{run_seed}:{number}")  # noqa: S311 (to be repeated, not to be secret)

    def parent(self, elos: Sequence[int]) -> int:
        """Chooses one of the parents at random, weighted by ELO: each parent has as many tickets as points, or one
        ticket each if no parent has points.

        `elos` must be in the order in which the parents were created, because the order is part of the draw.
        """
        tickets = list(accumulate(elos))
        chance = self._random.random()
        if not tickets[-1]:
            return int(chance * len(elos))
        return bisect_right(tickets, int(chance * tickets[-1]))

    def samples(self, first: int, last: int, highest: int, count: int) -> list[Sample]:
        """Rejection sampling with the same chances, for parents that are too many to read. Each sample is a number from
        first to last, with a part of the highest ELO.

        All numbers are equally likely, and a parent is accepted in proportion to its points. So the chances are the
        same as with tickets.
        """
        return [
            Sample(first + self._below(last - first + 1), self._below(highest) if highest else -1) for _ in range(count)
        ]

    def _below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def seed(self) -> int:
        """A seed for the engine. It is drawn after the parent, if there is one."""
        return int(self._random.random() * _RESOLUTION)


def first_accepted(samples: Sequence[Sample], elos: Mapping[int, int]) -> int | None:
    """The number of the first accepted sample. `elos`: the points of the eligible parents among them, by number."""
    return next((sample.number for sample in samples if elos.get(sample.number, -1) > sample.points), None)
