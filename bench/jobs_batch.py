"""A batch of 1,000 jobs of one user: from the call to the last job in the queue.

The peer is a thousand submits of the same user, twenty at a time, in turns with it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from bench.installation import BenchInstallation, open_bench_installation
from bench.results import Result
from callsheet.jobs.submit.new_jobs import NewJob
from tests.support.jobs.batches import submit_batch
from tests.support.jobs.core import Core, Member

name = "jobs.batch"
ITEMS = 1000
AT_ONCE = 20
# Like a graph of some twenty nodes.
PAYLOAD = {"workflow": {str(node): {"class_type": "KSampler", "inputs": {"steps": node}} for node in range(60)}}
LIMITS = {"active_per_user": 100_000, "batch_jobs_per_user": 100_000, "batches_per_minute": None}


class Submitting:
    def __init__(self, installation: BenchInstallation, core: Core):
        self._ground = installation
        self._core = core

    async def as_batch(self) -> None:
        await submit_batch(self._core, await self._member(), number=ITEMS, payload=PAYLOAD, cost=3)

    async def one_by_one(self) -> None:
        member = await self._member()
        left = iter(range(ITEMS))

        async def caller() -> None:
            for _ in left:
                await self._ground.room.submission.submit(
                    NewJob(member.tenant_id, member.user_id, "effect", self._ground.workflow_id, PAYLOAD, 3)
                )

        await asyncio.gather(*(caller() for _ in range(AT_ONCE)))

    async def _member(self) -> Member:
        [user_id] = await self._ground.add_users(1)
        return Member(self._ground.tenant_id, user_id, self._ground.pool)


async def run(seconds: float) -> list[Result]:
    async with open_bench_installation(settings=LIMITS) as installation:
        core = Core(installation.databases, installation.room, [], installation.workflow_id)
        submitting = Submitting(installation, core)
        took: dict[str, list[float]] = {"batch": [], "single": []}
        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "batch": submitting.as_batch,
            "single": submitting.one_by_one,
        }
        for way in ways.values():
            await way()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not took["single"]:
            for called, way in ways.items():
                started = time.perf_counter()
                await way()
                took[called].append(time.perf_counter() - started)
    return [
        Result(
            name=name,
            value=statistics.median(took["batch"]) * 1000,
            unit="ms",
            peer=statistics.median(took["single"]) * 1000,
        )
    ]
