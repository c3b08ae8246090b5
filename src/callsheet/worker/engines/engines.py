"""The engines of an agent: which of them take jobs, and which one a job gets until it ends."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from callsheet.providers.engine import Engine, EngineError, EngineUnreachable
from callsheet.toolbox.logs import get_logger
from callsheet.wire.worker.protocol import MAX_REPORTED_ENGINES, ReportedEngine
from callsheet.worker.engines.engine_choice import EngineState, choose_engine
from callsheet.worker.engines.engine_use import EngineUseMeter
from callsheet.worker.engines.health import EngineHealth
from callsheet.worker.engines.warm_up import WarmUp

log = get_logger(__name__)

CANCEL_SECONDS = 15.0
FORGET_SECONDS = 5.0


class DrivenEngine:
    """One engine, its health, and how many of its slots are taken."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        slots: int,
        probe_seconds: float,
        changed: Callable[[], None],
        warm_up: Mapping[str, dict[str, Any]] | None = None,
    ):
        """`warm_up`: the graph that the engine runs first, before it gets jobs."""
        self.name = name
        self.engine = engine
        self.slots = slots
        # Jobs that render or are about to render.
        self.busy = 0
        # Jobs that need the engine, also those that only upload files to it or fetch results from it.
        self.in_use = 0
        self.health = EngineHealth(
            engine, probe_seconds, changed, name, None if warm_up is None else WarmUp(engine, dict(warm_up), name)
        )
        self._changed = changed
        self._is_resting = False
        self._loaded: frozenset[str] = frozenset()
        self._last_used = 0.0
        self._use = EngineUseMeter()

    @property
    def takes_jobs(self) -> bool:
        return self.health.is_healthy and not self._is_resting

    def rest(self, is_resting: bool) -> None:
        """Sets whether the engine rests: it then finishes its jobs and gets no further one."""
        if is_resting != self._is_resting:
            self._is_resting = is_resting
            self._changed()

    @property
    def state(self) -> EngineState:
        return EngineState(self.name, self.slots if self.takes_jobs else 0, self.busy, self._loaded, self._last_used)

    def take(self, wanted: frozenset[str]) -> None:
        self.busy += 1
        self._loaded, self._last_used = wanted, time.monotonic()
        self.note_use()

    def give_back(self) -> None:
        self.busy -= 1
        self.note_use()

    def note_use(self) -> None:
        """Call after a change of what the engine does or may do."""
        self._use.change(self.busy, self.slots if self.takes_jobs else 0)

    def reported_use(self) -> ReportedEngine:
        share, seconds = self._use.idle_share() or (None, 0.0)
        rounded = None if share is None else round(share, 4)
        return ReportedEngine(name=self.name, slots=self.slots, idle_share=rounded, measured_seconds=round(seconds, 1))

    def forget_models(self) -> None:
        """Call after a restart of the engine: no model is loaded."""
        self._loaded = frozenset()


@dataclass(slots=True, eq=False)
class _Waiting:
    candidates: Sequence[DrivenEngine]
    wanted: frozenset[str]
    found: asyncio.Future[DrivenEngine] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_bound(self) -> bool:
        return len(self.candidates) == 1


class EngineClaim:
    """The engine of a job. The job may get a slot at the engine later: files can be uploaded while the engine runs
    another job.
    """

    def __init__(self, engines: Engines, driven: DrivenEngine, wanted: frozenset[str], *, has_slot: bool):
        driven.in_use += 1
        self.driven = driven
        self._engines = engines
        self._wanted = wanted
        self._has_slot = has_slot

    async def hold(self) -> None:
        """Waits for a slot. Raises EngineUnreachable if the engine no longer takes jobs."""
        if not self._has_slot:
            await self._engines.wait_for_slot([self.driven], self._wanted)
            self._has_slot = True
        if not self.driven.health.is_healthy:
            # The engine became unhealthy during the job before this one.
            raise EngineUnreachable(self.driven.health.reason)

    def release(self) -> None:
        """Frees the slot for the next job after the run."""
        if self._has_slot:
            self._has_slot = False
            self._engines.give_back(self.driven)

    def end(self) -> None:
        """Call once per claim, when the job no longer needs the engine."""
        self.release()
        self.driven.in_use -= 1


