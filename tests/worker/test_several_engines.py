"""One agent, two engines: while one is wedged or away the other goes on, and the capacity follows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callsheet import __version__
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from tests.support.engines import ReplayingEngine, replaying
from tests.support.waiting import until
from tests.worker.harness import QUICK, Site
from tests.worker.test_interruptions import kill


@pytest.fixture
async def second() -> AsyncIterator[ReplayingEngine]:
    async with replaying() as engine:
        yield engine


async def capacity_is(site: Site, places: int) -> None:
    async def is_registered() -> bool:
        return [row["max_concurrency"] for row in await site.workers()] == [places]

    await until(is_registered)


async def spent(site: Site, jobs: list[str]) -> list[tuple[int, int]]:
    """The attempts and requeues of each job, the least first."""
    rows = [await site.closed(job_id) for job_id in jobs]
    return sorted((row["attempts"], row["requeues"]) for row in rows)


async def test_two_engines_are_one_worker_that_renders_two_jobs_at_once(site: Site, second: ReplayingEngine) -> None:
    site.engine.scenario = second.scenario = "held"
    second.version = "0.8.1"
    site.agent(engines=[ComfyUI(each.url, patience=QUICK) for each in (site.engine, second)])
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(5)]
    await until(lambda: site.engine.running and second.running)
    # Each renders one and has its next.
    await site.all_leased(4)
    [worker] = await site.workers()
    assert worker["max_concurrency"] == 2
    described = worker["capabilities"]
    assert described["agent"] == __version__
    assert described["engines"] == {"self_hosted": f"{site.engine.version}, 0.8.1"}
    assert [each["name"] for each in described["each_engine"]] == ["self_hosted-1", "self_hosted-2"]
    # What was fetched ahead goes to the engine that is free first, whichever that is.
    second.scenario = "SaveImage_batch3"
    second.release.set()
    await until(lambda: len(second.called("/prompt")) == 4)
    assert len(site.engine.called("/prompt")) == 1
    site.engine.release.set()
    for job_id in jobs:
        await site.ends(person, job_id)
    assert await spent(site, jobs) == [(1, 0)] * 5, "none of them was ever put back"
    for engine in (site.engine, second):
        uploads = {each["subfolder"] for each in engine.called("/upload/image")}
        assert len(uploads) == len(engine.called("/prompt")), "a job's files are at its own engine only"
    # A worker clears the engine's history after its report.
    await until(lambda: site.engine.history == second.history == {})


async def test_a_wedged_engine_takes_its_place_out_of_the_capacity_and_the_other_goes_on(
    site: Site, second: ReplayingEngine
) -> None:
    site.engine.scenario = "wedged"
    second.scenario = "held"
    patience = Patience(stall=3600, idle=0.5, absent=120, poll=0.05)
    site.agent(engines=[ComfyUI(each.url, patience=patience) for each in (site.engine, second)])
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(3)]
    await capacity_is(site, 1)
    assert len(await site.worker_harness.central("SELECT 1 FROM worker_sessions")) == 1, "it never left"
    second.scenario = "SaveImage_batch3"
    second.release.set()
    await site.engine.kill()
    site.engine.scenario = "SaveImage_batch3"
    await site.engine.start()
    for job_id in jobs:
        await site.ends(person, job_id, hurry=True)
    await capacity_is(site, 2)
    assert len(await site.worker_harness.central("SELECT 1 FROM worker_sessions")) == 1
    attempts = [attempts for attempts, _ in await spent(site, jobs)]
    assert attempts == [1, 1, 2], "only the job that wedged its engine pays for it"


async def test_when_an_engine_is_away_its_next_job_is_put_back_and_the_others_wait_on(
    site: Site, second: ReplayingEngine
) -> None:
    site.engine.scenario = second.scenario = "held"
    site.agent(engines=[ComfyUI(each.url, patience=QUICK) for each in (site.engine, second)])
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(4)]
    await until(lambda: site.engine.running and second.running)
    await site.all_leased(4)
    await site.engine.kill()
    # One renders and one waits; the one that ran at the engine that is away is still its.
    await site.all_leased(3)
    second.scenario = site.engine.scenario = "SaveImage_batch3"
    second.release.set()
    await site.engine.start()
    for job_id in jobs:
        await site.ends(person, job_id, hurry=True)
    assert (await spent(site, jobs))[:3] == [(1, 0), (1, 0), (1, 1)], "putting it back costs no attempt"


async def test_a_departing_agent_stops_its_own_runs_on_each_engine(site: Site, second: ReplayingEngine) -> None:
    site.engine.scenario = second.scenario = "held"
    agent = site.agent(engines=[ComfyUI(each.url, patience=QUICK) for each in (site.engine, second)])
    person = await site.person()
    for _ in range(4):
        await site.submit(person)
    await until(lambda: site.engine.running and second.running)
    await site.all_leased(4)
    runs = [(engine, engine.running.id) for engine in (site.engine, second) if engine.running]
    await site.leave(agent)
    for engine, run_id in runs:
        assert [each["prompt_id"] for each in engine.called("/interrupt")][:1] == [run_id]
        assert engine.running is None
    assert await site.leases() == 0
    queued = await site.worker_harness.central("SELECT attempts FROM ai_job_dispatches WHERE status = 'queued'")
    assert [row["attempts"] for row in queued] == [0] * 4
    assert site.left_over() == []


async def test_a_killed_agents_jobs_those_that_were_fetched_ahead_too_are_finished_by_its_successor(
    site: Site, second: ReplayingEngine
) -> None:
    site.engine.scenario = second.scenario = "held"
    both = [site.engine, second]
    agent = site.agent(worker_id="gpu-1", engines=[ComfyUI(each.url, patience=QUICK) for each in both])
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(4)]
    await until(lambda: site.engine.running and second.running)
    await site.all_leased(4)
    await kill(agent)
    site.engine.scenario = second.scenario = "SaveImage_batch3"
    site.agent(worker_id="gpu-1", engines=[ComfyUI(each.url, patience=QUICK) for each in both])
    for job_id in jobs:
        await site.ends(person, job_id)
    # One may have been on its way: it is handed over again, and was not put back.
    assert [attempts for attempts, _ in await spent(site, jobs)] == [1] * 4
