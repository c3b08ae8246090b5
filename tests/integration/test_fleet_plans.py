"""What a worker's request costs does not grow with the queue, the workers or their log (G11).

Looked at as planned while the tables were empty, when they are full, and after they were analyzed, because plans are
kept for the life of a connection.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.scaling.fleet_states import SQL as SCALING_SQL
from callsheet.scaling.metric import SQL as METRIC_SQL
from tests.support.database.full_databases import fill_central, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, literal, pairs, prepare
from tests.support.database.room_statements import statements_of_room

FLEET_SQL = statements_of_room("fleet")

pytestmark = pytest.mark.thorough

WORKERS, DISPATCHES, LINES = 2000, 20_000, 110_000
WHENS = ("planned while empty", "planned when full", "analyzed")
# Environments that workers have had, and of these the ones of a fleet's last workers.
ENVIRONMENTS, LAST = 4000, 3
BIG = {
    "ai_job_dispatches",
    "comfyui_workers",
    "worker_sessions",
    "worker_audit_logs",
    "removed_worker_tokens",
    "environment_lacks",
}
TABLES = (
    "gpu_fleets",
    "fleet_environments",
    "workflow_fleets",
    "worker_workflows",
    "workflow_timings",
    "effects",
    *sorted(BIG),
)


def hashes(*numbers: int) -> str:
    """Of tokens, as text of an array of bytes."""
    digests = [hashlib.sha256(str(number).encode()).hexdigest() for number in numbers]
    return "{" + ",".join(f'"\\\\x{digest}"' for digest in digests) + "}"


@dataclass(frozen=True, slots=True)
class Case:
    arguments: dict[str, object]
    max_buffers: int


def entry(place: int) -> dict[str, object]:
    return {
        "place": place,
        "worker_id": f"w-{place}",
        "session_id": place + 1,
        "event": "complete",
        "actor": "worker",
        "details": {},
        "outcome": "completed",
        "busy_seconds": 1.0,
        "workflow_id": 1 + place % 5,
        "run_seconds": 1.0,
    }


TWENTY = list(range(1, 21))
CASES = {
    "authenticate": Case({"hashes": hashes(*TWENTY), "for_poll": [True] * 20, "rotation_seconds": 600}, 700),
    "adopt_rotated_tokens": Case({"hashes": hashes(*TWENTY)}, 120),
    "touch_workers": Case({"worker_ids": [f"w-{n}" for n in TWENTY], "seconds_ago": [0.5] * 20}, 400),
    "record_engine_use": Case(
        {"worker_ids": [f"w-{n}" for n in TWENTY], "session_ids": TWENTY, "engines": ["[]"] * 20}, 500
    ),
    "engine_use_of_worker": Case({"worker_id": "w-7"}, 20),
    "record_machines": Case(
        {
            "worker_ids": [f"w-{n}" for n in TWENTY],
            "session_ids": TWENTY,
            "free_bytes": [10**9] * 20,
            "size_bytes": [10**11] * 20,
            "capabilities": ["{}"] * 20,
        },
        500,
    ),
    "disk_of_worker": Case({"worker_id": "w-7"}, 20),
    "record_events": Case({"entries": [entry(n) for n in TWENTY]}, 700),
    "events_of_worker": Case({"worker_id": "w-7", "before": None, "limit": 51}, 100),
    "list_events": Case({"before": None, "limit": 51}, 20),
    "sessions_of_worker": Case({"worker_id": "w-7", "before": None, "limit": 51}, 100),
    "list_sessions": Case({"before": None, "limit": 51}, 20),
    "remove_session_of_worker": Case({"worker_id": "w-7", "session_id": 7}, 30),
    "end_session": Case({"worker_id": "w-7", "reason": "test"}, 30),
    "remove_stale_worker": Case({"worker_id": "w-7", "session_id": 7, "stale_seconds": 300}, 60),
    "find_removed_tokens": Case({"hashes": hashes(*TWENTY)}, 250),
    "forget_removed_tokens": Case({"days": 30}, 20),
    # Three thousand are in hand.
    "find_left_behind": Case({"limit": 100}, 25_000),
    "delete_old_sessions": Case({"days": 90, "limit": 100}, 20),
    "delete_old_events": Case({"days": 90, "limit": 100}, 20),
    # Of the autoscaler, for one fleet of forty with fifty workers: it looks at all workers, and at no more of the queue
    # than it counts.
    "workers_of_scaled": Case({"alive_seconds": 90, "autoscaler": "autoscaler"}, 4000),
    "waiting_routes": Case({"max_rows": 100}, 16_000),
    "free_slots_elsewhere": Case(
        {"workflow_ids": [1], "stages": ["production"], "providers": ["self_hosted"], "alive_seconds": 90}, 16_000
    ),
    # What the last workers of a fleet lacked, not every environment that lacks the workflow.
    "lacks_of_absent_workers": Case(
        {"workflow_ids": [1, 2], "stages": ["production"] * 2, "providers": ["self_hosted"] * 2}, 400
    ),
    # Two thousand live workers of two workflows, each with one of forty environments.
    "lacks_of_routes": Case(
        {
            "workflow_ids": [1, 2],
            "stages": ["production"] * 2,
            "providers": ["self_hosted"] * 2,
            "alive_seconds": 90,
        },
        16_000,
    ),
    # A search looks at all two thousand workers, and reads the queue and the workflows of the workers on the page only.
    "list_workers": Case(
        {
            "worker_id": None,
            "fleet": None,
            "stage": None,
            "live": None,
            "approved": None,
            "search": "FLEET-7",
            "busy": False,
            "after": None,
            "alive_seconds": 90,
            "default_stage": "production",
            "limit": 51,
            "max_leases": 3,
        },
        1500,
    ),
    "workers_of_workflow": Case({"workflow_id": 1, "alive_seconds": 90, "limit": 50}, 8000),
    # Fifty live workers and five workflows, and no more of the queue than is counted.
    "workflows_of_fleet": Case({"fleet_id": 1, "alive_seconds": 90, "max_rows": 100, "max_groups": 5}, 8000),
    "fleet_metric": Case({"fleet_id": 1, "providers": ["self_hosted"], "unmeasured": 60.0, "max_rows": 100}, 2500),
}
STATEMENTS = {
    **{name: statement for name, statement in FLEET_SQL.items() if name in CASES},
    "workers_of_scaled": SCALING_SQL["workers_of_scaled"],
    "waiting_routes": SCALING_SQL["waiting_routes"],
    "free_slots_elsewhere": SCALING_SQL["free_slots_elsewhere"],
    "workflows_of_fleet": FLEET_SQL["workflows_of_fleet"],
    "fleet_metric": METRIC_SQL["fleet_metric"],
}
FILL = f"""
INSERT INTO gpu_fleets (slug, stage, name) SELECT 'fleet-' || n, 'production', 'Fleet' FROM generate_series(1, 40) n;
INSERT INTO workflow_fleets SELECT f, w FROM generate_series(1, 40) f, generate_series(1, 5) w;
INSERT INTO comfyui_workers (worker_id, registration_source, fleet_id, stage, session_id, token_hash)
SELECT 'w-' || n, 'fleet', 1 + n % 40, 'production', n, sha256(n::text::bytea) FROM generate_series(1, {WORKERS}) n;
INSERT INTO worker_sessions (worker_id, stage, ended_at, end_reason)
SELECT 'w-' || (1 + n % {WORKERS}), 'production', now(), 'test' FROM generate_series(1, {LINES // 4}) n;
INSERT INTO removed_worker_tokens (token_hash, session_id)
SELECT sha256(id::text::bytea), id FROM worker_sessions ORDER BY id LIMIT {WORKERS};
INSERT INTO worker_audit_logs (worker_id, event, actor)
SELECT 'w-' || (1 + n % {WORKERS}), 'test', 'worker' FROM generate_series(1, {LINES}) n;
INSERT INTO fleet_scaling (
    fleet_id, driver, providers, minimum, maximum, target_seconds, warm_up_seconds, scale_out_cooldown_seconds,
    scale_in_cooldown_seconds, idle_seconds, on_demand_minimum, spot_share, installation_id, central_system,
    central_database, updated_by)
VALUES (1, 'command', '{{self_hosted}}', 0, 9, 120, 180, 30, 300, 300, 0, 1, gen_random_uuid(), 0, 0, 'operator');
INSERT INTO worker_environments (digest, inventory)
SELECT sha256(n::text::bytea), '{{}}' FROM generate_series(1, {ENVIRONMENTS}) n;
INSERT INTO environment_lacks (digest, workflow_id, lacks)
SELECT sha256(n::text::bytea), w, '[]' FROM generate_series(1, {ENVIRONMENTS}) n, generate_series(1, 5) w;
UPDATE comfyui_workers SET environment = sha256((1 + session_id % 40)::text::bytea);
INSERT INTO fleet_environments (fleet_id, digest)
SELECT 1, sha256(n::text::bytea) FROM generate_series(1, {LAST}) n;
"""


async def measure(connection: Connection) -> dict[str, Seen]:
    seen = {}
    for name, case in CASES.items():
        transaction = connection.transaction()
        await transaction.start()
        arguments = [case.arguments[parameter] for parameter in STATEMENTS[name].parameters]
        seen[name] = await explain(connection, f"fleet_{name}", arguments)
        await transaction.rollback()
    return seen


async def planned(connection: Connection) -> None:
    """The plans that are made now are kept."""
    for name, case in CASES.items():
        await prepare(connection, f"fleet_{name}", STATEMENTS[name].text)
        arguments = ", ".join(literal(case.arguments[parameter]) for parameter in STATEMENTS[name].parameters)
        await connection.execute(f"EXPLAIN EXECUTE fleet_{name}({arguments})")


async def forget(connection: Connection) -> None:
    for name in CASES:
        await connection.execute(f"DEALLOCATE fleet_{name}")


async def observe_plans(databases: Databases) -> dict[tuple[str, str], Seen]:
    central, found = databases.central, {}
    await without_autovacuum(central, *TABLES)
    async with central.connection() as connection:
        await planned(connection)
        await fill_central(central, DISPATCHES)
        await connection.execute(FILL)
        for when in WHENS:
            if when != WHENS[0]:
                await forget(connection)
                if when == WHENS[2]:
                    await connection.execute("ANALYZE")
                await planned(connection)
            found |= {(when, name): one for name, one in (await measure(connection)).items()}
        await forget(connection)
    return found


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], Seen]]:
    home = tmp_path_factory.mktemp("fleet")
    async with opened(postgres, templates_in_both_orders, home) as databases:
        yield await observe_plans(databases)


@pytest.mark.parametrize(("name", "when"), pairs({name: STATEMENTS[name].text for name in CASES}, WHENS))
def test_g11_a_statement_of_the_fleet_finds_its_rows_by_their_index(
    seen: dict[tuple[str, str], Seen], name: str, when: str
) -> None:
    one = seen[when, name]
    assert one.scanned & BIG == set()
    assert one.buffers <= CASES[name].max_buffers
