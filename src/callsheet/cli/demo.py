"""`callsheet demo`: the whole product on this machine, and a real job through it.

Control plane, engine and agent run in this one process: whatever ends it, by Ctrl-C or by kill -9, none of them is
left behind.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import typer

from callsheet.cli.client import Client
from callsheet.cli.console import err, print_json
from callsheet.cli.demo_catalog import FLEET, STAGE, seed_catalog
from callsheet.cli.display import JobDisplay, Stage
from callsheet.cli.login import Login, read_demo_login, write_demo_login
from callsheet.cli.serve import run, stop_requested
from callsheet.cli.submit import fetch_all, find_effect, follow, send
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import configure_logs
from callsheet.wire.jobs import Job, JobStatus
from callsheet.wire.wallet import Credit

if TYPE_CHECKING:
    from callsheet.app import ControlPlane
    from callsheet.wire.identity import User

DEMO_TENANT = "demo"
DEMO_EMAIL = "admin@demo.example"
# Known to everybody who reads this, which is why demo listens on this machine only, on a database of its own.
DEMO_HOST = "127.0.0.1"
DEMO_PASSWORD = "callsheet-demo"  # noqa: S105
SHOWN_EFFECT = "negative"
TOKENS = 1000
FEW_TOKENS = 100
ENGINE_PACKAGES = ("aiohttp", "av", "numpy", "PIL")


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of the demo's own job."""

    job: Job
    file: Path
    stages: Mapping[Stage, float]
    verified: dict[str, Any]
    balance: int


def demo(
    leave: bool = typer.Option(False, "--exit", help="Do the work, print one JSON line, and stop."),
    port: int | None = typer.Option(None, help="Port to listen on (server.port)."),
) -> None:
    """Start everything on embedded parts and show the product working."""
    given = {"port": port} if port is not None else {}
    settings = load_settings(server={**given, "host": DEMO_HOST})
    if settings.database.dsn is not None:
        raise OperatorError(
            "callsheet demo makes an admin whose password everybody knows, so it works on the embedded database only. "
            "Leave CALLSHEET_DATABASE__DSN out, or run: callsheet serve"
        )
    configure_logs("warning" if settings.log.level == "info" else settings.log.level, settings.log.format)
    run(_demo, settings, leave)


async def _demo(settings: Settings, leave: bool) -> None:
    from callsheet.app import running_control_plane, with_free_port

    _require_engine()
    started = time.perf_counter()
    stop = stop_requested()
    settings = await with_free_port(settings)
    failed = False
    async with AsyncExitStack() as parts:
        err.print("Starting PostgreSQL and the control plane …", style="dim")
        plane = await parts.enter_async_context(running_control_plane(settings))
        user = await _seed_account(plane)
        login = await _login(plane, user)
        client = await parts.enter_async_context(Client(login.url, login.api_key))
        err.print("Starting Lightbox and a worker …", style="dim")
        effects = await seed_catalog(plane, client)
        await _fill_wallet(plane, client, user)
        agent = await parts.enter_async_context(_engine_and_agent(plane))
        checks = await _look(settings.public_url)
        shown = await _unless(stop, agent, _show(settings, client))
        if shown is not None:
            summary = _summary(settings, checks, effects, shown, round(time.perf_counter() - started, 2))
            failed = summary["status"] == "failed"
            if leave:
                print_json(summary)
            else:
                _introduce(summary, shown)
                await _unless(stop, agent, stop.wait())
        if not leave:
            err.print("\nStopping …", style="dim")
    if failed:
        raise typer.Exit(1)


def _require_engine() -> None:
    from importlib.util import find_spec

    missing = [name for name in ENGINE_PACKAGES if find_spec(name) is None]
    if missing:
        raise OperatorError(
            f"The demo renders for real and needs Lightbox's packages ({missing[0]} is missing): "
            "pip install 'callsheet[server,lightbox]'"
        )


async def _unless(stop: asyncio.Event, agent: asyncio.Task[None], work: Coroutine[Any, Any, Any]) -> Any:
    """What the work answers; None where it was told to stop before. An agent that ends takes the demo with it."""
    working, stopping = asyncio.ensure_future(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping, agent}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return None
        if agent.done():
            agent.result()
            raise OperatorError("The worker left before its time.")
        return working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def _seed_account(plane: ControlPlane) -> User:
    from callsheet.wire.identity import CreateTenantRequest, CreateUserRequest, Role

    if await plane.accounts.find_tenant(DEMO_TENANT) is None:
        await plane.accounts.create_tenant(CreateTenantRequest(slug=DEMO_TENANT, name="Demo"))
    found = await plane.accounts.find_user(DEMO_EMAIL)
    return found or await plane.accounts.create_user(
        CreateUserRequest(
            tenant=DEMO_TENANT, email=DEMO_EMAIL, password=DEMO_PASSWORD, name="Demo admin", role=Role.ADMIN
        )
    )


async def _login(plane: ControlPlane, user: User) -> Login:
    """The key of the last time, if it still is one; kept in the data directory, where `callsheet submit` finds it."""
    settings = plane.settings
    await asyncio.to_thread((settings.home / "demo").mkdir, parents=True, exist_ok=True)
    known = read_demo_login(settings)
    key = known.api_key if known is not None and await _opens(settings.public_url, known.api_key) else None
    login = Login(settings.public_url, key or (await plane.keys.create(user.id, "demo")).key)
    if login != known:
        write_demo_login(settings, login)
    return login


