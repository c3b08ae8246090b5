"""Agents on this machine: as many as wanted, found again after a restart, and no other program is ever ended.

A shell takes the agent's place here; tests/worker has real agents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from callsheet.scaling.driver import DriverError, ScaledFleet
from callsheet.scaling.drivers import local_agents
from callsheet.scaling.drivers.process import KILL_SECONDS, RETRY_SECONDS, ProcessDriver
from callsheet.scaling.policy import Policy
from callsheet.settings import Settings, load_settings
from callsheet.wire.fleet import CreatedFleetToken
from tests.support.waiting import until

HOST = "studio"
# A minute at most: an agent outlives the process that started it, and so it would a test run that is interrupted.
A_MINUTE = "n=0; while [ $n -lt 1200 ]; do sleep 0.05; n=$((n + 1)); done"
PATIENT = f'trap "exit 0" TERM; {A_MINUTE}'
STUBBORN = f'trap "" TERM; echo "I stay."; {A_MINUTE}'
READING = "read -r line"
FAILING = 'echo "There is no directory /opt/ComfyUI."; exit 1'


@dataclass
class Tokens:
    """`FleetTokens` without a database."""

    accepted: set[str] = field(default_factory=set)
    created: int = 0

    async def create(self, fleet_id: int, name: str | None, actor: str) -> CreatedFleetToken:
        self.created += 1
        token = f"csf_{self.created}"
        self.accepted.add(token)
        return CreatedFleetToken.model_construct(token=token)

    async def is_accepted(self, token: str) -> bool:
        return token in self.accepted


@dataclass
class Machine:
    home: Path
    tokens: Tokens = field(default_factory=Tokens)
    now: float = 1000.0

    def driver(self, script: str = PATIENT, *, host: str = HOST, **settings: Any) -> ProcessDriver:
        given = Settings(home=self.home, **settings)
        return ProcessDriver(given, self.tokens, host=host, now=lambda: self.now, command=("/bin/sh", "-c", script))

    def fleet(self, *, maximum: int = 3, **options: Any) -> ScaledFleet:
        return ScaledFleet(7, "face-swap", "production", Policy(maximum=maximum), "process", {"host": HOST, **options})

    @property
    def directory(self) -> Path:
        return self.home / "scaling" / "face-swap.production"

    def pid(self, worker_id: str) -> int:
        return int((self.directory / worker_id / "pid").read_text())

    def pids(self) -> list[int]:
        return [int(file.read_text()) for file in self.directory.glob("*/pid")]


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path / "home")
    yield machine
    # By what they were started with, also where a test has removed or changed the file that names them.
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(str(machine.home) in value for value in process.environ().values()):
                process.kill()
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, 0)  # noqa: ASYNC222


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except OSError:
        return ""


async def ids(driver: ProcessDriver, fleet: ScaledFleet) -> set[str]:
    actual = await driver.actual(fleet)
    assert actual.worker_ids is not None
    assert actual.count == len(actual.worker_ids)
    return set(actual.worker_ids)


async def started(machine: Machine) -> None:
    """Until every agent has written its number."""
    await until(lambda: len(machine.pids()) == len(list(machine.directory.glob("*/agent.json"))))


def gone(driver: ProcessDriver, fleet: ScaledFleet, number: int) -> Callable[[], Any]:
    async def are_left() -> bool:
        return len(await ids(driver, fleet)) == number

    return are_left


async def test_as_many_agents_run_as_are_wanted_and_never_more_than_the_maximum(machine: Machine) -> None:
    driver, fleet = machine.driver(), machine.fleet(maximum=3)
    await driver.want(fleet, 2, 0)
    first = await ids(driver, fleet)
    assert len(first) == 2
    assert all(worker_id.startswith("studio-face-swap-") for worker_id in first)
    await driver.want(fleet, 2, 0)
    assert await ids(driver, fleet) == first
    await driver.want(fleet, 9, 0)
    assert len(await ids(driver, fleet)) == 3
    await driver.want(fleet, 1, 0)
    assert len(await ids(driver, fleet)) == 3, "fewer wanted ends none"


async def test_a_restarted_control_plane_finds_its_agents_and_starts_no_others(machine: Machine) -> None:
    fleet, before = machine.fleet(), machine.driver()
    await before.want(fleet, 2, 0)
    running = await ids(before, fleet)
    await started(machine)
    await before.close()
    after = machine.driver()
    machine.now += 3600
    await after.want(fleet, 2, 0)
    assert await ids(after, fleet) == running
    assert machine.tokens.created == 1, "the registration token is kept, too"


async def test_an_agent_whose_process_has_not_written_its_number_counts(machine: Machine) -> None:
    """As a control plane leaves it that was killed while it started one."""
    driver, fleet = machine.driver(), machine.fleet(maximum=1)
    directory = machine.directory / "studio-face-swap-1"
    directory.mkdir(parents=True)
    record = {"worker_id": directory.name, "host": HOST, "place": 0, "started_at": machine.now - 5}
    (directory / "agent.json").write_text(json.dumps(record))
    await driver.want(fleet, 1, 0)
    assert await ids(driver, fleet) == {directory.name}
    # It never came.
    machine.now += 60
    assert await ids(driver, fleet) == set()


async def test_exactly_the_named_agent_ends_and_its_place_is_free_when_it_is_gone(machine: Machine) -> None:
    driver = machine.driver()
    fleet = machine.fleet(maximum=2, engine_urls=["http://127.0.0.1:8188", "http://127.0.0.1:8189"], gpus=["0", "1"])
    await driver.want(fleet, 2, 0)
    await started(machine)
    [ending, staying] = sorted(await ids(driver, fleet))
    place = _place(machine, ending)
    await driver.end(fleet, [ending])

    async def is_left() -> bool:
        return await ids(driver, fleet) == {staying}

    await until(is_left)
    await driver.end(fleet, [ending, "nosuch"])
    await driver.want(fleet, 2, 0)
    [new] = await ids(driver, fleet) - {staying}
    assert new != ending, "a drain belongs to an id, so a new agent has a new one"
    assert _place(machine, new) == place
    await started(machine)
    await until(lambda: f"CUDA_VISIBLE_DEVICES={place}" in _environment(machine.pid(new)))


def _place(machine: Machine, worker_id: str) -> int:
    return int(json.loads((machine.directory / worker_id / "agent.json").read_text())["place"])


async def test_engines_that_are_named_limit_the_agents(machine: Machine) -> None:
    driver, fleet = machine.driver(), machine.fleet(maximum=3, gpus=["0", "1"])
    with pytest.raises(DriverError, match="3 workers are wanted, and the fleet face-swap has engines or GPUs for 2"):
        await driver.want(fleet, 3, 0)
    assert len(await ids(driver, fleet)) == 2


async def test_an_agent_that_does_not_leave_still_counts_and_is_killed_after_a_minute(machine: Machine) -> None:
    driver, fleet = machine.driver(STUBBORN), machine.fleet(maximum=1)
    await driver.want(fleet, 1, 0)
    await started(machine)
    [stubborn] = await ids(driver, fleet)
    await until(lambda: (machine.directory / stubborn / "agent.log").read_text())
    await driver.end(fleet, [stubborn])
    await driver.want(fleet, 1, 0)
    assert await ids(driver, fleet) == {stubborn}, "its engine is not free yet"
    machine.now += KILL_SECONDS + 1
    await until(gone(driver, fleet, 0))


async def test_a_program_that_was_given_an_agents_number_is_never_ended(machine: Machine) -> None:
    driver, fleet = machine.driver(), machine.fleet()
    await driver.want(fleet, 1, 0)
    await started(machine)
    [worker_id] = await ids(driver, fleet)
    agent = machine.pid(worker_id)
    with subprocess.Popen(["/bin/sleep", "600"]) as stranger:  # noqa: ASYNC220
        try:
            (machine.directory / worker_id / "pid").write_text(f"{stranger.pid}\n")
            await driver.end(fleet, [worker_id])
            assert await ids(driver, fleet) == set()
            assert stranger.poll() is None
        finally:
            stranger.kill()
            os.kill(agent, signal.SIGKILL)


async def test_an_agent_that_writes_its_pid_while_it_is_checked_is_not_gone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, fleet = machine.driver(), machine.fleet()
    await driver.want(fleet, 1, 0)
    await started(machine)
    running = await ids(driver, fleet)
    read_pid, reads = local_agents.LocalAgent._pid, iter([None])
    monkeypatch.setattr(local_agents.LocalAgent, "_pid", lambda agent: next(reads, read_pid(agent)))
    assert await ids(driver, fleet) == running
    assert await ids(driver, fleet) == running


async def test_a_control_plane_on_another_machine_neither_sees_nor_ends_the_agents(machine: Machine) -> None:
    here, there = machine.driver(), machine.driver(host="other")
    await here.want(machine.fleet(), 1, 0)
    running = await ids(here, machine.fleet())
    for call in (
        there.actual(machine.fleet()),
        there.want(machine.fleet(), 3, 0),
        there.end(machine.fleet(), [*running]),
    ):
        with pytest.raises(DriverError, match="run on studio, and this control plane runs on other"):
            await call
    # The same data directory on both, and the fleet was moved.
    moved = ScaledFleet(7, "face-swap", "production", Policy(), "process", {"host": "other"})
    await there.end(moved, [*running])
    assert await ids(there, moved) == set()
    assert await ids(here, machine.fleet()) == running


async def test_an_agent_that_cannot_start_is_not_started_again_and_again(machine: Machine) -> None:
    driver, fleet = machine.driver(FAILING), machine.fleet()
    await driver.want(fleet, 1, 0)
    await started(machine)
    await until(gone(driver, fleet, 0))
    with pytest.raises(DriverError, match=r"ends with: There is no directory /opt/ComfyUI\."):
        await driver.want(fleet, 1, 0)
    assert len(list(machine.directory.glob("*/agent.json"))) == 1
    machine.now += RETRY_SECONDS
    await driver.want(fleet, 1, 0)
    assert len(list(machine.directory.glob("*/agent.json"))) == 2


async def test_agents_configured_to_leave_end_with_their_control_plane(machine: Machine) -> None:
    driver, fleet = machine.driver(READING), machine.fleet(leaves_with_control_plane=True)
    await driver.want(fleet, 2, 0)
    await started(machine)
    assert len(await ids(driver, fleet)) == 2
    await driver.close()
    await until(gone(driver, fleet, 0))


async def test_an_agent_gets_its_settings_and_none_of_the_control_planes_secrets(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_DATABASE__DSN", "postgresql://callsheet:hidden@db/callsheet")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/cuda/lib64")
    monkeypatch.setenv("FLEET_SLUG", "another")
    driver = machine.driver(
        worker={
            "max_concurrency": 2,
            "fleet": "another",
            "cloud_api_key": "key-of-comfy",
            "metadata_url": None,
            "capabilities": {"gpu": "none"},
            "queues": ["a", "b"],
            "prefetch": False,
        },
        engine={"directory": str(machine.home)},
    )
    await driver.want(machine.fleet(), 1, 0)
    await started(machine)
    [pid] = machine.pids()
    # While the shell becomes the agent, the kernel shows no environment.
    given: dict[str, str] = {}
    await until(lambda: given.update(line.split("=", 1) for line in _environment(pid).split("\0") if line) or given)
    assert given["FLEET_SECRET"] == "csf_1"
    assert given["LD_LIBRARY_PATH"] == "/opt/cuda/lib64"
    ours = {name: value for name, value in given.items() if name.startswith("CALLSHEET_") and name != "CALLSHEET_HOME"}
    assert ours == {
        "CALLSHEET_WORKER__MAX_CONCURRENCY": "2",
        "CALLSHEET_WORKER__CLOUD_API_KEY": "key-of-comfy",
        "CALLSHEET_WORKER__METADATA_URL": "null",
        "CALLSHEET_WORKER__CAPABILITIES": '{"gpu": "none"}',
        "CALLSHEET_WORKER__QUEUES": "a,b",
        "CALLSHEET_WORKER__PREFETCH": "false",
        "CALLSHEET_ENGINE__DIRECTORY": str(machine.home),
    }
    assert "FLEET_SLUG" not in given
    # What an agent makes of it.
    for name in [name for name in os.environ if name.startswith(("CALLSHEET_", "FLEET_"))]:
        monkeypatch.delenv(name)
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    read = load_settings()
    assert read.worker == driver._settings.worker.model_copy(update={"fleet": None})
    assert read.engine == driver._settings.engine


async def test_a_revoked_registration_token_is_replaced(machine: Machine) -> None:
    driver, fleet = machine.driver(), machine.fleet()
    await driver.want(fleet, 1, 0)
    machine.tokens.accepted.clear()
    await driver.want(fleet, 2, 0)
    assert machine.tokens.created == 2
    assert (machine.directory / "token").stat().st_mode & 0o777 == 0o600


async def test_the_directories_of_the_last_ten_agents_are_kept(machine: Machine) -> None:
    driver, fleet = machine.driver(), machine.fleet()
    for number in range(13):
        directory = machine.directory / f"old-{number:02}"
        directory.mkdir(parents=True)
        record = {"worker_id": directory.name, "host": HOST, "place": 0, "started_at": number}
        (directory / "agent.json").write_text(json.dumps(record))
    assert await ids(driver, fleet) == set()
    assert sorted(file.name for file in machine.directory.iterdir()) == [f"old-{number:02}" for number in range(3, 13)]


def test_the_host_is_kept_with_the_options(machine: Machine) -> None:
    assert machine.driver().checked({"lightbox": True})["host"]
    assert machine.driver().checked({"host": "studio"})["host"] == "studio"


async def test_an_agent_whose_program_is_just_being_replaced_is_alive(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment such a process has no command line."""
    driver, fleet = machine.driver(), machine.fleet(maximum=1)
    await driver.want(fleet, 1, 0)
    await started(machine)
    running = await ids(driver, fleet)
    seen, command_line = [], local_agents._command_line

    def empty_at_first(pid: int) -> list[str]:
        seen.append(pid)
        return [""] if len(seen) < 3 else command_line(pid)

    monkeypatch.setattr(local_agents, "_command_line", empty_at_first)
    assert await ids(driver, fleet) == running
    assert len(seen) == 3
