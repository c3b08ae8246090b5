"""`callsheet demo --scale`: a fleet without a worker gets ten jobs, grows to three agents, and shrinks to none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from callsheet.cli.installation.serve import settle_memory, stop_requested
from callsheet.cli.shared.console import err, print_json
from callsheet.client import AsyncCallsheet
from callsheet.scaling.driver import ScaledFleet
from callsheet.scaling.metric import FleetMetrics
from callsheet.scaling.policy import Policy
from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.private_files import make_private
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import JobStatus
from callsheet.wire.operate.scaling import FleetScaling, ScalingDecision, ScalingRequest
from callsheet.wire.plurals import counted
from callsheet_demo.account import fill_wallet, remembered_login, seed_account
from callsheet_demo.catalog import FLEET, OPERATOR, STAGE, seed_catalog
from callsheet_demo.introduction import imagine_command

if TYPE_CHECKING:
    from callsheet.app.control_plane import ControlPlane

JOBS = 10
MAX_AGENTS = 3
EFFECT = "imagine"
# The agents end with the demo in any case.
OPTIONS = {"lightbox": True, "leaves_with_control_plane": True}
# The times are short, so that everything is visible within a minute.
RULES: dict[str, Any] = {
    "maximum": MAX_AGENTS,
    "target_seconds": 1,
    "warm_up_seconds": 120,
    "scale_out_cooldown_seconds": 0,
    "scale_in_cooldown_seconds": 0,
    "idle_seconds": 3,
}
POLL_SECONDS = 0.25
LEAVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The state at one time: jobs, workers, and the last decision of the autoscaler."""

    seconds: float
    waiting: int
    running: int
    done: int
    workers: int
    coming: int
    draining: int
    leaving: int
    reason: str | None = None

    def is_like(self, other: Moment) -> bool:
        return self.reason is None and self.numbers == other.numbers

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.waiting, self.running, self.done, self.workers, self.coming, self.draining, self.leaving

    def __str__(self) -> str:
        parts = [("coming", self.coming), ("draining", self.draining), ("leaving", self.leaving)]
        also = "".join(f", {number} {name}" for name, number in parts if number)
        workers = f"{counted(self.workers, 'worker')}{also}"
        jobs = f"{self.waiting:2} waiting {self.running:2} running {self.done:2} done"
        return f"{self.seconds:6.1f} s  {jobs}  {workers:<32} {self.reason or ''}".rstrip()


async def run_scaling_demo(settings: Settings, leave: bool) -> None:
    from callsheet.app.control_plane import running_control_plane
    from callsheet.plumbing.http.server import with_free_port

    stop = stop_requested()
    settings = _impatient(await with_free_port(settings))
    async with AsyncExitStack() as parts:
        err.print("Starting PostgreSQL and the control plane …", style="dim")
        plane = await parts.enter_async_context(running_control_plane(settings))
        user, _ = await seed_account(plane)
        login = await remembered_login(plane, user)
        client = await parts.enter_async_context(AsyncCallsheet(login.url, login.api_key))
        await seed_catalog(plane)
        await fill_wallet(client, user)
        fleet = await parts.enter_async_context(_scaled(plane))
        stop.is_up()
        show = asyncio.create_task(_show(plane, client, fleet))
        moments = await _unless(stop, show)
        if moments is not None and leave:
            peak = max(moment.workers for moment in moments)
            print_json({"status": "ready", "jobs": JOBS, "peak_workers": peak, "timeline": [*map(asdict, moments)]})
        elif moments is not None:
            err.print(f"\nThe fleet follows its queue at {settings.public_url}. Give it more to do:\n")
            folder = settings.home / "demo"
            make_private(folder)
            err.print(f"    {imagine_command(folder)}\n")
            err.print("Ctrl-C stops it. The data stays for the next start.", style="dim")
            settle_memory()
            await stop.wait()
        if not leave:
            err.print("\nStopping …", style="dim")


def _impatient(settings: Settings) -> Settings:
    """Settings that check every second, and do not check whether this machine is on EC2, which takes another second.
    One user may have all of its jobs at once.
    """
    active = settings.jobs.active_per_user
    return settings.model_copy(
        update={
            "jobs": settings.jobs.model_copy(update={"active_per_user": active and max(active, 2 * JOBS)}),
            "scaling": settings.scaling.model_copy(update={"autoscaler": True, "interval_seconds": 1.0}),
            "worker": settings.worker.model_copy(update={"metadata_url": None, "api_url": settings.public_url}),
        }
    )


