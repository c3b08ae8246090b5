"""Control planes killed, frozen and doubled in the middle of decisions, and a program that hangs after it acted.

Whatever happens: never more workers than the maximum, no worker ended that holds a job, every job done once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.plumbing.http.server import with_free_port
from callsheet.scaling.drivers.command import CommandDriver
from callsheet.scaling.rules import ScalingRules
from callsheet.settings import ScalingSettings, Settings
from callsheet.wire.fleet import CreateFleetRequest, Fleet
from callsheet.wire.operate.scaling import ScalingRequest
from tests.support.fleets.scaling_harness import AT_ONCE
from tests.support.http.fleet_api import join, registry
from tests.support.jobs.core import Core, Member, open_core
from tests.support.programs.control_plane_process import ControlPlaneProcess
from tests.support.programs.serve_with_failpoints import ROOT, program
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

MAXIMUM = 2
JOBS = 4
KILLS = 3
# A cloud in a directory: a file for each worker, and a line for each call. `slow` in the directory: it acts and hangs.
CLOUD = """
import os, pathlib, sys, time
here = pathlib.Path(sys.argv[1]); workers = here / "workers"; workers.mkdir(exist_ok=True)
action, *rest = sys.argv[2:]
def log(line):
    with (here / "calls").open("a") as file: file.write(line + "\\n")
if action == "list":
    print("\\n".join(sorted(os.listdir(workers))))
elif action == "want":
    for number in range(1, 1000):
        if len(os.listdir(workers)) >= int(rest[0]): break
        if not any((here / kind / f"gpu-{number}").exists() for kind in ("workers", "ended")):
            (workers / f"gpu-{number}").touch()
    log(f"want {rest[0]} exist {len(os.listdir(workers))}")
elif action == "end":
    (here / "ended").mkdir(exist_ok=True)
    for name in rest:
        if (workers / name).exists(): (workers / name).rename(here / "ended" / name)
        log(f"end {name}")
if action != "list" and (here / "slow").exists():
    (here / "slow").unlink()
    time.sleep(60)
