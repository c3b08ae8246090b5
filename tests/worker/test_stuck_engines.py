"""An engine that responds but renders nothing is distinguished from one that renders for long without a message."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import AsyncMock, patch

import httpx
import pytest
from websockets.asyncio.client import connect

from callsheet.providers.comfy import self_hosted
from callsheet.providers.comfy.graphs import folder_of
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.comfy.socket import socket_address
from callsheet.providers.engine import EngineError, EngineRun, EngineStuck
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.node import Node, NodeInput
from callsheet_lightbox.nodes import probes
from tests.support.comfyui.engine_setups import Hold
from tests.support.comfyui.graphs import Graph, Step, node
from tests.support.comfyui.lightbox import lightbox_here, lightbox_process
from tests.support.comfyui.replaying_engine import PNG, replaying
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.worker.harness import AgentHarness
from tests.worker.test_shared_engines import Deaf, new_run

GPU = {"name": "cuda:0", "type": "cuda", "index": 0, "torch_vram_total": 1_000_000}


async def has_left(agent_harness: AgentHarness) -> None:
    async def is_gone() -> bool:
        # There is none before it came, either.
        sessions = await agent_harness.worker_harness.central(
            "SELECT 1 FROM worker_sessions WHERE ended_at IS NOT NULL"
        )
        return bool(sessions) and await agent_harness.workers() == []

    await until(is_gone)


async def attempts(agent_harness: AgentHarness) -> list[tuple[str, int]]:
    rows = await agent_harness.worker_harness.central("SELECT status, attempts FROM ai_job_dispatches")
    return [(row["status"], row["attempts"]) for row in rows]


@pytest.mark.thorough
async def test_a_stuck_engine_gets_no_further_job_and_its_worker_leaves_until_it_was_restarted(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "wedged"
    agent_harness.agent(patience=Patience(stall=3600, idle=0.5, absent=120, poll=0.05))
    person = await agent_harness.person()
    first, second = [await agent_harness.submit(person) for _ in range(2)]
    await has_left(agent_harness)
    # The one that ended its executor pays for it; the other had nothing to do with it.
    assert sorted(await attempts(agent_harness)) == [("queued", 0), ("queued", 1)]
    assert len(agent_harness.engine.called("/prompt")) == 1
    await agent_harness.engine.kill()
    agent_harness.engine.scenario = "SaveImage_batch3"
    await agent_harness.engine.start()
    for job_id in (first, second):
        await agent_harness.ends(person, job_id, hurry=True)


@pytest.mark.thorough
async def test_a_job_that_waits_in_an_idle_engine_is_requeued_without_counting_the_attempt(
    agent_harness: AgentHarness,
) -> None:
    assert agent_harness.engine._executor is not None
    agent_harness.engine._executor.cancel()
    agent_harness.agent(patience=Patience(stall=3600, idle=0.5, absent=120, poll=0.05))
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 0)]
    await agent_harness.engine.kill()
    await agent_harness.engine.start()
    await agent_harness.ends(person, job_id)


async def test_a_job_behind_a_run_that_never_ends_is_requeued_without_counting_the_attempt(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "wedged"
    stranger = ComfyUI(agent_harness.engine.url, patience=Patience(stall=3600, absent=120, poll=0.05))
    foreign = asyncio.create_task(stranger.run(new_run(), Deaf()))
    await until(lambda: agent_harness.engine.running)
    agent_harness.agent(patience=Patience(stall=0.5, absent=120, poll=0.05))
    person = await agent_harness.person()
    await agent_harness.submit(person)
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 0)]
    foreign.cancel()
    await asyncio.gather(foreign, return_exceptions=True)
    await stranger.close()


async def test_an_engine_that_says_nothing_after_the_start_of_a_run_gets_the_short_limit(
    agent_harness: AgentHarness,
) -> None:
    # As after a graph with a broken node that no output needs: the run stays in queue_running.
    agent_harness.engine.scenario = "wedged_at_start"
    agent_harness.agent(patience=Patience(stall=3600, idle=0.5, absent=120, poll=0.05))
    person = await agent_harness.person()
    await agent_harness.submit(person)
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 1)]
    assert agent_harness.engine.running is not None


async def test_an_executor_that_died_between_two_nodes_gets_the_short_limit() -> None:
    async with replaying() as server:
        server.scenario = "wedged_between"
        engine = ComfyUI(server.url, patience=Patience(stall=3600, idle=0.3, absent=120, poll=0.02))
        with pytest.raises(EngineStuck) as stuck:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await engine.run(new_run(), Deaf())
        assert stuck.value.details["idle"]
        await engine.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_executor_that_died_before_the_first_node_gets_the_short_limit(tmp_path: Path) -> None:
    with patch.object(probes, "NODES", (*probes.NODES, EndsExecutor)):
        async with lightbox_here(tmp_path) as lightbox:
            engine = ComfyUI(lightbox.url, patience=Patience(stall=3600, idle=0.3, absent=120, poll=0.02))
            watcher = Starting()
            with pytest.raises(EngineStuck) as stuck:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await engine.run(EngineRun(str(uuid.uuid4()), made(("ProbeEndsExecutor", {})), "save"), watcher)
            assert watcher.starts == 1
            assert (stuck.value.details["idle"], "node_id" in stuck.value.details) == (True, False)
            async with httpx.AsyncClient(base_url=lightbox.url, trust_env=False) as client:
                assert len((await client.get("/queue")).json()["queue_running"]) == 1
            await engine.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("scenario", "is_stuck"), [("wedged_at_start", True), ("uninterruptible", False)])
async def test_a_new_socket_learns_again_whether_a_node_runs(scenario: str, is_stuck: bool) -> None:
    async with replaying() as server:
        server.scenario = scenario
        engine = ComfyUI(server.url, patience=Patience(stall=3600, idle=3600, absent=120, poll=0.02))
        watcher = Starting()
        running = asyncio.create_task(engine.run(new_run(), watcher))
        await until(lambda: watcher.starts and (is_stuck or watcher.messages))
        old = set(server.sockets.values())
        await server.drop_sockets()
        await until(lambda: set(server.sockets.values()) - old)
        engine._patience = Patience(stall=3600, idle=0.4, absent=120, poll=0.02)
        if is_stuck:
            with pytest.raises(EngineStuck):
                await running
        else:
            polls = len(server.called("/queue"))
            await until(lambda: len(server.called("/queue")) > polls + 40)
            assert not running.done()
            server.release.set()
            assert len(await running) == 3
        await engine.close()


async def test_a_socket_that_the_engine_has_forgotten_is_opened_anew_and_stops_no_run(tmp_path: Path) -> None:
    gate = threading.Event()
    with patch.object(probes, "NODES", (*probes.NODES, type("HoldHere", (Hold,), {"gate": gate}))):
        async with lightbox_here(tmp_path) as lightbox:
            engine = ComfyUI(lightbox.url, patience=Patience(stall=3600, idle=2.0, absent=120, poll=0.02))
            await engine.run(EngineRun(str(uuid.uuid4()), made(), "save"), Deaf())
            # As where the network lost the first connection, and the engine notices it after the second was opened.
            async with connect(f"{socket_address(lightbox.url)}/ws?clientId={engine._client_id}", proxy=None) as other:
                await other.recv()
            watcher = Seeing()
            run = EngineRun(str(uuid.uuid4()), made(("ProbeHold", {})), "save")
            running = asyncio.create_task(engine.run(run, watcher))
            await until(lambda: watcher.images or running.done())
            gate.set()
            assert len(await running) == 1
            await engine.close()


@pytest.mark.thorough
@pytest.mark.parametrize("socket", ["forgotten", "none", "for pictures"])
async def test_a_silent_node_is_waited_for_also_where_the_socket_says_nothing(
    socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replaying() as server:
        engine = ComfyUI(server.url, patience=Patience(stall=3600, idle=0.4, absent=120, poll=0.02))
        if socket == "none":
            monkeypatch.setattr(engine._socket, "ready", AsyncMock(return_value=False))
        else:
            await engine.run(new_run(), Deaf())
            # Open, and not in the engine's table any more.
            server.sockets.clear()
        server.scenario = "uninterruptible"
        run = new_run()
        if socket == "for pictures":
            run.graph["4"] = node("SaveImageWebsocket", images=["1", 0])
        running = asyncio.create_task(engine.run(replace(run, output_node=None), Deaf()))
        await until(lambda: server.running)
        started_at = time.monotonic()
        polls = len(server.called("/queue"))
        await until(lambda: len(server.called("/queue")) > polls + 40 and time.monotonic() - started_at > 1)
        assert not running.done()
        # The socket is opened again, unless images come over it that are kept nowhere else.
        assert bool(server.sockets) is (socket == "forgotten")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await engine.close()


async def test_a_socket_over_which_nothing_came_in_a_whole_run_is_opened_anew_for_the_next(tmp_path: Path) -> None:
    async with lightbox_here(tmp_path) as lightbox:
        engine = ComfyUI(lightbox.url, patience=Patience(stall=3600, absent=120, poll=0.02))
        images: Graph = {**made(), "save": node("SaveImageWebsocket", images=["empty", 0])}
        await engine.run(EngineRun(str(uuid.uuid4()), made(), "save"), Deaf())
        async with connect(f"{socket_address(lightbox.url)}/ws?clientId={engine._client_id}", proxy=None) as other:
            await other.recv()
        with pytest.raises(EngineError) as lost:
            await engine.run(EngineRun(str(uuid.uuid4()), images, "save"), Deaf())
        assert lost.value.type == "output_lost"
        assert len(await engine.run(EngineRun(str(uuid.uuid4()), images, "save"), Deaf())) == 1
        await engine.close()


@pytest.mark.thorough
async def test_a_graph_that_stopped_an_engine_gets_the_short_limit_the_next_time_and_fails_then(
    agent_harness: AgentHarness,
) -> None:
    # As a node that raises SystemExit: it was started, no message follows, and the run stays in queue_running.
    agent_harness.engine.scenario = "uninterruptible"
    engine = ComfyUI(agent_harness.engine.url, patience=Patience(stall=0.5, idle=3600, absent=120, poll=0.05))
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    agent_harness.agent(engines=[engine])
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 1)]
    engine._patience = Patience(stall=3600, idle=0.5, absent=120, poll=0.05)
    await agent_harness.engine.kill()
    await agent_harness.engine.start()
    failed = await agent_harness.ends(person, job_id, "failed", hurry=True)
    assert failed["error"]["type"] == "engine_stuck"
    assert f"workflow {agent_harness.worker_harness.jobs_api.workflow}, node " in (
        await agent_harness.reported(person, failed)
    )
    assert (await agent_harness.closed(job_id))["attempts"] == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_an_executor_that_died_says_which_node_it_died_at(tmp_path: Path) -> None:
    async with lightbox_here(tmp_path) as lightbox:
        engine = ComfyUI(lightbox.url, patience=Patience(stall=3600, idle=0.3, absent=120, poll=0.05))
        graph = made(("ProbeFail", {"message": "the executor dies", "kind": "SystemExit"}))
        run = EngineRun(str(uuid.uuid4()), graph, "save", is_suspect=True)
        with pytest.raises(EngineStuck) as stuck:
            await engine.run(run, Deaf())
        assert (stuck.value.details["node_id"], stuck.value.details["node_type"]) == ("0", "ProbeFail")
        # It goes on accepting, and keeps the dead run as the one that runs.
        with pytest.raises(EngineStuck):
            await engine.describe()
        await engine.close()


@pytest.mark.thorough
async def test_waiting_behind_the_run_of_another_client_does_not_count_for_the_run_limit(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "held"
    await agent_harness.worker_harness.central("UPDATE workflows SET run_limit_seconds = 1")
    stranger = ComfyUI(agent_harness.engine.url, patience=Patience(stall=3600, absent=120, poll=0.05))
    foreign = asyncio.create_task(stranger.run(new_run(), Deaf()))
    await until(lambda: agent_harness.engine.running)
    # More than the run limit: that would have ended the job first.
    agent_harness.agent(patience=Patience(stall=3600, absent=120, poll=0.05, queue=1.5))
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 0)]
    assert agent_harness.engine.pending == []
    assert not foreign.done()
    agent_harness.engine.scenario = "SaveImage_batch3"
    agent_harness.engine.release.set()
    await foreign
    await agent_harness.ends(person, job_id)
    row = await agent_harness.closed(job_id)
    assert (row["attempts"], row["requeues"]) == (1, 1)
    await stranger.close()


@pytest.mark.thorough
async def test_a_run_that_cannot_be_stopped_does_not_fail_the_next_run(
    agent_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.providers.comfy.self_hosted.CANCEL_ATTEMPTS", 1)
    agent_harness.engine.scenario = "uninterruptible"
    await agent_harness.worker_harness.central("UPDATE workflows SET run_limit_seconds = 1")
    person = await agent_harness.person()
    first, second = [await agent_harness.submit(person) for _ in range(2)]
    agent_harness.agent()
    failed = await agent_harness.ends(person, first, "failed")
    assert failed["error"]["type"] == "run_limit"
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 0)]
    assert len(agent_harness.engine.called("/prompt")) == 1
    agent_harness.engine.scenario = "SaveImage_batch3"
    agent_harness.engine.release.set()
    await agent_harness.ends(person, second)
    assert (await agent_harness.closed(second))["attempts"] == 1


@pytest.mark.thorough
async def test_a_job_that_came_just_after_its_engine_died_keeps_its_attempts(
    agent_harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.providers.comfy.http.backoff_seconds", lambda *_: 0.02)
    person = await agent_harness.person()
    engine = ComfyUI(agent_harness.engine.url, patience=Patience(stall=3600, absent=0.3, poll=0.05))
    submit = engine._send

    async def dies_first(*run: Any) -> str:
        if not agent_harness.engine.is_down:
            await agent_harness.engine.kill()
        return await submit(*run)

    monkeypatch.setattr(engine, "_send", dies_first)
    job_id = await agent_harness.submit(person)
    agent_harness.agent(engines=[engine])
    await has_left(agent_harness)
    assert await attempts(agent_harness) == [("queued", 0)]
    monkeypatch.setattr(engine, "_send", submit)
    await agent_harness.engine.start()
    await agent_harness.ends(person, job_id)
    assert (await agent_harness.closed(job_id))["attempts"] == 1


@pytest.mark.thorough
async def test_an_engine_that_was_only_slow_takes_jobs_again_by_itself(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "held"
    agent_harness.agent(patience=Patience(stall=0.5, absent=120, poll=0.05))
    person = await agent_harness.person()
    job_id = await agent_harness.submit(person)
    # Asked to stop, it does so before its next node, and so it works.
    await until(lambda: agent_harness.engine.called("/interrupt"))
    agent_harness.engine.scenario = "SaveImage_batch3"
    await until(lambda: agent_harness.engine.running is None)
    await agent_harness.ends(person, job_id, hurry=True)


@pytest.mark.thorough
async def test_a_node_that_hangs_in_a_real_engine_costs_its_own_job_an_attempt_and_no_other(
    agent_harness: AgentHarness, tmp_path: Path
) -> None:
    async with lightbox_process(tmp_path / "lightbox") as lightbox:
        engine = ComfyUI(lightbox.url, patience=Patience(stall=1.0, absent=120, poll=0.1))
        person = await agent_harness.person()
        jobs = [
            await agent_harness.submit(person, workflow=graph, output_node_id="save")
            for graph in (made(("ProbeHang", {"seconds": 4.0})), made())
        ]
        agent_harness.agent(engines=[engine])
        await has_left(agent_harness)
        # The other one's node is not silent for longer because the machine is slow.
        engine._patience = Patience(stall=3600, absent=120, poll=0.1)
        # The engine comes back by itself when the node is over.
        await agent_harness.ends(person, jobs[1])
        assert (await agent_harness.closed(jobs[1]))["attempts"] == 1


@pytest.mark.thorough
async def test_a_graph_that_kills_the_whole_engine_is_named_after_its_three_attempts(
    agent_harness: AgentHarness, tmp_path: Path
) -> None:
    async with lightbox_process(tmp_path / "lightbox") as lightbox:
        person = await agent_harness.person()
        graph = {**made(), "show": node("ProbeUI", image=["empty", 0], mode="numpy")}
        job_id = await agent_harness.submit(person, workflow=graph, output_node_id="save")
        neighbour = await agent_harness.submit(person, workflow=made(), output_node_id="save")
        agent_harness.agent(engines=[ComfyUI(lightbox.url, patience=Patience(stall=3600, absent=120, poll=0.1))])
        for _ in range(3):
            await agent_harness.worker_harness.plane.rooms.jobs.dispatch.queue.promote(
                datetime.now(UTC) + timedelta(days=1)
            )
            assert await lightbox.ended() == 1
            await lightbox.start()
        failed = await agent_harness.ends(person, job_id, "failed")
        assert failed["error"]["type"] == "run_lost"
        await agent_harness.ends(person, neighbour)
        assert (await agent_harness.closed(neighbour))["attempts"] == 1

    async def is_named() -> bool:
        response = await agent_harness.worker_harness.client.get(
            "/api/admin/alerts", headers=agent_harness.worker_harness.jobs_api.admin.headers
        )
        found = {each["code"]: each["message"] for each in response.json()["alerts"]}
        return ": 3, of 1 job." in found.get("kills_engines", "")

    await until(is_named)


def made(*steps: Step) -> Graph:
    """An image made without an input, with these steps applied to it."""
    graph: Graph = {"empty": node("EmptyImage", width=32, height=32, batch_size=1, color=0)}
    last: list[Any] = ["empty", 0]
    for number, (name, inputs) in enumerate(steps):
        graph[str(number)] = node(name, image=last, **inputs)
        last = [str(number), 0]
    graph["save"] = node("SaveImage", images=last, filename_prefix="made")
    return graph


class EndsExecutor(Node):
    """Ends the executor's thread while it looks into its cache, as a graph with a broken node does that no output
    needs."""

    name = "ProbeEndsExecutor"
    category = probes.CATEGORY
    inputs: ClassVar = {"image": NodeInput("IMAGE")}
    outputs = probes.ProbeSleep.outputs

    @classmethod
    def fingerprint(cls, values: Mapping[str, Any], folders: Folders) -> Any:
        raise SystemExit


class Starting(Deaf):
    starts = 0

    def __init__(self) -> None:
        self.messages: list[str | None] = []

    def started(self) -> None:
        self.starts += 1

    def progressed(self, percent: float | None, message: str | None) -> None:
        self.messages.append(message)


class Seeing(Deaf):
    images = 0

    def previewed(self, mime_type: str, image: bytes) -> None:
        self.images += 1


async def test_a_long_silent_node_is_waited_for_although_an_idle_engine_would_not_be() -> None:
    async with replaying() as server:
        server.scenario = "held"
        engine = ComfyUI(server.url, patience=Patience(stall=3600, absent=120, poll=0.02))
        watcher = Seeing()
        running = asyncio.create_task(engine.run(new_run(), watcher))
        # Before that, the engine is idle, and a pause of the machine would make it idle for too long.
        await until(lambda: watcher.images)
        engine._patience = Patience(stall=3600, idle=0.1, absent=120, poll=0.02)
        polls = len(server.called("/queue"))
        await until(lambda: len(server.called("/queue")) > polls + 20)
        assert not running.done()
        server.release.set()
        assert len(await running) == 3
        await engine.close()


@pytest.mark.thorough
async def test_memory_that_moves_on_the_gpu_keeps_a_silent_node_alive_and_memory_that_rests_does_not() -> None:
    async with replaying() as server:
        server.scenario = "held"
        # Longer than a pause of the machine: during a pause the memory does not change, either.
        engine = ComfyUI(server.url, patience=Patience(stall=4.0, absent=120, poll=0.02))
        running = asyncio.create_task(engine.run(new_run(), Deaf()))
        for free in range(25):
            server.devices = [{**GPU, "torch_vram_free": free}]
            checks = len(server.called("/system_stats"))
            await until(lambda checks=checks: len(server.called("/system_stats")) > checks)  # type: ignore[misc]
            assert not running.done()
        with pytest.raises(EngineStuck):
            await running
        await engine.close()


async def test_files_of_a_run_that_did_not_stop_are_removed_when_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(self_hosted, "CANCEL_ATTEMPTS", 1)
    async with replaying() as server:
        server.scenario = "uninterruptible"
        engine = ComfyUI(server.url, patience=Patience(stall=3600, absent=120, poll=0.02), directory=tmp_path)
        running = asyncio.create_task(engine.run(run := new_run(), Deaf()))
        await until(lambda: server.running)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not await engine.cancel(run.id)
        await engine.forget(run.id)
        server.release.set()
        await until(lambda: run.id in server.history)
        await until(lambda: server.running is None)
        late = tmp_path / "output" / folder_of(run.id) / "late.png"
        late.parent.mkdir(parents=True)
        late.write_bytes(PNG)
        # The next look at the engine, as an agent takes one every few seconds.
        await engine.describe()
        assert server.history == {}
        assert not late.exists()
        await engine.close()
