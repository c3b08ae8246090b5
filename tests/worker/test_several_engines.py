"""One agent, two engines: while one is wedged or away the other goes on, and the capacity follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from callsheet import __version__
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from tests.support.comfyui.replaying_engine import ReplayingEngine, replaying
from tests.support.waiting import until
from tests.worker.harness import QUICK, AgentHarness
from tests.worker.test_interruptions import kill


@pytest.fixture
async def second_engine() -> AsyncIterator[ReplayingEngine]:
    """A second engine that replays recordings."""
    async with replaying() as engine:
        yield engine


async def capacity_is(agent_harness: AgentHarness, places: int) -> None:
    async def is_registered() -> bool:
        return [row["max_concurrency"] for row in await agent_harness.workers()] == [places]

    await until(is_registered)


async def spent(agent_harness: AgentHarness, jobs: list[str]) -> list[tuple[int, int]]:
    """The attempts and requeues of each job, the least first."""
    rows = [await agent_harness.closed(job_id) for job_id in jobs]
    return sorted((row["attempts"], row["requeues"]) for row in rows)


async def test_two_engines_are_one_worker_that_renders_two_jobs_at_once(
    agent_harness: AgentHarness, second_engine: ReplayingEngine
) -> None:
    agent_harness.engine.scenario = second_engine.scenario = "held"
    second_engine.version = "0.8.1"
    agent_harness.agent(engines=[ComfyUI(each.url, patience=QUICK) for each in (agent_harness.engine, second_engine)])
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(5)]
    await until(lambda: agent_harness.engine.running and second_engine.running)
    # Each renders one and has its next.
    await agent_harness.all_leased(4)
    [worker] = await agent_harness.workers()
    assert worker["max_concurrency"] == 2
    described = worker["capabilities"]
    assert described["agent"] == __version__
    assert described["engines"] == {"self_hosted": f"{agent_harness.engine.version}, 0.8.1"}
    assert [each["name"] for each in described["each_engine"]] == ["self_hosted-1", "self_hosted-2"]
    fleet = agent_harness.worker_harness.plane.rooms.fleet
    await fleet.poll_reports.tick(datetime.now(UTC))
    shown = await fleet.workers.get(worker["worker_id"])
    assert shown.disk is not None
    assert 0 < shown.disk.free_bytes <= shown.disk.size_bytes
    reported = shown.engine_use
    assert [(engine.name, engine.slots) for engine in reported] == [("self_hosted-1", 1), ("self_hosted-2", 1)]
    # What was fetched ahead goes to the engine that is free first, whichever that is.
    second_engine.scenario = "SaveImage_batch3"
    second_engine.release.set()
    await until(lambda: len(second_engine.called("/prompt")) == 4)
    assert len(agent_harness.engine.called("/prompt")) == 1
    agent_harness.engine.release.set()
    for job_id in jobs:
        await agent_harness.ends(person, job_id)
    assert await spent(agent_harness, jobs) == [(1, 0)] * 5, "none of them was ever requeued"
    for engine in (agent_harness.engine, second_engine):
        uploads = {each["subfolder"] for each in engine.called("/upload/image")}
        assert len(uploads) == len(engine.called("/prompt")), "a job's files are at its own engine only"
    # A worker clears the engine's history after its report.
    await until(lambda: agent_harness.engine.history == second_engine.history == {})


async def test_a_wedged_engine_takes_its_place_out_of_the_capacity_and_the_other_goes_on(
    agent_harness: AgentHarness, second_engine: ReplayingEngine
) -> None:
    agent_harness.engine.scenario = "wedged"
    second_engine.scenario = "held"
    patience = Patience(stall=3600, idle=0.5, absent=120, poll=0.05)
    agent_harness.agent(
        engines=[ComfyUI(each.url, patience=patience) for each in (agent_harness.engine, second_engine)]
    )
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(3)]
    await capacity_is(agent_harness, 1)
    assert len(await agent_harness.worker_harness.central("SELECT 1 FROM worker_sessions")) == 1, "it never left"
    second_engine.scenario = "SaveImage_batch3"
    second_engine.release.set()
    await agent_harness.engine.kill()
    agent_harness.engine.scenario = "SaveImage_batch3"
    await agent_harness.engine.start()
    for job_id in jobs:
        await agent_harness.ends(person, job_id, hurry=True)
    await capacity_is(agent_harness, 2)
    assert len(await agent_harness.worker_harness.central("SELECT 1 FROM worker_sessions")) == 1
    attempts = [attempts for attempts, _ in await spent(agent_harness, jobs)]
    assert attempts == [1, 1, 2], "only the job that wedged its engine pays for it"


async def test_if_an_engine_is_unavailable_its_next_job_is_requeued_and_the_others_keep_waiting(
    agent_harness: AgentHarness, second_engine: ReplayingEngine
) -> None:
    agent_harness.engine.scenario = second_engine.scenario = "held"
    agent_harness.agent(engines=[ComfyUI(each.url, patience=QUICK) for each in (agent_harness.engine, second_engine)])
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(4)]
    await until(lambda: agent_harness.engine.running and second_engine.running)
    await agent_harness.all_leased(4)
    await agent_harness.engine.kill()
    # One renders and one waits; the one that ran at the engine that is away is still its.
    await agent_harness.all_leased(3)
    second_engine.scenario = agent_harness.engine.scenario = "SaveImage_batch3"
    second_engine.release.set()
    await agent_harness.engine.start()
    for job_id in jobs:
        await agent_harness.ends(person, job_id, hurry=True)
    assert (await spent(agent_harness, jobs))[:3] == [(1, 0), (1, 0), (1, 1)], "putting it back costs no attempt"


async def test_a_departing_agent_stops_its_own_runs_on_each_engine(
    agent_harness: AgentHarness, second_engine: ReplayingEngine
) -> None:
    agent_harness.engine.scenario = second_engine.scenario = "held"
    agent = agent_harness.agent(
        engines=[ComfyUI(each.url, patience=QUICK) for each in (agent_harness.engine, second_engine)]
    )
    person = await agent_harness.person()
    for _ in range(4):
        await agent_harness.submit(person)
    await until(lambda: agent_harness.engine.running and second_engine.running)
    await agent_harness.all_leased(4)
    runs = [(engine, engine.running.id) for engine in (agent_harness.engine, second_engine) if engine.running]
    await agent_harness.leave(agent)
    for engine, run_id in runs:
        assert [each["prompt_id"] for each in engine.called("/interrupt")][:1] == [run_id]
        assert engine.running is None
    assert await agent_harness.leases() == 0
    queued = await agent_harness.worker_harness.central(
        "SELECT attempts FROM ai_job_dispatches WHERE status = 'queued'"
    )
    assert [row["attempts"] for row in queued] == [0] * 4
    assert agent_harness.left_over() == []


async def test_a_killed_agents_jobs_those_that_were_fetched_ahead_too_are_finished_by_its_successor(
    agent_harness: AgentHarness, second_engine: ReplayingEngine
) -> None:
    agent_harness.engine.scenario = second_engine.scenario = "held"
    both = [agent_harness.engine, second_engine]
    agent = agent_harness.agent(worker_id="gpu-1", engines=[ComfyUI(each.url, patience=QUICK) for each in both])
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(4)]
    await until(lambda: agent_harness.engine.running and second_engine.running)
    await agent_harness.all_leased(4)
    await kill(agent)
    agent_harness.engine.scenario = second_engine.scenario = "SaveImage_batch3"
    agent_harness.agent(worker_id="gpu-1", engines=[ComfyUI(each.url, patience=QUICK) for each in both])
    for job_id in jobs:
        await agent_harness.ends(person, job_id)
    # One may have been on its way: it is handed over again, and was not requeued.
    assert [attempts for attempts, _ in await spent(agent_harness, jobs)] == [1] * 4
