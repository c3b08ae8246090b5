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
RESPONSE_SECONDS = 30.0


class EngineHealth:
    def __init__(
        self,
        engine: Engine,
        seconds: float,
        changed: Callable[[], None],
        name: str | None = None,
        warm_up: WarmUp | None = None,
    ):
        self.is_healthy = False
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
        self._suspected = asyncio.Event()
        # Set after the first probe.
        self.checked = asyncio.Event()
        # The number of probes in a row that failed. 0 if a run had trouble with the engine since the last one.
        self._failed_checks = 0
        # Whether the state was logged: an engine that is unhealthy from the start is logged, too.
        self._is_reported = False

    @property
    def details(self) -> Mapping[str, Any]:
        return {} if self.description is None else self.description.details

    def suspect(self, reason: str) -> None:
        """Marks the engine as suspect: it gets no further job until the next probe succeeds."""
        self.is_stuck, self._failed_checks = False, 0
        self._set(False, reason)
        self._suspected.set()

    def restarted(self, reason: str) -> None:
        """Call when the engine's process has ended: its last known state is no longer valid."""
        self.responses = False
        if self._warm_up is not None:
            self._warm_up.engine_was_away()
        self.suspect(reason)

    async def keep(self) -> None:
        while True:
            await self.check()
            self._suspected.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds if self.is_healthy else min(RECOVERY_SECONDS, self._seconds)):
                    await self._suspected.wait()

    async def check(self) -> bool:
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                self.description = await self._engine.describe()
            self.version = self.description.version
            self.responses, self.is_stuck = True, False
            self.checked.set()
            if self._warm_up is not None:
                await self._warm_up.run()
        except (EngineError, TimeoutError) as error:
            self._failed_checks += 1
            self.responses = not isinstance(error, EngineUnreachable | TimeoutError)
            self.is_stuck = isinstance(error, EngineStuck)
            if isinstance(error, EngineUnreachable) and self._warm_up is not None:
                self._warm_up.engine_was_away()
            self._set(False, str(error) or "does not respond")
        else:
            self._failed_checks = 0
            self._set(True, "")
        self.checked.set()
        return self.is_healthy

    def _set(self, is_healthy: bool, reason: str) -> None:
        if is_healthy != self.is_healthy or (not is_healthy and not self._is_reported):
            # The first failure is information only: an engine that is starting responds a second later.
            self._is_reported = is_healthy or self._failed_checks != 1
            note = log.info if is_healthy else note_failure(log, self._failed_checks)
            note("engine.healthy" if is_healthy else "engine.unhealthy", engine=self._name, reason=reason)
        changed, self.is_healthy, self.reason = is_healthy != self.is_healthy, is_healthy, reason
        if changed:
            self._changed()
