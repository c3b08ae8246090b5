"""What a lease costs at a million queued rows, over what it costs at a thousand (G11): two queues that take turns.

Both have fifty workflows and three priorities; a tenth of their rows is at the head of the queue and belongs to an
identifier that is at its limit; a session that is idle in a transaction keeps vacuum from cleaning up. Callers lease,
finish and put in a new job, so the queues stay as long as they are.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from bench.installation import BenchInstallation, add_workflows, new_entry, open_bench_installation
from bench.results import Result
from callsheet.dispatch.facts import NO_OWNER, Criteria, DispatchEnd, Lease, QueueEntry
from callsheet.dispatch.loops import LaneKeeper
from callsheet.dispatch.operate.limits import ConcurrencyLimits
from callsheet.dispatch.queue import Queue
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.migrate import migrate
from callsheet.settings import DatabaseSettings
from callsheet.toolbox.ids import uuid7

name = "dispatch.growth"
# Continuous load for a minute; what decays, decays by then.
seconds = 60.0
MAX_RATIO = 1.5
CALLERS = 8
SLICE_SECONDS = 2.0
IDLE_CALLS = 100
SLOTS = 5

LANES = """
INSERT INTO dispatch_lanes (workflow_id, stage, provider, priority)
SELECT w, 'production', 'self_hosted', p FROM unnest($1::bigint[]) AS w, generate_series(0, $2::integer - 1) AS p
"""
SATURATED_LANE = """
INSERT INTO dispatch_lanes (workflow_id, stage, provider, concurrency_identifier, priority)
VALUES ($1, 'production', 'self_hosted', 'saturated', 9) RETURNING lane_id
"""
ROWS = """
INSERT INTO ai_job_dispatches (tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, deadline_at)
SELECT $1, l.user_id, gen_random_uuid(), 1, l.lane_id, l.workflow_id, l.stage, l.provider, l.concurrency_identifier,
    l.priority, 'bench', now() + interval '1 day'
