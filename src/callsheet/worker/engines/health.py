"""Whether an engine can take a job: probed regularly, and at once when a run has trouble with the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from callsheet.providers.engine import Engine, EngineDescription, EngineError, EngineStuck, EngineUnreachable
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.worker.engines.warm_up import WarmUp

log = get_logger(__name__)

# Probe interval while the engine is unhealthy: an engine responds within seconds of its start.
RECOVERY_SECONDS = 1.0
# Timeout of a probe. A busy engine responds slowly, but is still healthy.
ANSWER_SECONDS = 30.0


class EngineHealth:
    def __init__(
        self,
        engine: Engine,
        seconds: float,
        changed: Callable[[], None],
        name: str | None = None,
        warm_up: WarmUp | None = None,
    ):
        self.is_well = False
        # The engine responds, but makes no progress: only a restart helps.
        self.is_stuck = False
        # The engine responds, whether or not it is healthy; also while it warms up.
        self.responses = False
        self._warm_up = warm_up
        self._name = name or engine.provider
        self.reason = "has not been checked yet"
        self.version: str | None = None
        self.description: EngineDescription | None = None
        self._engine = engine
        self._seconds = seconds
        self._changed = changed
        self._doubted = asyncio.Event()
        # Set after the first probe.
        self.looked = asyncio.Event()
        # The number of probes in a row that failed. 0 if a run had trouble with the engine since the last one.
        self._failed_looks = 0
        # Whether the state was logged: an engine that is unhealthy from the start is logged, too.
        self._is_reported = False

    @property
    def details(self) -> Mapping[str, Any]:
        return {} if self.description is None else self.description.details

    def doubt(self, reason: str) -> None:
        """Marks the engine as doubtful: it gets no further job until the next probe succeeds."""
        self.is_stuck, self._failed_looks = False, 0
        self._set(False, reason)
        self._doubted.set()

    def restarted(self, reason: str) -> None:
        """Call when the engine's process has ended: its last known state is no longer valid."""
        self.responses = False
        if self._warm_up is not None:
            self._warm_up.engine_was_away()
        self.doubt(reason)

    async def keep(self) -> None:
        while True:
            await self.look()
            self._doubted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds if self.is_well else min(RECOVERY_SECONDS, self._seconds)):
                    await self._doubted.wait()

    async def look(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self.description = await self._engine.describe()
            self.version = self.description.version
            self.responses, self.is_stuck = True, False
            self.looked.set()
            if self._warm_up is not None:
                await self._warm_up.run()
        except (EngineError, TimeoutError) as error:
            self._failed_looks += 1
            self.responses = not isinstance(error, EngineUnreachable | TimeoutError)
            self.is_stuck = isinstance(error, EngineStuck)
            if isinstance(error, EngineUnreachable) and self._warm_up is not None:
                self._warm_up.engine_was_away()
            self._set(False, str(error) or "does not respond")
        else:
            self._failed_looks = 0
            self._set(True, "")
        self.looked.set()
        return self.is_well

    def _set(self, is_well: bool, reason: str) -> None:
        if is_well != self.is_well or (not is_well and not self._is_reported):
            # The first failure is information only: an engine that is starting responds a second later.
            self._is_reported = is_well or self._failed_looks != 1
            note = log.info if is_well else note_failure(log, self._failed_looks)
            note("engine.well" if is_well else "engine.unwell", engine=self._name, reason=reason)
        changed, self.is_well, self.reason = is_well != self.is_well, is_well, reason
        if changed:
            self._changed()
