"""Runs of any size, written in bulk: what choosing their next job reads, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from bench.installation import BenchInstallation
from callsheet.toolbox.ids import uuid7

STEPS, CHILDREN = 4, 5
EFFECT = UUID(int=1)
# Half of them leaves, the others spread evenly over the steps before.
SPREAD = "CASE WHEN n % 2 = 0 THEN 4 ELSE 1 + n / 2 % 3 END"
PIPELINE = """
INSERT INTO pipelines (tenant_id, id, user_id, slug, name) VALUES ($1, $2::uuid, $3, 'p-' || $2::uuid, 'Bench')
"""
ADD_STEPS = """
WITH new_document AS (
    INSERT INTO step_documents (tenant_id, pipeline_id, digest, "values") VALUES ($1, $2, sha256('bench'), '{}')
    RETURNING digest
)
INSERT INTO pipeline_steps (tenant_id, id, pipeline_id, version, position, name, slug, workflow, effect_id, document,
    max_children, top_k, requires_approval)
SELECT $1::uuid, gen_random_uuid(), $2::uuid, 1, n, 'Step', 'step-' || n, 'bench', $3::uuid,
    (SELECT digest FROM new_document), $4::integer, $5::integer, $5 IS NOT NULL
FROM generate_series(1, $6::integer) n
"""
RUN = """
INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name, target_folder, seed,
    strategy, target_leaves, budget, candidates)
SELECT $1::uuid, $2::uuid, $3::uuid, $4::uuid, 1, $5::integer, 'Bench', 'run-' || $2::uuid, 7,
    $6::text, $7::integer, 1000000000, $8::integer
"""
CANDIDATES = """
INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index, file_id,
    seed, elo, votes, max_children, child_count, thumbnail_due_at)
SELECT $1::uuid, gen_random_uuid(), $2::uuid, n, step.id, place.position, CASE WHEN place.position > 1 THEN $2 END,
    $2, n, $2, 1, 700 + (n * 7919) % 601, n % 7, CASE WHEN place.position = {steps} THEN 0 ELSE {children} END,
    CASE WHEN place.position < {steps} AND {eligible} THEN 0 ELSE {children} END, NULL
FROM generate_series(1, $4::integer) n CROSS JOIN LATERAL (SELECT {position} AS position) place
JOIN pipeline_steps step ON step.tenant_id = $1 AND step.pipeline_id = $3 AND step.position = place.position
ORDER BY n
"""
COUNT_BASES = """
UPDATE pipeline_runs SET active_bases = (SELECT count(*) FROM candidates WHERE run_id = $2 AND position = 1)
WHERE tenant_id = $1 AND id = $2
"""
APPROVALS = """
INSERT INTO step_approvals (tenant_id, run_id, step_id, user_id)
SELECT tenant_id, $3::uuid, id, $4::uuid FROM pipeline_steps
WHERE tenant_id = $1 AND pipeline_id = $2 AND requires_approval
"""
# A run each, with a job under way.
BUSY_RUNS = """
WITH made AS (
    INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name, target_folder, seed,
        target_leaves, budget, draws)
    SELECT $1::uuid, gen_random_uuid(), $2::uuid, $3::uuid, 1, $4::integer, 'Busy', 'busy-' || n, n, 10, 1000, 1
    FROM generate_series(1, $5::integer) n
    RETURNING tenant_id, id
)
INSERT INTO candidate_slots (tenant_id, run_id, draw, step_id, position, ordinal, job_id, cost, seed)
SELECT made.tenant_id, made.id, 1, step.id, 1, 1, made.id, 1, 1
FROM made, pipeline_steps step WHERE step.pipeline_id = $3 AND step.position = 1
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """`position` and `eligible` are SQL about the n-th candidate."""

    position: str
    eligible: str
    strategy: str = "finish_first"
    target_leaves: int = 10
    top_k: int | None = None
    """With it, each step also needed an approval, and has it."""


@dataclass(frozen=True, slots=True)
class Filler:
    installation: BenchInstallation
    connection: asyncpg.Connection[asyncpg.Record]
    user_id: UUID

    async def add_run(self, shape: Shape, candidates: int) -> UUID:
        tenant_id, pipeline_id, run_id = self.installation.tenant_id, await self._pipeline(shape.top_k), uuid7()
        owner = (tenant_id, run_id, self.user_id, pipeline_id)
        await self.connection.execute(RUN, *owner, STEPS, shape.strategy, shape.target_leaves, candidates)
        fill = CANDIDATES.format(position=shape.position, eligible=shape.eligible, steps=STEPS, children=CHILDREN)
        await self.connection.execute(fill, tenant_id, run_id, pipeline_id, candidates)
        await self.connection.execute(COUNT_BASES, tenant_id, run_id)
        await self.connection.execute(APPROVALS, tenant_id, pipeline_id, run_id, self.user_id)
        return run_id

    async def add_busy_runs(self, count: int) -> None:
        """Active runs that wait for a job of theirs."""
        pipeline_id = await self._pipeline(None)
        await self.connection.execute(BUSY_RUNS, self.installation.tenant_id, self.user_id, pipeline_id, STEPS, count)

    async def _pipeline(self, top_k: int | None) -> UUID:
        pipeline_id = uuid7()
        await self.connection.execute(PIPELINE, self.installation.tenant_id, pipeline_id, self.user_id)
        steps = (self.installation.tenant_id, pipeline_id, EFFECT, CHILDREN, top_k, STEPS)
        await self.connection.execute(ADD_STEPS, *steps)
        return pipeline_id


@asynccontextmanager
async def filling(installation: BenchInstallation) -> AsyncIterator[Filler]:
    """What was filled is vacuumed and analyzed when the block ends, as autovacuum would within the minute."""
    connection = await asyncpg.connect(installation.pool.dsn)
    try:
        # There are no jobs and files behind these candidates, and no client asks for them.
        await connection.execute("SET session_replication_role = replica")
        yield Filler(installation, connection, (await installation.add_users(1))[0])
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
