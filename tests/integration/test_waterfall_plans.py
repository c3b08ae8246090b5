"""The waterfall of a job reads the rows of this job alone, however many jobs, traces and calls there are (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.full_databases import TENANT, fill_pool, job_id, numbered, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import explain_once
from tests.support.database.room_statements import statements_of_room

JOBS_SQL = statements_of_room("jobs")

pytestmark = pytest.mark.thorough

JOBS, RETRIED = 30_000, 40
BIG = {"job_events", "job_traces", "provider_calls", "provider_callbacks"}
# The first job was retried often; all others have one trace and one call with its callback.
CALLS = f"""
INSERT INTO provider_calls (
    tenant_id, job_id, charge_cycle, dispatch_id, lease_seq, provider, callback_hash, work, ended_at)
SELECT '{TENANT}', {numbered("aaaaaaaa", f"greatest(1, n - {RETRIED})")}, greatest(1, {RETRIED + 1} - n), n, 1,
    'replicate', sha256(n::text::bytea), NULL, now()
FROM generate_series(1, {JOBS + RETRIED}) n WHERE n <> {RETRIED + 1};
INSERT INTO provider_callbacks (call_id, delivery_id, status, outcome)
SELECT call_id, 'msg', 'succeeded', 'taken' FROM provider_calls;
"""
TRACES = f"""
INSERT INTO job_traces (tenant_id, job_id, seq, trace)
SELECT '{TENANT}', {numbered("aaaaaaaa", f"greatest(1, n - {RETRIED})")}, greatest(1, {RETRIED + 1} - n),
    jsonb_build_object('nodes', repeat(md5(n::text), 50))
FROM generate_series(1, {JOBS + RETRIED}) n WHERE n <> {RETRIED + 1};
"""


@pytest.fixture(scope="module")
async def full(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Databases]:
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("waterfall")) as databases:
        pool = await databases.pool("pool_1")
        await without_autovacuum(databases.central, "provider_calls", "provider_callbacks")
        await without_autovacuum(pool, "ai_jobs", "job_events", "job_traces")
        await fill_pool(pool, JOBS)
        for database, fill in ((databases.central, CALLS), (pool, TRACES)):
            async with database.transaction() as filling:
                await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL enable_seqscan = on")
                await filling.execute(fill, timeout=600)
            async with database.connection() as connection:
                await connection.execute("VACUUM ANALYZE")
        yield databases


@pytest.mark.parametrize(("number", "rows"), [(1, RETRIED), (JOBS // 2, 1)], ids=["retried", "ordinary"])
async def test_g11_the_calls_of_a_job_are_found_by_their_key(full: Databases, number: int, rows: int) -> None:
    values = {"tenant_id": TENANT, "job_id": job_id(number), "limit": 200}
    seen = await explain_once(full.central, JOBS_SQL["provider_calls_of_job"], values)
    assert seen.rows == rows
    assert not seen.scanned & BIG
    assert seen.buffers <= 10 + rows * 6


@pytest.mark.parametrize(("number", "rows"), [(1, 20), (JOBS // 2, 1)], ids=["retried", "ordinary"])
async def test_g11_the_newest_traces_and_events_of_a_job_are_found_by_their_key(
    full: Databases, number: int, rows: int
) -> None:
    values = {"tenant_id": TENANT, "job_id": job_id(number), "limit": 20}
    pool = await full.pool("pool_1")
    seen = await explain_once(pool, JOBS_SQL["newest_traces"], values)
    assert seen.rows == rows
    assert not seen.scanned & BIG
    # A long trace lies outside of its row.
    assert seen.buffers <= 10 + rows * 6
    events = await explain_once(pool, JOBS_SQL["newest_events"], values)
    assert events.rows == 1
    assert not events.scanned & BIG
    assert events.buffers <= 10
