"""Runs that people have before a test starts, by the API: small ones that Lightbox renders."""

from __future__ import annotations

import uuid
from typing import Any

import asyncpg

from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.browser.stack import Account, Stack
from tests.support.waiting import until

IMAGINE: dict[str, Any] = {"name": "Base", "workflow": "demo-imagine", "needs_run_prompt": True, "max_children": 2}
GLOW: dict[str, Any] = {
    "name": "Glow",
    "workflow": "demo-glow",
    "needs_parent_image_path": True,
    "values": {"strength": 0.6},
    "max_children": 2,
}


async def add_pipeline(stack: Stack, account: Account, name: str, *steps: dict[str, Any]) -> str:
    slug = f"pipeline-{uuid.uuid4().hex[:8]}"
    return str((await _sent(stack, account, "/api/pipelines", {"slug": slug, "name": name, "steps": steps}))["slug"])


async def start_run(stack: Stack, account: Account, pipeline: str, name: str, **values: Any) -> str:
    body = {"name": name, "budget": 200, "prompt": "dunes at dawn", "seed": 7, "target_leaves": 4, **values}
    return str((await _sent(stack, account, f"/api/pipelines/{pipeline}/runs", body))["id"])


async def run_of(stack: Stack, account: Account, run_id: str) -> dict[str, Any]:
    async with stack.client(account.headers) as client:
        found: dict[str, Any] = (await client.get(f"/api/runs/{run_id}")).json()
    return found


async def waits(stack: Stack, account: Account, run_id: str) -> dict[str, Any]:
    """The run, once it has ended or does not continue."""
    found: dict[str, Any] = {}

    async def is_waiting() -> bool:
        found.update(await run_of(stack, account, run_id))
        return found["reason"] is not None and not any(step["in_flight"] for step in found["steps"])

    await until(is_waiting, 600)
    return found


async def _sent(stack: Stack, account: Account, path: str, body: Any) -> dict[str, Any]:
    async with stack.client(account.headers) as client:
        created = await client.post(path, json=body)
    assert created.is_success, created.text
    found: dict[str, Any] = created.json()
    return found


async def plant_tree(stack: Stack, account: Account, run_id: str, bases: int) -> int:
    """Writes candidates straight into the database: each base has five children, and each of these four. Returns their
    number. The run must have ended, and have three steps. The candidates have no files."""
    server = await EmbeddedPostgres.start(stack.home)
    try:
        connection = await asyncpg.connect(server.dsn("pool_1"))
        try:
            # Nothing made them, so they refer to jobs that do not exist.
            await connection.execute("SET session_replication_role = replica")
            return int(await connection.fetchval(TREE, uuid.UUID(run_id), bases))
        finally:
            await connection.close()
    finally:
        await server.close()


# 26 candidates for each base: the base is the first, its children are 2, 7, 12, 17 and 22, each followed by its own.
TREE = """
    WITH made AS (
        INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index,
            file_id, seed, elo, votes, max_children, child_count, thumbnail_due_at, status, rejected_at, rejected_with,
            rejected_by)
        SELECT r.tenant_id, md5(r.id::text || n)::uuid, r.id, n, s.id, place.position,
            CASE place.position WHEN 2 THEN md5(r.id::text || (n - place.within + 1))::uuid
                WHEN 3 THEN md5(r.id::text || (n - (place.within - 2) % 5))::uuid END,
            gen_random_uuid(), 0, gen_random_uuid(), n, 1000 + (n * 7919) % 200 - 100, n % 5,
            CASE place.position WHEN 3 THEN 0 ELSE 5 END, CASE place.position WHEN 1 THEN 5 WHEN 2 THEN 4 ELSE 0 END,
            NULL, kind.status, CASE kind.status WHEN 'rejected' THEN now() END,
            CASE kind.status WHEN 'rejected' THEN md5(r.id::text || n)::uuid END,
            CASE kind.status WHEN 'rejected' THEN r.user_id END
        FROM pipeline_runs r
        CROSS JOIN generate_series(1, $2::integer * 26) n
        CROSS JOIN LATERAL (
            SELECT (n - 1) % 26 + 1 AS within, CASE WHEN (n - 1) % 26 = 0 THEN 1
                WHEN ((n - 1) % 26 - 1) % 5 = 0 THEN 2 ELSE 3 END AS position
        ) place
        CROSS JOIN LATERAL (
            SELECT CASE WHEN place.position = 3 AND n % 17 = 0 THEN 'rejected' ELSE 'active' END AS status
        ) kind
        JOIN pipeline_steps s ON s.tenant_id = r.tenant_id AND s.pipeline_id = r.pipeline_id
            AND s.version = r.pipeline_version AND s.position = place.position
        WHERE r.id = $1
        RETURNING run_id
    )
    UPDATE pipeline_runs SET candidates = (SELECT count(*) FROM made)
    WHERE id = $1
    RETURNING candidates
"""
