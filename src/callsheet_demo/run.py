"""Runs `callsheet demo`: the whole product on this machine, and a real job.

Control plane, engine and agent run in this one process, so none of them is left after Ctrl-C or kill -9.
"""

from __future__ import annotations

import asyncio
import fcntl
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import typer

from callsheet.cli.installation.serve import settle_memory, stop_requested
from callsheet.cli.shared.console import err, print_json
from callsheet.cli.shared.display import JobDisplay
from callsheet.cli.shared.operations_client import CommandClient
from callsheet.cli.shared.pipeline_client import PipelineClient
from callsheet.cli.shared.sending import fetch_all, find_effect, follow, send
from callsheet.client import AsyncJobHandle
from callsheet.identity.access.one_time_links import PAGE
from callsheet.settings import Settings
from callsheet.toolbox.errors import OperatorError, how_to_install
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.private_files import make_private
from callsheet.web.files import STATIC, read_files
from callsheet.wire.errors import NotFound, TooManyActiveJobs
from callsheet.wire.jobs import JobStatus
from callsheet_demo.account import DEMO_EMAIL, DEMO_TENANT, fill_wallet, remembered_login, seed_account
from callsheet_demo.catalog import FLEET, OPERATOR, STAGE, seed_catalog
from callsheet_demo.command import DEMO_HOST
from callsheet_demo.introduction import DemoResult, introduce
from callsheet_demo.pipeline import seed_pipeline
from callsheet_demo.previews import render_previews

if TYPE_CHECKING:
    from callsheet.app.control_plane import ControlPlane

SHOWN_EFFECT = "negative"
LEFT_OVER_SECONDS = 120.0
THIS_MACHINE = ip_network("127.0.0.0/8")
ENGINE_PACKAGES = ("aiohttp", "av", "numpy", "PIL")


async def run_demo(settings: Settings, leave: bool, scale: bool = False) -> None:
    from callsheet.app.control_plane import running_control_plane
    from callsheet.plumbing.http.server import with_free_port

    _require_engine()
    if scale:
        from callsheet_demo.scaling import run_scaling_demo

        with _alone(settings.home):
            await run_scaling_demo(settings, leave)
        return
    started = time.perf_counter()
    stop = stop_requested()
    settings = await _on_this_machine(await with_free_port(settings))
    failed = False
    async with AsyncExitStack() as parts:
        parts.enter_context(_alone(settings.home))
        err.print("Starting PostgreSQL and the control plane …", style="dim")
        # One second of imports and the clip itself run while PostgreSQL starts.
        preparing = asyncio.create_task(asyncio.to_thread(_prepare, _sample(settings)))
        parts.push_async_callback(_settled, preparing)
        plane = await parts.enter_async_context(running_control_plane(settings))
        user, password = await seed_account(plane)
        login = await remembered_login(plane, user)
        client = await parts.enter_async_context(PipelineClient(login.url, login.api_key))
        err.print("Starting Lightbox and a worker …", style="dim")
        effects = await seed_catalog(plane)
        await _stop_scaling(plane)
        await fill_wallet(client, user)
        await seed_pipeline(client)
        await preparing
        agent = await parts.enter_async_context(_engine_and_agent(plane))
        stop.is_up()
        use = asyncio.gather(_use(settings.public_url, password), _show(settings, client))
        if (found := await _unless(stop, agent, use)) is not None:
            checks, shown = found
            summary = _summary(settings, password, checks, effects, shown, round(time.perf_counter() - started, 2))
            failed = summary["status"] == "failed"
            if leave:
                print_json(summary)
            else:
                introduce(login, _link(plane), password, effects, summary["seconds"], shown)
                await _unless(stop, agent, _stay(plane, stop))
        if not leave:
            err.print("\nStopping …", style="dim")
    if failed:
        raise typer.Exit(1)


async def _stop_scaling(plane: ControlPlane) -> None:
    """Removes the scaling that a killed `demo --scale` left: the fleet has one worker, which is in this process."""
    fleet = await plane.rooms.fleet.fleets.find(FLEET, STAGE)
    with suppress(NotFound):
        await plane.rooms.scaling.rules.remove(fleet.id, OPERATOR)


