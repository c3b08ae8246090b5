"""How long the first job of a newcomer waits beside a flood: in jobs of the flood that are taken before it, per worker.

The peer is the same queue in the order of arrival, with a flood of a thousand.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from uuid import UUID

from bench.installation import BenchInstallation, new_entry, open_bench_installation
from bench.results import Result
from callsheet.dispatch.facts import DispatchEnd, Lease
from callsheet.dispatch.queue import Queue

name = "dispatch.fairness"
WORKERS = 8
RUN_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Shape:
    flood: int = 10_000


short = {"shape": Shape(flood=300)}


async def run(seconds: float, shape: Shape | None = None) -> list[Result]:
    shape = shape or Shape()
    async with open_bench_installation() as installation:
        waits, jobs = await newcomers(installation, shape.flood, seconds)
        in_turn = await in_order_of_arrival(installation)
    return [
        Result(
            name=name,
            value=statistics.fmean(jobs) / WORKERS,
            unit="jobs of the flood per worker before a newcomer",
            peer=in_turn / WORKERS,
            target=1.0,
            p50_ms=1000 * statistics.median(waits),
            p99_ms=1000 * sorted(waits)[int(len(waits) * 0.99)],
        )
    ]


async def newcomers(installation: BenchInstallation, flood: int, seconds: float) -> tuple[list[float], list[int]]:
    """How long each waited, and how many of the flood were taken meanwhile."""
    [(tenant, user), *others] = await installation.add_members(1 + max(4, round(seconds * 5)))
    queue = installation.room.dispatch.queue
    await put_in(queue, installation, [(tenant, user)] * flood)
    taken: list[Lease] = []
    # Of each newcomer: how many had been taken when its job was.
    served_at: dict[UUID, asyncio.Future[int]] = {}
    stop = asyncio.Event()

    async def work(worker: str) -> None:
        while not stop.is_set():
            lease = await queue.lease(installation.criteria, worker)
            if lease is None:
                raise RuntimeError("the flood is too small for this run")
            if lease.tenant_id in served_at:
                served_at[lease.tenant_id].set_result(len(taken))
            taken.append(lease)
            await asyncio.sleep(RUN_SECONDS)
            await queue.close(DispatchEnd(lease.dispatch_id, "completed", lease.lease_token))

    workers = [asyncio.create_task(work(f"worker-{n}")) for n in range(WORKERS)]
    waits, jobs = [], []
    try:
        for newcomer, person in others:
            await asyncio.sleep(RUN_SECONDS * 5)
            before, requested_at = len(taken), time.perf_counter()
            served = served_at[newcomer] = asyncio.get_running_loop().create_future()
            await put_in(queue, installation, [(newcomer, person)])
            jobs.append(await served - before)
            waits.append(time.perf_counter() - requested_at)
    finally:
        stop.set()
        await asyncio.gather(*workers)
    return waits, jobs


async def in_order_of_arrival(installation: BenchInstallation) -> int:
    """How many of the flood are taken before a newcomer where the order of arrival counts: all that are left."""
    queue = Queue(installation.central, fair=False)
    async with installation.central.connection() as connection:
        await connection.execute("DELETE FROM ai_job_dispatches")
    [flood, newcomer] = await installation.add_members(2)
    await put_in(queue, installation, [flood] * 1000 + [newcomer])
    count = 0
    while (lease := await queue.lease(installation.criteria, "worker")) is not None and lease.tenant_id != newcomer[0]:
        count += 1
    return count


async def put_in(queue: Queue, installation: BenchInstallation, members: list[tuple[UUID, UUID]]) -> None:
    entries = [new_entry(installation.workflow_id, *member) for member in members]
    for start in range(0, len(entries), 500):
        await queue.enqueue(entries[start : start + 500])
