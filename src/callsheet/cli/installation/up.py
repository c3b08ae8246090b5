"""`callsheet up`: everything that one machine needs, in one process."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib.util import find_spec

import typer

from callsheet.cli.installation.serve import run, settle_memory, stop_requested
from callsheet.cli.shared.console import err
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError, how_to_install
from callsheet.toolbox.logs import configure_logs

ENGINE_PACKAGES = ("aiohttp", "av", "numpy", "PIL")


def up(
    port: int | None = typer.Option(None, help="Port to listen on (server.port)."),
    tasks: int | None = typer.Option(None, min=1, help="Number of tasks that run at the same time (tasks.in_process)."),
) -> None:
    """Run the control plane, a task worker and the Lightbox engine in one process. Ctrl-C stops it."""
    overrides: dict[str, dict[str, int]] = {}
    if port is not None:
        overrides["server"] = {"port": port}
    if tasks is not None:
        overrides["tasks"] = {"in_process": tasks}
    settings = load_settings(**overrides)
    if settings.tasks.in_process == 0:
        raise OperatorError("tasks.in_process is 0: give --tasks, or run `callsheet serve` and workers of tasks.")
    configure_logs(settings.log.level, settings.log.format)
    run(_up, settings)


async def _up(settings: Settings) -> None:
    from callsheet.app.control_plane import running_control_plane
    from callsheet.plumbing.http.server import with_free_port

    stop = stop_requested()
    settings = await with_free_port(settings)
    async with AsyncExitStack() as parts:
        settings = _using(settings, await _start_engine(settings, parts))
        await parts.enter_async_context(running_control_plane(settings))
        err.print(f"Callsheet is at {settings.public_url} (API: {settings.public_url}/docs). Ctrl-C stops it.")
        stop.is_up()
        settle_memory()
        await stop.wait()


async def _start_engine(settings: Settings, parts: AsyncExitStack) -> str | None:
    """Starts Lightbox and returns its URL. Only tasks of the provider `lightbox` need it."""
    missing = [name for name in ENGINE_PACKAGES if find_spec(name) is None]
    if missing:
        err.print(f"Without Lightbox ({missing[0]} is missing): {how_to_install('lightbox')}", style="dim")
        return None
    from callsheet_lightbox.server import running_lightbox

    directory = settings.lightbox.directory or settings.home / "lightbox"
    try:
        engine = await parts.enter_async_context(running_lightbox(settings.lightbox, directory))
    except OperatorError as error:
        # This is probably a ComfyUI on the same port, which is used instead of Lightbox.
        err.print(f"Without Lightbox: {error}", style="dim")
        return None
    err.print(f"Lightbox renders at {engine.url}.", style="dim")
    return engine.url


def _using(settings: Settings, engine_url: str | None) -> Settings:
    """The settings with the engine as the provider `lightbox`, unless they name another engine."""
    lightbox = settings.providers.lightbox
    if engine_url is None or lightbox.url is not None:
        return settings
    chosen = {"lightbox": lightbox.model_copy(update={"url": engine_url})}
    return settings.model_copy(update={"providers": settings.providers.model_copy(update=chosen)})