async def _opens(url: str, key: str) -> bool:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        answer = await client.get("/api/me", headers={"authorization": f"Bearer {key}"})
        return answer.status_code == httpx.codes.OK and answer.json()["email"] == DEMO_EMAIL


async def _fill_wallet(plane: ControlPlane, client: Client, user: User) -> None:
    if (await client.wallet()).balance < FEW_TOKENS:
        await client.credit(user.id, Credit(amount=TOKENS, provider_transaction_id=f"demo-{uuid.uuid4()}"))


@asynccontextmanager
async def _engine_and_agent(plane: ControlPlane) -> AsyncIterator[asyncio.Task[None]]:
    """Lightbox on a free port and an agent beside it; the agent leaves before its engine does."""
    from callsheet.fleet.secret import fleet_secret
    from callsheet.lightbox.server import running_lightbox
    from callsheet.plumbing.secrets import master_secret
    from callsheet.providers.comfyui import ComfyUI
    from callsheet.worker.agent import Agent
    from callsheet.worker.config import AgentConfig

    settings = plane.settings
    directory = settings.home / "lightbox"
    config = AgentConfig(
        api_url=settings.public_url,
        worker_id="demo",
        secret=fleet_secret(settings.fleet, master_secret(settings)),
        directory=settings.home / "worker" / "demo",
        fleet=FLEET,
        stage=STAGE,
        progress_seconds=0.25,
        capabilities={"gpu": "none: Lightbox renders on the CPU"},
    )
    chosen = {"host": DEMO_HOST, "port": 0, "as_cloud": False, "probes": False}
    async with running_lightbox(settings.lightbox.model_copy(update=chosen), directory) as engine:
        agent = Agent(config, [ComfyUI(engine.url, directory=directory)])
        running = asyncio.create_task(agent.run())
        try:
            yield running
        finally:
            agent.departure.begin("demo ends", 0.0)
            await asyncio.gather(running, return_exceptions=True)


async def _show(settings: Settings, client: Client) -> Shown:
    """A clip with sound goes through the public API, as anybody's would, and is looked at when it comes back."""
    from callsheet.cli.demo_clip import compare_negative, make_clip

    folder = settings.home / "demo"
    sample, result = folder / "sample.mp4", folder / f"sample-{SHOWN_EFFECT}.mp4"
    if not await asyncio.to_thread(sample.exists):
        await asyncio.to_thread(make_clip, sample)
    job = await send(client, await find_effect(client, SHOWN_EFFECT), sample, {})
    display = JobDisplay(err)
    ended = await follow(client, job, display)
    if ended.status is not JobStatus.COMPLETED:
        reason = ended.error.message if ended.error is not None else "nobody says why"
        raise OperatorError(f"The demo's job has {ended.status.value}: {reason}")
    await fetch_all(client, ended, result, exact=True)
    verdict = await asyncio.to_thread(compare_negative, sample, result)
    balance = (await client.wallet()).balance
    return Shown(ended, result, display.stages, asdict(verdict), balance)


def _summary(
    settings: Settings, checks: dict[str, int], effects: list[str], shown: Shown, seconds: float
) -> dict[str, Any]:
    works = all(status == 200 for status in checks.values()) and not shown.verified["problems"]
    return {
        "status": "ready" if works else "failed",
        "url": settings.public_url,
        "docs": f"{settings.public_url}/docs",
        "tenant": DEMO_TENANT,
        "email": DEMO_EMAIL,
        "password": DEMO_PASSWORD,
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


async def _look(url: str) -> dict[str, int]:
    """Uses the control plane as a stranger would: over HTTP, signing in with the printed password."""
    login = {"email": DEMO_EMAIL, "password": DEMO_PASSWORD}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        checks = {path: (await client.get(path)).status_code for path in ("/healthz", "/readyz", "/docs")}
        checks["/api/auth/login"] = (await client.post("/api/auth/login", json=login)).status_code
        checks["/api/me"] = (await client.get("/api/me")).status_code
    return checks


def _introduce(summary: dict[str, Any], shown: Shown) -> None:
    verified = shown.verified
    if verified["problems"]:
        err.print(f"\n[bold red]The result is not right:[/] {'; '.join(verified['problems'])}.\n", markup=True)
    else:
        err.print(
            f"\nDecoded and compared: {verified['frames']} frames, {verified['seconds']:.1f} s, sound kept, "
            f"each pixel the opposite of what it was (within {verified['pixel_error']} of 255)."
        )
    err.print(f"It cost {shown.job.cost} tokens; {shown.balance} are left.")
    err.print(f"\n[bold green]Callsheet is running[/] after {summary['seconds']} s.\n", markup=True)
    err.print(f"  Before   {shown.file.with_name('sample.mp4')}")
    err.print(f"  After    {shown.file}")
    err.print(f"  API      {summary['docs']}")
    err.print(f"  Login    {summary['email']}  /  {summary['password']}")
    err.print(f"  Data     {summary['home']}\n")
    err.print(f"  Effects  {', '.join(summary['effects'])}\n")
    err.print("  In another terminal, with a video of yours:", style="dim")
    command = _command()
    err.print(f"    {command} submit caption clip.mp4 --set prompt='Hello there' --watch")
    err.print(f"    {command} submit imagine --set prompt='mountains at dawn' --watch\n")
    err.print("  On a machine with a GPU: docs/how-to/connect-comfyui.md\n", style="dim")
    err.print("Ctrl-C stops it. The data stays for the next time.", style="dim")


def _command() -> str:
    """As it can be typed here: `make demo` installs into .venv, which need not be on anybody's path."""
    local = Path(".venv/bin/callsheet")
    return str(local) if local.exists() else "callsheet"
