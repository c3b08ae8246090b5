"""`lightbox`: an engine that the task's worker calls directly, without an agent and without a queue row per run.

It is for images without a GPU, and for an engine that only one machine uses. Engines that jobs share belong behind
agents: use the provider `comfyui`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from callsheet.providers.comfy.graphs import with_own_outputs
from callsheet.providers.comfy.outputs import mime_type_of, public_names
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.context import BuiltInContext, Clients
from callsheet.providers.downloads import DownloadLimits, download
from callsheet.providers.engine import Engine, EngineRun, EngineStuck, EngineUnreachable, NodeState, Output
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.lightbox.config import LightboxProviderConfig
from callsheet.providers.lightbox.graphs import GRAPH, IMG2IMG, PARAMETERS, graph_of, params_of, problems_of
from callsheet.providers.media import Concurrency, Finish, Generation, Made, MadeFile, MediaProvider, ReportProgress
from callsheet.providers.payload_forms import parameters_schema
from callsheet.providers.stripping import without_graph
from callsheet.wire.errors import FieldProblem
from callsheet.wire.plurals import counted

MARGIN_SECONDS: Final = 30
CANCEL_SECONDS: Final = 15.0
FORGET_SECONDS: Final = 5.0
DOWNLOAD_SECONDS: Final = 60.0
MAX_FILES: Final = 100


def configured(context: BuiltInContext) -> Iterable[MediaProvider]:
    return [Lightbox(context.config.lightbox, context.clients)]


class Lightbox:
    name = "lightbox"
    finish = Finish.SYNC
    paid = False

    def __init__(self, config: LightboxProviderConfig, clients: Clients):
        self._config = config
        self._engine: Engine | None = None if config.url is None else ComfyUI(config.url)
        self._images = clients.guarded()
        self._own_images = clients.trusted()

    @property
    def actions(self) -> frozenset[str]:
        return frozenset({*PARAMETERS, *([GRAPH] if self._config.allow_graphs else [])})

    def params_schema(self, action: str) -> dict[str, Any]:
        if action not in PARAMETERS:
            return {"type": "object", "additionalProperties": True}
        return parameters_schema(PARAMETERS[action])

    @property
    def run_limit_seconds(self) -> int:
        return self._config.limit_seconds + MARGIN_SECONDS

    @property
    def is_set_up(self) -> bool:
        return self._engine is not None

    def problems(self, generation: Generation) -> Iterable[FieldProblem]:
        if self._engine is None:
            yield FieldProblem("provider", "The provider is not configured. Set CALLSHEET_PROVIDERS__LIGHTBOX__URL.")
        yield from problems_of(generation)

    def concurrency(self, generation: Generation) -> Concurrency | None:
        return Concurrency(f"media:{self.name}", self._config.max_concurrent)

    def preview_info(self, generation: Generation) -> Mapping[str, Any]:
        return {"prompt": generation.prompt, "params": params_of(generation)}

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()

    async def generate(self, generation: Generation, directory: Path, report_progress: ReportProgress) -> Made:
        assert self._engine is not None, "a task for an engine that is not configured is refused before it runs"
        run_id = str(uuid.uuid4())
        try:
            async with asyncio.timeout(self._config.limit_seconds):
                files = await self._made(self._engine, run_id, generation, directory, report_progress)
        except TimeoutError:
            await _stop(self._engine, run_id)
            message = f"The engine did not finish within {counted(self._config.limit_seconds, 'second')}."
            raise ProviderError("run_limit", message, details={"provider": self.name}) from None
        except asyncio.CancelledError:
            await _stop(self._engine, run_id)
            raise
        except (EngineUnreachable, EngineStuck) as gone:
            raise ProviderUnavailable(self.name, gone.message, **gone.details) from gone
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(FORGET_SECONDS):
                    await self._engine.forget(run_id)
        return Made(files, run_id, {"params": params_of(generation)})

    async def _made(
        self, engine: Engine, run_id: str, generation: Generation, directory: Path, report_progress: ReportProgress
    ) -> list[MadeFile]:
        # This checks whether the engine can take a run, and whether one run can be stopped without the others.
        await engine.describe()
        image = None
        if generation.action == IMG2IMG:
            image = await self._image_at_engine(engine, run_id, generation, directory)
        graph, output_node = graph_of(generation, image)
        run = EngineRun(run_id, with_own_outputs(graph, run_id), output_node)
        outputs = await engine.run(run, _Watching(report_progress))
        return await _fetched(engine, outputs[:MAX_FILES], directory)

    async def _image_at_engine(self, engine: Engine, run_id: str, generation: Generation, directory: Path) -> str:
        url = generation.params["image_url"]
        is_own = url == generation.own_url
        client = self._own_images if is_own else self._images
        limits = DownloadLimits(("image/*",), self._config.max_input_bytes, DOWNLOAD_SECONDS)
        try:
            given = await download(client, "image_url", url, directory, "given", limits, {})
        except ProviderError as wrong:
            # The user's URL is at fault, not the engine, so the engine's circuit breaker must not open.
            raise ProviderError(
                "input_unreadable",
                f"The image could not be used: {wrong.message}",
                # Our own storage will be available again.
                retryable=is_own and wrong.retryable,
                details=wrong.details,
            ) from wrong
        try:
            return await engine.upload(given.path, given.name, run_id)
        finally:
            given.path.unlink(missing_ok=True)


class _Watching:
    def __init__(self, report_progress: ReportProgress):
        self._report_progress = report_progress

    def started(self) -> None:
        self._report_progress(0.0, "Started")

    def progressed(self, percent: float | None, message: str | None) -> None:
        self._report_progress(percent, message)

    def previewed(self, mime_type: str, image: bytes) -> None:
        """Does nothing: tasks show no previews."""

    def freed(self) -> None:
        """Does nothing: the next task does not wait for this."""

    def at_node(self, node_id: str, state: NodeState) -> None:
        """Does nothing: the graph of a task is not shown."""


async def _fetched(engine: Engine, outputs: Sequence[Output], directory: Path) -> list[MadeFile]:
    files = []
    for number, (output, name) in enumerate(zip(outputs, public_names(outputs), strict=True), start=1):
        path = directory / f"output-{number}"
        fetched = await engine.fetch(output, path)
        if output.text is None:
            await without_graph(path, name, fetched)
        files.append(MadeFile(path, name, mime_type_of(name)))
    return files


async def _stop(engine: Engine, run_id: str) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(CANCEL_SECONDS):
            await engine.cancel(run_id)
