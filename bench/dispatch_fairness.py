"""How long the first job of a newcomer waits beside a flood: in jobs of the flood that are taken before it, per worker.

The peer is the same queue in the order of arrival, with a flood of a thousand.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from uuid import UUID

from bench.ground import Ground, new_entry, open_ground
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
    async with open_ground() as ground:
        waits, jobs = await newcomers(ground, shape.flood, seconds)
        in_turn = await in_order_of_arrival(ground)
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


async def newcomers(ground: Ground, flood: int, seconds: float) -> tuple[list[float], list[int]]:
    """How long each waited, and how many of the flood were taken meanwhile."""
    [(tenant, user), *others] = await ground.add_members(1 + max(4, round(seconds * 5)))
    queue = ground.room.queue
    await put_in(queue, ground, [(tenant, user)] * flood)
    taken: list[Lease] = []
    # Of each newcomer: how many had been taken when its job was.
    served_at: dict[UUID, asyncio.Future[int]] = {}
    stop = asyncio.Event()

    async def work(worker: str) -> None:
        while not stop.is_set():
            lease = await queue.lease(ground.criteria, worker)
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
            before, asked = len(taken), time.perf_counter()
            served = served_at[newcomer] = asyncio.get_running_loop().create_future()
            await put_in(queue, ground, [(newcomer, person)])
            jobs.append(await served - before)
            waits.append(time.perf_counter() - asked)
    finally:
        stop.set()
        await asyncio.gather(*workers)
    return waits, jobs


async def in_order_of_arrival(ground: Ground) -> int:
    """How many of the flood are taken before a newcomer where the order of arrival counts: all that are left."""
    queue = Queue(ground.central, fair=False)
    async with ground.central.connection() as connection:
        await connection.execute("DELETE FROM ai_job_dispatches")
    [flood, newcomer] = await ground.add_members(2)
    await put_in(queue, ground, [flood] * 1000 + [newcomer])
    count = 0
    while (lease := await queue.lease(ground.criteria, "worker")) is not None and lease.tenant_id != newcomer[0]:
        count += 1
    return count


async def put_in(queue: Queue, ground: Ground, members: list[tuple[UUID, UUID]]) -> None:
    entries = [new_entry(ground.workflow_id, *member) for member in members]
    for start in range(0, len(entries), 500):
        await queue.enqueue(entries[start : start + 500])