FROM generate_series(1, $2::integer) AS n JOIN dispatch_lanes l ON l.lane_id = ($3::bigint[])[1 + n % cardinality($3)]
"""


@dataclass(frozen=True, slots=True)
class Shape:
    small: int = 1000
    large: int = 1_000_000
    workflows: int = 50
    assigned: int = 20
    priorities: int = 3


short = {"shape": Shape(small=200, large=2000, workflows=10, assigned=5)}


@dataclass(slots=True)
class Crowd:
    """A queue of one size, and how long its leases took, slice by slice."""

    queue: Queue
    tenant_id: UUID
    criteria: Criteria
    strangers: Criteria
    priorities: int
    slices: list[list[float]] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)

    async def load(self, seconds: float) -> None:
        times: list[float] = []
        until = time.perf_counter() + seconds
        await asyncio.gather(*(self._call(f"worker-{n}", until, times) for n in range(CALLERS)))
        self.slices.append(times)

    async def _call(self, worker: str, until: float, times: list[float]) -> None:
        while time.perf_counter() < until:
            requested_at = time.perf_counter()
            lease = await self.queue.lease(self.criteria, worker)
            times.append(time.perf_counter() - requested_at)
            if lease is None:
                raise RuntimeError("a lease found nothing in a full queue")
            await self.queue.close(DispatchEnd(lease.dispatch_id, "completed", lease.lease_token))
            await self.queue.enqueue([self._successor(lease)])

    def _successor(self, lease: Lease) -> QueueEntry:
        priority = random.randrange(self.priorities)
        return new_entry(lease.workflow_id, self.tenant_id, NO_OWNER, priority)

    async def ask_in_vain(self, calls: int) -> None:
        for _ in range(calls):
            requested_at = time.perf_counter()
            if await self.queue.lease(self.strangers, "stranger") is not None:
                raise RuntimeError("a worker was given a job of a workflow that is not its own")
            self.empty.append(time.perf_counter() - requested_at)

    def median(self, slices: slice = slice(None)) -> float:
        return statistics.median(seconds for each in self.slices[slices] for seconds in each)

    def p99(self) -> float:
        ordered = sorted(seconds for each in self.slices for seconds in each)
        return ordered[int(len(ordered) * 0.99)]


async def run(seconds: float, shape: Shape | None = None) -> list[Result]:
    shape = shape or Shape()
    async with (
        open_bench_installation() as installation,
        crowd(installation, shape, "small", shape.small) as small,
        crowd(installation, shape, "large", shape.large) as large,
    ):
        for each in (small, large):
            await each.load(min(1.0, seconds / 4))
            each.slices.clear()
        for _ in range(max(2, round(seconds / SLICE_SECONDS))):
            for each in (small, large):
                await each.load(min(SLICE_SECONDS, seconds / 2))
                await each.ask_in_vain(IDLE_CALLS // 10)
    last = slice(-max(1, len(large.slices) // 4), None)
    return [
        Result(
            name=name,
            value=large.median() / small.median(),
            unit=f"times that at {shape.small:,} rows",
            target=MAX_RATIO,
            p50_ms=1000 * large.median(),
            p99_ms=1000 * large.p99(),
        ),
        Result(
            name=f"{name}.at_the_end",
            value=large.median(last) / small.median(last),
            unit=f"times that at {shape.small:,} rows",
            target=MAX_RATIO,
            p50_ms=1000 * large.median(last),
        ),
        Result(
            name=f"{name}.no_match",
            value=statistics.median(large.empty) / statistics.median(small.empty),
            unit=f"times that at {shape.small:,} rows",
            target=MAX_RATIO,
            p50_ms=1000 * statistics.median(large.empty),
        ),
    ]


@asynccontextmanager
async def crowd(installation: BenchInstallation, shape: Shape, database: str, rows: int) -> AsyncIterator[Crowd]:
    """A central database with this many queued rows, a running LaneKeeper, and a session that is idle in a
    transaction."""
    dsn = await installation.new_database(database)
    await migrate(dsn, "central", database)
    central = Database("central", database, dsn, DatabaseSettings())
    async with AsyncExitStack() as undo:
        await central.open()
        undo.push_async_callback(central.close)
        queue = Queue(central)
        tenant_id = await _add_tenant(central)
        workflows = await add_workflows(central, shape.workflows + shape.assigned)
        used, unused = workflows[: shape.workflows], workflows[shape.workflows :]
        criteria = Criteria(tuple(used[: shape.assigned]))
        await ConcurrencyLimits(central, queue).set("saturated", SLOTS, "bench")
        await _fill(dsn, queue, criteria, tenant_id, shape, rows, used, unused)
        keeper = LaneKeeper(queue)
        keeper.start()
        undo.push_async_callback(keeper.stop)
        idle = await asyncpg.connect(dsn)
        undo.push_async_callback(idle.close)
        await idle.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM workflows")
        yield Crowd(queue, tenant_id, criteria, Criteria(tuple(unused)), shape.priorities)


async def _add_tenant(central: Database) -> UUID:
    async with central.connection() as connection:
        await connection.execute("INSERT INTO pools (name, database) VALUES ('pool_1', 'pool_1')")
        tenant_id: UUID = await connection.fetchval(
            "INSERT INTO tenants (id, slug, name, db_pool) VALUES ($1, 'bench', 'Bench', 'pool_1') RETURNING id",
            uuid7(),
        )
    return tenant_id


async def _fill(
    dsn: str,
    queue: Queue,
    criteria: Criteria,
    tenant_id: UUID,
    shape: Shape,
    rows: int,
    used: list[int],
    unused: list[int],
) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        # A million foreign-key checks would take longer than the measurement.
        await connection.execute("SET session_replication_role = replica")
        saturated = await connection.fetchval(SATURATED_LANE, used[0])
        await connection.execute(ROWS, tenant_id, rows // 10, [saturated])
        await queue.lease_many(criteria, ["holder"] * SLOTS)
        await connection.execute(LANES, [*used, *unused], shape.priorities)
        lanes = await connection.fetch(
            "SELECT lane_id FROM dispatch_lanes WHERE workflow_id = ANY ($1) AND concurrency_identifier = ''", used
        )
        await connection.execute(ROWS, tenant_id, rows - rows // 10, [row["lane_id"] for row in lanes])
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
