"""The overview counts the workers of all workflows at once, a job those of its route alone. The counts agree."""

from __future__ import annotations

import random

import pytest

from callsheet.fleet.fleets.capacity import FleetCapacity
from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.plumbing.database.sql import Connection
from callsheet.wire.operate.operations import RunsMetrics
from tests.support.jobs.core import Core

WORKERS, STAGES, PROVIDERS = 60, ("production", "staging"), ("self_hosted", "replicate")
SETTING = """
INSERT INTO workflows (slug, name) SELECT 'crowd-' || n, 'Crowd' FROM generate_series(1, 4) n;
INSERT INTO gpu_fleets (slug, stage, name, is_active)
VALUES ('one', 'production', 'One', true), ('two', 'staging', 'Two', true), ('off', 'production', 'Off', false);
INSERT INTO workflow_fleets SELECT f.id, w.id FROM gpu_fleets f JOIN workflows w ON (f.id + w.id) % 3 > 0;
INSERT INTO worker_environments (digest, inventory) SELECT sha256(n::text::bytea), '{}' FROM generate_series(1, 2) n;
INSERT INTO environment_lacks SELECT sha256('1'), id, '[]' FROM workflows WHERE slug IN ('crowd-1', 'crowd-2');
"""
ADD_WORKER = """
INSERT INTO comfyui_workers (worker_id, registration_source, fleet_id, stage, providers, session_id, token_hash,
    max_concurrency, is_approved, is_narrowed, environment, last_seen_at)
SELECT $1::text, CASE WHEN $2::bigint IS NULL THEN 'workflows' ELSE 'fleet' END, $2,
    coalesce((SELECT stage FROM gpu_fleets WHERE id = $2), $3), $4, 1, sha256($1::text::bytea), $5, $6, $7,
    CASE WHEN $8 > 0 THEN sha256(($8::integer)::text::bytea) END,
    clock_timestamp() - CASE WHEN $9 THEN interval '0' ELSE interval '1 hour' END
"""
NARROW = "INSERT INTO worker_workflows SELECT $1, id FROM workflows WHERE id % 2 = $2"
LEASE = """
UPDATE ai_job_dispatches SET status = 'leased', lease_token = gen_random_uuid(), worker_id = $1,
    lease_expires_at = clock_timestamp() + CASE WHEN $2 THEN interval '1 hour' ELSE interval '-1 hour' END
WHERE dispatch_id = (SELECT min(dispatch_id) FROM ai_job_dispatches WHERE status = 'queued')
"""


async def add_worker(connection: Connection, chosen: random.Random, number: int) -> None:
    worker_id = f"crowd-{number}"
    fleets = [row["id"] for row in await connection.fetch("SELECT id FROM gpu_fleets ORDER BY id")]
    fleet_id = chosen.choice([None, *fleets])
    is_narrowed = fleet_id is not None and chosen.random() < 0.3
    providers = chosen.choice([["self_hosted"], ["replicate"], list(PROVIDERS)])
    await connection.execute(
        ADD_WORKER,
        worker_id,
        fleet_id,
        chosen.choice(STAGES),
        providers,
        chosen.randint(1, 3),
        chosen.random() < 0.9,
        is_narrowed,
        chosen.randint(0, 2),
        chosen.random() < 0.7,
    )
    if fleet_id is None or is_narrowed:
        await connection.execute(NARROW, worker_id, chosen.randint(0, 1))
    if chosen.random() < 0.1:
        await connection.execute("INSERT INTO worker_drains (worker_id, drained_by) VALUES ($1, 'test')", worker_id)
    if chosen.random() < 0.4:
        await connection.execute(LEASE, worker_id, chosen.random() < 0.7)


async def no_runs() -> list[RunsMetrics]:
    return []


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_overview_counts_the_same_live_workers_as_a_route(core: Core, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(WORKERS // 2):
        await core.submit(await core.member(), cost=1)
    await core.relay()
    async with core.databases.central.connection() as connection:
        await connection.execute(SETTING)
        for number in range(WORKERS):
            await add_worker(connection, chosen, number)
        workflows = {row["id"]: row["slug"] for row in await connection.fetch("SELECT id, slug FROM workflows")}
    figures = await FleetOverview(core.databases, [], {}, no_runs).figures()
    routes = [(each, stage, provider) for each in workflows for stage in STAGES for provider in PROVIDERS]
    capacity = await FleetCapacity(core.databases).of(routes)
    counted = {route: figures.live_workers(route) for route in routes}
    assert counted == {route: found.live_workers for route, found in capacity.items()}
    assert any(counted.values())
    assert not all(counted.values())
    # A worker with two providers is in two routes, and once in the metrics.
    of_metrics = {each.workflow: each.live_workers for each in figures.metrics.workflows}
    for workflow_id, slug in workflows.items():
        crews = [crew for crew in figures.crews if crew.workflow_id == workflow_id]
        assert of_metrics[slug] == sum(crew.live_workers for crew in crews)
        assert all(0 <= crew.busy_slots <= crew.live_slots for crew in crews)
