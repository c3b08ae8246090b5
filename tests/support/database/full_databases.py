"""Databases with as many rows as expected: a million queued dispatches, a million jobs with their events."""

from __future__ import annotations

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection

TENANT = "00000000-0000-7000-8000-000000000001"
WORKFLOWS, PRIORITIES, USERS = 50, 3, 1000
# Held and delayed work does not grow with the queue: it is the same in a small and in a large one.
HELD, DELAYED, OUTBOX = 3000, 1000, 500
LARGE_PAYLOADS, LARGE_PAYLOAD_BYTES = 600, 50_000


def numbered(prefix: str, expression: str) -> str:
    """SQL for an id made of a number: in order, as the ids of jobs are."""
    return f"('{prefix}-0000-7000-8000-' || lpad(to_hex({expression}), 12, '0'))::uuid"


def job_id(number: int) -> str:
    return f"aaaaaaaa-0000-7000-8000-{number:012x}"


def user_id(number: int) -> str:
    return f"bbbbbbbb-0000-7000-8000-{number:012x}"


def token(number: int) -> str:
    return f"cccccccc-0000-7000-8000-{number:012x}"


async def without_autovacuum(database: Database, *tables: str) -> None:
    """Prevents autovacuum from analyzing or vacuuming these tables during a test.

    Large payloads are stored uncompressed: compressing them would take longer than filling all tables.
    """
    async with database.connection() as connection:
        for table in tables:
            await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if "ai_jobs" in tables:
            await connection.execute("ALTER TABLE ai_jobs ALTER payload SET STORAGE EXTERNAL")


async def fill_central(database: Database, rows: int) -> None:
    """Fills central. A tenth of the rows, at the head, has an identifier with both slots taken; the other rows are
    spread over lanes.
    """
    saturated = rows // 10
    lanes = WORKFLOWS * PRIORITIES
    async with database.transaction() as connection:
        await _before_filling(connection)
        await connection.execute(
            f"""
            INSERT INTO tenants (id, slug, name, db_pool) VALUES ('{TENANT}', 'crowd', 'Crowd', 'pool_1');
            INSERT INTO workflows (slug, name) SELECT 'crowd-' || n, 'Crowd' FROM generate_series(1, {WORKFLOWS}) n;
            INSERT INTO dispatch_lanes (workflow_id, stage, provider, priority)
            SELECT w, 'production', 'self_hosted', p
            FROM generate_series(1, {WORKFLOWS}) w, generate_series(0, {PRIORITIES - 1}) p ORDER BY w, p;
            INSERT INTO dispatch_lanes (workflow_id, stage, provider, concurrency_identifier, priority)
            VALUES (1, 'production', 'self_hosted', 'saturated', 0), (2, 'production', 'self_hosted', 'limited', 2);
            INSERT INTO concurrency_limits VALUES ('saturated', 2), ('limited', 2);
            INSERT INTO ai_job_dispatches (tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id,
                stage, provider, concurrency_identifier, priority, kind, status, attempts, lease_token, lease_seq,
                lease_expires_at, worker_id, last_leased_at, not_before, deadline_at)
            SELECT '{TENANT}', l.user_id, {numbered("aaaaaaaa", "n")}, 1, l.lane_id, l.workflow_id, l.stage, l.provider,
                l.concurrency_identifier, l.priority, 'effect',
                CASE WHEN held THEN 'leased' ELSE 'queued' END, held::int,
                CASE WHEN held THEN {numbered("cccccccc", "n")} END, held::int,
                CASE WHEN held THEN now() + interval '1 h' END, CASE WHEN held THEN 'worker-' || n % 100 END,
                CASE WHEN held THEN now() END, CASE WHEN delayed THEN now() + interval '1 h' END,
                now() + interval '1 day'
            FROM generate_series(1, {rows + HELD + DELAYED}) n
                CROSS JOIN LATERAL (
                    SELECT n > {rows} AND n <= {rows + HELD} AS held, n > {rows + HELD} AS delayed
                ) kind
                JOIN dispatch_lanes l ON l.lane_id = CASE WHEN n <= {saturated} OR n IN ({rows + 1}, {rows + 2})
                    THEN {lanes + 1} WHEN n % 1000 = 0 THEN {lanes + 2} ELSE 1 + n % {lanes} END
            ORDER BY n
        """,
            timeout=600,
        )


async def fill_pool(database: Database, rows: int) -> None:
    """Fills a pool with jobs of many users, one in a hundred of them running; the first user has a tenth of all jobs.

    The jobs of the first pages of lists have large payloads: a list that reads them touches thousands of blocks.
    """
    payload = (
        f"""CASE WHEN n > {rows - LARGE_PAYLOADS} THEN jsonb_build_object('text', large.text || n) ELSE '{{}}' END"""
    )
    owner = numbered("bbbbbbbb", f"CASE WHEN n % 10 = 1 THEN 1 ELSE 2 + n / 10 % {USERS - 1} END")
    active = "n % 100 = 0"
    async with database.transaction() as connection:
        await _before_filling(connection)
        await connection.execute(
            f"""
            INSERT INTO pool_tenants (tenant_id) VALUES ('{TENANT}');
            INSERT INTO token_wallets (tenant_id, owner_id, balance)
            SELECT '{TENANT}', {numbered("bbbbbbbb", "n")}, 1000000 FROM generate_series(1, {USERS}) n;
            INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, lease_seq, event_seq, cost, workflow_id, stage,
                provider, lifetime_seconds, payload, idempotency_key, request_hash, deadline_at, completed_at)
            SELECT '{TENANT}', {numbered("aaaaaaaa", "n")}, {owner}, 'effect',
                CASE WHEN NOT ({active}) THEN 'completed' WHEN n % 200 = 0 THEN 'processing' ELSE 'queued' END,
                1, 1, 1, 1, 'production', 'self_hosted', 86400, {payload}, 'key-' || n, '', now() + interval '1 day',
                CASE WHEN NOT ({active}) THEN now() END
            FROM generate_series(1, {rows}) n, (
                SELECT string_agg(md5(i::text), '') AS text FROM generate_series(1, {LARGE_PAYLOAD_BYTES // 32}) i
            ) large
            ORDER BY n;
            INSERT INTO job_events (tenant_id, job_id, seq, user_id, user_seq, event, to_status, actor)
            SELECT '{TENANT}', {numbered("aaaaaaaa", "n")}, 1, {owner}, n, 'job.created', 'pending', 'crowd'
            FROM generate_series(1, {rows}) n ORDER BY n;
            INSERT INTO user_streams SELECT '{TENANT}', {numbered("bbbbbbbb", "n")}, {rows}
            FROM generate_series(1, {USERS}) n;
            INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle)
            SELECT '{TENANT}', {owner}, 'JOB_RESERVE', -1, {numbered("aaaaaaaa", "n")}, 1
            FROM generate_series(1, {rows}) n WHERE {active} ORDER BY n;
            INSERT INTO outbox (tenant_id, job_id, charge_cycle, action)
            SELECT '{TENANT}', {numbered("aaaaaaaa", "n * 2")}, 1, 'dispatch' FROM generate_series(1, {OUTBOX}) n
        """,
            timeout=600,
        )


async def _before_filling(connection: Connection) -> None:
    # Foreign keys hold by construction; checking them row by row would take longer than everything else.
    await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
    await connection.execute("SET LOCAL enable_hashjoin = on; SET LOCAL enable_seqscan = on")
