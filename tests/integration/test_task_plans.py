"""The cost of a statement of the tasks room does not grow with the tables: it finds its rows by an index (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from callsheet.dispatch.facts import NO_OWNER
from callsheet.dispatch.lease.leasing import SQL as QUEUE
from callsheet.dispatch.operate.limits import SQL as LIMITS
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.tasks.products import SQL as POOL
from tests.support.database.full_databases import (
    TENANT,
    fill_central,
    fill_pool,
    job_id,
    token,
    user_id,
    without_autovacuum,
)
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, literal, pairs, prepare
from tests.support.database.room_statements import statements_of_room

JOBS = statements_of_room("jobs")

pytestmark = pytest.mark.thorough

ROWS = 30_000
WHENS = ["planned while empty", "analyzed"]
BIG = {"ai_jobs", "products", "ai_job_dispatches", "dispatch_history"}
# Of the first user's jobs, which are a tenth of all, every second is a task, and each run has a hundred of them.
TASKS = """
    UPDATE ai_jobs SET actor = 'echo', queue_name = 'default',
        workflow_run_id = 'run-' || ('x' || right(id::text, 8))::bit(32)::int / 2000
    WHERE ('x' || right(id::text, 8))::bit(32)::int % 20 = 1;
    INSERT INTO products (tenant_id, id, user_id, url, title)
    SELECT tenant_id, id, user_id, 'https://shop.example', 'Lamp' FROM ai_jobs;
"""
USER = {"tenant_id": TENANT, "user_id": user_id(1)}
PAGE: dict[str, object] = {**USER, "before": None, "status": None, "actor": None, "queue_name": None, "limit": 21}
ENTRY: dict[str, object] = {
    "tenant_id": TENANT,
    "user_id": user_id(1),
    "lane_tenant_id": str(NO_OWNER),
    "lane_user_id": str(NO_OWNER),
    "job_id": job_id(ROWS * 3),
    "charge_cycle": 1,
    "workflow_id": 1,
    "stage": "production",
    "provider": "self_hosted",
    "priority": 0,
    "kind": "copy",
    "max_attempts": 3,
    "lease_seconds": 30,
    "run_limit_seconds": 60,
    "deadline_at": (datetime.now(UTC) + timedelta(days=1)).isoformat(),
    "worker_id": "plane",
    "token": token(ROWS * 3),
}
# By name: the statement, its arguments, the indexes it must use, the most blocks it may touch.
Case = tuple[Statement, Mapping[str, object], set[str], int]
POOL_CASES: dict[str, Case] = {
    "list_tasks": (JOBS["list_tasks"], PAGE, {"tasks_of_user"}, 60),
    "list_tasks, far back": (JOBS["list_tasks"], {**PAGE, "before": job_id(2000)}, {"tasks_of_user"}, 60),
    "list_tasks_of_run": (
        JOBS["list_tasks_of_run"],
        {**PAGE, "workflow_run_id": "run-7"},
        {"jobs_of_workflow_run"},
        60,
    ),
    "get_product": (POOL["get_product"], {**USER, "id": job_id(1)}, set(), 10),
    "list_products": (POOL["list_products"], {**USER, "before": None, "limit": 21}, {"products_of_user"}, 60),
    "delete_product": (POOL["delete_product"], {**USER, "id": job_id(1)}, set(), 20),
}
CENTRAL_CASES: dict[str, Case] = {
    # A third of it is the catalog, read by the first call of drained_workers on a connection.
    "enqueue_leased": (QUEUE["enqueue_leased"], {"entries": [{**ENTRY, "concurrency_identifier": ""}]}, set(), 120),
    "declare_limit": (LIMITS["declare_limit"], {"identifier": "limited", "max_concurrent": 7}, set(), 30),
}
NAMES = [*POOL_CASES, *CENTRAL_CASES]


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], Seen]]:
    home = tmp_path_factory.mktemp("task_crowd")
    async with opened(postgres, templates_in_both_orders, home) as databases:
        yield await _everything(databases)


async def _everything(databases: Databases) -> dict[tuple[str, str], Seen]:
    found: dict[tuple[str, str], Seen] = {}
    pool, central = await databases.pool("pool_1"), databases.central
    await without_autovacuum(pool, "ai_jobs", "products")
    await without_autovacuum(central, "ai_job_dispatches", "dispatch_history", "concurrency_limits")
    for database, cases in ((pool, POOL_CASES), (central, CENTRAL_CASES)):
        async with database.connection() as connection:
            for when in WHENS:
                await _plan(connection, cases)
                if when == WHENS[0]:
                    await _fill(database)
                found |= {(name, when): one for name, one in (await _measure(connection, cases)).items()}
                await connection.execute("; ".join(f"DEALLOCATE task_{number}" for number in range(len(cases))))
                await connection.execute("ANALYZE")
    return found


async def _plan(connection: Connection, cases: Mapping[str, Case]) -> None:
    """The plans that are made now are kept."""
    for number, (statement, values, _, _) in enumerate(cases.values()):
        await prepare(connection, f"task_{number}", statement.text)
        arguments = ", ".join(literal(values[parameter]) for parameter in statement.parameters)
        await connection.execute(f"EXPLAIN EXECUTE task_{number}({arguments})")


async def _measure(connection: Connection, cases: Mapping[str, Case]) -> dict[str, Seen]:
    seen = {}
    for number, (name, (statement, values, _, _)) in enumerate(cases.items()):
        transaction = connection.transaction()
        await transaction.start()
        seen[name] = await explain(connection, f"task_{number}", [values[each] for each in statement.parameters])
        await transaction.rollback()
    return seen


async def _fill(database: Database) -> None:
    if database.kind == "central":
        await fill_central(database, ROWS)
        return
    await fill_pool(database, ROWS)
    async with database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
        await connection.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on")
        await connection.execute(TASKS, timeout=600)


@pytest.mark.parametrize(
    ("name", "when"),
    pairs({name: statement.text for name, (statement, *_) in {**POOL_CASES, **CENTRAL_CASES}.items()}, WHENS),
)
async def test_g11_a_statement_for_tasks_finds_its_rows_by_their_index(
    seen: dict[tuple[str, str], Seen], name: str, when: str
) -> None:
    _, _, indexes, max_buffers = {**POOL_CASES, **CENTRAL_CASES}[name]
    assert seen[name, when].scanned & BIG == set()
    assert indexes <= seen[name, when].indexes
    assert seen[name, when].buffers <= max_buffers
