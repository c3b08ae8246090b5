"""What a list of jobs of all tenants costs does not grow with the tables: each source has its index (G11).

The statements call `newest_jobs`, inside of which EXPLAIN does not look. The blocks that it touches are counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from callsheet.operate.all_jobs.filters import ResolvedFilter
from callsheet.operate.all_jobs.sql import BULK_POOL_SQL, SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.toolbox.ids import uuid7
from callsheet.wire.operate.all_jobs import JobFilter
from tests.support.database.full_databases import TENANT, fill_pool, job_id, user_id, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import explain_once

pytestmark = pytest.mark.thorough

ROWS = 60_000
# All blocks of the table are more than twice as many as any list may touch.
MAX_READ, LIMIT = 200, 51
RARE = "0123456789abcdef"
# One job in fifty failed, in the same way; one in ten thousand in another way; some were canceled. All have texts.
FILL = f"""
    UPDATE ai_jobs SET outcome = status, outcome_cycle = 1 WHERE completed_at IS NOT NULL;
    UPDATE ai_jobs SET status = 'failed', outcome = 'failed', error_fingerprint = 'ffffffffffffffff',
        error = '{{"type": "engine_error", "message": "It broke."}}'
    WHERE completed_at IS NOT NULL AND ('x' || right(id::text, 8))::bit(32)::int % 50 = 1;
    UPDATE ai_jobs SET error_fingerprint = '{RARE}' WHERE ('x' || right(id::text, 8))::bit(32)::int % 10000 = 1;
    INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, prompt, search_text)
    SELECT tenant_id, user_id, id, 'Claymation', 'a fox', 'claymation a fox' FROM ai_jobs ORDER BY id;
    INSERT INTO bulk_action_jobs (bulk_action_id, tenant_id, job_id, charge_cycle, outcome)
    SELECT '{UUID(int=1)}', tenant_id, id, 1, CASE WHEN status <> 'queued' THEN 'done' END FROM ai_jobs
"""
# A job that is looked at costs some lookups by key; a job that is shown some more.
READ, SHOW = 6 * MAX_READ, 15 * LIMIT
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "first page": ({}, READ + SHOW),
    "active": ({"status": ["queued"]}, READ + SHOW),
    "failed": ({"status": ["failed"]}, READ + SHOW),
    "no such status": ({"status": ["expired"]}, READ),
    "completed": ({"status": ["completed"]}, READ + SHOW),
    "of a tenant": ({"tenant_id": TENANT}, READ + SHOW),
    "of another tenant": ({"tenant_id": str(UUID(int=9))}, 50),
    "of a user": ({"user_id": user_id(1)}, READ + SHOW),
    "of a user with few jobs": ({"user_id": user_id(700)}, 30 * 10 + SHOW),
    "rare error": ({"fingerprint": RARE}, 200),
    "frequent error": ({"fingerprint": "f" * 16}, READ + SHOW),
    "named jobs": ({"job_id": [job_id(5), job_id(20_000)]}, 100),
    "no such job": ({"q": str(UUID(int=9))}, 50),
    "no such word": ({"q": "nowhere"}, READ + 6 * MAX_READ),
    "long ago": ({"created_to": "2020-01-01T00:00:00Z"}, 50),
}


@pytest.fixture(scope="module")
async def full_pool(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Database]:
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("all_jobs")) as databases:
        pool = await databases.pool("pool_1")
        await without_autovacuum(pool, "ai_jobs", "job_descriptions", "bulk_action_jobs")
        await fill_pool(pool, ROWS)
        async with pool.transaction() as filling:
            await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL enable_seqscan = on")
            await filling.execute(FILL)
        async with pool.connection() as connection:
            await connection.execute("VACUUM ANALYZE ai_jobs, job_descriptions, bulk_action_jobs")
        yield pool


def values_of(wanted: dict[str, Any]) -> dict[str, Any]:
    resolved = ResolvedFilter(JobFilter.model_validate(wanted), searches_texts=True)
    return {**resolved.parameters(None), "max_read": MAX_READ, "limit": LIMIT}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["list_jobs", "total_jobs", "last_read"])
async def test_a_list_touches_few_blocks(full_pool: Database, case: str, name: str) -> None:
    wanted, max_buffers = CASES[case]
    seen = await explain_once(full_pool, SQL[name], values_of(wanted))
    assert seen.buffers <= max_buffers
    assert not seen.scanned


async def test_finding_the_jobs_of_a_bulk_action_touches_few_blocks(full_pool: Database) -> None:
    values = {**values_of({"status": ["failed"]}), "bulk_action_id": uuid7(), "frozen_at": "2100-01-01T00:00:00Z"}
    seen = await explain_once(full_pool, SQL["collect_jobs"], values)
    # Each job that is found is a new row with two index entries and a check of its foreign key.
    assert seen.buffers <= READ + 20 * MAX_READ


@pytest.mark.parametrize(
    ("name", "max_buffers"),
    [("open_jobs", 20 * 8), ("is_changed", 10), ("write_outcome", 30), ("read_scan", 5)],
)
async def test_a_batch_of_a_bulk_action_touches_few_blocks(full_pool: Database, name: str, max_buffers: int) -> None:
    names = {"bulk_action_id": UUID(int=1), "tenant_id": TENANT, "job_id": job_id(100)}
    values = {**names, "actor": "bulk_action:1", "limit": 20, "outcome": "done", "code": None, "message": None}
    seen = await explain_once(full_pool, BULK_POOL_SQL[name], values)
    assert seen.buffers <= max_buffers


async def test_grouping_errors_reads_only_failed_jobs(full_pool: Database) -> None:
    times = {"since": "2000-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}
    values = {**times, "tenant_id": None, "workflow_ids": None, "max_read": MAX_READ, "limit": 50}
    seen = await explain_once(full_pool, SQL["group_errors"], values)
    assert "errors_by_end" in seen.indexes
    assert (seen.buffers <= MAX_READ + 100, bool(seen.scanned)) == (True, False)
    one = await explain_once(full_pool, SQL["error_group"], {"fingerprint": "f" * 16, "max_read": MAX_READ})
    assert "jobs_of_error" in one.indexes
    assert one.buffers <= 3 * MAX_READ
    of_job = await explain_once(full_pool, SQL["fingerprint_of_job"], {"job_id": job_id(20_000)})
    assert of_job.buffers <= 10