@asynccontextmanager
async def _scaled(plane: ControlPlane) -> AsyncIterator[ScaledFleet]:
    """Scales the demo's fleet. At the end the scaling is removed, and its agents have ended."""
    found = await plane.rooms.fleet.fleets.find(FLEET, STAGE)
    driver = plane.rooms.scaling.drivers["process"]
    request = ScalingRequest(driver=driver.name, options=OPTIONS, **RULES)
    options = (await plane.rooms.scaling.rules.put(found.id, request, OPERATOR)).options
    fleet = ScaledFleet(found.id, FLEET, STAGE, Policy(maximum=MAX_AGENTS), driver.name, options)
    try:
        yield fleet
    finally:
        with suppress(NotFound):
            await plane.rooms.scaling.rules.remove(fleet.id, OPERATOR)
        deadline = time.monotonic() + LEAVE_SECONDS
        while (left := (await driver.actual(fleet)).worker_ids) and time.monotonic() < deadline:
            await driver.end(fleet, sorted(left))
            await asyncio.sleep(POLL_SECONDS)


async def _unless(stop: asyncio.Event, show: asyncio.Task[list[Moment]]) -> list[Moment] | None:
    """The shown moments; None if it was stopped before."""
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({show, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return None if stop.is_set() else show.result()
    finally:
        for task in (show, stopping):
            task.cancel()
        await asyncio.gather(show, stopping, return_exceptions=True)


async def _show(plane: ControlPlane, client: AsyncCallsheet, fleet: ScaledFleet) -> list[Moment]:
    """Submits the jobs and reports their progress, until they are done and the last agent has ended."""
    err.print(f"No worker runs. Submitting {JOBS} jobs …\n", style="dim")
    before = max((each.id for each in await _decisions(plane, fleet)), default=0)
    jobs = [await client.submit(EFFECT, prompt=f"island number {number}") for number in range(JOBS)]
    started, moments, shown_up_to = time.monotonic(), list[Moment](), before
    driver = plane.rooms.scaling.drivers["process"]
    while True:
        state, decisions = await plane.rooms.scaling.rules.get(fleet.id), await _decisions(plane, fleet)
        news = [each for each in reversed(decisions) if each.id > shown_up_to]
        shown_up_to = max([shown_up_to, *(each.id for each in news)])
        moment = await _seen(plane, fleet, state, time.monotonic() - started, news)
        if not moments or not moment.is_like(moments[-1]):
            err.print(str(moment), highlight=False)
            moments.append(moment)
        if moment.done == JOBS and not (await driver.actual(fleet)).count and not state.existing:
            break
        if state.driver_error is not None:
            raise OperatorError(state.driver_error)
        await asyncio.sleep(POLL_SECONDS)
    ended = [await job.refresh() for job in jobs]
    if any(job.status is not JobStatus.COMPLETED for job in ended):
        err.print(f"Not every job has completed: {', '.join(job.status.value for job in ended)}.")
        raise typer.Exit(1)
    return moments


async def _decisions(plane: ControlPlane, fleet: ScaledFleet) -> list[ScalingDecision]:
    return (await plane.rooms.scaling.rules.decisions(fleet.id, None, 20)).items


async def _seen(
    plane: ControlPlane, fleet: ScaledFleet, state: FleetScaling, seconds: float, news: list[ScalingDecision]
) -> Moment:
    queue = await FleetMetrics(plane.databases).get(fleet.id, 1.0)
    found = await plane.rooms.fleet.fleets.get(fleet.id)
    # Agents that run and are not registered: not yet, or no longer.
    unregistered = max(0, (state.existing or 0) - found.workers)
    return Moment(
        seconds=round(seconds, 1),
        waiting=queue.queued_jobs,
        running=queue.running_jobs,
        done=max(0, JOBS - queue.jobs),
        workers=found.live_workers,
        coming=unregistered if state.coming else 0,
        draining=max(0, found.workers - found.live_workers),
        leaving=0 if state.coming else unregistered,
        reason=" ".join(each.reason for each in news) or None,
    )
