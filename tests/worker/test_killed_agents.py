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

from tests.support import comfyui_main
from tests.support.commands import processes_naming
from tests.support.engines import ReplayingEngine, replaying
from tests.support.people import Person
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.worker.harness import Site
from tests.worker.processes import worker_process
from tests.worker.test_several_engines import spent
from tests.worker.test_stuck_engines import made

pytestmark = pytest.mark.thorough

ENGINES = 2
# Each engine runs one job, and its next job is fetched.
JOBS = 2 * ENGINES
COST = 7


@pytest.fixture
async def second() -> AsyncIterator[ReplayingEngine]:
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


async def submit_held(site: Site, person: Person) -> list[str]:
    graphs = [made(("ProbeHeld", {"salt": str(number)})) for number in range(JOBS)]
    return [await site.submit(person, workflow=graph, output_node_id="save") for graph in graphs]


def held_runs(comfyui: Path) -> int:
    """Runs of ProbeHeld that started: the node leaves a file for each."""
    return len(list(comfyui.glob("run-*")))


async def check_done_once(site: Site, person: Person, jobs: list[str]) -> None:
    for job_id in jobs:
        await site.ends(person, job_id)
        assert len(await site.worker_harness.files(person, job_id)) == 1
    pool = await site.worker_harness.plane.databases.pool(person.tenant.pool)
    query = "SELECT type, count(*) AS times FROM token_transactions WHERE job_id IS NOT NULL GROUP BY type"
    rows = await site.worker_harness.jobs_api.core.rows(pool, query)
    assert {row["type"]: row["times"] for row in rows} == {"JOB_RESERVE": JOBS, "JOB_CONSUME": JOBS}
    assert await site.worker_harness.balance(person) == 1000 - COST * JOBS


async def test_the_next_process_on_the_machine_finishes_the_jobs_of_all_engines_at_once(
    site: Site, second: ReplayingEngine, tmp_path: Path
) -> None:
    engines = [site.engine, second]
    for engine in engines:
        engine.scenario = "held"
    given = {"CALLSHEET_ENGINE__URLS": ",".join(engine.url for engine in engines)}
    person = await site.person()
    jobs = [await site.submit(person) for _ in range(JOBS)]
    with worker_process(site, tmp_path, "gpu-1", **given) as process:
        await until(lambda: all(engine.running for engine in engines))
        await site.all_leased(JOBS)
        await kill(process)
    abandoned = [engine.running.id for engine in engines if engine.running]
    for engine in engines:
        engine.scenario = "SaveImage_batch3"
    with worker_process(site, tmp_path, "gpu-1", **given):
        for job_id in jobs:
            await site.ends(person, job_id)
    # Both engines were asked to end both runs, because a successor does not know which engine had which.
    for engine, run_id in zip(engines, abandoned, strict=True):
        assert run_id in {body["prompt_id"] for body in engine.called("/interrupt")}
        assert engine.history == {}
    assert [attempts for attempts, _ in await spent(site, jobs)] == [1] * JOBS
    assert await site.worker_harness.balance(person) == 1000 - COST * JOBS


async def test_engines_that_it_started_end_with_it_and_the_next_process_starts_its_own(
    site: Site, comfyui: Path, tmp_path: Path
) -> None:
    given = supervised(comfyui)
    person = await site.person()
    jobs = await submit_held(site, person)
    with worker_process(site, tmp_path, "own", **given) as process:
        await until(lambda: held_runs(comfyui) == ENGINES)
        await site.all_leased(JOBS)
        await kill(process)
        # The kernel ends the engines; no other process does.
        await until(lambda: processes_naming(comfyui) == [])
    (comfyui / "held").unlink()
    with worker_process(site, tmp_path, "own", **given) as process:
        await check_done_once(site, person, jobs)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    assert [attempts for attempts, _ in await spent(site, jobs)] == [1] * JOBS
    assert processes_naming(comfyui) == []


async def test_without_a_next_process_another_machine_finishes_the_jobs_when_their_leases_have_expired(
    site: Site, comfyui: Path, tmp_path: Path
) -> None:
    person = await site.person()
    jobs = await submit_held(site, person)
    with worker_process(site, tmp_path, "own", **supervised(comfyui)) as process:
        await until(lambda: held_runs(comfyui) == ENGINES)
        await site.all_leased(JOBS)
        await kill(process)
    await until(lambda: processes_naming(comfyui) == [])
    (comfyui / "held").unlink()

    async def have_expired() -> bool:
        # Repeated, because the last heartbeat of the killed agent may arrive after the first time.
        expire = "UPDATE ai_job_dispatches SET lease_expires_at = now() WHERE worker_id = 'own' RETURNING 1"
        return await site.worker_harness.central(expire) == []

    await until(have_expired)
    machine = tmp_path / "another machine"
    machine.mkdir()
    with worker_process(site, machine, "other", **supervised(comfyui)):
        await check_done_once(site, person, jobs)
    attempts = [attempts for attempts, _ in await spent(site, jobs)]
    assert attempts == [2] * JOBS, "an expired lease costs its attempt, also that of a prefetched job"
