"""Starts and restarts the agent's engine processes: each separately, so that a restart does not stop other engines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from callsheet.toolbox.concurrently import all_of, first_of
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.worker.engines.engine_process import EngineProcess
from callsheet.worker.engines.engines import DrivenEngine
from callsheet.worker.engines.restarts import EngineSigns, RestartRules, RestartVerdict, judge

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EngineProcesses:
    """Processes of an agent's first engines, in the same order."""

    processes: Sequence[EngineProcess] = ()
    rules: RestartRules = field(default_factory=RestartRules)


UNSUPERVISED = EngineProcesses()


class Supervisor:
    def __init__(
        self,
        driven: DrivenEngine,
        process: EngineProcess,
        rules: RestartRules,
        clock: Callable[[], float] = time.monotonic,
    ):
        # Why the engine could not be started even once.
        self.failed_start: str | None = None
        self._driven = driven
        self._process = process
        self._rules = rules
        self._clock = clock
        self._failures = 0
        self._retry_at = 0.0
        self.has_ever_responded = False
        self._started_at: float | None = None
        self._has_responded = False
        self._silent_since: float | None = None
        self._stuck_since: float | None = None

    async def keep(self) -> None:
        while True:
            await self.tick()
            await first_of(event=self._process.ended, seconds=self._seconds())

    async def tick(self) -> None:
        now = self._clock()
        if self._started_at is not None and not self._process.is_running:
            self._note_end(now, f"The engine's process ended with code {self._process.exit_code}.")
        signs = self._signs(now)
        verdict = judge(self._rules, signs)
        if verdict is not None:
            await self._act(verdict, now)

    async def stop(self) -> None:
        await self._process.stop()

    def _seconds(self) -> float:
        if self._started_at is None:
            return max(0.05, min(self._rules.check_seconds, self._retry_at - self._clock()))
        return self._rules.check_seconds

    def _signs(self, now: float) -> EngineSigns:
        health = self._driven.health
        if self._started_at is not None:
            if health.responses:
                self._has_responded = self.has_ever_responded = True
                self.failed_start = None
            self._silent_since = None if health.responses else (self._silent_since or now)
            self._stuck_since = (self._stuck_since or now) if health.is_stuck else None
        return EngineSigns(
            now=now,
            started_at=self._started_at,
            retry_at=self._retry_at,
            has_responded=self._has_responded,
            silent_since=self._silent_since,
            stuck_since=self._stuck_since,
            memory_bytes=self._process.memory_bytes if self._rules.memory_bytes is not None else None,
            in_use=self._driven.in_use,
        )

    async def _act(self, verdict: RestartVerdict, now: float) -> None:
        match verdict.action:
            case "start":
                await self._start(now)
            case "rest":
                self._driven.rest(True)
            case "restart":
                log.warning("engine.restarts", engine=self._driven.name, reason=verdict.reason)
                self._driven.health.suspect(verdict.reason)
                await self._process.stop()
                self._note_end(self._clock(), verdict.reason)

    async def _start(self, now: float) -> None:
        launch = self._process.launch
        self._has_responded, self._silent_since, self._stuck_since = False, None, None
        try:
            await self._process.start()
        except OSError as error:
            self._note_end(now, str(error))
            return
        self._started_at = now
        log.info("engine.starts", engine=self._driven.name, port=launch.port, log=str(self._process.log.path))

    def _note_end(self, now: float, reason: str) -> None:
        lived = 0.0 if self._started_at is None else now - self._started_at
        is_stable = self._has_responded and lived >= self._rules.stable_seconds
        self._failures = 0 if is_stable else self._failures + 1
        pause = self._rules.pause_seconds(self._failures)
        self._retry_at, self._started_at = now + pause, None
        self._driven.forget_models()
        self._driven.rest(False)
        self._driven.health.restarted(reason)
        log_end = redact_text(self._process.log.tail).strip()
        if self._has_responded:
            log.warning(
                "engine.ended",
                engine=self._driven.name,
                reason=reason,
                starts_again_in_seconds=pause,
                log_end=log_end[-1000:],
            )
            return
        file = self._process.log.path
        log.error(
            "engine.did_not_start",
            engine=self._driven.name,
            reason=reason,
            starts_again_in_seconds=pause,
            log=str(file),
            log_end=log_end[-1000:],
        )
        if not self.has_ever_responded:
            self.failed_start = f"{reason} Its log, {file}, ends with:\n{log_end}" if log_end else reason


class Supervision:
    """All supervisors of an agent."""

    def __init__(self, supervisors: Sequence[Supervisor], *, are_all: bool):
        """`are_all`: every engine of the agent has a supervisor."""
        self._supervisors = supervisors
        self._are_all = are_all

    async def keep(self) -> None:
        """Keeps the engines running. Raises OperatorError if no engine could be started even once: a restart does
        not correct a wrong directory.
        """
        if not self._supervisors:
            await asyncio.Event().wait()
        tasks = [asyncio.create_task(each.keep()) for each in self._supervisors]
        try:
            while True:
                await asyncio.wait(tasks, timeout=0.1 if self._is_starting else None, return_when="FIRST_COMPLETED")
                for task in tasks:
                    if task.done():
                        task.result()
                failed = [each.failed_start for each in self._supervisors]
                if self._are_all and all(failed):
                    raise OperatorError(f"No engine could be started. {failed[0]}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        await all_of(each.stop() for each in self._supervisors)

    @property
    def _is_starting(self) -> bool:
        return not any(each.has_ever_responded for each in self._supervisors)


def supervision_of(engines: Sequence[DrivenEngine], supervised: EngineProcesses) -> Supervision:
    processes = supervised.processes
    pairs = zip(engines[: len(processes)], processes, strict=True)
    supervisors = [Supervisor(driven, process, supervised.rules) for driven, process in pairs]
    return Supervision(supervisors, are_all=len(supervisors) == len(engines))
