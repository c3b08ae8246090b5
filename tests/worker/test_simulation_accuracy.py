"""What the simulator says is what happens: 200 jobs at real time, on a fleet that the autoscaler scales, and replayed.

The machine may be busy with other things, so everything whose duration depends on it is measured in the real run and
given to the replay: when each job arrived and how long it ran, how long each worker took to start, how long a free
worker took to start each job, and when the autoscaler looked. What is compared is what follows from these: which
job waits for which, how many workers there are at each moment, and so how long the jobs wait.

Chance has a part in it too: which of several full workers asks first for a job to prefetch. One replay is one such
course of things, as the real run is. So the real waits are compared with the mean of many replays, each with another
seed, and most jobs come in crowds, all at once, that wait for a place. By the simulator, chance moves the median of
such waits by 2 %, and by 5 % on a machine that is ten times slower. With jobs at a steady pace it was a tenth and more.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.cli.shared.operations_client import OperationsClient
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.scaling.driver import Actual, ScaledFleet
from callsheet.scaling.policy import Policy
from callsheet.toolbox.concurrently import all_of
from callsheet.wire.operate.operations import Dispatch
from callsheet.worker.agent.agent import Agent
from callsheet.worker.agent.config import AgentConfig
from callsheet_simulation.conditions import Conditions
from callsheet_simulation.job_export import read_history
from callsheet_simulation.replay import TraceReplay
from callsheet_simulation.report import waits
from callsheet_simulation.simulated_fleet import SimulatedMachine
from callsheet_simulation.trace import QueueTrace
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.database.installation import isolated_installation
from tests.support.http.accounts import Person
from tests.support.http.worker_harness import WorkerHarness, engine_payload, open_worker_harness

# A crowd at once, then single jobs, twice. Between the two the fleet goes to zero, however long a busy machine takes.
CROWDS, SINGLES = (80, 60), (20, 40)
JOBS = sum(CROWDS) + sum(SINGLES)
SINGLES_PER_SECOND, SUBMITTED_TOGETHER = 0.5, 10
INTERVAL_SECONDS, BOOT_SECONDS = 1.0, 2.0
# Runs take seconds, so that what a busy machine adds to each is little against it.
POLICY = Policy(
    maximum=6,
    target_seconds=6.0,
    warm_up_seconds=60.0,
    scale_out_cooldown_seconds=2.0,
    scale_in_cooldown_seconds=8.0,
    idle_seconds=8.0,
)
REPLAYS = 25
MIN_SECONDS, MAX_SECONDS = 1.5, 4.5
TOLERANCE = 0.2


@dataclass(slots=True)
class AgentDriver:
    """Starts real agents, each with a Lightbox of its own, some seconds after they were ordered."""

    worker_harness: WorkerHarness
    directory: Path
    name: str = "studio"
    agents: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = field(default_factory=dict)
    # When each worker was ordered, in seconds since 1970, and when the autoscaler looked.
    ordered_at: dict[str, float] = field(default_factory=dict)
    checked_at: list[float] = field(default_factory=list)

    about = "Runs simulated workers."

    def options_schema(self) -> Mapping[str, object]:
        return {}

    def checked(self, options: Mapping[str, object]) -> Mapping[str, object]:
        return options

    async def actual(self, fleet: ScaledFleet) -> Actual:
        self.checked_at.append(time.time())
        return Actual(len(self.agents), frozenset(self.agents))

    async def want(self, fleet: ScaledFleet, wanted: int, on_demand: int) -> None:
        while len(self.agents) < wanted:
            worker_id, over = f"studio-{len(self.ordered_at) + 1}", asyncio.Event()
            self.ordered_at[worker_id] = self.checked_at[-1]
            self.agents[worker_id] = asyncio.create_task(self._live(worker_id, fleet, over)), over

    async def end(self, fleet: ScaledFleet, worker_ids: Sequence[str]) -> None:
        for worker_id in worker_ids:
            if worker_id in self.agents:
                task, over = self.agents.pop(worker_id)
                over.set()
                await task

    async def close(self) -> None:
        """Whatever they do: the control plane may be gone."""
        tasks = [task for task, _ in self.agents.values()]
        self.agents.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _live(self, worker_id: str, fleet: ScaledFleet, over: asyncio.Event) -> None:
        await asyncio.sleep(BOOT_SECONDS)
        directory = self.directory / worker_id
        directory.mkdir(parents=True)
        async with lightbox_here(directory / "lightbox") as engine:
            config = AgentConfig(
                api_url=self.worker_harness.plane.settings.public_url,
                worker_id=worker_id,
                secret=self.worker_harness.secret,
                directory=directory / "agent",
                fleet=fleet.slug,
                stage=fleet.stage,
                heartbeat_seconds=5.0,
                stop_seconds=0.0,
                wait_seconds=5.0,
                probe_seconds=1.0,
            )
            agent = Agent(config, [ComfyUI(engine.url, patience=Patience(stall=600, absent=60, poll=1.0))])
            working = asyncio.create_task(agent.run())
            try:
                await over.wait()
                agent.departure.begin("ended", 0)
                await working
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)


@pytest.fixture
async def plane(postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path: Path) -> AsyncIterator[ControlPlane]:
    async with isolated_installation(postgres, templates, tmp_path) as settings:
        scaling = settings.scaling.model_copy(update={"interval_seconds": INTERVAL_SECONDS})
        media = settings.media.model_copy(update={"previews": False})
        jobs = settings.jobs.model_copy(update={"active_per_user": JOBS})
        changed = settings.model_copy(update={"scaling": scaling, "media": media, "jobs": jobs})
        async with running_control_plane(changed) as plane:
            yield plane


def graph(seconds: float, number: int) -> dict[str, Any]:
    made = {"text": "", "seed": 1, "width": 64, "height": 64, "steps": 1}
    return {
        "make": {"class_type": "LightboxTextToImage", "inputs": made},
        "sleep": {
            "class_type": "ProbeSleep",
            "inputs": {"image": ["make", 0], "seconds": seconds, "steps": 2, "preview": False, "salt": str(number)},
        },
        "save": {"class_type": "SaveImage", "inputs": {"images": ["sleep", 0], "filename_prefix": "job"}},
    }


@dataclass(frozen=True, slots=True)
class Measured:
    waits: list[float]
    trace: QueueTrace
    # Of each worker, in the order in which they were ordered.
    starts: list[float]
    # Of each job that a free worker took, by its place in the trace.
    pickups: dict[int, float]
    # Seconds since the arrival of the first job.
    ticks: list[float]
    peak_wanted: int
    scale_ins: int


class MeasuredTimes:
    """Start times of workers, in the order of their orders; the mean for more orders than the real fleet had."""

    def __init__(self, seconds: Sequence[float]):
        self._left = deque(seconds)
        self._mean = statistics.fmean(seconds)

    def draw(self) -> float:
        return self._left.popleft() if self._left else self._mean


class MeasuredReplay(TraceReplay):
    def __init__(self, found: Measured, seed: int):
        self._pickups, self._mean_pickup = found.pickups, statistics.fmean(found.pickups.values())
        self._ticks = found.ticks
        interval = (found.ticks[-1] - found.ticks[0]) / (len(found.ticks) - 1)
        super().__init__(found.trace, POLICY, Conditions(interval, seed=seed))
        self._start_times = MeasuredTimes(found.starts)  # type: ignore[assignment]
        self._next_tick = self._tick_time(0)

    def _pickup_seconds(self, job: int) -> float:
        return self._pickups.get(job, self._mean_pickup)

    def _tick_time(self, number: int) -> float:
        """The real time of the tick; if the replay takes longer than the real run, at the mean interval."""
        more = number - len(self._ticks) + 1
        return self._ticks[number] if more <= 0 else self._ticks[-1] + more * self._conditions.interval_seconds

    def _skip_ticks(self, machines: list[SimulatedMachine]) -> None:
        """Makes every tick: only ticks at even intervals can be left out."""


@dataclass(slots=True)
class Submissions:
    """All jobs of the trace, with run times and people that follow from the seed."""

    worker_harness: WorkerHarness
    people: Sequence[Person]
    random: Random
    count: int = 0

    async def crowd(self, jobs: int) -> None:
        for start in range(0, jobs, SUBMITTED_TOGETHER):
            await all_of(self._submit() for _ in range(min(SUBMITTED_TOGETHER, jobs - start)))

    async def singles(self, jobs: int) -> None:
        for _ in range(jobs):
            await asyncio.sleep(self.random.expovariate(SINGLES_PER_SECOND))
            await self._submit()

    async def until_done(self) -> None:
        query = "SELECT 1 FROM dispatch_history WHERE status = 'completed'"
        while len(await self.worker_harness.central(query)) < self.count:
            await asyncio.sleep(0.5)

    async def _submit(self) -> None:
        self.count += 1
        payload = {
            **engine_payload("unused"),
            "workflow": graph(self.random.uniform(MIN_SECONDS, MAX_SECONDS), self.count),
            "assets": [],
            "output_node_id": "save",
            "output_extension": "png",
            "output_mime_type": "image/png",
        }
        await self.worker_harness.jobs_api.submit(self.random.choice(self.people), payload=payload)


async def measured(worker_harness: WorkerHarness, driver: AgentDriver, random: Random) -> Measured:
    """All jobs, each at its time; then what the installation exports of them."""
    people = [await worker_harness.jobs_api.person(tokens=10_000) for _ in range(4)]
    made = {"slug": "studio", "workflow_slugs": [worker_harness.jobs_api.workflow]}
    fleet = (await worker_harness.jobs_api.post("/api/admin/fleets", made)).json()
    scaling, headers = f"/api/admin/fleets/{fleet['id']}/scaling", worker_harness.jobs_api.admin.headers
    rules = {"driver": driver.name, **asdict(POLICY)}
    response = await worker_harness.client.put(scaling, json=rules, headers=headers)
    assert response.status_code == 200, response.text
    submissions = Submissions(worker_harness, people, random)
    for crowd, singles in zip(CROWDS, SINGLES, strict=True):
        while driver.agents:
            await asyncio.sleep(0.5)
        await submissions.crowd(crowd)
        await submissions.singles(singles)
        await submissions.until_done()
    sessions = await worker_harness.central(
        "SELECT worker_id, min(started_at) AS at FROM worker_sessions GROUP BY worker_id"
    )
    registered = {row["worker_id"]: row["at"].timestamp() for row in sessions}
    query = "SELECT max(wanted) AS most, sum((cardinality(drained) > 0)::int) AS ins FROM scaling_decisions"
    [counted] = await worker_harness.central(query)
    async with OperationsClient(worker_harness.plane.settings.public_url, worker_harness.jobs_api.admin.key) as client:
        trace = await read_history(client, datetime.now(UTC) - timedelta(hours=1), "production")
        dispatches = [each async for page in client.finished_dispatches() for each in page]
    dispatches.sort(key=lambda each: (each.created_at, each.dispatch_id))
    runs = [_run(each) for each in dispatches]
    first = dispatches[0].created_at.timestamp()
    return Measured(
        waits=[run.wait for run in runs],
        trace=trace,
        starts=[
            registered[each] + delay_of_first_job(each, registered[each], runs) - ordered
            for each, ordered in driver.ordered_at.items()
            if each in registered
        ],
        pickups=occupied(trace, runs),
        ticks=[moment - first for moment in driver.checked_at if moment >= first],
        peak_wanted=counted["most"],
        scale_ins=counted["ins"],
    )


class Run(NamedTuple):
    worker_id: str
    wait: float
    leased: float
    started: float
    ended: float

    @property
    def arrived(self) -> float:
        return self.started - self.wait


def _run(each: Dispatch) -> Run:
    assert each.worker_id is not None
    assert each.last_leased_at is not None
    assert each.finished_at is not None
    # As the queue has it for a run whose start was not reported before its end.
    started = each.run_started_at or each.last_leased_at
    wait = (started - each.created_at).total_seconds()
    moments = (each.last_leased_at, started, each.finished_at)
    return Run(each.worker_id, wait, *(moment.timestamp() for moment in moments))


def delay_of_first_job(worker_id: str, registered: float, runs: Sequence[Run]) -> float:
    """How long the worker took to get its first job when both were there: on a busy machine seconds, in which it
    reports its environment and asks for the first time. It is a part of its start."""
    first = min((run for run in runs if run.worker_id == worker_id), key=lambda run: run.leased, default=None)
    return 0.0 if first is None else max(0.0, first.leased - max(registered, first.arrived))


def occupied(trace: QueueTrace, runs: Sequence[Run]) -> dict[int, float]:
    """Gives each job of the trace the time for which it kept its worker from the next run, and returns how long free
    workers took to start the jobs that they got.

    An agent uploads the result of one run beside the next run. On a busy machine it may also ask for its next job
    only seconds after the end of a run. What that takes depends on this machine, not on the dispatch: if the next job
    of the worker had arrived by then, the time until the start of that job counts as a part of the run before.
    """
    pickups = {}
    for worker_id in {run.worker_id for run in runs}:
        places = [place for place, run in enumerate(runs) if run.worker_id == worker_id]
        places.sort(key=lambda place: runs[place].started)
        for place, previous in zip(places, [None, *places], strict=False):
            run = runs[place]
            trace.run_seconds[place] = run.ended - run.started
            if previous is not None and run.arrived < runs[previous].ended:
                trace.run_seconds[previous] = run.started - runs[previous].started
            else:
                pickups[place] = run.started - run.leased
    return pickups


@pytest.mark.thorough
async def test_waits_of_200_real_jobs_match_the_simulator(plane: ControlPlane, tmp_path: Path) -> None:
    async with open_worker_harness(plane) as worker_harness:
        driver = AgentDriver(worker_harness, tmp_path / "agents")
        assert isinstance(plane.rooms.scaling.drivers, dict)
        plane.rooms.scaling.drivers[driver.name] = driver
        try:
            found = await measured(worker_harness, driver, Random(4))
        finally:
            await driver.close()
    assert len(found.trace) == JOBS
    outcomes = [MeasuredReplay(found, seed).run() for seed in range(REPLAYS)]
    real, simulated = waits(found.waits, 60.0), [waits(outcome.waits, 60.0) for outcome in outcomes]
    figures = {
        name: (getattr(real, name), statistics.fmean(getattr(each, name) for each in simulated))
        for name in ("mean", "p50", "p90")
    }
    # To read them of a run that passed: pytest -rP.
    sys.stdout.write(f"Seconds, real and simulated: {figures}\n")
    for figure, other in figures.values():
        assert other == pytest.approx(figure, rel=TOLERANCE), figures
    # The fleet scaled in both directions, as far as in every replay.
    assert found.scale_ins >= 1
    assert all(outcome.scale_ins >= 1 for outcome in outcomes)
    assert found.peak_wanted == POLICY.maximum
    assert {outcome.peak_workers for outcome in outcomes} == {POLICY.maximum}
