"""A step of a backfill costs the same however many rows there are, and wherever among them it has come (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from callsheet.jobs.operate.description_backfill import MAX_PAYLOAD_BYTES
from callsheet.media.previews.maker import SQL as PREVIEWS
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.full_databases import (
    LARGE_PAYLOADS,
    TENANT,
    fill_pool,
    job_id,
    numbered,
    without_autovacuum,
)
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, literal, pairs, prepare
from tests.support.database.room_statements import statements_of_room

JOBS = statements_of_room("jobs")

pytestmark = pytest.mark.thorough

ROWS = 30_000
BATCH = 100
WHENS = ["planned while empty", "analyzed"]
TABLES = ("ai_jobs", "job_descriptions", "files", "file_previews")
# Each job has an input and an output. Every third job has a text, and the file of every third has a preview.
FILL = f"""
    INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, created_at, ready_at)
    SELECT tenant_id, {numbered("dddddddd", "n")}, user_id, 'upload', 'ready', 'local', 'upload-' || n, 'clip.mp4',
        'video/mp4', 7, now(), now()
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ai_jobs) j;
    INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, job_id, created_at,
        ready_at)
    SELECT tenant_id, {numbered("eeeeeeee", "n")}, user_id, 'output', 'ready', 'local', 'output-' || n, 'result.mp4',
        'video/mp4', 7, id, now(), now()
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ai_jobs) j;
    UPDATE ai_jobs SET input_file_ids = ARRAY[('dddddddd' || substr(id::text, 9))::uuid],
        output_file_id = CASE WHEN completed_at IS NOT NULL THEN ('eeeeeeee' || substr(id::text, 9))::uuid END;
    INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, prompt, search_text)
    SELECT tenant_id, user_id, id, 'Claymation', 'a fox', 'claymation a fox'
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM ai_jobs) j WHERE n % 3 = 0;
    INSERT INTO file_previews (tenant_id, file_id, kind, status, due_at, width, height)
    SELECT tenant_id, id, 'video', 'ready', NULL, 9, 9
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM files) f WHERE n % 3 = 0;
"""
DESCRIBED = [
    {"tenant_id": TENANT, "job_id": job_id(number), "title": "Old", "medium": "video", "search_text": "old"}
    for number in range(1, BATCH + 1)
]


def jobs_after(number: int) -> dict[str, object]:
    return {"tenant_id": TENANT, "id": job_id(number), "limit": BATCH, "most_bytes": MAX_PAYLOAD_BYTES}


def files_after(number: int, prefix: str = "dddddddd") -> dict[str, object]:
    return {"tenant_id": TENANT, "id": f"{prefix}-0000-7000-8000-{number:012x}", "limit": BATCH}


# With the indexes they must use and the most blocks they may touch: some lookups by key for each row of a step.
FOUND = {"ai_jobs_pkey", "job_descriptions_pkey", "files_pkey"}
CASES: dict[str, tuple[Statement, dict[str, object], set[str], int]] = {
    "first jobs": (JOBS["jobs_to_describe"], jobs_after(0), FOUND, BATCH * 30),
    "jobs in the middle": (JOBS["jobs_to_describe"], jobs_after(ROWS // 2), FOUND, BATCH * 30),
    "last jobs": (JOBS["jobs_to_describe"], jobs_after(ROWS - LARGE_PAYLOADS - BATCH), FOUND, BATCH * 30),
    "no job": (JOBS["jobs_to_describe"], jobs_after(ROWS), {"ai_jobs_pkey"}, 10),
    "texts": (JOBS["describe_jobs"], {"jobs": DESCRIBED}, {"ai_jobs_pkey"}, BATCH * 60),
    "first files": (PREVIEWS["make_files_due"], files_after(0), {"files_pkey"}, BATCH * 30),
    "files in the middle": (PREVIEWS["make_files_due"], files_after(ROWS // 2), {"files_pkey"}, BATCH * 30),
    "no file": (PREVIEWS["make_files_due"], files_after(0, "ffffffff"), {"files_pkey"}, 10),
}


def arguments(case: str) -> list[object]:
    statement, values, _, _ = CASES[case]
    return [values[parameter] for parameter in statement.parameters]


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Mapping[tuple[str, str], Seen]]:
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("backfill_crowd")) as databases:
        yield await _everything(databases)


async def _everything(databases: Databases) -> dict[tuple[str, str], Seen]:
    found: dict[tuple[str, str], Seen] = {}
    pool = await databases.pool("pool_1")
    await without_autovacuum(pool, *TABLES)
    async with pool.connection() as connection:
        await _plan(connection)
        await fill_pool(pool, ROWS)
        async with pool.transaction() as filling:
            await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
            await filling.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on")
            await filling.execute(FILL, timeout=600)
        found |= await _measured(connection, WHENS[0])
        await connection.execute("; ".join(f"DEALLOCATE case_{number}" for number in range(len(CASES))))
        await connection.execute("ANALYZE")
        await _plan(connection)
        found |= await _measured(connection, WHENS[1])
    return found


async def _plan(connection: Connection) -> None:
    """The plans that are made now are kept."""
    for number, case in enumerate(CASES):
        await prepare(connection, f"case_{number}", CASES[case][0].text)
        given = ", ".join(literal(value) for value in arguments(case))
        await connection.execute(f"EXPLAIN EXECUTE case_{number}({given})")


async def _measured(connection: Connection, when: str) -> dict[tuple[str, str], Seen]:
    measured = {}
    for number, case in enumerate(CASES):
        transaction = connection.transaction()
        await transaction.start()
        measured[case, when] = await explain(connection, f"case_{number}", arguments(case))
        await transaction.rollback()
    return measured


@pytest.mark.parametrize(
    ("case", "when"), pairs({name: statement.text for name, (statement, *_) in CASES.items()}, WHENS)
)
def test_g11_a_step_of_a_backfill_finds_its_rows_by_their_key(
    seen: Mapping[tuple[str, str], Seen], case: str, when: str
) -> None:
    _, _, indexes, most = CASES[case]
    found = seen[case, when]
    assert indexes <= found.indexes
    assert not found.scanned & set(TABLES)
    assert found.buffers <= most
