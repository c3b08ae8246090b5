"""Our dispatch room without jobs or money, and the bare statements, which are its ceiling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID, uuid4

import asyncpg

from bench.installation import BenchInstallation
from callsheet.dispatch.facts import DispatchEnd

# The number of waiting tenants. Each has its own lane.
TENANTS = 1000
# In the future, because lanes without a job are removed one minute after they were opened.
OPEN_LANES = """
INSERT INTO dispatch_lanes (workflow_id, stage, provider, priority, tenant_id, user_id, opened_at)
SELECT $1, 'production', 'self_hosted', 0, t, u, now() + interval '1 day'
FROM unnest($2::uuid[], $3::uuid[]) AS member (t, u)
"""
# The lanes are locked before ids are drawn, as enqueue does it: their marks must not be raised past rows on their way.
FILL = """
WITH lane AS MATERIALIZED (
    SELECT *, row_number() OVER () - 1 AS number FROM (
        SELECT * FROM dispatch_lanes WHERE workflow_id = $2 AND tenant_id = ANY ($3) ORDER BY lane_id FOR NO KEY UPDATE
    ) locked
), woken AS (
    UPDATE dispatch_lanes l SET has_work = true FROM lane WHERE l.lane_id = lane.lane_id
)
INSERT INTO ai_job_dispatches (
    tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id, stage, provider, priority, kind, deadline_at)
SELECT tenant_id, user_id, gen_random_uuid(), 1, lane_id, workflow_id, stage, provider, priority, 'bench',
    now() + interval '1 day'
FROM generate_series(1, $1::integer) AS n JOIN lane ON lane.number = n % cardinality($3)
"""


class OurQueue:
    """Leases and closes one job per call, with several concurrent callers. The jobs belong to many tenants."""

    def __init__(self, installation: BenchInstallation, callers: int):
        self._ground = installation
        self._callers = callers
        self._tenants: list[UUID] = []

    async def fill(self, jobs: int) -> None:
        async with self._ground.central.connection() as connection:
            if not self._tenants:
                members = await self._ground.add_members(TENANTS)
                self._tenants = [tenant for tenant, _ in members]
                users = [user for _, user in members]
                await connection.execute(OPEN_LANES, self._ground.workflow_id, self._tenants, users)
            await connection.execute(FILL, jobs, self._ground.workflow_id, self._tenants)
            await connection.execute("ANALYZE ai_job_dispatches")

    async def drain(self, jobs: int) -> int:
        return sum(await asyncio.gather(*(self._call(f"worker-{number}") for number in range(self._callers))))

    async def _call(self, worker: str) -> int:
        queue, criteria, done = self._ground.room.dispatch.queue, self._ground.criteria, 0
        while (lease := await queue.lease(criteria, worker)) is not None:
            closed = await queue.close(DispatchEnd(lease.dispatch_id, "completed", lease.lease_token))
            done += closed is not None
        return done


BARE_TABLE = """
CREATE TABLE bare_jobs (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane_id           bigint NOT NULL,
    tenant_id         uuid NOT NULL,
    job_id            uuid NOT NULL DEFAULT gen_random_uuid(),
    status            text NOT NULL DEFAULT 'queued',
    worker_id         text,
    lease_token       uuid,
    lease_expires_at  timestamptz,
    finished_at       timestamptz
) WITH (fillfactor = 60);
CREATE INDEX ON bare_jobs (lane_id, id) WHERE status = 'queued'
"""
BARE_FILL = "INSERT INTO bare_jobs (lane_id, tenant_id) SELECT 1, $1 FROM generate_series(1, $2::integer)"
# The mark is used, because without it a drain of 20,000 jobs spends half of its time on dead index entries.
BARE_LEASE = """
UPDATE bare_jobs SET status = 'leased', worker_id = $1, lease_token = gen_random_uuid(),
    lease_expires_at = clock_timestamp() + interval '900 s'
WHERE id = ANY (ARRAY (
    SELECT id FROM bare_jobs WHERE lane_id = 1 AND status = 'queued' AND id >= $3
    ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, tenant_id, job_id, lease_token, lease_expires_at
"""
BARE_FINISH = """
UPDATE bare_jobs SET status = 'completed', finished_at = clock_timestamp()
FROM unnest($1::bigint[], $2::uuid[]) AS ending (id, token)
WHERE bare_jobs.id = ending.id AND lease_token = ending.token
"""
BARE_LEASE_ONE = """
UPDATE bare_jobs SET status = 'leased', worker_id = $1, lease_token = gen_random_uuid(),
    lease_expires_at = clock_timestamp() + interval '900 s'
WHERE id = (
    SELECT id FROM bare_jobs WHERE lane_id = 1 AND status = 'queued' AND id >= $2
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, tenant_id, job_id, lease_token, lease_expires_at
"""
BARE_FINISH_ONE = """
UPDATE bare_jobs SET status = 'completed', finished_at = clock_timestamp() WHERE id = $1 AND lease_token = $2
"""
MARK_DISTANCE = 1000


class BareQueue:
    """The simplest queue: SKIP LOCKED on a separate table, directly on asyncpg connections."""

    def __init__(self, connections: list[asyncpg.Connection[asyncpg.Record]], at_once: int):
        self._connections = connections
        self._at_once = at_once

    async def fill(self, jobs: int) -> None:
        await self._connections[0].execute("TRUNCATE bare_jobs")
        await self._connections[0].execute(BARE_FILL, uuid4(), jobs)
        await self._connections[0].execute("ANALYZE bare_jobs")

    async def drain(self, jobs: int) -> int:
        work = self._one_by_one if self._at_once == 1 else self._several
        return sum(await asyncio.gather(*(work(connection) for connection in self._connections)))

    async def _one_by_one(self, connection: asyncpg.Connection[asyncpg.Record]) -> int:
        lease, finish = await connection.prepare(BARE_LEASE_ONE), await connection.prepare(BARE_FINISH_ONE)
        done, mark = 0, 0
        while (row := await lease.fetchrow("worker", mark)) is not None:
            await finish.fetch(row["id"], row["lease_token"])
            done, mark = done + 1, row["id"] - MARK_DISTANCE
        return done

    async def _several(self, connection: asyncpg.Connection[asyncpg.Record]) -> int:
        lease, finish = await connection.prepare(BARE_LEASE), await connection.prepare(BARE_FINISH)
        done, mark = 0, 0
        while rows := await lease.fetch("worker", self._at_once, mark):
            await finish.fetch([row["id"] for row in rows], [row["lease_token"] for row in rows])
            done, mark = done + len(rows), rows[0]["id"] - MARK_DISTANCE
        return done


@asynccontextmanager
async def bare_queue(
    installation: BenchInstallation, *, connections: int = 8, at_once: int = 1
) -> AsyncIterator[BareQueue]:
    dsn = await installation.new_database("bare")
    async with AsyncExitStack() as undo:
        opened = []
        for _ in range(connections):
            opened.append(await asyncpg.connect(dsn))
            undo.push_async_callback(opened[-1].close)
        await opened[0].execute(BARE_TABLE)
        yield BareQueue(opened, at_once)
