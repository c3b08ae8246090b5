"""`callsheet doctor` on a machine that only runs a worker: checks the worker's needs, without any server part."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from callsheet.cli.fleet.worker import TOKEN_PREFIX, agent_directory, machine_name
from callsheet.cli.fleet.worker_engines import (
    RIGHT_DIRECTORY,
    comfyui,
    comfyui_directory,
    engine_folders,
    engines_of,
    gpus,
    url_of,
    wrong_directory,
)
from callsheet.providers.engine import Engine, EngineError
from callsheet.settings import Settings
from callsheet.settings.findings import SettingsFinding, clock_finding, safety_findings
from callsheet.settings.safety import unsafe_worker_settings
from callsheet.toolbox.disk_space import GIBIBYTE, existing, gibibytes, read_space
from callsheet.toolbox.errors import OperatorError
from callsheet.worker.engines.engine_process import LOG_NAME, noted_port
from callsheet.worker.engines.ports import HOST

RESPONSE_SECONDS = 5.0
# For the files of one job and its result.
MIN_FREE_BYTES = 2 * GIBIBYTE
ADVICE = "Run `callsheet fleets tokens create FLEET` on the control plane, and set FLEET_SECRET here to what it prints."


async def examine_worker(settings: Settings) -> list[SettingsFinding]:
    return [
        await _identity(settings),
        *await _control_plane(settings),
        *await _engines(settings),
        _directory(settings),
        *safety_findings(unsafe_worker_settings(settings)),
    ]


async def _identity(settings: Settings) -> SettingsFinding:
    given = settings.worker
    name = given.id or await machine_name(settings)
    if given.fleet is None and not given.workflows:
        if given.secret is not None and given.secret.get_secret_value().startswith(TOKEN_PREFIX):
            return SettingsFinding("worker", "ok", f"Worker {name} serves the fleet of its registration token.")
        return SettingsFinding(
            "worker",
            "problem",
            f"Worker {name} has neither a registration token nor a fleet nor workflows.",
            "Set FLEET_SECRET to a registration token, or set FLEET_SLUG or CALLSHEET_WORKER__WORKFLOWS.",
        )
    serves = f"the fleet {given.fleet}" if given.fleet else f"the workflows {', '.join(given.workflows)}"
    stage = f" in the stage {given.stage}" if given.stage else ""
    return SettingsFinding("worker", "ok", f"Worker {name} serves {serves}{stage}.")


async def _control_plane(settings: Settings) -> list[SettingsFinding]:
    url = (settings.worker.api_url or settings.public_url).rstrip("/")
    secret = settings.worker.secret
    try:
        async with httpx.AsyncClient(base_url=url, timeout=RESPONSE_SECONDS, trust_env=False) as client:
            started_at = time.time()
            response = await client.get("/healthz")
            response.raise_for_status()
            drift = _drift(response, started_at)
            # Without a body no worker is registered; a wrong secret is refused first.
            headers = {"x-fleet-secret": "" if secret is None else secret.get_secret_value()}
            tried = await client.post("/api/worker/register", json={}, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"No control plane responds at {url} ({str(error) or type(error).__name__})."
        return [SettingsFinding("server", "problem", message, "Set API_BASE_URL to the URL of the control plane.")]
    findings = [
        SettingsFinding("server", "ok", f"A control plane responds at {url}."),
        _secret(tried, is_set=secret is not None),
    ]
    return findings if drift is None else [*findings, clock_finding("control plane", drift)]


def _drift(response: httpx.Response, started_at: float) -> float | None:
    """The difference of its clock to ours, in seconds. Its header has whole seconds, so half a second is added."""
    try:
        server_time = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None
    return server_time + 0.5 - (started_at + time.time()) / 2


def _secret(tried: httpx.Response, *, is_set: bool) -> SettingsFinding:
    if not is_set:
        return SettingsFinding("secret", "problem", "There is no registration token and no fleet secret.", ADVICE)
    match tried.status_code:
        case 422:
            return SettingsFinding("secret", "ok", "The control plane accepts the fleet secret or registration token.")
        case 401:
            message = "The control plane refuses the fleet secret or registration token."
            return SettingsFinding("secret", "problem", message, ADVICE)
        case 429:
            advice = f"Try again after {tried.headers.get('retry-after', '300')} s."
            return SettingsFinding(
                "secret", "warning", "Too many wrong fleet secrets came from this network address.", advice
            )
    return SettingsFinding(
        "secret",
        "warning",
        f"The control plane returned the status {tried.status_code}, so the fleet secret was not checked.",
    )


async def _engines(settings: Settings) -> list[SettingsFinding]:
    if settings.engine.comfyui is not None:
        return await _own_engines(settings)
    wrong = wrong_directory(settings)
    if wrong is not None:
        return [SettingsFinding("engine", "problem", wrong, RIGHT_DIRECTORY)]
    engines = engines_of(settings)
    parts = ["engine"] if len(engines) == 1 else [f"engine {number}" for number in range(1, len(engines) + 1)]
    return [await _engine(part, engine, url_of(engine, settings)) for part, engine in zip(parts, engines, strict=True)]


async def _own_engines(settings: Settings) -> list[SettingsFinding]:
    """The engines that the worker would start, and the state of those that it runs now."""
    try:
        found = comfyui_directory(settings)
    except OperatorError as error:
        return [SettingsFinding("engine", "problem", str(error))]
    spread = gpus(settings)
    count = settings.engine.count or max(1, len(spread))
    on = f" on GPU {', '.join(spread)}" if spread else ""
    message = f"The worker starts {count} of ComfyUI in {found.path}{on}, with {found.python}."
    findings = [SettingsFinding("engine", "ok", message)]
    folders = engine_folders(agent_directory(settings, settings.worker.id or await machine_name(settings)))
    for number in range(1, count + 1):
        part, folder = f"engine {number}", folders / str(number)
        port = noted_port(folder)
        if port is None:
            findings.append(SettingsFinding(part, "ok", f"It is not running. It will log to {folder / LOG_NAME}."))
        else:
            url = f"http://{HOST}:{port}"
            findings.append(await _engine(part, comfyui(settings, url, None), url))
    return findings


async def _engine(part: str, engine: Engine, url: str) -> SettingsFinding:
    try:
        found = await engine.describe()
    except EngineError as error:
        advice = "Start ComfyUI, or set COMFYUI_BASE_URL to its URL."
        if engine.provider != "self_hosted":
            advice = "Check COMFY_CLOUD_API_KEY and the account."
        return SettingsFinding(part, "problem", f"The engine at {url} takes no job: {error.message}", advice)
    finally:
        await engine.close()
    devices = ", ".join(str(device) for device in found.details.get("devices", []))
    return SettingsFinding(part, "ok", f"{found.version or 'An engine'} at {url}{f' ({devices})' if devices else ''}.")


def _directory(settings: Settings) -> SettingsFinding:
    place = existing(settings.home)
    free = read_space(place).free_bytes
    if not _is_writable(place):
        message, advice = f"{settings.home} cannot be written to.", "Set CALLSHEET_HOME to a directory of this user."
        return SettingsFinding("disk", "problem", message, advice)
    wanted = settings.worker.cache_bytes + MIN_FREE_BYTES
    message = f"{gibibytes(free)} are free at {place}."
    if free < wanted:
        return SettingsFinding(
            "disk",
            "warning",
            f"{message} The cache may grow to {gibibytes(settings.worker.cache_bytes)}.",
            "Lower CALLSHEET_WORKER__CACHE_BYTES, or make room.",
        )
    return SettingsFinding("disk", "ok", message)


def _is_writable(directory: Path) -> bool:
    draft = directory / ".callsheet-doctor"
    try:
        draft.touch()
        draft.unlink()
    except OSError:
        return False
    return True
