"""Pollers that behave like workers: each requests the next job repeatedly, and waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.installation import BenchInstallation
from callsheet.jobs.lease.long_poll import LongPoll
from callsheet.jobs.lease.outcomes import StartedLease
from tests.support.rooms import EveryProvider


@dataclass(slots=True)
class Pollers:
    """This many pollers run without end; `next_start` returns the jobs that they get."""

    installation: BenchInstallation
    count: int
    _starts: asyncio.Queue[tuple[float, StartedLease]] = field(default_factory=asyncio.Queue)

    async def next_start(self) -> tuple[float, StartedLease]:
        """When the response arrived (monotonic), and its content."""
        async with asyncio.timeout(180):
            return await self._starts.get()

    async def all_wait(self) -> None:
        """Waits until each poller has asked once, found nothing, and waits."""
        async with asyncio.timeout(180):
            while len(self.installation.room.dispatch.waiters) < self.count:  # noqa: ASYNC110 (no event says that one more waits)
                await asyncio.sleep(0.002)
        # A poller is counted before its first question has a response; its questions go out one batch after the other.
        await self.installation.room.dispatch.queue.lease(self.installation.criteria, "last in line")

    async def run(self, worker: str) -> None:
        polling = LongPoll(self.installation.room.starter, self.installation.room.dispatch.waiters, EveryProvider())
        while True:
            started = await polling.next_job(self.installation.criteria, worker, 3600)
            if started is not None:
                self._starts.put_nowait((time.perf_counter(), started))


@asynccontextmanager
async def waiting_pollers(installation: BenchInstallation, count: int) -> AsyncIterator[Pollers]:
    pollers = Pollers(installation, count)
    tasks = [asyncio.create_task(pollers.run(f"worker-{number}")) for number in range(count)]
    try:
        await pollers.all_wait()
        yield pollers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
