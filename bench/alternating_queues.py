"""Runs queues in turns: each is filled, then drained against the clock, repeatedly, on the same server."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

SLICE_SECONDS = 1.0
WARM_UP_JOBS = 100
MAX_JOBS = 60_000


class Drainable(Protocol):
    async def fill(self, jobs: int) -> None:
        """Fills the queue. This is not measured."""

    async def drain(self, jobs: int) -> int:
        """Works until no job is left. Returns how many jobs it finished."""


@dataclass(slots=True)
class Rate:
    """Jobs per second, slice by slice; and where it is measured, the processor time of a job in microseconds."""

    slices: list[float] = field(default_factory=list)
    jobs: int = 0
    processor: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return statistics.median(self.slices)

    @property
    def processor_microseconds(self) -> float:
        return statistics.median(self.processor)


async def take_turns(
    queues: Mapping[str, Drainable],
    seconds: float,
    clock: Callable[[], float] = time.process_time,
    min_jobs: int = WARM_UP_JOBS,
) -> dict[str, Rate]:
    """Runs the queues in turns. `clock`: the measured processor time. `min_jobs`: minimum number of jobs in a
    slice, for any duration.
    """
    slice_seconds = min(SLICE_SECONDS, seconds / len(queues))
    rounds = max(1, round(seconds / (slice_seconds * len(queues))))
    rates = {name: Rate() for name in queues}
    sizes: dict[str, int] = {}
    for name, queue in queues.items():
        # Each runs twice: the first time opens connections and prepares statements.
        await _drain(queue, WARM_UP_JOBS, Rate(), clock)
        warm = Rate()
        await _drain(queue, WARM_UP_JOBS, warm, clock)
        sizes[name] = min(MAX_JOBS, max(min_jobs, round(warm.per_second * slice_seconds)))
    for _ in range(rounds):
        for name, queue in queues.items():
            await _drain(queue, sizes[name], rates[name], clock)
            sizes[name] = min(MAX_JOBS, max(min_jobs, round(rates[name].slices[-1] * slice_seconds)))
    return rates


async def _drain(queue: Drainable, jobs: int, rate: Rate, clock: Callable[[], float]) -> None:
    await queue.fill(jobs)
    # All share this process. Without this each pays for collections of what the others and the installation keep: a
    # quarter of PgQueuer's Python, which it would not spend in a process of its own.
    gc.collect()
    gc.freeze()
    started, spent = time.perf_counter(), clock()
    finished = await queue.drain(jobs)
    elapsed, spent = time.perf_counter() - started, clock() - spent
    gc.unfreeze()
    if finished != jobs:
        raise RuntimeError(f"{type(queue).__name__} finished {finished} of {jobs} jobs")
    rate.slices.append(jobs / elapsed)
    rate.processor.append(spent / jobs * 1e6)
    rate.jobs += jobs
