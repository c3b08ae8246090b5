"""Lists of batches and of a user's budgets read their indexes, however many there are of other users (G11)."""

from __future__ import annotations

from uuid import UUID

from callsheet.batches.batches import SQL
from callsheet.budgets.budgets import SQL as BUDGETS
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from tests.support.database.full_databases import TENANT, user_id
from tests.support.database.plans import explain_once

ROWS = 20_000
OWN = ROWS // 20
PAGE = 21
FILL = f"""
    SET LOCAL session_replication_role = replica;
    INSERT INTO batches (tenant_id, id, user_id, effect_id, title, cost, items, active, completed, finished_at)
    SELECT '{TENANT}', (lpad(to_hex(n), 8, '0') || repeat('0', 24))::uuid,
        CASE WHEN n % 20 = 1 THEN '{user_id(1)}'::uuid ELSE gen_random_uuid() END,
        CASE WHEN n < 100 THEN '{UUID(int=1)}'::uuid ELSE '{UUID(int=2)}'::uuid END, 'Noir', 7, 10,
        CASE WHEN n < 100 THEN 3 ELSE 0 END, CASE WHEN n < 100 THEN 7 ELSE 10 END,
        CASE WHEN n < 100 THEN NULL ELSE now() END
    FROM generate_series(1, {ROWS}) n;
    INSERT INTO budgets (tenant_id, id, name, user_id, period, time_zone, token_limit)
    SELECT CASE WHEN n <= 200 THEN '{TENANT}'::uuid ELSE gen_random_uuid() END, gen_random_uuid(), n::text,
        CASE WHEN n % 2 = 0 THEN '{user_id(1)}'::uuid END, 'day', 'UTC', 100 FROM generate_series(1, {ROWS // 5}) n;
    INSERT INTO budget_periods (tenant_id, budget_id, first_day, taken, most)
    SELECT tenant_id, id, current_date - days, 7, 100 FROM budgets, generate_series(0, 24) days;
"""
# A list that filters reads the batches of its user, and never those of others.
CASES: dict[str, tuple[dict[str, object], int]] = {
    "first page": ({}, PAGE + 20),
    "far back": ({"before": UUID(int=5000 << 96)}, PAGE + 20),
    "of an effect": ({"effect_ids": [UUID(int=1)]}, OWN + 20),
    "still running": ({"is_finished": False}, OWN + 20),
    "of an unknown reference": ({"client_reference": "order 7"}, OWN + 20),
}
NO_FILTER = {"before": None, "is_finished": None, "effect_ids": None, "client_reference": None, "metadata": None}


async def filled(databases: Databases) -> Database:
    pool = await databases.pool("pool_1")
    async with pool.transaction() as connection:
        await connection.execute(FILL)
    async with pool.connection() as connection:
        await connection.execute("ANALYZE batches, budgets, budget_periods")
    return pool


async def test_lists_read_the_rows_of_their_user_only(databases: Databases) -> None:
    pool = await filled(databases)
    for case, (wanted, max_buffers) in CASES.items():
        owner = {"tenant_id": TENANT, "user_id": user_id(1), "limit": PAGE}
        found = await explain_once(pool, SQL["list_batches"], {**owner, **NO_FILTER, **wanted}, may_scan=False)
        assert found.indexes == {"batches_of_user"}, case
        assert found.buffers <= max_buffers, (case, found.buffers)
    one = {"tenant_id": TENANT, "user_id": user_id(1), "batch_id": UUID(int=1)}
    found = await explain_once(pool, SQL["values_of_items"], one, may_scan=False)
    assert "one_job_per_item" in found.indexes
    values = {"tenant_id": TENANT, "user_id": user_id(1), "limit": 200}
    found = await explain_once(pool, BUDGETS["list_budgets_of_user"], values, may_scan=False)
    assert found.indexes == {"budgets_pkey", "one_row_per_period"}
    assert found.rows == 200
    assert found.buffers <= 200 * 5
