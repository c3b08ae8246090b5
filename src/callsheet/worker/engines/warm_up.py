"""Runs a graph before the first job, so that the engine has its models loaded when the job comes."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from callsheet.providers.comfy.graphs import checked_graph, with_own_outputs
from callsheet.providers.engine import Engine, EngineError, EngineRun, EngineStuck, EngineUnreachable, Graph, NodeState
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

# Loading the largest models from a network disk takes some minutes.
MAX_SECONDS = 1800.0


class _Deaf:
    """Ignores the progress of a warm-up."""

    def started(self) -> None: ...

    def progressed(self, percent: float | None, message: str | None) -> None: ...

    def previewed(self, mime_type: str, image: bytes) -> None: ...

    def freed(self) -> None: ...

    def at_node(self, node_id: str, state: NodeState) -> None: ...


class WarmUp:
    """Warm-up of one engine. It runs after the engine's first response, and again after the engine was unreachable."""

    def __init__(self, engine: Engine, graph: Graph, name: str):
        self._engine = engine
        self._graph = graph
        self._name = name
        self._is_wanted = True
        self._is_warm = False

    def engine_was_away(self) -> None:
        """Call when the engine may have been restarted."""
        self._is_warm = False

    async def run(self) -> None:
        """An error of the graph is only logged: an engine that cannot run the graph still takes jobs."""
        if self._is_warm or not self._is_wanted:
            return
        self._is_warm = True
        run_id = str(uuid.uuid4())
        log.info("engine.warms_up", engine=self._name)
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await self._engine.run(EngineRun(run_id, with_own_outputs(self._graph, run_id)), _Deaf())
        except EngineUnreachable:
            # The engine ended meanwhile. The next start warms it up.
            self._is_warm = False
            raise
        except (EngineError, TimeoutError) as error:
            # A graph that blocked the engine once would block it at every start.
            self._is_wanted = not isinstance(error, EngineStuck | TimeoutError)
            log.warning("engine.warm_up_failed", engine=self._name, reason=str(error) or "The warm-up took too long.")
            await self._engine.cancel(run_id)
        except asyncio.CancelledError:
            await self._engine.cancel(run_id)
            raise
        else:
            log.info("engine.is_warm", engine=self._name)
        await self._engine.forget(run_id)


def graph_in(file: Path) -> Graph:
    """Raises OperatorError if the file does not contain a graph in the API format."""
    try:
        found: Any = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise OperatorError(f"The warm-up graph {file} cannot be read: {error}.") from None
    inner = found.get("prompt") if isinstance(found, Mapping) else None
    try:
        return checked_graph(inner if isinstance(inner, Mapping) else found)
    except EngineError as error:
        raise OperatorError(
            f"The warm-up graph {file} cannot be used: {error.message} Export it with Workflow → Export (API)."
        ) from None
