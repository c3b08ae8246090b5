"""Reads what the engines of this machine can run, and reports changes to the control plane.

The list of an engine is several megabytes long. It is read at the start, when `request_reading` was called, for example
after the engine was unreachable, when an engine refused a graph, and every five minutes, because a model file may have
been added. A report that did not arrive is sent again without another reading.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from callsheet.providers.comfy.node_forms import agreed, packed
from callsheet.providers.engine import Engine, EngineError, HasInventory, Inventory
from callsheet.toolbox.logs import get_logger
from callsheet.wire.worker.environment import (
    MAX_MODELS,
    MAX_NAME_LENGTH,
    MAX_NODE_CLASSES,
    CannotRun,
    Environment,
    ReportedModel,
)
from callsheet.worker.agent.control_plane import ControlPlaneClient
from callsheet.worker.agent.plane import RefusedRequest, Unreachable

log = get_logger(__name__)

READING_SECONDS = 300.0
# Time until a report that did not arrive is sent again.
RETRY_SECONDS = 10.0
# A second refusal within this time causes no second reading: a user may submit many jobs that an engine refuses.
RENEWED_SECONDS = 5.0
# How often the report after a refusal is sent. The control plane accepts one per second.
RENEWAL_ATTEMPTS = 4
# For all engines together. ComfyUI searches its folders for each loader, so the response takes long.
RESPONSE_SECONDS = 30.0
# Fits in a body of one megabyte, the default limit of control planes, also if some characters take several bytes.
MAX_CHARACTERS = 600_000
# In bytes: about 100,000 lines.
MAX_HASHES_FILE_BYTES = 16 * 1024 * 1024
# More names than an operator reads on the page of a worker.
MAX_CUSTOM_NODES = 200
_HASH_LINE = re.compile(r"\\?([0-9a-f]{64}) [ *](.+)")


class EnvironmentWatch:
    def __init__(self, engines: Callable[[], Sequence[Engine]], hashes_file: Path | None = None):
        """`engines` returns the engines that take jobs now. An engine that is known to be unreachable is not among
        them, so it does not affect what the others report."""
        self._engines = engines
        self._hashes_file = hashes_file
        # None if nothing was read yet, or if an engine cannot report what it has.
        self.current: Environment | None = None
        # Packages of custom nodes, to show to operators.
        self.custom_nodes: list[str] = []
        self.custom_node_versions: dict[str, str] = {}
        self._reported: Environment | None = None
        self._reading_requested = asyncio.Event()
        self._renewing = asyncio.Lock()
        self._read_at = -math.inf
        # Whether an engine refused a graph since the last reading in the background.
        self._was_contradicted = False
        # The workflows that were logged as those that this worker cannot run.
        self._logged: list[CannotRun] = []

    def request_reading(self) -> None:
        """Call when the environment may have changed."""
        self._reading_requested.set()

    async def renew(self, plane: ControlPlaneClient) -> None:
        """Reads and reports at once, because an engine refused a graph that it should be able to run."""
        async with self._renewing:
            if time.monotonic() - self._read_at >= RENEWED_SECONDS:
                await self.read()
            self._was_contradicted = True
            for attempt in range(1, RENEWAL_ATTEMPTS + 1):
                try:
                    await self._send(plane)
                except Unreachable as error:
                    await asyncio.sleep(plane.pause(attempt, error))
                else:
                    return

    async def read_and_report(self, plane: ControlPlaneClient) -> None:
        """Runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        next_reading = loop.time() + READING_SECONDS
        while True:
            is_reported = self.current is None or self._reported == self.current
            pause = next_reading - loop.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if is_reported else min(pause, RETRY_SECONDS)):
                    await self._reading_requested.wait()
            is_regular = loop.time() >= next_reading
            if self._reading_requested.is_set() or is_regular:
                await self.read()
                next_reading = loop.time() + READING_SECONDS
                if self._was_contradicted or is_regular:
                    # Reported even if nothing changed: the assignments of this worker may have changed, and a report
                    # ends what the control plane excluded because of a refusal.
                    self._was_contradicted, self._reported = False, None
            if plane.is_registered:
                await self.report(plane)

    async def read(self) -> None:
        """Reads what the engines have. If one of them does not respond, or there is none, the last result stays."""
        self._reading_requested.clear()
        engines = self._engines()
        if not engines:
            return
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                found = [(engine.provider, await _inventory_of(engine)) for engine in engines]
        except (EngineError, TimeoutError) as error:
            log.warning("engine.inventory_not_read", reason=str(error) or "The engine did not respond in time.")
            return
        self._read_at = time.monotonic()
        hashes = await asyncio.to_thread(_hashes_in, self._hashes_file) if self._hashes_file else {}
        self.current = environment_of(found, hashes)
        packages = {name for _, inventory in found if inventory is not None for name in inventory.custom_nodes}
        self.custom_nodes = sorted(filter(_is_sendable, packages))[:MAX_CUSTOM_NODES]
        versions = versions_of([inventory for _, inventory in found if inventory is not None])
        self.custom_node_versions = {name: versions[name] for name in self.custom_nodes if name in versions}

    async def report(self, plane: ControlPlaneClient) -> None:
        """Reports the environment, unless the control plane already got it, also if it refused it."""
        try:
            await self._send(plane)
        except Unreachable as error:
            log.warning("worker.environment_not_reported", reason=str(error))

    async def _send(self, plane: ControlPlaneClient) -> None:
        environment = self.current
        if environment is None or environment == self._reported:
            return
        try:
            response = await plane.report_environment(environment)
        except RefusedRequest as error:
            # The control plane is older than this agent, or has other limits. It then does not check whether this
            # worker can run a workflow.
            log.warning("worker.environment_refused", reason=str(error))
            self._reported = environment
            return
        self._reported = environment
        is_known = response.cannot_run == self._logged
        self._logged = response.cannot_run
        for each in () if is_known else response.cannot_run:
            lacks = [f"{lack.kind} {lack.name}" for lack in each.lacks]
            log.warning("worker.cannot_run", workflow=each.workflow, lacks=lacks)


