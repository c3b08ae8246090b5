"""When an engine's process is started again, what is kept of it, and who else may use its port."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from itertools import pairwise
from pathlib import Path
from unittest.mock import AsyncMock, Mock, patch

import pytest

from callsheet.providers.engine import EngineError, EngineStuck, EngineUnreachable
from callsheet.settings import environment_for_programs, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_files import write_private
from callsheet.worker.engines.bounded_log import TAIL_BYTES, BoundedLog
from callsheet.worker.engines.comfyui_launch import ComfyUIDirectory, gpu_of, gpus_of
from callsheet.worker.engines.engine_process import NOTE_NAME, EngineProcess, Launch, end_left_over
from callsheet.worker.engines.engines import DrivenEngine
from callsheet.worker.engines.ports import Ports, is_free
from callsheet.worker.engines.processes import memory_bytes, started_at
from callsheet.worker.engines.restarts import EngineSigns, RestartRules, judge
from callsheet.worker.engines.supervisor import Supervisor
from callsheet.worker.engines.warm_up import WarmUp, graph_in
from tests.support.run.ports import free_port

RULES = RestartRules(start_seconds=60, absent_seconds=30, stuck_seconds=10, memory_bytes=1000)


@pytest.mark.parametrize(
    ("signs", "action"),
    [
        (EngineSigns(now=5, started_at=None, retry_at=6), None),
        (EngineSigns(now=6, started_at=None, retry_at=6), "start"),
        (EngineSigns(now=60, started_at=0), None),
        (EngineSigns(now=61, started_at=0), "restart"),
        (EngineSigns(now=999, started_at=0, has_responded=True), None),
        (EngineSigns(now=109, started_at=0, has_responded=True, stuck_since=100), None),
        (EngineSigns(now=110, started_at=0, has_responded=True, stuck_since=100), "restart"),
        (EngineSigns(now=130, started_at=0, has_responded=True, silent_since=100), None),
        (EngineSigns(now=131, started_at=0, has_responded=True, silent_since=100), "restart"),
        (EngineSigns(now=9, started_at=0, has_responded=True, memory_bytes=1000), None),
        (EngineSigns(now=9, started_at=0, has_responded=True, memory_bytes=1001, in_use=1), "rest"),
        (EngineSigns(now=9, started_at=0, has_responded=True, memory_bytes=1001), "restart"),
        # Models are loaded before the engine responds; the memory it uses then does not count as growth.
        (EngineSigns(now=9, started_at=0, memory_bytes=1001), None),
    ],
)
def test_an_engine_is_restarted_only_for_a_reason(signs: EngineSigns, action: str | None) -> None:
    verdict = judge(RULES, signs)
    assert (None if verdict is None else verdict.action) == action


def test_pauses_between_restarts_grow_up_to_a_limit() -> None:
    pauses = [RestartRules().pause_seconds(failures) for failures in (0, 1, 2, 3, 9, 10, 10_000)]
    assert pauses == [0, 1, 2, 4, 256, 300, 300]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def supervised(tmp_path: Path) -> tuple[Supervisor, DrivenEngine, Mock, Clock]:
    engine = Mock(provider="self_hosted", describe=AsyncMock(side_effect=EngineUnreachable("The engine is away.")))
    driven = DrivenEngine("self_hosted-1", engine, 1, 10.0, lambda: None)
    launch = Launch(("true",), {}, tmp_path, tmp_path, 1)
    process = Mock(launch=launch, is_running=False, exit_code=1, memory_bytes=None, start=AsyncMock(), stop=AsyncMock())
    process.log = BoundedLog(tmp_path / "engine.log", 1000)

    async def start() -> None:
        process.is_running = True

    process.start.side_effect = start
    clock = Clock()
    return Supervisor(driven, process, RULES, clock), driven, process, clock


async def test_a_process_that_ends_is_started_after_pauses_that_grow_until_it_was_stable(tmp_path: Path) -> None:
    supervisor, driven, process, clock = supervised(tmp_path)
    started = []
    for _ in range(3):
        while not process.is_running:
            await supervisor.tick()
            clock.now += 0.5
        started.append(clock.now)
        process.is_running = False
    assert [later - earlier for earlier, later in pairwise(started)] == [1.5, 2.5]
    assert "ended with code 1" in (supervisor.failed_start or "")
    # It lives long, dies once, and is started at once.
    while not process.is_running:
        await supervisor.tick()
        clock.now += 0.5
    driven.health.responses = driven.health.is_healthy = True
    await supervisor.tick()
    assert supervisor.failed_start is None
    clock.now += RULES.stable_seconds
    process.is_running = False
    count = process.start.await_count
    await supervisor.tick()
    assert process.start.await_count == count + 1
    assert not driven.takes_jobs


async def test_a_stuck_engine_is_restarted_and_one_over_its_memory_when_its_jobs_are_over(tmp_path: Path) -> None:
    supervisor, driven, process, clock = supervised(tmp_path)
    await supervisor.tick()
    driven.engine.describe.side_effect = EngineStuck("It gets nowhere.")  # type: ignore[attr-defined]
    await driven.health.check()
    await supervisor.tick()
    assert process.stop.await_count == 0, "a node that is only slow has some seconds"
    clock.now += RULES.stuck_seconds
    await supervisor.tick()
    assert process.stop.await_count == 1
    clock.now += 10
    process.is_running = False
    await supervisor.tick()
    driven.engine.describe.side_effect = None  # type: ignore[attr-defined]
    await driven.health.check()
    driven.in_use, process.memory_bytes = 1, 1001
    await supervisor.tick()
    assert (driven.takes_jobs, process.stop.await_count) == (False, 1)
    driven.in_use = 0
    await supervisor.tick()
    assert process.stop.await_count == 2


async def test_an_engine_that_is_busy_for_other_clients_is_not_restarted(tmp_path: Path) -> None:
    supervisor, driven, process, clock = supervised(tmp_path)
    await supervisor.tick()
    driven.engine.describe.side_effect = EngineError("engine_busy", "It has runs of others to do first.")  # type: ignore[attr-defined]
    for _ in range(3):
        await driven.health.check()
        await supervisor.tick()
        clock.now += RULES.start_seconds + RULES.absent_seconds
    assert (driven.takes_jobs, process.stop.await_count) == (False, 0)


async def test_a_stop_that_was_cancelled_is_repeated(tmp_path: Path) -> None:
    script = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    launch = Launch((sys.executable, "-uc", script), dict(os.environ), tmp_path, tmp_path, free_port())
    process = EngineProcess(launch, 10_000)
    await process.start()
    while "deaf" not in process.log.tail:
        await asyncio.sleep(0.01)
    stopping = asyncio.create_task(process.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    assert process.is_running
    with patch("callsheet.worker.engines.engine_process.STOP_SECONDS", 0.2):
        await process.stop()
    assert not process.is_running
    assert process.exit_code == -9


async def test_an_engine_whose_port_is_taken_says_so_and_is_tried_again(tmp_path: Path) -> None:
    port = free_port()
    process = EngineProcess(Launch(("true",), {}, tmp_path, tmp_path, port), 1000)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    async with server:
        with pytest.raises(OSError, match=f"Port {port} is used by another program"):
            await process.start()
    assert not process.is_running


async def test_output_of_a_process_is_kept_and_its_children_end_with_it(tmp_path: Path) -> None:
    script = "import subprocess, sys; p = subprocess.Popen(['sleep', '600']); print('child', p.pid); p.wait()"
    launch = Launch((sys.executable, "-uc", script), dict(os.environ), tmp_path, tmp_path, free_port())
    process = EngineProcess(launch, 10_000)
    await process.start()
    while "\n" not in process.log.tail:
        await asyncio.sleep(0.01)
    child = int(process.log.tail.split()[1])
    used = process.memory_bytes
    assert used is not None
    assert used > (memory_bytes(child) or 0) > 0
    await process.stop()
    await process.stop()
    assert started_at(child) is None
    assert not (tmp_path / NOTE_NAME).exists()
    assert (tmp_path / "engine.log").read_text() == process.log.tail


async def test_a_stop_waits_for_children_that_end_after_the_process(tmp_path: Path) -> None:
    # Freeing memory takes time: the child is still there for some milliseconds after it was killed.
    child = (
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "held = b'x' * 2**26\n"
        "print('ready')\n"
        "signal.pause()\n"
    )
    script = (
        "import sys\n"
        "from subprocess import DEVNULL, PIPE, Popen\n"
        f"child = Popen([sys.executable, '-uc', {child!r}], stdout=PIPE, stderr=DEVNULL)\n"
        "child.stdout.readline()\n"
        "print('child', child.pid)\n"
        "child.wait()\n"
    )
    launch = Launch((sys.executable, "-uc", script), dict(os.environ), tmp_path, tmp_path, free_port())
    process = EngineProcess(launch, 10_000)
    await process.start()
    while "\n" not in process.log.tail:
        await asyncio.sleep(0.01)
    pid = int(process.log.tail.split()[1])
    await process.stop()
    assert started_at(pid) is None


async def test_only_the_process_that_a_dead_agent_left_is_ended(tmp_path: Path) -> None:
    async def left(name: str, started: str | None, agent: int) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        note = {"pid": process.pid, "started": started or started_at(process.pid), "port": 1}
        write_private(tmp_path / name / NOTE_NAME, {**note, "agent": agent, "agent_started": started_at(os.getpid())})
        return process

    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
    orphan = await left("1", None, 2**22 + 1)
    of_another = await left("2", "at another time", 2**22 + 1)
    of_a_living_agent = await left("3", None, os.getpid())
    await end_left_over(tmp_path)
    assert await orphan.wait() == -15
    assert [started_at(each.pid) is not None for each in (of_another, of_a_living_agent)] == [True, True]
    assert [(tmp_path / name / NOTE_NAME).exists() for name in ("1", "2", "3")] == [False, False, True]
    for each in (of_another, of_a_living_agent):
        each.kill()
        await each.wait()


def test_the_size_of_a_log_is_limited(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "engine.log", 1000)
    for number in range(100):
        log.write(f"line {number:03}\n".encode() * 10)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    assert {path.name for path in tmp_path.iterdir()} == {"engine.log", "engine.log.1"}
    assert log.tail.endswith("line 099\n")
    assert len(log.tail) <= TAIL_BYTES
    gone = BoundedLog(tmp_path / "no" / "engine.log", 1000)
    gone.write(b"still said")
    assert gone.tail == "still said"


def test_no_two_agents_choose_the_same_ports() -> None:
    first, second = Ports(), Ports()
    port = free_port()
    chosen = first.choose(port, 2)
    # Nothing listens there yet: only the reservation shows it.
    assert is_free(chosen[0])
    assert set(second.choose(port, 2)).isdisjoint(chosen)
    first.close()
    second.close()
    assert first.choose(chosen[0], 1) == chosen[:1]
    first.close()
    with pytest.raises(OperatorError, match="CALLSHEET_ENGINE__PORT"):
        first.choose(65_535, 2)
    first.close()


def test_engines_of_one_directory_share_input_and_nothing_else(tmp_path: Path) -> None:
    comfyui = tmp_path / "ComfyUI"
    (comfyui / "venv" / "bin").mkdir(parents=True)
    for file in ("main.py", "venv/bin/python"):
        (comfyui / file).touch()
    found = ComfyUIDirectory.at(comfyui, None, "--fast --max-upload-size 5000")
    launches = [found.launch(tmp_path / str(n), 8188 + n, f"{n}", {"PATH": "/bin"}) for n in (1, 2)]
    again = found.launch(tmp_path / "1", 8189, None, {"PATH": "/bin"})
    assert again.environment == {"PATH": "/bin", "PYTHONUNBUFFERED": "1"}
    options = [dict(zip(each.command[2:16:2], each.command[3:16:2], strict=True)) for each in launches]
    assert {key for key in options[0] if options[0][key] == options[1][key]} == {"--listen"}
    assert len({Path(each["--input-directory"]).resolve() for each in options}) == 1
    assert launches[0].command[0] == str(comfyui / "venv/bin/python")
    assert launches[0].command[-3:] == ("--fast", "--max-upload-size", "5000")
    assert [each.environment["CUDA_VISIBLE_DEVICES"] for each in launches] == ["1", "2"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"path": "nowhere"}, "has no main.py"),
        ({"python": Path("/no/python")}, "There is no Python at /no/python"),
        ({"arguments": "--port 1 --listen=0.0.0.0"}, "--listen, --port, which the worker sets itself"),
        ({"arguments": "'--fast"}, "engine.arguments cannot be read"),
    ],
)
def test_a_directory_that_cannot_be_started_is_refused_before_the_start(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    (tmp_path / "main.py").touch()
    given = {"path": ".", "python": None, "arguments": "", **changes}
    with pytest.raises(OperatorError, match=sentence):
        ComfyUIDirectory.at(tmp_path / str(given["path"]), given["python"], str(given["arguments"]))  # type: ignore[arg-type]


def test_engines_are_spread_over_the_gpus() -> None:
    assert gpus_of(("GPU-a", "GPU-b"), "7") == ("GPU-a", "GPU-b")
    assert gpus_of((), "2, 3") == ("2", "3")
    assert [gpu_of(number, ("2", "3")) for number in range(3)] == ["2", "3", "2"]
    assert gpu_of(0, ()) is None


def test_secrets_of_the_worker_are_not_for_its_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEET_SECRET", "CALLSHEET_WORKER__SECRET", "COMFY_CLOUD_API_KEY", "HF_HOME"):
        monkeypatch.setenv(name, "given")
    given = environment_for_programs()
    assert [name in given for name in ("FLEET_SECRET", "CALLSHEET_WORKER__SECRET", "COMFY_CLOUD_API_KEY")] == [
        False
    ] * 3
    assert given["HF_HOME"] == "given"


def test_engines_are_given_by_urls_or_started_and_not_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLSHEET_ENGINE__URLS", "http://127.0.0.1:8188, http://127.0.0.1:8189")
    assert load_settings().engine.urls == ("http://127.0.0.1:8188", "http://127.0.0.1:8189")


async def test_an_engine_warms_up_once_per_start_and_not_again_with_what_stopped_it() -> None:
    engine = Mock(run=AsyncMock(), cancel=AsyncMock(), forget=AsyncMock())
    warm_up = WarmUp(engine, {"1": {"class_type": "KSampler", "inputs": {}}}, "engine")
    await warm_up.run()
    await warm_up.run()
    assert (engine.run.await_count, engine.forget.await_count) == (1, 1)
    warm_up.engine_was_away()
    engine.run.side_effect = EngineStuck("It gets nowhere.")
    await warm_up.run()
    assert (engine.run.await_count, engine.cancel.await_count) == (2, 1)
    warm_up.engine_was_away()
    await warm_up.run()
    assert engine.run.await_count == 2


async def test_an_engine_that_ends_while_it_warms_up_is_warmed_up_at_its_next_start() -> None:
    engine = Mock(run=AsyncMock(side_effect=EngineUnreachable("The engine is away.")))
    warm_up = WarmUp(engine, {"1": {"class_type": "KSampler", "inputs": {}}}, "engine")
    for _ in range(2):
        with pytest.raises(EngineUnreachable):
            await warm_up.run()
    assert engine.run.await_count == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_warm_up_is_read_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "warm-up.json"
    graph = {"1": {"class_type": "PrimitiveString", "inputs": {"value": "Übung"}}}
    file.write_text(json.dumps(graph, ensure_ascii=False), encoding)
    assert graph_in(file) == graph


def test_a_warm_up_is_a_graph_in_the_api_format(tmp_path: Path) -> None:
    file, graph = tmp_path / "warm.json", {"1": {"class_type": "KSampler", "inputs": {}}}
    for content in (graph, {"prompt": graph}):
        file.write_text(json.dumps(content))
        assert graph_in(file) == graph
    for text in ("", "[]", '{"nodes": [], "links": []}'):
        file.write_text(text)
        with pytest.raises(OperatorError, match=r"warm\.json cannot be"):
            graph_in(file)
