"""The common part of the state machines that run random actions: their setup, and the actions of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, note, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.settings import Settings
from callsheet.wire.errors import Refusal
from tests.support.jobs.crashes import crashed_at

# What is done follows from a number and the state. The number alone is drawn: operations that run at the same time end
# in any order, and what Hypothesis draws must not depend on that order.
SEEDS = strategies.integers(0, 2**32 - 1)


class MachineEnvironment:
    """The databases and the event loop all examples are played on."""

    def __init__(self, shared: Settings):
        # Its own loop: connections belong to one, and Hypothesis is not asynchronous.
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.databases: Databases = self.runner.run(open_databases(shared))
        self.reached: set[Failpoint] = set()

    async def reach(self, point: Failpoint) -> None:
        self.reached.add(point)

    def close(self) -> None:
        self.runner.run(self.databases.close())
        self.runner.close()


def play(machine: Callable[[], RuleBasedStateMachine], examples: int, steps: int, *, explore: bool = False) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=not explore,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )


class Simulation(Protocol):
    """All participants at two control planes, what they know, and what they can do."""

    planes: list[Any]

    async def begin(self) -> None: ...
    async def prepare(self, plane: Any, random: Random, step: Any) -> None:
        """So that there is something to crash at."""
        ...

    async def restart(self, place: int) -> None: ...
    async def check(self) -> object: ...
    async def run_to_the_end(self) -> None:
        """Without further operations, everything ends."""
        ...

    async def close(self) -> None: ...


Played = TypeVar("Played", bound=Simulation)
Step = Callable[[Any, Any, Random], Awaitable[None]]


class SimulationMachine(RuleBasedStateMachine, Generic[Played]):
    # What can crash where, and how often it shall.
    points: ClassVar[Mapping[Any, Sequence[Failpoint]]]
    crashes: ClassVar[Mapping[Any, float]]
    every_point: ClassVar[frozenset[Failpoint]]
    refusals: ClassVar[tuple[type[Exception], ...]] = (Refusal,)

    def __init__(self, machine_environment: MachineEnvironment, simulation: Played):
        super().__init__()
        self.machine_environment = machine_environment
        self.steps = 0
        self.simulation = simulation
        machine_environment.runner.run(self.simulation.begin())

    def chosen(self, random: Random) -> Step:
        """What has something to work on, rather than what has not: lives shall come far."""
        raise NotImplementedError

    @rule(seed=SEEDS)
    def something(self, seed: int) -> None:
        random = self.random_of(seed)
        self.run(self.step(random.randrange(2), random, self.chosen(random)))

    @rule(seed=SEEDS)
    def something_that_crashes(self, seed: int) -> None:
        random = self.random_of(seed)
        step = self.crashing(random)
        self.run(self._crash(random.randrange(2), random, step, random.choice(self.points[step])))

    @rule(seeds=strategies.tuples(SEEDS, SEEDS))
    def two_things_at_once(self, seeds: tuple[int, int]) -> None:
        randoms = [self.random_of(seed) for seed in seeds]

        async def both() -> None:
            await asyncio.gather(
                *(self.step(place, random, self.chosen(random)) for place, random in enumerate(randoms))
            )

        self.run(both())

    def crashing(self, random: Random) -> Step:
        return random.choices(list(self.crashes), list(self.crashes.values()))[0]  # type: ignore[no-any-return]

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        async def recorded() -> None:
            with armed(dict.fromkeys(self.every_point, self.machine_environment.reach)):
                await work
            await self.simulation.check()

        self.machine_environment.runner.run(recorded())

    async def _crash(self, place: int, random: Random, step: Step, point: Failpoint) -> None:
        await self.simulation.prepare(self.simulation.planes[place], random, step)
        if await crashed_at(point, self.step(place, random, step)):
            note(f"crashed at {point}")
            await self.machine_environment.reach(point)
            await self.simulation.restart(place)

    async def step(self, place: int, random: Random, step: Step) -> None:
        note(step.__name__)
        try:
            await step(self.simulation, self.simulation.planes[place], random)
        except self.refusals as refusal:
            note(repr(refusal))

    def random_of(self, seed: int) -> Random:
        # With the step in it: Hypothesis likes to draw the same number again.
        self.steps += 1
        return Random(f"{seed} {self.steps}")

    def teardown(self) -> None:
        async def leave() -> None:
            try:
                await self.simulation.run_to_the_end()
            finally:
                await self.simulation.close()

        self.machine_environment.runner.run(leave())
