"""Anything, in any order, at once, with crashes between any two commits: G1-G5 and G8 hold after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import note, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule

from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.settings import Settings
from callsheet.wire.errors import Refusal
from callsheet.wire.jobs import TERMINAL
from tests.chaos.core_choices import choose
from tests.chaos.core_operations import CAP, IDENTIFIER, Operation, World, next_job_id
from tests.chaos.core_state import State, read_state
from tests.chaos.state_machines import SEEDS, MachineEnvironment, play
from tests.support.database.installation import empty
from tests.support.jobs.budgets import add_budget
from tests.support.jobs.core import Core, open_core
from tests.support.jobs.crashes import CORE_FAILPOINTS, crashed_at

PLANES = strategies.integers(0, 1)
TOKENS = 20


class CoreEnvironment(MachineEnvironment):
    """The environment of the machine of the core: how an example starts, and how its control planes do."""

    async def begin(self) -> World:
        """An empty installation with three people, two of them of one tenant."""
        await empty(self.databases)
        core = open_core(self.databases)
        ann, bob = await core.member("pool_1", TOKENS), await core.member("pool_2", TOKENS)
        members = [ann, bob, await core.member(tenant=ann, tokens=TOKENS)]
        for each in (ann, bob):
            await core.credit(each.tenant, TOKENS)
        # They have room for everything. The check of the ledger finds what is taken or given back wrongly.
        for member in members:
            await add_budget(member, limit=10**9, user_id=member.user_id)
            await add_budget(member, limit=10**9, period="week", time_zone="Europe/Berlin")
        return World(members, [await core.add_workflow(), await core.add_workflow()])

    def plane(self) -> Core:
        """A control plane that has just been started. In the order of arrival, which the model can predict."""
        return open_core(self.databases, active_per_user=CAP, order="first_in_first_out")


class CoreMachine(RuleBasedStateMachine):
    def __init__(self, core_environment: CoreEnvironment):
        super().__init__()
        self.core_environment = core_environment
        self.steps = 0
        self.random = Random(0)
        self.planes = [core_environment.plane(), core_environment.plane()]
        self.world = self._run(core_environment.begin())
        self.state = self._run(read_state(core_environment.databases))

    @rule(seed=SEEDS, plane=PLANES)
    def alone(self, seed: int, plane: int) -> None:
        """Exactly what the model says happens, and nothing else."""
        operation = self._choose(seed)
        response = self._run(self._response(operation, plane))
        expected = deepcopy(self.state)
        operation.predict(expected, self.world, response)
        self._observe()
        assert self.state == expected

    @rule(seed=SEEDS, plane=PLANES)
    def crashing(self, seed: int, plane: int) -> None:
        operation = self._choose(seed, crashable=True)
        point = self.random.choice(operation.points)
        if self._run(crashed_at(point, self._response(operation, plane))):
            note(f"crashed at {point}")
            # The process is gone, with everything it had in memory; the other one has noticed nothing.
            self.planes[plane] = self.core_environment.plane()
        self._observe()

    @rule(seed=SEEDS, others=strategies.lists(SEEDS, min_size=1, max_size=3), plane=PLANES)
    def overtaken(self, seed: int, others: list[int], plane: int) -> None:
        """One stalls between two commits while others go on; then it comes back."""
        operation = self._choose(seed, crashable=True)
        self._run(self._stall(operation, self.random.choice(operation.points), others, plane))
        self._observe()

    async def _stall(self, operation: Operation, point: Failpoint, others: list[int], plane: int) -> None:
        stalled, over = asyncio.Event(), asyncio.Event()

        async def stall(point: Failpoint) -> None:
            stalled.set()
            await over.wait()

        with armed({point: stall}):
            slow = asyncio.create_task(self._response(operation, plane))
        arriving = asyncio.create_task(stalled.wait())
        await asyncio.wait({slow, arriving}, return_when=asyncio.FIRST_COMPLETED)
        arriving.cancel()
        for seed in others:
            self.state = await read_state(self.core_environment.databases)
            await self._response(self._choose(seed), 1 - plane)
        over.set()
        await slow

    @rule(seeds=strategies.tuples(SEEDS, SEEDS), planes=strategies.tuples(PLANES, PLANES))
    def together(self, seeds: tuple[int, int], planes: tuple[int, int]) -> None:
        operations = [self._choose(seed) for seed in seeds]

        async def both() -> None:
            await asyncio.gather(*map(self._response, operations, planes))

        self._run(both())
        self._observe()

    def _choose(self, seed: int, *, crashable: bool = False) -> Operation:
        # With the step in it: Hypothesis likes to draw the same number again.
        self.steps += 1
        self.random = Random(f"{seed} {self.steps}")
        operation = choose(self.random, self.state, self.world, crashable=crashable)
        note(repr(operation))
        return operation

    async def _response(self, operation: Operation, plane: int) -> object:
        try:
            return await operation.run(self.planes[plane], self.world)
        except Refusal as refusal:
            return refusal

    def _observe(self) -> None:
        before, self.state = self.state, self._run(read_state(self.core_environment.databases))
        self._run(self.planes[0].check())
        assert before.jobs.keys() <= self.state.jobs.keys()
        assert set(self.world.jobs) <= self.state.jobs.keys(), "G1: an acknowledged job is gone"
        for key, job in before.jobs.items():
            now = self.state.jobs[key]
            assert (now.cycle, now.lease_seq) >= (job.cycle, job.lease_seq)
        # A crash may have left a job whose client got no response; its user sees it in the list.
        for key in self.state.jobs:
            self.world.acknowledge(key)

    def teardown(self) -> None:
        """Without further operations and with one worker, everything ends."""

        async def leave() -> State:
            core = self.core_environment.plane()
            await core.room.dispatch.limits.set(IDENTIFIER, 100, "test")
            await core.drain()
            await core.check_drained()
            return await read_state(self.core_environment.databases)

        state = self._run(leave())
        assert all(state.jobs[key].status in TERMINAL for key in self.world.jobs)

    def _run(self, work: object) -> object:
        async def recorded() -> object:
            with armed(dict.fromkeys(CORE_FAILPOINTS, self.core_environment.reach)):
                return await work

        return self.core_environment.runner.run(recorded())


@pytest.fixture
def core_environment(shared_settings: Settings) -> Iterator[CoreEnvironment]:
    core_environment = CoreEnvironment(shared_settings)
    with patch("callsheet.jobs.submit.submission.uuid7", next_job_id.get):
        yield core_environment
    core_environment.close()


def test_g1_to_g5_and_g8_hold_in_a_few_example_sequences(core_environment: CoreEnvironment) -> None:
    play(lambda: CoreMachine(core_environment), examples=6, steps=35)


@pytest.mark.thorough
def test_g1_to_g5_and_g8_hold_after_every_step_and_every_crash(
    core_environment: CoreEnvironment, long_form: bool
) -> None:
    play(
        lambda: CoreMachine(core_environment),
        examples=400 if long_form else 60,
        steps=60 if long_form else 35,
        explore=long_form,
    )
    # No database loses its last changes here. tests/integration/test_failpoints_core.py crashes after such a loss.
    expected = CORE_FAILPOINTS - {Failpoint.RESTART_BEFORE_POOL}
    assert core_environment.reached == expected, "a failpoint was never reached"
