"""Opens the engines of `callsheet worker` from its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from callsheet.providers.comfy.cloud import ComfyCloud
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.engine import Engine
from callsheet.settings import Settings, environment_for_programs
from callsheet.settings.variables import environment
from callsheet.toolbox.errors import OperatorError
from callsheet.worker.engines.comfyui_launch import ComfyUIDirectory, gpu_of, gpus_of
from callsheet.worker.engines.engine_process import EngineProcess, end_left_over
from callsheet.worker.engines.ports import HOST, Ports
from callsheet.worker.engines.restarts import RestartRules
from callsheet.worker.engines.supervisor import UNSUPERVISED, EngineProcesses

RIGHT_DIRECTORY = "Set CALLSHEET_ENGINE__DIRECTORY to ComfyUI's directory, the one with input and output in it."


def wrong_directory(settings: Settings) -> str | None:
    """Why this cannot be the engine's directory. A wrong one is refused, because files of jobs would silently stay."""
    directory = settings.engine.directory
    if directory is None or settings.worker.cloud_api_key is not None:
        return None
    if not directory.is_dir():
        return f"There is no directory {directory}."
    missing = [name for name in ("input", "output") if not (directory / name).is_dir()]
    return f"{directory} has no directory {' and no directory '.join(missing)} in it." if missing else None


@dataclass(frozen=True, slots=True)
class ChosenEngines:
    engines: Sequence[Engine]
    urls: Sequence[str]
    supervised: EngineProcesses = UNSUPERVISED


@asynccontextmanager
async def opened_engines(settings: Settings, directory: Path) -> AsyncIterator[ChosenEngines]:
    """Engines that run already, or engines that the worker will start. `directory` belongs to the worker."""
    if settings.engine.comfyui is None:
        engines = engines_of(settings)
        yield ChosenEngines(engines, [url_of(each, settings) for each in engines])
        return
    if settings.engine.urls:
        raise OperatorError("engine.urls names engines that run already, engine.comfyui starts them: set one of them.")
    folders = engine_folders(directory)
    await end_left_over(folders)
    ports = Ports()
    try:
        yield _started(settings, folders, ports)
    finally:
        ports.close()


def engine_folders(directory: Path) -> Path:
    """The folders for files and logs of the worker's engines."""
    return directory / "engines"


def comfyui_directory(settings: Settings) -> ComfyUIDirectory:
    engine = settings.engine
    assert engine.comfyui is not None
    return ComfyUIDirectory.at(engine.comfyui, engine.python, engine.arguments)


def gpus(settings: Settings) -> tuple[str, ...]:
    return gpus_of(settings.engine.gpus, environment().get("CUDA_VISIBLE_DEVICES"))


def _started(settings: Settings, folders: Path, ports: Ports) -> ChosenEngines:
    engine, found, spread = settings.engine, comfyui_directory(settings), gpus(settings)
    count = engine.count or max(1, len(spread))
    processes = []
    for number, port in enumerate(ports.choose(engine.port, count)):
        launch = found.launch(folders / str(number + 1), port, gpu_of(number, spread), environment_for_programs())
        processes.append(EngineProcess(launch, engine.log_bytes))
    urls = [f"http://{HOST}:{each.launch.port}" for each in processes]
    engines: list[Engine] = [
        comfyui(settings, url, each.launch.folder) for url, each in zip(urls, processes, strict=True)
    ]
    cloud = _cloud(settings)
    rules = RestartRules(
        start_seconds=engine.start_seconds, absent_seconds=engine.absent_seconds, memory_bytes=engine.memory_bytes
    )
    return ChosenEngines(
        [*engines, *cloud], [*urls, *(settings.worker.cloud_url for _ in cloud)], EngineProcesses(processes, rules)
    )


def engines_of(settings: Settings) -> list[Engine]:
    """The engines of engine.urls, and Comfy Cloud if its key is set; without engine.urls Comfy Cloud or engine.url."""
    urls, cloud = settings.engine.urls, _cloud(settings)
    if not urls and not cloud:
        urls = (settings.engine.url,)
    return [*(comfyui(settings, url, settings.engine.directory) for url in urls), *cloud]


def url_of(engine: Engine, settings: Settings) -> str:
    return engine.url if isinstance(engine, ComfyUI) else settings.worker.cloud_url


def comfyui(settings: Settings, url: str, directory: Path | None) -> ComfyUI:
    engine = settings.engine
    return ComfyUI(
        url,
        patience=_patience(settings),
        directory=directory,
        asset_days=engine.asset_days,
        previews=engine.previews,
    )


def _cloud(settings: Settings) -> list[Engine]:
    key = settings.worker.cloud_api_key
    if key is None:
        return []
    return [ComfyCloud(settings.worker.cloud_url, key.get_secret_value(), patience=_patience(settings))]


def _patience(settings: Settings) -> Patience:
    engine = settings.engine
    return Patience(
        stall=engine.stall_seconds,
        absent=engine.absent_seconds,
        poll=engine.poll_seconds,
        idle=engine.idle_seconds,
        queue=engine.queue_seconds,
        response=engine.timeout_seconds,
        retries=engine.max_retries,
    )