class Engines:
    def __init__(self, driven: Sequence[DrivenEngine]):
        self._driven = tuple(driven)
        self._waiting: list[_Waiting] = []

    def __iter__(self) -> Iterator[DrivenEngine]:
        return iter(self._driven)

    def that_take_jobs(self) -> list[Engine]:
        return [each.engine for each in self._driven if each.takes_jobs]

    def of(self, provider: str) -> list[DrivenEngine]:
        return [each for each in self._driven if each.engine.provider == provider]

    @property
    def all_slots(self) -> int:
        """Number of slots if every engine is healthy."""
        return sum(each.slots for each in self._driven)

    @property
    def capacity(self) -> int:
        return sum(each.slots for each in self._driven if each.takes_jobs)

    @property
    def slots(self) -> dict[str, int]:
        """Number of slots of each provider with an engine that takes jobs."""
        counted: Counter[str] = Counter()
        for each in self._driven:
            if each.takes_jobs:
                counted[each.engine.provider] += each.slots
        return dict(counted)

    @property
    def providers(self) -> list[str]:
        """Providers with an engine that takes jobs."""
        return list(self.slots)

    @property
    def all_providers(self) -> list[str]:
        return list(dict.fromkeys(each.engine.provider for each in self._driven))

    @property
    def reasons(self) -> str:
        """Why engines take no jobs."""
        return "; ".join(dict.fromkeys(_reason(each) for each in self._driven if not each.takes_jobs))

    def described(self) -> dict[str, Any]:
        """For admins: the versions by provider, and each engine if there are several."""
        versions: dict[str, str] = {}
        for provider in self.all_providers:
            found = dict.fromkeys(each.health.version for each in self.of(provider) if each.health.version)
            if found:
                versions[provider] = ", ".join(found)
        if len(self._driven) == 1:
            return {"engines": versions}
        each_one = [
            {"name": each.name, "version": each.health.version, "slots": each.slots, **each.health.details}
            for each in self._driven
        ]
        return {"engines": versions, "each_engine": each_one}

    def reported_use(self) -> list[ReportedEngine]:
        """How much each engine was used in the last hour."""
        return [each.reported_use() for each in self._driven[:MAX_REPORTED_ENGINES]]

    async def claim(self, provider: str, wanted: frozenset[str]) -> EngineClaim:
        """Returns an engine for a job whose files are downloaded. A provider's only engine is returned at once; of
        several engines, the first with a free slot."""
        candidates = self.of(provider)
        if not candidates:
            raise EngineError("no_engine", f"This worker has no engine for {provider!r}.", retryable=True)
        if len(candidates) == 1:
            return EngineClaim(self, candidates[0], wanted, has_slot=False)
        driven = await self.wait_for_slot(candidates, wanted)
        return EngineClaim(self, driven, wanted, has_slot=True)

    async def wait_for_slot(self, candidates: Sequence[DrivenEngine], wanted: frozenset[str]) -> DrivenEngine:
        """Waits for a slot at one of the engines. Jobs get slots in the order of their requests."""
        waiting = _Waiting(candidates, wanted)
        self._waiting.append(waiting)
        self.serve()
        try:
            return await waiting.found
        except asyncio.CancelledError:
            if waiting.found.done() and not waiting.found.cancelled() and waiting.found.exception() is None:
                self.give_back(waiting.found.result())
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def give_back(self, driven: DrivenEngine) -> None:
        driven.give_back()
        self.serve()

    def serve(self) -> None:
        """Gives free slots to waiting jobs, or EngineUnreachable if no engine takes jobs. Call after every change."""
        for driven in self._driven:
            driven.note_use()
        for waiting in [each for each in self._waiting if not each.found.done()]:
            states = {each.state: each for each in waiting.candidates}
            chosen = choose_engine(list(states), waiting.wanted)
            if chosen is not None:
                states[chosen].take(waiting.wanted)
                waiting.found.set_result(states[chosen])
            elif not any(each.takes_jobs for each in waiting.candidates):
                _turn_away(waiting)
        # At most one job waits for each slot. More jobs wait only after engines became unhealthy. These jobs are
        # rejected, because idle workers may take them at once.
        next_ones = self.slots
        for waiting in [each for each in self._waiting if not each.found.done() and not each.is_bound]:
            provider = waiting.candidates[0].engine.provider
            next_ones[provider] = next_ones.get(provider, 0) - 1
            if next_ones[provider] < 0:
                _turn_away(waiting)


def _turn_away(waiting: _Waiting) -> None:
    reasons = "; ".join(dict.fromkeys(_reason(each) for each in waiting.candidates if not each.takes_jobs))
    waiting.found.set_exception(EngineUnreachable(reasons or "Every engine is busy."))


def _reason(driven: DrivenEngine) -> str:
    return driven.health.reason or "The engine is about to restart."


async def cancel_run(engine: Engine, run_id: str) -> bool:
    """Stops the run. Returns whether the engine is free for the next one."""
    try:
        async with asyncio.timeout(CANCEL_SECONDS):
            return await engine.cancel(run_id)
    except TimeoutError:
        log.warning("job.cancel_timed_out", run=run_id)
        return False


async def forget_run(engine: Engine, run_id: str) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(FORGET_SECONDS):
            await engine.forget(run_id)


async def end_run(engine: Engine, run_id: str) -> None:
    """Stops the run of a job that this agent no longer holds, and removes what the run left."""
    await cancel_run(engine, run_id)
    await forget_run(engine, run_id)
