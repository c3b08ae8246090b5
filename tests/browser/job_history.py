"""Jobs of the last thirty days, written straight into the databases as if they had run: with their events, their lines
of the ledger, their places in the history of dispatches, and the wallets that paid for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg

from callsheet.jobs.machine.fingerprints import fingerprint_of
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.browser.stack import Account, Stack

COST = 2
ERRORS = [
    {"type": "engine_error", "message": "CUDA out of memory. Tried to allocate 2.50 GiB on GPU 0"},
    {"type": "engine_error", "message": "dreamshaper_8.safetensors is not in the list of checkpoints"},
    {"type": "upload_failed", "message": "The result could not be stored."},
]
# One job in 50 failed, one in 97 was canceled while it waited. Ids are of version 7: they follow the time.
HISTORY = """
CREATE TEMPORARY TABLE planned AS
SELECT n, u.tenant_id, u.user_id, w.workflow_id, w.name AS title, kind.status,
    CASE WHEN kind.status = 'canceled' THEN 0 ELSE 1 END AS leases, times.created_at,
    times.created_at + make_interval(secs => n % 97) AS started_at,
    times.created_at + make_interval(secs => n % 97 + 5 + n % 31) AS ended_at,
    (lpad(to_hex((extract(epoch FROM times.created_at) * 1000)::bigint), 12, '0') || '7000' || '8'
        || lpad(to_hex(n), 15, '0'))::uuid AS id
FROM generate_series(1, $1::integer) n
CROSS JOIN LATERAL (
    SELECT ($2::uuid[])[1 + n % cardinality($2)] AS tenant_id, ($3::uuid[])[1 + n % cardinality($3)] AS user_id
) u
CROSS JOIN LATERAL (
    SELECT ($4::bigint[])[1 + n % cardinality($4)] AS workflow_id, ($5::text[])[1 + n % cardinality($5)] AS name
) w
CROSS JOIN LATERAL (
    SELECT CASE WHEN n % 50 = 0 THEN 'failed' WHEN n % 97 = 0 THEN 'canceled' ELSE 'completed' END AS status
) kind
CROSS JOIN LATERAL (
    SELECT now() - interval '10 minutes' - (1 - n::float8 / $1) * interval '29 days' AS created_at
) times
"""
JOBS = """
INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, lease_seq, event_seq, cost, workflow_id, stage, provider,
    lifetime_seconds, payload, deadline_at, created_at, submitted_at, started_at, completed_at, medium, error,
    error_fingerprint, outcome, outcome_cycle)
SELECT tenant_id, id, user_id, 'effect', status, leases, 3 + leases, $1, workflow_id, 'production', 'self_hosted',
    86400, '{}', ended_at + interval '1 day', created_at, created_at, CASE WHEN leases > 0 THEN started_at END,
    ended_at, 'image',
    CASE WHEN status = 'failed' THEN ($2::text[])[1 + n / 50 % cardinality($2)]::jsonb END,
    CASE WHEN status = 'failed' THEN ($3::text[])[1 + n / 50 % cardinality($3)] END, status, 1
FROM planned ORDER BY n
"""
EVENTS = """
WITH steps AS (
    SELECT planned.*, step.seq, step.event, step.from_status, step.to_status, step.actor, step.at
    FROM planned CROSS JOIN LATERAL (VALUES
        (1, 'job.created', NULL, 'pending', 'user:' || user_id, created_at),
        (2, 'job.transition', 'pending', 'queued', 'relay', created_at),
        (3, 'job.transition', 'queued', CASE WHEN leases > 0 THEN 'processing' ELSE status END,
            CASE WHEN leases > 0 THEN 'worker:gpu-' || n % 10 ELSE 'user:' || user_id END, started_at),
        (4, 'job.transition', 'processing', status, 'worker:gpu-' || n % 10, ended_at)
    ) AS step (seq, event, from_status, to_status, actor, at)
    WHERE step.seq <= 3 + leases
), streams AS (
    INSERT INTO user_streams (tenant_id, user_id, last_seq)
    SELECT tenant_id, user_id, count(*) FROM steps GROUP BY tenant_id, user_id
)
INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, from_status, to_status, actor, at)
SELECT tenant_id, id, seq, user_id, row_number() OVER (PARTITION BY tenant_id, user_id ORDER BY n, seq), event,
    from_status, to_status, actor, at