async def _stay(plane: ControlPlane, stop: asyncio.Event) -> None:
    """Runs until it is stopped; meanwhile the effects get their previews."""
    settle_memory()
    settings = plane.settings
    engine = f"http://{DEMO_HOST}:{settings.lightbox.port}"
    wanted = [render_previews(plane, engine, _sample(settings))] if settings.media.previews else []
    rendering = asyncio.gather(*wanted)
    try:
        await stop.wait()
    finally:
        rendering.cancel()
        await asyncio.gather(rendering, return_exceptions=True)


async def _on_this_machine(settings: Settings) -> Settings:
    """The settings with a port for Lightbox, which starts later, and with the provider `lightbox` for tasks. Webhooks
    may go to this machine, where the receiver of a developer runs."""
    from callsheet.plumbing.http.server import free_address

    _, port = await free_address(DEMO_HOST, 0)
    provider = settings.providers.lightbox
    if provider.url is None:
        provider = provider.model_copy(update={"url": f"http://{DEMO_HOST}:{port}"})
    return settings.model_copy(
        update={
            "lightbox": settings.lightbox.model_copy(update={"host": DEMO_HOST, "port": port}),
            "providers": settings.providers.model_copy(update={"lightbox": provider}),
            "outgoing": settings.outgoing.model_copy(
                update={"allow_networks": settings.outgoing.allow_networks or (THIS_MACHINE,)}
            ),
        }
    )


def _require_engine() -> None:
    missing = [name for name in ENGINE_PACKAGES if find_spec(name) is None]
    if missing:
        raise OperatorError(
            f"The demo needs Lightbox's packages ({missing[0]} is missing): {how_to_install('server,lightbox')}."
        )


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Locks the data directory for one demo: a second one would take away the engine and the login of the first."""
    try:
        make_private(home)
        make_private(home / "demo")
        lock = (home / "demo" / "lock").open("w")
    except OSError as error:
        raise OperatorError(
            f"The data directory {home} cannot be used ({error.strerror}); set CALLSHEET_HOME to a directory of yours."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OperatorError(
                f"A demo is already running in {home}. Name another directory with CALLSHEET_HOME."
            ) from None
        yield


def _link(plane: ControlPlane) -> str:
    """A URL that opens the web application, signed in; without one, the front page. The sign-in page also offers the
    account.
    """
    if not plane.settings.server.web_application or not read_files(STATIC):
        return plane.settings.public_url
    plane.rooms.identity.one_time_links.offer(DEMO_EMAIL)
    return plane.settings.public_url + PAGE + plane.rooms.identity.one_time_links.create(DEMO_EMAIL)


async def _settled(task: asyncio.Task[None]) -> None:
    """Waits for the end of a task and ignores its errors: the error that stopped the start is reported."""
    await asyncio.gather(task, return_exceptions=True)


def _sample(settings: Settings) -> Path:
    return settings.home / "demo" / "sample.mp4"


def _prepare(sample: Path) -> None:
    from callsheet_demo.clip import make_clip

    import_module("callsheet_lightbox.server")
    import_module("callsheet.worker.agent.agent")
    try:
        if not sample.exists():
            make_clip(sample)
    except OSError as error:
        raise OperatorError(f"{sample} cannot be written: {error.strerror}.") from None


async def _unless(stop: asyncio.Event, agent: asyncio.Task[None], work: Awaitable[Any]) -> Any:
    """The result of the work; None if it was stopped before. If the agent ends, the demo ends too."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping, agent}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return None
        if agent.done():
            agent.result()
            raise OperatorError("The worker stopped too early.")
        return working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def _fleet_token(plane: ControlPlane) -> str:
    """The registration token of the worker: the last one, or a new one if that was revoked or is missing."""
    from callsheet.toolbox.private_files import read_private, write_private

    file = plane.settings.home / "demo" / "fleet_token.json"
    kept = (read_private(file) or {}).get("token")
    if isinstance(kept, str) and await plane.rooms.fleet.fleet_tokens.is_accepted(kept):
        return kept
    fleet = await plane.rooms.fleet.fleets.find(FLEET, STAGE)
    token = (await plane.rooms.fleet.fleet_tokens.create(fleet.id, "demo", OPERATOR)).token
    write_private(file, {"token": token})
    return token


