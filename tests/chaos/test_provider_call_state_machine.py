"""Jobs of a provider that calls back: anything in any order, with crashes between any two commits.

G1-G5 and G8 hold after every step; left alone, every job ends, every call with it, and the provider was asked once per
charge cycle.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from uuid import UUID

import pytest

from callsheet.jobs.lease.outcomes import Failure
from callsheet.jobs.lease.provider_gate import CallReport, ProviderPaused
from callsheet.media.storage import open_storage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Callback, Generation
from callsheet.settings import Settings
from callsheet.webhooks.room import WebhooksRoom
from callsheet.wire.errors import Refusal
from tests.chaos.state_machines import MachineEnvironment, SimulationMachine, play
from tests.support.database.installation import empty
from tests.support.jobs.core import AFTER_EVERY_DEADLINE, Core, Member, open_core, report
from tests.support.providers.memory_provider import NAME, MemoryProvider
from tests.support.providers.provider_calls import SECRET, SubmittedCall
from tests.support.rooms import webhooks_room


class Plane:
    """A control plane that has just been started, and the worker beside it."""

    def __init__(self, databases: Databases, chosen: Settings, memory_provider: MemoryProvider, workflow: int):
        self.core: Core = open_core(databases, active_per_user=100)
        self.core.workflow = workflow
        self.storage = open_storage(chosen, SECRET, None)
        self.room: WebhooksRoom = webhooks_room(
            databases, self.storage, self.core.room, chosen, {NAME: memory_provider}, secret=SECRET
        )

    async def work(self) -> None:
        for _ in range(3):
            await self.room.calls.tick(datetime.now(UTC))
            await self.room.calls.settled()

    async def close(self) -> None:
        await self.room.close()
        await self.storage.close()


class CallSimulation:
    """All participants: what they know, and what they can do."""

    def __init__(self, databases: Databases, chosen: Settings):
        self.databases = databases
        self.chosen = chosen
        self.memory_provider = MemoryProvider()
        self.jobs: list[UUID] = []
        self.handed: list[SubmittedCall] = []
        # Handed over, and what the provider called it.
        self.called: list[tuple[SubmittedCall, str]] = []
        self.workflow = 0
        self.planes: list[Plane] = []

    async def begin(self) -> None:
        await empty(self.databases)
        core = await open_core(self.databases).prepare()
        self.workflow = core.workflow
        self.ann: Member = await core.member("pool_1", 50)
        self.planes = [self.plane(), self.plane()]
        for _ in range(3):
            await self.submit(self.planes[0], Random(0))

    def plane(self) -> Plane:
        return Plane(self.databases, self.chosen, self.memory_provider, self.workflow)

    async def prepare(self, plane: Plane, random: Random, step: object) -> None:
        if step is CallSimulation.work:
            await self.end(plane, random)
            await self.hurry()

    async def restart(self, place: int) -> None:
        await self.planes[place].close()
        self.planes[place] = self.plane()

    async def check(self) -> None:
        await self.planes[0].core.check()

    async def close(self) -> None:
        for plane in self.planes:
            await plane.close()

    async def submit(self, plane: Plane, random: Random) -> None:
        job = await plane.core.submit(self.ann, provider=NAME, kind="task", cost=3, max_attempts=3)
        self.jobs.append(job.id)

    async def hand_over(self, plane: Plane, random: Random) -> None:
        criteria = plane.room.gate.narrowed(plane.core.criteria(providers=(NAME,)))
        started = await plane.core.lease("worker", criteria) if criteria.providers else None
        if started is None:
            return
        try:
            address = await plane.room.gate.admit(started.lease)
        except ProviderPaused:
            await plane.core.room.starter.return_lease(started)
            return
        assert address is not None
        self.handed.append(SubmittedCall(started, address))

    async def call(self, plane: Plane, random: Random) -> None:
        """A worker calls while it holds its lease; one whose call fails says so."""
        if not self.handed:
            return
        handed = self.handed.pop(random.randrange(len(self.handed)))
        lease = handed.started.lease
        known = await plane.core.queue.find(lease.dispatch_id)
        if known is None or known.lease_token != lease.lease_token or known.finished:
            return
        callback = Callback(handed.callback.url, handed.callback.may_exist)
        try:
            found = await self.memory_provider.find(callback) if callback.may_exist else None
            prediction = found or await self.memory_provider.submit(Generation("say"), callback)
        except ProviderUnavailable as error:
            outcome = await plane.core.room.leases.fail(
                report(handed.started), Failure(error.type, error.message, retryable=True)
            )
            if outcome.settled is not None:
                await plane.room.gate.record(CallReport("failed", outcome.settled, error.type, error.message))
            return
        self.called.append((handed, prediction.id))

    async def defer(self, plane: Plane, random: Random) -> None:
        if not self.called:
            return
        # Mostly the newest, which still holds its lease.
        handed, prediction_id = self.called[-1] if random.random() < 0.7 else random.choice(self.called)
        expires = datetime.now(UTC) + timedelta(hours=1)
        outcome = await plane.core.room.leases.defer(report(handed.started), prediction_id, expires)
        if outcome.settled is not None:
            await plane.room.gate.record(CallReport("deferred", outcome.settled))

    async def end(self, plane: Plane, random: Random) -> None:
        running = [each.id for each in self.memory_provider.predictions.values() if each.status == "running"]
        if running:
            self.memory_provider.end(
                random.choice(running), random.choice(("succeeded", "succeeded", "failed", "canceled"))
            )

    async def call_back(self, plane: Plane, random: Random) -> None:
        """The callback is early, late, repeated, sent to the URL of another job, or unsigned."""
        if not self.called:
            return
        handed, prediction_id = random.choice(self.called)
        address = random.choice(self.called)[0] if random.random() < 0.2 else handed
        headers = {"signed": "no" if random.random() < 0.1 else "yes", "webhook-id": f"msg-{random.randrange(3)}"}
        await plane.room.callbacks.receive(NAME, address.callback_id, headers, json.dumps(prediction_id).encode())

    async def work(self, plane: Plane, random: Random) -> None:
        if random.random() < 0.7:
            await self.hurry()
        await plane.work()

    async def hurry(self) -> None:
        query = "UPDATE provider_calls SET next_at = clock_timestamp() WHERE work IS NOT NULL"
        await self.planes[0].core.rows(self.databases.central, query)

    async def cancel(self, plane: Plane, random: Random) -> None:
        if self.jobs:
            job_id = random.choice(self.jobs)
            await plane.core.room.cancellation.cancel(self.ann.tenant_id, job_id, actor="user")

    async def retry(self, plane: Plane, random: Random) -> None:
        if self.jobs:
            await plane.core.room.retries.retry(self.ann.tenant_id, random.choice(self.jobs), actor="user")

    async def lose_time(self, plane: Plane, random: Random) -> None:
        """A lease or a wait runs out, pauses are over."""
        query = "SELECT dispatch_id FROM ai_job_dispatches WHERE status <> 'queued'"
        rows = await plane.core.rows(self.databases.central, query)
        if rows:
            await plane.core.expire_lease(random.choice(rows)["dispatch_id"])
        await plane.core.rows(
            self.databases.central, "UPDATE provider_breakers SET open_until = now() WHERE open_until IS NOT NULL"
        )
        await plane.room.breakers.refresh([NAME])
        await plane.core.reap()
        await plane.core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)

    async def go_down_or_up(self, plane: Plane, random: Random) -> None:
        self.memory_provider.is_down = not self.memory_provider.is_down

    async def run_to_the_end(self) -> None:
        """Left alone with a provider that is well: every job ends, and every call with it."""
        plane, random = self.plane(), Random(1)
        self.memory_provider.is_down = False
        try:
            for _ in range(60):
                await plane.core.relay()
                await self.lose_leases(plane)
                await self.hand_over(plane, random)
                while self.handed:
                    await self.call(plane, random)
                for handed, prediction_id in self.called:
                    try:
                        await plane.core.room.leases.defer(
                            report(handed.started), prediction_id, datetime.now(UTC) + timedelta(hours=1)
                        )
                    except Refusal:
                        continue
                await self.hurry()
                await plane.work()
                await self.end_all()
                await self.hurry()
                await plane.work()
                open_calls = "SELECT 1 FROM provider_calls WHERE work IS NOT NULL"
                hot = "SELECT 1 FROM ai_job_dispatches"
                if not any([await plane.core.rows(self.databases.central, each) for each in (open_calls, hot)]):
                    break
            await plane.core.check_drained()
            calls = await plane.core.rows(self.databases.central, "SELECT * FROM provider_calls")
            assert [dict(call) for call in calls if call["work"] is not None] == []
            # Each charge cycle is paid once, and no prediction without a waiting job goes on.
            assert [url for url, times in Counter(self._urls()).items() if times > 1] == []
            assert [each for each in self.memory_provider.predictions.values() if each.status == "running"] == []
        finally:
            await plane.close()

    async def lose_leases(self, plane: Plane) -> None:
        leased = "SELECT dispatch_id FROM ai_job_dispatches WHERE status = 'leased'"
        for row in await plane.core.rows(self.databases.central, leased):
            await plane.core.expire_lease(row["dispatch_id"])
        await plane.core.reap()
        await plane.core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
        await plane.core.rows(self.databases.central, "DELETE FROM provider_breakers")
        await plane.room.breakers.refresh([NAME])

    async def end_all(self) -> None:
        """Ends the predictions that a dispatch waits for; the control plane has to cancel the others."""
        waiting = "SELECT provider_job_id FROM ai_job_dispatches WHERE status = 'waiting'"
        for row in await self.planes[0].core.rows(self.databases.central, waiting):
            self.memory_provider.end(row["provider_job_id"], "succeeded")

    def _urls(self) -> Iterator[str | None]:
        return (each.callback_url for each in self.memory_provider.predictions.values())


Step = Callable[[CallSimulation, Plane, Random], Awaitable[None]]
STEPS: tuple[tuple[Step, int], ...] = (
    (CallSimulation.submit, 2),
    (CallSimulation.hand_over, 8),
    (CallSimulation.call, 10),
    (CallSimulation.defer, 8),
    (CallSimulation.end, 5),
    (CallSimulation.call_back, 6),
    (CallSimulation.work, 7),
    (CallSimulation.cancel, 1),
    (CallSimulation.retry, 2),
    (CallSimulation.lose_time, 2),
    (CallSimulation.go_down_or_up, 1),
)

# Where each can crash.
POINTS: dict[Step, tuple[Failpoint, ...]] = {
    CallSimulation.hand_over: (Failpoint.WEBHOOK_INTENT_BEFORE_RESPONSE,),
    CallSimulation.defer: (Failpoint.WEBHOOK_DEFER_BEFORE_CALL,),
    CallSimulation.call_back: (Failpoint.WEBHOOK_CALLBACK_BEFORE_RESPONSE,),
    CallSimulation.work: (
        Failpoint.WEBHOOK_STATUS_BEFORE_RECORD,
        Failpoint.WEBHOOK_COLLECT_BEFORE_COMPLETE,
        Failpoint.WEBHOOK_COMPLETE_BEFORE_END,
        Failpoint.WEBHOOK_CANCEL_BEFORE_END,
        Failpoint.COMPLETE_BEFORE_CLOSE,
        Failpoint.FAIL_BEFORE_CLOSE,
    ),
    CallSimulation.cancel: (Failpoint.CANCEL_BEFORE_RELAY,),
}
EVERY_POINT = frozenset(point for points in POINTS.values() for point in points)


class CallMachine(SimulationMachine[CallSimulation]):
    points = POINTS
    crashes: ClassVar[dict[Any, float]] = {step: len(points) ** 1.5 for step, points in POINTS.items()}
    every_point = EVERY_POINT
    refusals = (Refusal, ProviderError)

    def chosen(self, random: Random) -> Step:
        simulation = self.simulation
        needs = {
            CallSimulation.call: simulation.handed,
            CallSimulation.defer: simulation.called,
            CallSimulation.call_back: simulation.called,
            CallSimulation.end: [
                each for each in simulation.memory_provider.predictions.values() if each.status == "running"
            ],
        }
        weights = {step: weight if needs.get(step, True) else 0 for step, weight in STEPS}
        if simulation.memory_provider.is_down:
            weights[CallSimulation.go_down_or_up] = 5
        return random.choices(list(weights), list(weights.values()))[0]


@pytest.fixture
def machine_environment(shared_settings: Settings) -> Iterator[MachineEnvironment]:
    machine_environment = MachineEnvironment(shared_settings)
    yield machine_environment
    machine_environment.close()


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    webhooks = {"first_poll_seconds": 600, "breaker_failures": 2, "breaker_pause_seconds": 600}
    return Settings.model_validate({"home": tmp_path, "webhooks": webhooks})


def test_g1_to_g5_and_g8_hold_in_one_example_sequence_of_callback_jobs(
    machine_environment: MachineEnvironment, chosen: Settings
) -> None:
    play(
        lambda: CallMachine(machine_environment, CallSimulation(machine_environment.databases, chosen)),
        examples=1,
        steps=50,
    )


@pytest.mark.thorough
def test_g1_to_g5_and_g8_hold_for_jobs_that_end_by_a_callback(
    machine_environment: MachineEnvironment, chosen: Settings, long_form: bool
) -> None:
    play(
        lambda: CallMachine(machine_environment, CallSimulation(machine_environment.databases, chosen)),
        examples=200 if long_form else 20,
        steps=80 if long_form else 50,
        explore=long_form,
    )
    assert machine_environment.reached == EVERY_POINT, "a failpoint was never reached"