FROM steps ORDER BY n, seq
"""
LEDGER = """
WITH lines AS (
    INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, created_at)
    SELECT tenant_id, user_id, line.type, line.amount, id, 1, line.at
    FROM planned CROSS JOIN LATERAL (VALUES
        ('JOB_RESERVE', -$1::bigint, created_at),
        (CASE status WHEN 'completed' THEN 'JOB_CONSUME' ELSE 'JOB_REFUND' END,
            CASE status WHEN 'completed' THEN 0 ELSE $1::bigint END, ended_at)
    ) AS line (type, amount, at)
    ORDER BY n
    RETURNING tenant_id, user_id, amount
), spent AS (
    SELECT tenant_id, user_id, sum(amount)::bigint AS amount FROM lines GROUP BY tenant_id, user_id
)
UPDATE token_wallets w SET balance = balance + spent.amount
FROM spent WHERE w.tenant_id = spent.tenant_id AND w.owner_id = spent.user_id
"""
DESCRIPTIONS = """
INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, prompt, search_text)
SELECT tenant_id, user_id, id, title, 'a lighthouse, sketch ' || n, lower(title) || ' a lighthouse, sketch ' || n
FROM planned ORDER BY n
"""
# Before every dispatch there is: the first one says from when on the charts are counted.
DISPATCHES = """
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_token, lease_seq, past_lease_tokens,
    worker_id, created_at, queue_wait_seconds, last_leased_at, run_started_at, finished_at, duration_seconds)
SELECT n - 1 - $1::bigint, tenant_id, id, 1, workflow_id, 'production', 'self_hosted', '', 0, 'effect', status, leases,
    0, CASE WHEN leases > 0 THEN gen_random_uuid() END, leases, '{}', CASE WHEN leases > 0 THEN 'gpu-' || n % 10 END,
    created_at, CASE WHEN leases > 0 THEN n % 97 END, CASE WHEN leases > 0 THEN started_at END,
    CASE WHEN leases > 0 THEN started_at END, ended_at, CASE WHEN leases > 0 THEN 5 + n % 31 END
FROM unnest($2::integer[], $3::uuid[], $4::uuid[], $5::bigint[], $6::text[], $7::integer[], $8::timestamptz[],
    $9::timestamptz[], $10::timestamptz[]) AS planned (n, tenant_id, id, workflow_id, status, leases, created_at,
    started_at, ended_at)
ORDER BY n
"""
PLANNED = (
    "SELECT n, tenant_id, id, workflow_id, status, leases, created_at, started_at, ended_at FROM planned ORDER BY n"
)


@asynccontextmanager
async def databases_of(stack: Stack) -> AsyncIterator[tuple[asyncpg.Connection, asyncpg.Connection]]:
    """Connections to central and to the pool of a running stack."""
    server = await EmbeddedPostgres.start(stack.home)
    try:
        central, pool = await asyncpg.connect(server.dsn("central")), await asyncpg.connect(server.dsn("pool_1"))
        try:
            yield central, pool
        finally:
            await central.close()
            await pool.close()
    finally:
        await server.close()


async def plant_history(stack: Stack, accounts: Sequence[Account], jobs: int) -> None:
    """Jobs that these accounts had before. Each needs tokens for them, and must not have had a job."""
    async with databases_of(stack) as (central, pool):
        workflows = await central.fetch("SELECT id, name FROM workflows WHERE slug LIKE 'demo-%' ORDER BY id")
        users = [UUID(account.id) for account in accounts]
        tenants = [await central.fetchval("SELECT tenant_id FROM users WHERE id = $1", user) for user in users]
        async with pool.transaction():
            names = [row["name"] for row in workflows]
            await pool.execute(HISTORY, jobs, tenants, users, [row["id"] for row in workflows], names)
            errors = [json.dumps(error) for error in ERRORS]
            await pool.execute(JOBS, COST, errors, [fingerprint_of(error) for error in ERRORS])
            await pool.execute(EVENTS)
            await pool.execute(LEDGER, COST)
            await pool.execute(DESCRIPTIONS)
            planned = await pool.fetch(PLANNED)
        async with central.transaction():
            await central.execute(DISPATCHES, jobs, *(list(column) for column in zip(*planned, strict=True)))
            # Everything is counted anew, as after the upgrade that brought the charts.
            await central.execute("DELETE FROM statistics_progress")
        await pool.execute("ANALYZE")
        await central.execute("ANALYZE")
