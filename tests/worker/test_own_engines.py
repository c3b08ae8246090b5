"""Engines that the agent starts itself: `--comfyui DIR --engines 2`, with a main.py that renders with Lightbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callsheet.cli.fleet.worker_doctor import examine_worker
from callsheet.cli.fleet.worker_engines import ChosenEngines, opened_engines
from callsheet.settings import load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_files import read_private
from callsheet.worker.engines.engine_process import LOG_NAME, NOTE_NAME
from callsheet.worker.engines.processes import started_at
from callsheet.worker.engines.supervisor import EngineProcesses
from tests.support.comfyui import comfyui_main
from tests.support.run.ports import free_port
from tests.support.waiting import until
from tests.worker.harness import AgentHarness
from tests.worker.processes import worker_process
from tests.worker.test_several_engines import capacity_is
from tests.worker.test_stuck_engines import made


@pytest.fixture
def comfyui(tmp_path: Path) -> Path:
    directory = tmp_path / "ComfyUI"
    directory.mkdir()
    shutil.copy(comfyui_main.__file__, directory / "main.py")
    return directory


@asynccontextmanager
async def own_engines(comfyui: Path, directory: Path, **engine: Any) -> AsyncIterator[ChosenEngines]:
    given = {"comfyui": comfyui, "count": 2, "port": free_port(), "idle_seconds": 3, "poll_seconds": 0.1, **engine}
    async with opened_engines(load_settings(engine=given), directory) as chosen:
        quick = replace(chosen.supervised.rules, stuck_seconds=0.0, check_seconds=0.2, first_pause_seconds=0.1)
        yield replace(chosen, supervised=EngineProcesses(chosen.supervised.processes, quick))


def pids(directory: Path) -> dict[str, int]:
    """Of the engines that run, by the names of their folders."""
    notes = {path.parent.name: read_private(path) or {} for path in (directory / "engines").glob(f"*/{NOTE_NAME}")}
    return {name: note["pid"] for name, note in notes.items() if started_at(note["pid"]) == note["started"]}


@pytest.mark.thorough
async def test_engines_are_started_kept_alive_one_by_one_and_ended_with_the_agent(
    agent_harness: AgentHarness, comfyui: Path
) -> None:
    async with own_engines(comfyui, agent_harness.directory, gpus="0,1") as chosen:
        # The warm-up fails, and both take jobs all the same.
        agent = agent_harness.agent(
            engines=chosen.engines, supervised=chosen.supervised, warm_up=made(("NoSuchNode", {}))
        )
        await until(lambda: agent._engines.capacity == 2)
        await capacity_is(agent_harness, 2)
        first = pids(agent_harness.directory)
        assert set(first) == {"1", "2"}
        logs = [(agent_harness.directory / "engines" / name / LOG_NAME).read_text() for name in ("1", "2")]
        assert ["GPU 0 secret None" in logs[0], "GPU 1 secret None" in logs[1]] == [True, True]

        person = await agent_harness.person()
        wedging = await agent_harness.submit(person, workflow=made(("ProbeEndsExecutor", {})), output_node_id="save")
        await capacity_is(agent_harness, 1)
        await agent_harness.worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{wedging}/cancel")
        await capacity_is(agent_harness, 2)
        second = pids(agent_harness.directory)
        assert len(set(first.items()) & set(second.items())) == 1, "the other one goes on"

        jobs = [await agent_harness.submit(person, workflow=made(), output_node_id="save") for _ in range(3)]
        for job_id in jobs:
            await agent_harness.ends(person, job_id)
        await agent_harness.leave(agent)
        ran = {*first.values(), *second.values()}
        assert [pid for pid in ran if started_at(pid) is not None] == []
        assert pids(agent_harness.directory) == {}
    left = [
        path
        for folder in (comfyui / "input", agent_harness.directory / "engines")
        for path in folder.rglob("callsheet/*")
    ]
    assert left == [], "what jobs left is removed, since the directories are known"
    assert len(await agent_harness.worker_harness.central("SELECT 1 FROM worker_sessions")) == 1


@pytest.mark.thorough
@pytest.mark.thorough
async def test_engines_that_cannot_start_end_the_worker_with_their_last_log_lines(
    agent_harness: AgentHarness, comfyui: Path
) -> None:
    (comfyui / "broken").touch()
    async with own_engines(comfyui, agent_harness.directory) as chosen:
        agent = agent_harness.agent(engines=chosen.engines, supervised=chosen.supervised)
        with pytest.raises(OperatorError, match="No module named 'torch'") as refused:
            await agent.task  # type: ignore[attr-defined]
    assert "ended with code 1" in str(refused.value)
    assert str(agent_harness.directory / "engines" / "1" / LOG_NAME) in str(refused.value)


@pytest.mark.thorough
@pytest.mark.thorough
async def test_a_killed_agent_leaves_no_engine_to_its_successor_and_a_killed_engine_is_started_again(
    agent_harness: AgentHarness, comfyui: Path, tmp_path: Path
) -> None:
    port = free_port()
    given = {
        "CALLSHEET_ENGINE__COMFYUI": str(comfyui),
        "CALLSHEET_ENGINE__COUNT": "2",
        "CALLSHEET_ENGINE__PORT": str(port),
        "CALLSHEET_HOME": str(tmp_path / "home"),
    }
    directory = tmp_path / "home" / "worker" / "own"
    with worker_process(agent_harness, tmp_path, "own", **given) as process:
        await capacity_is(agent_harness, 2)
        before = pids(directory)
        process.kill()
        # Nothing but the kernel ends them.
        await until(lambda: all(started_at(pid) is None for pid in before.values()))
    with worker_process(agent_harness, tmp_path, "own", **given) as process:
        await until(lambda: len(pids(directory)) == 2)
        person = await agent_harness.person()
        await agent_harness.ends(person, await agent_harness.submit(person, workflow=made(), output_node_id="save"))
        await capacity_is(agent_harness, 2)
        before = pids(directory)
        os.kill(before["2"], signal.SIGKILL)
        await capacity_is(agent_harness, 1)
        await capacity_is(agent_harness, 2)
        after = pids(directory)
        assert (after["1"] == before["1"], after["2"] == before["2"]) == (True, False)
        notes = [read_private(path) or {} for path in (directory / "engines").glob(f"*/{NOTE_NAME}")]
        assert sorted(note["port"] for note in notes) == [port, port + 1], "the same ports, not the next ones"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0
        assert pids(directory) == {}


async def test_doctor_checks_each_engine(agent_harness: AgentHarness, comfyui: Path, tmp_path: Path) -> None:
    found = await examine_worker(
        load_settings(home=tmp_path, engine={"urls": [agent_harness.engine.url, "http://127.0.0.1:1"]})
    )
    assert {each.part: each.status for each in found if each.part.startswith("engine")} == {
        "engine 1": "ok",
        "engine 2": "problem",
    }
    own = {"comfyui": comfyui, "count": 2, "gpus": "0"}
    found = await examine_worker(load_settings(home=tmp_path, engine=own))
    shown = [each for each in found if each.part.startswith("engine")]
    assert [each.status for each in shown] == ["ok"] * 3
    assert f"starts 2 of ComfyUI in {comfyui} on GPU 0" in shown[0].message
    (comfyui / "main.py").unlink()
    found = await examine_worker(load_settings(home=tmp_path, engine=own))
    assert ["main.py" in each.message for each in found if each.part == "engine"] == [True]
