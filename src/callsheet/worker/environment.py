"""Reads what the engines of this machine can run, and reports changes to the control plane.

The list of an engine is several megabytes long. It is read only at the start, after the engine was unreachable, and
every few minutes, because a model file may have been added.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from callsheet.providers.engine import Engine, EngineError, Inventory, TellsInventory
from callsheet.toolbox.logs import get_logger
from callsheet.wire.environment import LONGEST_NAME, MOST_MODELS, MOST_NODE_CLASSES, Environment, ReportedModel
from callsheet.worker.control_plane import ControlPlane
from callsheet.worker.plane import Refused, Unreachable

log = get_logger(__name__)

LOOK_SECONDS = 300.0
RETRY_SECONDS = 10.0
# ComfyUI searches its folders for each loader, so the response takes long.
ANSWER_SECONDS = 30.0
# Fits in a body of one megabyte, the default limit of control planes.
MOST_CHARACTERS = 600_000
LARGEST_HASHES_FILE = 16 * 1024 * 1024
MOST_CUSTOM_NODES = 200
_HASH_LINE = re.compile(r"\\?([0-9a-f]{64}) [ *](.+)")


class EnvironmentWatch:
    def __init__(self, engines: Callable[[], Sequence[Engine]], hashes_file: Path | None = None):
        """`engines` returns those that take jobs now: an unreachable engine does not affect what the others report."""
        self._engines = engines
        self._hashes_file = hashes_file
        # None: an engine does not report what it has, or was not asked yet.
        self.current: Environment | None = None
        # Packages of custom nodes, to show to operators.
        self.custom_nodes: list[str] = []
        self._reported: Environment | None = None
        self._doubted = asyncio.Event()

    def doubt(self) -> None:
        """Call when the environment may have changed."""
        self._doubted.set()

    async def keep(self, plane: ControlPlane) -> None:
        while True:
            pause = LOOK_SECONDS if self._reported == self.current else RETRY_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._doubted.wait()
            await self.look()
            if plane.is_registered:
                await self.report(plane)

    async def look(self) -> None:
        """Reads what the engines have. If an engine does not respond, the last result stays."""
        self._doubted.clear()
        engines = self._engines()
        if not engines:
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = [(engine.provider, await _inventory_of(engine)) for engine in engines]
        except (EngineError, TimeoutError) as error:
            log.warning("engine.inventory_not_read", reason=str(error) or "The engine does not respond in time.")
            return
        hashes = await asyncio.to_thread(_hashes_in, self._hashes_file) if self._hashes_file else {}
        self.current = environment_of(found, hashes)
        packages = {name for _, inventory in found if inventory is not None for name in inventory.custom_nodes}
        self.custom_nodes = sorted(filter(_is_sendable, packages))[:MOST_CUSTOM_NODES]

    async def report(self, plane: ControlPlane) -> None:
        """Does nothing if the control plane has this environment already."""
        environment = self.current
        if environment is None or environment == self._reported:
            return
        try:
            answer = await plane.report_environment(environment)
        except Unreachable as error:
            log.warning("worker.environment_not_reported", reason=str(error))
            return
        except Refused as error:
            # The control plane is older than this agent, or has other limits. The agent continues without the check.
            log.warning("worker.environment_refused", reason=str(error))
            self._reported = environment
            return
        self._reported = environment
        for each in answer.cannot_run:
            lacks = [f"{lack.kind} {lack.name}" for lack in each.lacks]
            log.warning("worker.cannot_run", workflow=each.workflow, lacks=lacks)


def environment_of(
    inventories: Iterable[tuple[str, Inventory | None]], hashes: Mapping[str, str | None]
) -> Environment | None:
    """Any engine of a provider may get a job, so only what all engines of the provider have counts. A job goes to the
    engines of its own provider, so the lists of different providers are merged."""
    by_provider: dict[str, Inventory] = {}
    for provider, inventory in inventories:
        if inventory is None:
            return None
        known = by_provider.get(provider)
        by_provider[provider] = inventory if known is None else _shared(known, inventory)
    if not by_provider:
        return None
    classes = sorted({name for each in by_provider.values() for name in each.node_classes if _is_sendable(name)})
    models = sorted({name for each in by_provider.values() for name in each.models if _is_sendable(name)})
    reported = [ReportedModel(name=name, sha256=hashes.get(name.replace("\\", "/"))) for name in models]
    room = MOST_CHARACTERS - sum(len(name) + 3 for name in classes)
    fits = len(models) <= MOST_MODELS and sum(len(name) + 100 for name in models) <= room
    if not fits or len(classes) > MOST_NODE_CLASSES or room < 0:
        log.warning("worker.environment_too_large", node_classes=len(classes), models=len(models))
    return Environment(
        # A truncated list would mean that the worker does not have the rest.
        node_classes=classes if len(classes) <= MOST_NODE_CLASSES and room >= 0 else None,
        models=reported if fits else None,
        engine_versions=sorted({version for each in by_provider.values() for version in each.versions}),
    )


def parse_hashes(text: str) -> dict[str, str | None]:
    """Parses lines of `sha256sum`. Keys are the whole path and each end of it, because an engine names a file relative
    to the folder of its kind. The value is None if two different files have the same key."""
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        parsed = _HASH_LINE.fullmatch(line.strip())
        if parsed is None:
            continue
        parts = PurePosixPath(parsed[2].replace("\\", "/")).parts
        for start in range(len(parts)):
            name = "/".join(parts[start:])
            found[name] = parsed[1] if found.get(name, parsed[1]) == parsed[1] else None
    return found


def _shared(one: Inventory, other: Inventory) -> Inventory:
    return Inventory(
        one.node_classes & other.node_classes,
        one.models & other.models,
        (*one.versions, *other.versions),
        one.custom_nodes & other.custom_nodes,
    )


def _is_sendable(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _hashes_in(file: Path) -> dict[str, str | None]:
    try:
        if file.stat().st_size > LARGEST_HASHES_FILE:
            log.warning("worker.model_hashes_not_read", reason="the file is too large")
            return {}
        return parse_hashes(file.read_text("utf-8", "replace"))
    except OSError as error:
        log.warning("worker.model_hashes_not_read", reason=str(error.strerror))
        return {}


async def _inventory_of(engine: Engine) -> Inventory | None:
    return await engine.inventory() if isinstance(engine, TellsInventory) else None
