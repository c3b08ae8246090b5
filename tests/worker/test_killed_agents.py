"""`kill -9` of the process of an agent that holds jobs on several engines: each job is finished once and charged once,
and no engine of the killed agent keeps running."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.support.comfyui import comfyui_main
from tests.support.comfyui.replaying_engine import ReplayingEngine, replaying
from tests.support.http.accounts import Person
from tests.support.programs.commands import processes_naming
from tests.support.run.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.worker.harness import AgentHarness
from tests.worker.processes import worker_process
from tests.worker.test_several_engines import spent
from tests.worker.test_stuck_engines import made

pytestmark = pytest.mark.thorough

ENGINES = 2
# Each engine runs one job, and its next job is fetched.
JOBS = 2 * ENGINES
COST = 7


@pytest.fixture
async def second_engine() -> AsyncIterator[ReplayingEngine]:
    """A second engine that replays recordings."""
    async with replaying() as engine:
        yield engine


@pytest.fixture
def comfyui(tmp_path: Path) -> Path:
    """A directory whose engines hold every run of ProbeHeld as long as it has the file `held`."""
    directory = tmp_path / "ComfyUI"
    directory.mkdir()
    shutil.copy(comfyui_main.__file__, directory / "main.py")
    (directory / "held").touch()
    return directory


def supervised(comfyui: Path) -> dict[str, str]:
    return {
        "CALLSHEET_ENGINE__COMFYUI": str(comfyui),
        "CALLSHEET_ENGINE__COUNT": str(ENGINES),
        "CALLSHEET_ENGINE__PORT": str(free_port()),
    }


async def kill(process: Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == -signal.SIGKILL


async def submit_held(agent_harness: AgentHarness, person: Person) -> list[str]:
    graphs = [made(("ProbeHeld", {"salt": str(number)})) for number in range(JOBS)]
    return [await agent_harness.submit(person, workflow=graph, output_node_id="save") for graph in graphs]


def held_runs(comfyui: Path) -> int:
    """Runs of ProbeHeld that started: the node leaves a file for each."""
    return len(list(comfyui.glob("run-*")))


async def check_done_once(agent_harness: AgentHarness, person: Person, jobs: list[str]) -> None:
    for job_id in jobs:
        await agent_harness.ends(person, job_id)
        assert len(await agent_harness.worker_harness.files(person, job_id)) == 1
    pool = await agent_harness.worker_harness.plane.databases.pool(person.tenant.pool)
    query = "SELECT type, count(*) AS times FROM token_transactions WHERE job_id IS NOT NULL GROUP BY type"
    rows = await agent_harness.worker_harness.jobs_api.core.rows(pool, query)
    assert {row["type"]: row["times"] for row in rows} == {"JOB_RESERVE": JOBS, "JOB_CONSUME": JOBS}
    assert await agent_harness.worker_harness.balance(person) == 1000 - COST * JOBS


async def test_the_next_process_on_the_machine_finishes_the_jobs_of_all_engines_at_once(
    agent_harness: AgentHarness, second_engine: ReplayingEngine, tmp_path: Path
) -> None:
    engines = [agent_harness.engine, second_engine]
    for engine in engines:
        engine.scenario = "held"
    given = {"CALLSHEET_ENGINE__URLS": ",".join(engine.url for engine in engines)}
    person = await agent_harness.person()
    jobs = [await agent_harness.submit(person) for _ in range(JOBS)]
    with worker_process(agent_harness, tmp_path, "gpu-1", **given) as process:
        await until(lambda: all(engine.running for engine in engines))
        await agent_harness.all_leased(JOBS)
        await kill(process)
    abandoned = [engine.running.id for engine in engines if engine.running]
    for engine in engines:
        engine.scenario = "SaveImage_batch3"
    with worker_process(agent_harness, tmp_path, "gpu-1", **given):
        for job_id in jobs:
            await agent_harness.ends(person, job_id)
    # Both engines were asked to end both runs, because a successor does not know which engine had which.
    for engine, run_id in zip(engines, abandoned, strict=True):
        assert run_id in {body["prompt_id"] for body in engine.called("/interrupt")}
        assert engine.history == {}
    assert [attempts for attempts, _ in await spent(agent_harness, jobs)] == [1] * JOBS
    assert await agent_harness.worker_harness.balance(person) == 1000 - COST * JOBS


async def test_engines_of_a_killed_agent_end_and_the_next_process_starts_its_own(
    agent_harness: AgentHarness, comfyui: Path, tmp_path: Path
) -> None:
    given = supervised(comfyui)
    person = await agent_harness.person()
    jobs = await submit_held(agent_harness, person)
    with worker_process(agent_harness, tmp_path, "own", **given) as process:
        await until(lambda: held_runs(comfyui) == ENGINES)
        await agent_harness.all_leased(JOBS)
        await kill(process)
        # The kernel ends the engines; no other process does.
        await until(lambda: processes_naming(comfyui) == [])
    (comfyui / "held").unlink()
    with worker_process(agent_harness, tmp_path, "own", **given) as process:
        await check_done_once(agent_harness, person, jobs)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    assert [attempts for attempts, _ in await spent(agent_harness, jobs)] == [1] * JOBS
    assert processes_naming(comfyui) == []


async def test_without_a_next_process_another_machine_finishes_the_jobs_when_their_leases_have_expired(
    agent_harness: AgentHarness, comfyui: Path, tmp_path: Path
) -> None:
    person = await agent_harness.person()
    jobs = await submit_held(agent_harness, person)
    with worker_process(agent_harness, tmp_path, "own", **supervised(comfyui)) as process:
        await until(lambda: held_runs(comfyui) == ENGINES)
        await agent_harness.all_leased(JOBS)
        await kill(process)
    await until(lambda: processes_naming(comfyui) == [])
    (comfyui / "held").unlink()

    async def have_expired() -> bool:
        # Repeated, because the last heartbeat of the killed agent may arrive after the first time.
        expire = "UPDATE ai_job_dispatches SET lease_expires_at = now() WHERE worker_id = 'own' RETURNING 1"
        return await agent_harness.worker_harness.central(expire) == []

    await until(have_expired)
    machine = tmp_path / "another machine"
    machine.mkdir()
    with worker_process(agent_harness, machine, "other", **supervised(comfyui)):
        await check_done_once(agent_harness, person, jobs)
    attempts = [attempts for attempts, _ in await spent(agent_harness, jobs)]
    assert attempts == [2] * JOBS, "an expired lease costs its attempt, also that of a prefetched job"
