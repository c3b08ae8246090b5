"""Runs of pipelines: anything in any order at two control planes, with crashes between any two commits.

After every step every tree is exact and every token accounted for; left alone, every job ends and no run stands still
without saying why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, note, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from callsheet.plumbing.databases import open_databases
from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.settings import Settings
from callsheet.toolbox.together import first_of
from callsheet.wire.errors import Refusal
from tests.chaos.pipeline_scene import CRASHES, EVERY_POINT, LAST_POINTS, POINTS, STEPS, PipelineScene, Step
from tests.support.crashes import crashed_at

SEEDS = strategies.integers(0, 2**32 - 1)


class Ground:
    def __init__(self, shared: Settings, home: Path):
        # Its own loop: connections belong to one, and Hypothesis is not asynchronous.
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.home = home
        self.databases = self.runner.run(open_databases(shared))
        self.reached: set[Failpoint] = set()

    async def reach(self, point: Failpoint) -> None:
        self.reached.add(point)

    def close(self) -> None:
        self.runner.run(self.databases.close())
        self.runner.close()


class PipelineMachine(RuleBasedStateMachine):
    def __init__(self, ground: Ground):
        super().__init__()
        self.ground = ground
        self.steps = 0
        self.scene = PipelineScene(ground.databases, ground.home)
        ground.runner.run(self.scene.begin())

    @rule(seed=SEEDS)
    def something(self, seed: int) -> None:
        random = self._random(seed)
        self._run(self._step(random.randrange(2), random, _chosen(random, self.scene)))

    @rule(seed=SEEDS)
    def something_that_crashes(self, seed: int) -> None:
        random = self._random(seed)
        step = random.choices(list(CRASHES), list(CRASHES.values()))[0]
        self._run(self._crash(random.randrange(2), random, step, random.choice(POINTS[step])))

    @rule(seed=SEEDS)
    def something_that_stands_still_while_others_go_on(self, seed: int) -> None:
        random = self._random(seed)
        step = random.choices(list(CRASHES), list(CRASHES.values()))[0]
        # Rather at the last point before a write, where most may have changed since it looked.
        point = LAST_POINTS[step] if random.random() < 0.5 else random.choice(POINTS[step])
        self._run(self._stand_still(random.randrange(2), random, step, point))

    @rule(seeds=strategies.tuples(SEEDS, SEEDS))
    def two_things_at_once(self, seeds: tuple[int, int]) -> None:
        randoms = [self._random(seed) for seed in seeds]

        async def both() -> None:
            await asyncio.gather(
                *(self._step(place, random, _chosen(random, self.scene)) for place, random in enumerate(randoms))
            )

        self._run(both())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        async def recorded() -> None:
            with armed(dict.fromkeys(EVERY_POINT, self.ground.reach)):
                await work
            await self.scene.check()

        self.ground.runner.run(recorded())

    async def _crash(self, place: int, random: Random, step: Step, point: Failpoint) -> None:
        await self.scene.prepare(self.scene.planes[place], random, step)
        if await crashed_at(point, self._step(place, random, step)):
            note(f"crashed at {point}")
            await self.ground.reach(point)
            await self.scene.restart(place)

    async def _stand_still(self, place: int, random: Random, step: Step, point: Failpoint) -> None:
        await self.scene.prepare(self.scene.planes[place], random, step)
        reached, released = asyncio.Event(), asyncio.Event()

        async def stall(point: Failpoint) -> None:
            await self.ground.reach(point)
            reached.set()
            await released.wait()

        with armed({point: stall}):
            standing = asyncio.create_task(self._step(place, random, step))
        await first_of(standing, event=reached)
        # Rather the same: that is where they meet.
        for _ in range(random.randrange(1, 4) if reached.is_set() else 0):
            is_same = random.random() < 0.6
            if is_same:
                await self.scene.prepare(self.scene.planes[1 - place], random, step)
            await self._step(1 - place, random, step if is_same else _chosen(random, self.scene))
        note(f"{step.__name__} goes on from {point}")
        released.set()
        await standing

    async def _step(self, place: int, random: Random, step: Step) -> None:
        note(step.__name__)
        try:
            await step(self.scene, self.scene.planes[place], random)
        except Refusal as refusal:
            note(repr(refusal))

    def _random(self, seed: int) -> Random:
        # With the step in it: Hypothesis likes to draw the same number again.
        self.steps += 1
        return Random(f"{seed} {self.steps}")

    def teardown(self) -> None:
        async def leave() -> None:
            try:
                await self.scene.come_home()
            finally:
                await self.scene.close()

        self.ground.runner.run(leave())


def _chosen(random: Random, scene: PipelineScene) -> Step:
    """What has something to work on, rather than what has not: trees shall grow."""
    needs = {PipelineScene.report: scene.held, PipelineScene.undo: scene.votes}
    weights = {step: weight if needs.get(step, True) else 0 for step, weight in STEPS}
    return random.choices(list(weights), list(weights.values()))[0]


@pytest.fixture
def ground(shared_settings: Settings, tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(shared_settings, tmp_path)
    yield ground
    ground.close()


def test_every_tree_is_exact_whatever_happens_to_runs_and_no_run_stands_still_without_a_word(
    ground: Ground, long_form: bool
) -> None:
    run_state_machine_as_test(
        lambda: PipelineMachine(ground),
        settings=settings(
            max_examples=60 if long_form else 5,
            stateful_step_count=100 if long_form else 50,
            derandomize=not long_form,
            deadline=None,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
    assert ground.reached == EVERY_POINT, "a failpoint was never reached"