"""


class ScaledInstallation:
    """An installation with one scaled fleet, whose workers are played here, and control planes that are processes."""

    def __init__(self, settings: Settings, core: Core, ann: Member, fleet: Fleet, directory: Path, cloud: Path):
        self.settings = settings
        self.core = core
        self.ann = ann
        self.fleet = fleet
        self.directory = directory
        self.cloud = cloud
        self.room = registry(core.databases, core.room.leases)
        self.submitted = 0
        # What each worker is at.
        self.held: dict[str, StartedLease] = {}

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-c", CLOUD, str(self.cloud))

    async def submit(self) -> None:
        for _ in range(JOBS):
            await self.core.submit(self.ann)
        self.submitted += JOBS

    async def plane(
        self, undo: AsyncExitStack, program: Sequence[str] = ControlPlaneProcess.program
    ) -> ControlPlaneProcess:
        """Started, and not waited for: one that stops itself may never respond."""
        settings = await with_free_port(
            self.settings.model_copy(
                update={"server": self.settings.server.model_copy(update={"port": 0})},
            )
        )
        commands = ScalingSettings(commands={"rent": self.command}).model_dump_json(include={"commands"})
        variables = {
            "CALLSHEET_SCALING__COMMANDS": commands.removeprefix('{"commands":').removesuffix("}"),
            "CALLSHEET_SCALING__INTERVAL_SECONDS": "1",
            "CALLSHEET_SCALING__DRIVER_SECONDS": "3",
            "CALLSHEET_TASKS__IN_PROCESS": "0",
            "CALLSHEET_SERVER__WEB_APPLICATION": "false",
            "PYTHONPATH": str(ROOT),
        }
        plane = ControlPlaneProcess(settings, self.directory, variables, program)
        undo.push_async_callback(plane.kill)
        await plane.spawn()
        return plane

    def names(self, kind: str = "workers") -> list[str]:
        directory = self.cloud / kind
        return sorted(file.name for file in directory.iterdir()) if directory.exists() else []

    def calls(self) -> list[str]:
        file = self.cloud / "calls"
        return file.read_text().splitlines() if file.exists() else []

    async def work(self) -> None:
        """All that exist and are not registered do so; each takes a job, and has finished it the next time."""
        rows = await self.core.rows(self.core.databases.central, "SELECT worker_id FROM comfyui_workers")
        registered = {row["worker_id"] for row in rows}
        for name in self.names():
            if name not in registered:
                await join(self.room, name, fleet_slug=self.fleet.slug, stage=self.fleet.stage)
            if name in self.held:
                await self.core.complete(self.held[name])
                assert name in self.names(), "a worker that holds a job is not ended"
                del self.held[name]
            elif name in self.names() and (lease := await self.core.lease(name)) is not None:
                self.held[name] = lease
        for name in registered.intersection(self.names("ended")):
            await self.core.rows(self.core.databases.central, "DELETE FROM comfyui_workers WHERE worker_id = $1", name)
        assert not self.held.keys() & set(self.names("ended")), "a worker that holds a job is not ended"

    async def until_served(self) -> None:
        """Every job is done; workers may be left."""

        async def is_served() -> bool:
            await self.work()
            return not self.held and await self._finished() == self.submitted

        await until(is_served, every=0.2)

    async def until_done(self) -> None:
        """Every job is done, and every worker that was started is ended."""
        await self.until_served()

        async def is_done() -> bool:
            await self.work()
            return self.names() == []

        await until(is_done, every=0.2)
        self.check_calls()
        await self._check_decisions()
        rows = await self.core.rows(self.core.databases.central, "SELECT status FROM dispatch_history")
        assert [row["status"] for row in rows] == ["completed"] * self.submitted
        assert not await self.core.rows(self.core.databases.central, "SELECT FROM ai_job_dispatches")
        await self.core.check_drained()

    async def has_led(self, since: datetime | None) -> bool:
        """Whether an autoscaler has looked at the fleet since then; the workers go on meanwhile."""
        await self.work()
        return await self.checked_at() != since

    async def checked_at(self) -> datetime | None:
        [row] = await self.core.rows(self.core.databases.central, "SELECT checked_at FROM fleet_scaling")
        found: datetime | None = row["checked_at"]
        return found

    def check_calls(self) -> None:
        """Neither asked for more than the maximum, nor had more."""
        for line in self.calls():
            if line.startswith("want"):
                _, wanted, _, existing = line.split()
                assert max(int(wanted), int(existing)) <= MAXIMUM

    async def _check_decisions(self) -> None:
        """Each decision is recorded once, even if a process repeats it: it differs from the one before, and a worker
        ends once."""
        rows = await self.core.rows(self.core.databases.central, "SELECT * FROM scaling_decisions ORDER BY id")
        for before, after in pairwise(rows):
            is_same = all(before[name] == after[name] for name in ("wanted", "on_demand", "cause"))
            assert not is_same or after["drained"] or after["undrained"] or after["ended"]
        assert sorted(name for row in rows for name in row["ended"]) == sorted(self.names("ended"))

    async def _finished(self) -> int:
        return len(await self.core.rows(self.core.databases.central, "SELECT FROM dispatch_history"))


@pytest.fixture
async def scaled_installation(databases: Databases, settings: Settings, tmp_path: Path) -> ScaledInstallation:
    """An installation with one scaled fleet."""
    core = await open_core(databases).prepare()
    ann = await core.member("pool_1")
    room = registry(databases, core.room.leases)
    [row] = await core.rows(databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    fleet = await room.fleets.create(CreateFleetRequest(slug="gpu", workflow_slugs=[row["slug"]]), "operator")
    cloud = tmp_path / "cloud"
    cloud.mkdir()
    scaled_installation = ScaledInstallation(settings, core, ann, fleet, tmp_path, cloud)
    driver = CommandDriver(ScalingSettings(commands={"rent": scaled_installation.command}))
    request = ScalingRequest(driver="command", options={"command": "rent"}, maximum=MAXIMUM, **AT_ONCE)
    await ScalingRules(databases, {"command": driver}).put(fleet.id, request, "operator")
    return scaled_installation


@pytest.mark.parametrize("point", [Failpoint.SCALING_RECORDED_BEFORE_DRIVER, Failpoint.SCALING_ORDERED_BEFORE_END])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_another_control_plane_finishes_the_decision_of_a_dead_or_frozen_one(
    scaled_installation: ScaledInstallation, point: Failpoint, number: signal.Signals
) -> None:
    async with AsyncExitStack() as undo:
        await scaled_installation.submit()
        first = await scaled_installation.plane(undo, program(number, [point]))
        await until(lambda: first.is_over if number is signal.SIGKILL else first.is_stopped())
        await scaled_installation.plane(undo)
        await scaled_installation.until_done()
        if number is signal.SIGSTOP:
            # It wakes up with an old order in hand, and must do nothing that is wrong now.
            first.send(signal.SIGCONT)
            await scaled_installation.submit()
            await scaled_installation.until_done()


async def test_a_control_plane_frozen_before_it_ends_workers_ends_none_when_it_wakes_up(
    scaled_installation: ScaledInstallation,
) -> None:
    async with AsyncExitStack() as undo:
        await scaled_installation.submit()
        steady = await scaled_installation.plane(undo)
        await until(lambda: len(scaled_installation.names()) == MAXIMUM)
        await steady.kill()
        await scaled_installation.until_served()
        # The first look drains what is idle, and the second one ends it.
        point = Failpoint.SCALING_RECORDED_BEFORE_DRIVER
        frozen = await scaled_installation.plane(undo, program(signal.SIGSTOP, [point, point]))
        await until(frozen.is_stopped)
        frozen.send(signal.SIGCONT)
        await until(frozen.is_stopped)
        assert len(scaled_installation.names()) == MAXIMUM
        await scaled_installation.plane(undo)
        await scaled_installation.until_done()
        await scaled_installation.submit()

        async def has_job() -> bool:
            await scaled_installation.work()
            return bool(scaled_installation.held)

        await until(has_job)
        frozen.send(signal.SIGCONT)
        await scaled_installation.until_done()


async def test_two_control_planes_scale_with_a_program_that_hangs_after_it_acted(
    scaled_installation: ScaledInstallation,
) -> None:
    async with AsyncExitStack() as undo:
        (scaled_installation.cloud / "slow").touch()
        await scaled_installation.submit()
        for _ in range(2):
            await scaled_installation.plane(undo)
        await scaled_installation.until_done()


async def test_a_fleet_is_scaled_although_control_planes_are_killed_repeatedly(
    scaled_installation: ScaledInstallation,
) -> None:
    """Each leads for some looks at most, and dies at any line of them."""
    async with AsyncExitStack() as undo:
        await scaled_installation.submit()
        steady = await scaled_installation.plane(undo)
        for _ in range(KILLS):
            other = await scaled_installation.plane(undo)
            await until(partial(scaled_installation.has_led, await scaled_installation.checked_at()), every=0.2)
            await steady.kill()
            steady = other
        await scaled_installation.until_done()
