"""Runs of pipelines: anything in any order at two control planes, with crashes between any two commits.

After every step every tree is exact and every token accounted for; without further operations, every job ends and no
run stops without a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import note
from hypothesis.stateful import rule

from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.settings import Settings
from callsheet.toolbox.concurrently import first_of
from tests.chaos.pipeline_simulation import CRASHES, EVERY_POINT, LAST_POINTS, POINTS, STEPS, PipelineSimulation, Step
from tests.chaos.state_machines import SEEDS, MachineEnvironment, SimulationMachine, play


class PipelineMachine(SimulationMachine[PipelineSimulation]):
    points = POINTS
    crashes = CRASHES
    every_point = EVERY_POINT

    def chosen(self, random: Random) -> Step:
        needs = {PipelineSimulation.report: self.simulation.held, PipelineSimulation.undo: self.simulation.votes}
        weights = {step: weight if needs.get(step, True) else 0 for step, weight in STEPS}
        return random.choices(list(weights), list(weights.values()))[0]

    @rule(seed=SEEDS)
    def something_that_pauses_while_others_go_on(self, seed: int) -> None:
        random = self.random_of(seed)
        step = self.crashing(random)
        # Rather at the last point before a write, where most may have changed since it looked.
        point = LAST_POINTS[step] if random.random() < 0.5 else random.choice(POINTS[step])
        self.run(self._pause(random.randrange(2), random, step, point))

    async def _pause(self, place: int, random: Random, step: Step, point: Failpoint) -> None:
        await self.simulation.prepare(self.simulation.planes[place], random, step)
        reached, released = asyncio.Event(), asyncio.Event()

        async def stall(point: Failpoint) -> None:
            await self.machine_environment.reach(point)
            reached.set()
            await released.wait()

        with armed({point: stall}):
            standing = asyncio.create_task(self.step(place, random, step))
        await first_of(standing, event=reached)
        # Rather the same: that is where they meet.
        for _ in range(random.randrange(1, 4) if reached.is_set() else 0):
            is_same = random.random() < 0.6
            if is_same:
                await self.simulation.prepare(self.simulation.planes[1 - place], random, step)
            await self.step(1 - place, random, step if is_same else self.chosen(random))
        note(f"{step.__name__} goes on from {point}")
        released.set()
        await standing


@pytest.fixture
def machine_environment(shared_settings: Settings) -> Iterator[MachineEnvironment]:
    machine_environment = MachineEnvironment(shared_settings)
    yield machine_environment
    machine_environment.close()


def test_every_tree_is_exact_in_one_example_sequence(machine_environment: MachineEnvironment, tmp_path: Path) -> None:
    play(
        lambda: PipelineMachine(machine_environment, PipelineSimulation(machine_environment.databases, tmp_path)),
        examples=1,
        steps=50,
    )


@pytest.mark.thorough
def test_every_tree_is_exact_whatever_happens_to_runs_and_no_run_stops_without_a_reason(
    machine_environment: MachineEnvironment, tmp_path: Path, long_form: bool
) -> None:
    play(
        lambda: PipelineMachine(machine_environment, PipelineSimulation(machine_environment.databases, tmp_path)),
        examples=60 if long_form else 5,
        steps=100 if long_form else 50,
        explore=long_form,
    )
    assert machine_environment.reached == EVERY_POINT, "a failpoint was never reached"
