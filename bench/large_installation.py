"""A large installation for the pages of operators: a million finished jobs, a long queue, and 10,000 workers.

A tenth of the jobs finished within the last hour, the others within thirty days. One worker in two runs a job. Most
workers belong to fleets that serve all workflows; one worker in ten registered with workflows of its own.
"""

from __future__ import annotations

import asyncpg

from bench.installation import BenchInstallation
from callsheet.plumbing.database.sql import Connection

WORKFLOWS, FLEETS, PRIORITIES = 20, 10, 3
WORKFLOWS_OF_ITS_OWN = 5
JOB_ID = "('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
ADD_WORKFLOWS = """
INSERT INTO workflows (slug, name) SELECT 'chart-' || n, 'Chart' FROM generate_series(1, $1::integer) n RETURNING id
"""
# In the order of their ends, as they are written.
FINISHED = f"""
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq, past_lease_tokens, created_at,
    finished_at, queue_wait_seconds, duration_seconds)
SELECT n, $1, {JOB_ID}, 1, ($2::bigint[])[1 + n % cardinality($2)], 'production', 'self_hosted', '', 0,
    'effect', CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END, 1, 0, 1, '{{}}', now(),
    now() - CASE WHEN n > $3 * 0.9 THEN (1 - n::float8 / $3) * 10 * interval '1 hour'
        ELSE interval '1 hour' + (0.9 - n::float8 / $3) / 0.9 * interval '30 days' END, n % 97, 5 + n % 31
FROM generate_series(1, $3::integer) n ORDER BY n
"""
WORKERS = """
INSERT INTO gpu_fleets (slug, stage, name)
SELECT 'bench-' || n, 'production', 'Bench' FROM generate_series(1, {fleets}) n;
INSERT INTO workflow_fleets SELECT f.id, w.id FROM gpu_fleets f CROSS JOIN workflows w WHERE w.slug LIKE 'chart-%';
INSERT INTO comfyui_workers (worker_id, registration_source, fleet_id, stage, session_id, token_hash, last_seen_at)
SELECT 'bench-' || n, CASE WHEN n % 10 = 0 THEN 'workflows' ELSE 'fleet' END,
    CASE WHEN n % 10 = 0 THEN NULL ELSE (SELECT min(id) FROM gpu_fleets) + n % {fleets} END, 'production', n,
    sha256(n::text::bytea), clock_timestamp() + interval '1 hour'
FROM generate_series(1, {workers}) n;
INSERT INTO worker_workflows
SELECT c.worker_id, w.id FROM comfyui_workers c CROSS JOIN (
    SELECT id FROM workflows WHERE slug LIKE 'chart-%' ORDER BY id LIMIT {own}
) w
WHERE c.fleet_id IS NULL;
INSERT INTO dispatch_lanes (workflow_id, stage, provider, priority)
SELECT id, 'production', 'self_hosted', priority
FROM workflows CROSS JOIN generate_series(0, {priorities} - 1) priority WHERE slug LIKE 'chart-%' ORDER BY id, priority
"""
# The jobs of the queue follow those that finished: ready ones, then delayed ones, then those that a worker runs.
OPEN = f"""
INSERT INTO ai_job_dispatches (dispatch_id, tenant_id, tenant_job_id, user_id, charge_cycle, lane_id, workflow_id,
    stage, provider, concurrency_identifier, priority, kind, status, attempts, lease_token, lease_seq, lease_expires_at,
    worker_id, last_leased_at, not_before, deadline_at)
OVERRIDING SYSTEM VALUE
SELECT n, $1, {JOB_ID}, $2, 1, l.lane_id, l.workflow_id, l.stage, l.provider, '', l.priority, 'effect',
    CASE WHEN is_held THEN 'leased' ELSE 'queued' END, is_held::int, CASE WHEN is_held THEN gen_random_uuid() END,
    is_held::int, CASE WHEN is_held THEN now() + interval '2 hours' END,
    CASE WHEN is_held THEN 'bench-' || (n - $5::integer) * 2 END, CASE WHEN is_held THEN now() END,
    CASE WHEN n > $4 AND NOT is_held THEN now() + interval '2 hours' END, now() + interval '1 day'
FROM generate_series($3::integer + 1, $6::integer) n CROSS JOIN LATERAL (SELECT n > $5 AS is_held) kind
JOIN (
    SELECT l.*, row_number() OVER (ORDER BY lane_id) - 1 AS place FROM dispatch_lanes l
    JOIN workflows w ON w.id = l.workflow_id AND w.slug LIKE 'chart-%'
) l ON l.place = n % (SELECT count(*) FROM dispatch_lanes l JOIN workflows w ON w.id = l.workflow_id
    AND w.slug LIKE 'chart-%')
ORDER BY n
"""
JOBS = f"""
INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, lease_seq, event_seq, cost, workflow_id, stage, provider,
    lifetime_seconds, payload, deadline_at, completed_at, outcome, outcome_cycle)
SELECT $1::uuid, {JOB_ID}, $2::uuid, 'effect', status, 1, 3, 5, 1, 'production', 'self_hosted', 86400, '{{}}',
    now() + interval '1 day', CASE WHEN n <= $3 THEN now() - (1 - n::float8 / $3) * interval '30 days' END,
    CASE WHEN n <= $3 THEN status END, CASE WHEN n <= $3 THEN 1 END
FROM generate_series(1, $5::integer) n CROSS JOIN LATERAL (
    SELECT CASE WHEN n > $4 THEN 'processing' WHEN n > $3 THEN 'queued'
        WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END AS status
) kind
ORDER BY n
"""


async def fill(installation: BenchInstallation, jobs: int, workers: int) -> None:
    """`jobs` have finished, a tenth as many are ready, a hundredth are delayed, and one worker in two runs one."""
    [user_id] = await installation.add_users(1)
    ready_until = jobs + jobs // 10
    delayed_until = ready_until + jobs // 100
    held_until = delayed_until + workers // 2
    tenant_id = installation.tenant_id
    async with installation.central.transaction() as connection:
        await _before_filling(connection)
        workflow_ids = [row["id"] for row in await connection.fetch(ADD_WORKFLOWS, WORKFLOWS)]
        await connection.execute(FINISHED, tenant_id, workflow_ids, jobs, timeout=600)
        numbers = {"fleets": FLEETS, "workers": workers, "own": WORKFLOWS_OF_ITS_OWN, "priorities": PRIORITIES}
        await connection.execute(WORKERS.format(**numbers), timeout=600)
        await connection.execute(OPEN, tenant_id, user_id, jobs, ready_until, delayed_until, held_until, timeout=600)
    async with installation.pool.transaction() as connection:
        await _before_filling(connection)
        await connection.execute(JOBS, tenant_id, user_id, jobs, delayed_until, held_until, timeout=600)
    for database in (installation.central, installation.pool):
        await _vacuum(database.dsn)


async def _before_filling(connection: Connection) -> None:
    await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
    await connection.execute("SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on")


async def _vacuum(dsn: str) -> None:
    """What autovacuum does within minutes; it also summarizes BRIN indexes."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("VACUUM (ANALYZE)", timeout=600)
    finally:
        await connection.close()