def versions_of(inventories: Sequence[Inventory]) -> dict[str, str]:
    """The version of each package of custom nodes that an engine reports. Engines with different versions are all
    named: `1.0, 1.1`."""
    found: dict[str, set[str]] = {}
    for inventory in inventories:
        for name, version in inventory.custom_node_versions.items():
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}


def environment_of(
    inventories: Iterable[tuple[str, Inventory | None]], hashes: Mapping[str, str | None]
) -> Environment | None:
    """The environment of all engines. For each provider it contains only what all of its engines have, because any
    of them may get a job. The lists of different providers are merged, because a job goes only to engines of its own
    provider.
    """
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
    room = MAX_CHARACTERS - sum(len(name) + 3 for name in classes)
    fits = len(models) <= MAX_MODELS and sum(len(name) + 100 for name in models) <= room
    if not fits or len(classes) > MAX_NODE_CLASSES or room < 0:
        log.warning("worker.environment_too_large", node_classes=len(classes), models=len(models))
    return Environment(
        # A truncated list would mean that the worker does not have the rest.
        node_classes=classes if len(classes) <= MAX_NODE_CLASSES and room >= 0 else None,
        models=reported if fits else None,
        engine_versions=sorted({version for each in by_provider.values() for version in each.versions}),
        node_forms=_forms_of(by_provider.values()),
    )


def _forms_of(inventories: Iterable[Inventory]) -> str | None:
    forms = {name: form for each in inventories for name, form in each.forms.items()}
    made = packed(forms) if forms else None
    if forms and made is None:
        log.warning("worker.node_forms_too_large", node_classes=len(forms))
    return made


def parse_hashes(text: str) -> dict[str, str | None]:
    """Parses lines of `sha256sum`. Each path has several keys: `a/b/c`, `b/c` and `c`, because an engine names a model
    relative to a folder such as `checkpoints`. The value is None if two different files have the same key."""
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
        forms=agreed([one.forms, other.forms]),
    )


def _is_sendable(name: str) -> bool:
    """Whether a control plane accepts the name. No workflow can require another one."""
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()


def _hashes_in(file: Path) -> dict[str, str | None]:
    try:
        if file.stat().st_size > MAX_HASHES_FILE_BYTES:
            log.warning("worker.model_hashes_not_read", reason="the file is too large")
            return {}
        return parse_hashes(file.read_text("utf-8", "replace"))
    except OSError as error:
        log.warning("worker.model_hashes_not_read", reason=str(error.strerror))
        return {}


async def _inventory_of(engine: Engine) -> Inventory | None:
    return await engine.inventory() if isinstance(engine, HasInventory) else None
