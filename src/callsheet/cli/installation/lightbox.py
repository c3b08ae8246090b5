"""`callsheet lightbox`: runs the built-in engine instead of ComfyUI."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import typer

from callsheet.cli.shared.console import err
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.concurrently import first_of
from callsheet.toolbox.errors import OperatorError, how_to_install
from callsheet.toolbox.logs import configure_logs

PACKAGES = ("aiohttp", "av", "numpy", "PIL")


def lightbox(
    host: str | None = typer.Option(None, help="Network address to listen on (lightbox.host). Default: 127.0.0.1."),
    port: int | None = typer.Option(
        None, help="Port to listen on (lightbox.port). Default: 8188, as ComfyUI. 0: a free port."
    ),
    directory: Path | None = typer.Option(
        None, help="Directory of input, output and temp (lightbox.directory). Default: lightbox in the data directory."
    ),
    as_cloud: bool = typer.Option(
        False,
        "--as-cloud",
        help="Behave like Comfy Cloud, with the API key lightbox.cloud_api_key (lightbox.as_cloud).",
    ),
    probes: bool = typer.Option(
        False, "--probes", help="Add nodes that sleep, fail and block on purpose, to test a client (lightbox.probes)."
    ),
    comfyui_timing: bool = typer.Option(
        False,
        "--comfyui-timing",
        help="Respond with the delays that were recorded on a ComfyUI, for benchmarks (lightbox.comfyui_timing).",
    ),
) -> None:
    """Run an engine that speaks ComfyUI's API and renders images and videos on the CPU, without models.

    A worker beside it drives it as it would ComfyUI: COMFYUI_BASE_URL=http://127.0.0.1:8188 callsheet worker.
    Its nodes are listed at /object_info and in docs/lightbox.md. There is no login: listen on this machine only.
    """
    options: dict[str, object] = {"host": host, "port": port, "directory": directory, "as_cloud": as_cloud or None}
    options |= {"probes": probes or None, "comfyui_timing": comfyui_timing or None}
    given = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(**({"lightbox": given} if given else {}))
    configure_logs(settings.log.level, settings.log.format)
    asyncio.run(_run(settings))


async def with_lightbox(settings: Settings, run: Callable[[Settings], Awaitable[int]]) -> int:
    """Runs a worker whose engine is a Lightbox in the same process, on a free port of this machine."""
    _require_packages()
    from callsheet_lightbox.server import running_lightbox

    directory = settings.home / "lightbox"
    chosen = {"host": "127.0.0.1", "port": 0, "as_cloud": False}
    async with running_lightbox(settings.lightbox.model_copy(update=chosen), directory) as running:
        only = {"url": running.url, "urls": (), "comfyui": None, "directory": directory}
        engine = settings.engine.model_copy(update=only)
        return await run(settings.model_copy(update={"engine": engine}))


def _require_packages() -> None:
    try:
        import callsheet_lightbox.server  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in PACKAGES:
            raise
        raise OperatorError(
            f"Lightbox needs its packages ({error.name} is missing): {how_to_install('lightbox')}."
        ) from None


async def _run(settings: Settings) -> None:
    _require_packages()
    from callsheet_lightbox.server import running_lightbox

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    chosen = settings.lightbox
    async with running_lightbox(chosen, chosen.directory or settings.home / "lightbox") as running:
        err.print(f"Lightbox renders at {running.url} (Ctrl-C stops it).", style="dim")
        await first_of(asyncio.create_task(stop.wait()), event=running.broke)
        if running.broke.is_set():
            raise OperatorError("A node returned data that is not valid JSON. Lightbox stops, as ComfyUI would.")
