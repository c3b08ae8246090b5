"""The cost of a lease with many waiting users, or many in the past, relative to the cost with one waiting user (G11).

Four queues with equally many rows take turns: one lane; one lane beside ten thousand unused lanes; ten thousand tenants
with work; and both. Callers lease, finish and submit a new job of the same tenant.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from bench.installation import BenchInstallation, add_workflows, new_entry, open_bench_installation
from bench.results import Result
from callsheet.dispatch.facts import Criteria, DispatchEnd, QueueEntry
from callsheet.dispatch.loops import LaneKeeper
from callsheet.dispatch.queue import Queue
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.migrate import migrate
from callsheet.settings import DatabaseSettings
from callsheet.toolbox.ids import uuid7

name = "dispatch.lanes"
MAX_RATIO = 1.5
CALLERS = 8
SLICE_SECONDS = 1.0
# As old as lanes are that were made and never used again.
PAST_LANES = """
INSERT INTO dispatch_lanes (workflow_id, stage, provider, priority, tenant_id, user_id, opened_at)
SELECT $1, 'production', 'self_hosted', -(n % 4), gen_random_uuid(), gen_random_uuid(), now() - interval '1 h'
FROM generate_series(1, $2::integer) AS n
"""
TENANTS = """
INSERT INTO tenants (id, slug, name, db_pool) SELECT t, 'bench-' || t, 'Bench', 'pool_1' FROM unnest($1::uuid[]) AS t
"""


@dataclass(frozen=True, slots=True)
class Shape:
    lanes: int = 10_000
    rows: int = 20_000


short = {"shape": Shape(lanes=200, rows=400)}


@dataclass(slots=True)
class Form:
    queue: Queue
    criteria: Criteria
    tenants: Iterator[UUID]
    users: dict[UUID, UUID]
    times: list[float] = field(default_factory=list)

    def entry(self, tenant_id: UUID) -> QueueEntry:
        return new_entry(self.criteria.workflow_ids[0], tenant_id, self.users[tenant_id])

    async def load(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(self._call(f"worker-{n}", until) for n in range(CALLERS)))

    async def _call(self, worker: str, until: float) -> None:
        while time.perf_counter() < until:
            requested_at = time.perf_counter()
            lease = await self.queue.lease(self.criteria, worker)
            self.times.append(time.perf_counter() - requested_at)
            if lease is None:
                raise RuntimeError("a lease found nothing in a full queue")
            await self.queue.close(DispatchEnd(lease.dispatch_id, "completed", lease.lease_token))
            await self.queue.enqueue([self.entry(lease.tenant_id)])


async def run(seconds: float, shape: Shape | None = None) -> list[Result]:
    shape = shape or Shape()
    async with AsyncExitStack() as stack:
        installation = await stack.enter_async_context(open_bench_installation())
        forms = {
            title: await stack.enter_async_context(form(installation, title, shape.rows, tenants, past))
            for title, tenants, past in (
                ("one", 1, 0),
                ("past", 1, shape.lanes),
                ("tenants", shape.lanes, 0),
                ("mix", shape.lanes // 2, shape.lanes // 2),
            )
        }
        part = min(SLICE_SECONDS, seconds / len(forms))
        for each in forms.values():
            await each.load(part)
            each.times.clear()
        for _ in range(max(1, round(seconds / (part * len(forms))))):
            for each in forms.values():
                await each.load(part)
    one = statistics.median(forms.pop("one").times)
    return [
        Result(
            name=f"{name}.{title}",
            value=statistics.median(each.times) / one,
            unit="times that of one lane",
            target=MAX_RATIO,
            p50_ms=1000 * statistics.median(each.times),
        )
        for title, each in forms.items()
    ]


@asynccontextmanager
async def form(
    installation: BenchInstallation, database: str, rows: int, tenants: int, past: int
) -> AsyncIterator[Form]:
    dsn = await installation.new_database(database)
    await migrate(dsn, "central", database)
    central = Database("central", database, dsn, DatabaseSettings())
    async with AsyncExitStack() as undo:
        await central.open()
        undo.push_async_callback(central.close)
        users = {uuid7(): uuid7() for _ in range(tenants)}
        [workflow_id] = await add_workflows(central, 1)
        async with central.connection() as connection:
            await connection.execute("INSERT INTO pools (name, database) VALUES ('pool_1', 'pool_1')")
            await connection.execute(TENANTS, list(users))
        queue = Queue(central)
        found = Form(queue, Criteria((workflow_id,)), itertools.cycle(users), users)
        entries = [found.entry(next(found.tenants)) for _ in range(rows)]
        for start in range(0, rows, 500):
            await queue.enqueue(entries[start : start + 500])
        async with central.connection() as connection:
            await connection.execute(PAST_LANES, workflow_id, past)
            await connection.execute("ANALYZE")
        keeper = LaneKeeper(queue)
        keeper.start()
        undo.push_async_callback(keeper.stop)
        yield found