@asynccontextmanager
async def _engine_and_agent(plane: ControlPlane) -> AsyncIterator[asyncio.Task[None]]:
    """Runs Lightbox and an agent beside it; the agent stops before its engine."""
    from callsheet.providers.comfy.self_hosted import ComfyUI
    from callsheet.worker.agent.agent import Agent
    from callsheet.worker.agent.config import AgentConfig
    from callsheet_lightbox.server import running_lightbox

    settings = plane.settings
    directory = settings.home / "lightbox"
    config = AgentConfig(
        api_url=settings.public_url,
        worker_id="demo",
        secret=await _fleet_token(plane),
        directory=settings.home / "worker" / "demo",
        fleet=FLEET,
        stage=STAGE,
        progress_seconds=0.25,
        capabilities={"gpu": "none: Lightbox renders on the CPU"},
    )
    chosen = {"as_cloud": False, "probes": False}
    async with running_lightbox(settings.lightbox.model_copy(update=chosen), directory) as engine:
        agent = Agent(config, [ComfyUI(engine.url, directory=directory)])
        running = asyncio.create_task(agent.run())
        try:
            yield running
        finally:
            agent.departure.begin("demo ends", 0.0)
            await asyncio.gather(running, return_exceptions=True)


async def _send_sample(client: CommandClient, sample: Path) -> AsyncJobHandle:
    """Submits the sample. First waits for jobs that a killed demo left, for example ten of `demo --scale`: the
    worker runs them first.
    """
    effect, deadline = await find_effect(client, SHOWN_EFFECT), time.monotonic() + LEFT_OVER_SECONDS
    while True:
        try:
            return await send(client, effect, sample, {})
        except TooManyActiveJobs:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(1)


async def _show(settings: Settings, client: CommandClient) -> DemoResult:
    """Sends a clip with sound through the public API, as a user would, and checks the result."""
    from callsheet_demo.clip import compare_negative

    sample = _sample(settings)
    result = sample.with_name(f"sample-{SHOWN_EFFECT}.mp4")
    job = await _send_sample(client, sample)
    display = JobDisplay(err)
    ended = await follow(job, display)
    if ended.status is not JobStatus.COMPLETED:
        reason = ended.error.message if ended.error is not None else "no reason was reported"
        raise OperatorError(f"The demo's job has {ended.status.value}: {reason}")
    await fetch_all(job, result, exact=True)
    verdict = await asyncio.to_thread(compare_negative, sample, result)
    balance = (await client.wallet()).balance
    return DemoResult(ended, result, display.stages, asdict(verdict), balance)


def _summary(
    settings: Settings,
    password: str | None,
    checks: dict[str, int],
    effects: list[str],
    shown: DemoResult,
    seconds: float,
) -> dict[str, Any]:
    works = all(status == 200 for status in checks.values()) and not shown.verified["problems"]
    return {
        "status": "ready" if works else "failed",
        "url": settings.public_url,
        "docs": f"{settings.public_url}/docs",
        "tenant": DEMO_TENANT,
        "email": DEMO_EMAIL,
        "password": password,
        "home": str(settings.home),
        "checks": checks,
        "effects": effects,
        "job": {
            "id": str(shown.job.id),
            "effect": SHOWN_EFFECT,
            "status": shown.job.status.value,
            "cost": shown.job.cost,
            "stages": shown.stages,
            "output": str(shown.file),
            "verified": shown.verified,
        },
        "balance": shown.balance,
        "seconds": seconds,
    }


async def _use(url: str, password: str | None) -> dict[str, int]:
    """Uses the control plane as a new user would: over HTTP, signing in with the printed password if there is one."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=certificates(), timeout=30) as client:
        checks = {path: (await client.get(path)).status_code for path in ("/healthz", "/readyz", "/docs")}
        if password is not None:
            login = {"email": DEMO_EMAIL, "password": password}
            checks["/api/auth/login"] = (await client.post("/api/auth/login", json=login)).status_code
            checks["/api/me"] = (await client.get("/api/me")).status_code
    return checks
