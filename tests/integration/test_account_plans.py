"""Lists of people, the audit log and figures of tenants touch few blocks, however many rows there are (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from callsheet.identity.accounts.accounts import containing
from callsheet.media.usage import WHOLE_TENANT
from callsheet.operate.installation.figures import CENTRAL_SQL, POOL_SQL
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wallet.requested_checks import SQL as LEDGER_AUDITS
from tests.support.database.full_databases import TENANT, fill_pool, numbered, user_id, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import explain_once
from tests.support.database.room_statements import statements_of_room

IDENTITY = statements_of_room("identity")

pytestmark = pytest.mark.thorough

PEOPLE, TENANTS, LINES, JOBS = 60_000, 2000, 100_000, 30_000
BIG = {"users", "tenants", "audit_logs", "ai_jobs", "token_wallets", "ledger_audit_pools"}
FILL = f"""
INSERT INTO tenants (id, slug, name, db_pool)
SELECT {numbered("dddddddd", "n")}, 'tenant-' || n, 'Tenant ' || n, 'pool_1' FROM generate_series(1, {TENANTS}) n;
INSERT INTO users (id, tenant_id, email, name, password_hash)
SELECT {numbered("bbbbbbbb", "n")}, {numbered("dddddddd", f"1 + n % {TENANTS}")}, 'person-' || n || '@example.com',
    'Person', '$argon2id$none' FROM generate_series(1, {PEOPLE}) n;
INSERT INTO audit_logs (actor, action, subject_type, subject_id, tenant_id)
SELECT 'admin:' || {numbered("bbbbbbbb", "1 + n % 10")}, CASE WHEN n % 2 = 0 THEN 'user.login' ELSE 'user.role' END,
    'user', {numbered("bbbbbbbb", f"1 + n % {PEOPLE}")}, {numbered("dddddddd", f"1 + n % {TENANTS}")}
FROM generate_series(1, {LINES}) n;
INSERT INTO ledger_audits (requested_by, finished_at) SELECT 'operator', now() FROM generate_series(1, 50);
INSERT INTO ledger_audit_pools (audit_id, pool, finished_at, findings, first_findings)
SELECT a.id, 'pool_' || n, now(), 1, jsonb_build_array(repeat('x', 20000))
FROM ledger_audits a, generate_series(1, 40) n;
"""
WALLETS = f"""
INSERT INTO token_wallets (tenant_id, owner_id, balance)
SELECT {numbered("dddddddd", f"1 + n % {TENANTS}")}, {numbered("eeeeeeee", "n")}, 5 FROM generate_series(1, {PEOPLE}) n
"""
NO_FILTER: dict[str, Any] = {
    **dict.fromkeys(("actors", "action", "subject_type", "subject_id", "tenant_id", "since", "until", "before")),
    "limit": 51,
}
OF_USER = {**NO_FILTER, "subject_type": "user", "subject_id": user_id(7)}
USERS: dict[str, Any] = {"only": None, "tenant": None, "before": None, "pattern": None, "limit": 51}
TENANT_LIST: dict[str, Any] = {"only": None, "before": None, "pattern": None, "limit": 51}
FIFTY = [f"dddddddd-0000-7000-8000-{number:012x}" for number in range(1, 51)]
# A name is added to each line by keys of users and tenants: a dozen blocks.
NAMES = 51 * 14
CASES: dict[str, tuple[Statement, dict[str, Any], int]] = {
    "newest users": (IDENTITY["list_users"], USERS, 51 * 4 + 20),
    "users behind a cursor": (IDENTITY["list_users"], {**USERS, "before": user_id(500)}, 51 * 4 + 20),
    "users of a common name": (IDENTITY["list_users"], {**USERS, "pattern": containing("person-5")}, 5000),
    "newest tenants": (IDENTITY["list_tenants"], TENANT_LIST, 100),
    "newest lines": (IDENTITY["list_entries"], NO_FILTER, 30 + NAMES),
    "lines of an action": (IDENTITY["list_entries"], {**NO_FILTER, "action": "user.role"}, 30 + NAMES),
    "lines of a user": (IDENTITY["list_entries_of_subject"], OF_USER, 30 + NAMES),
    "user by e-mail address": (IDENTITY["find_actor"], {"email": "person-77@example.com"}, 10),
    "users of fifty tenants": (CENTRAL_SQL["find_tenants"], {"tenant_ids": FIFTY, "only": None}, 50 * 45),
    "audits": (LEDGER_AUDITS["list_audits"], {"before": None, "limit": 21}, 20),
    # Not the findings, which are long.
    "pools of audits": (
        LEDGER_AUDITS["pools_of_audits"],
        {"audit_ids": list(range(1, 21)), "with_findings": False},
        20 * 40 + 20,
    ),
}


@pytest.fixture(scope="module")
async def full_databases(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Databases]:
    """Databases with many users."""
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("people")) as databases:
        pool = await databases.pool("pool_1")
        central = databases.central
        await without_autovacuum(central, "users", "tenants", "audit_logs", "ledger_audits", "ledger_audit_pools")
        await without_autovacuum(pool, "ai_jobs", "token_wallets")
        await fill_pool(pool, JOBS)
        async with central.transaction() as filling:
            await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL enable_seqscan = on")
            await filling.execute(FILL, timeout=600)
        async with pool.transaction() as filling:
            await filling.execute("SET LOCAL session_replication_role = replica")
            await filling.execute(WALLETS)
        async with central.connection() as connection:
            await connection.execute("VACUUM ANALYZE users, tenants, audit_logs, ledger_audits")
        async with pool.connection() as connection:
            await connection.execute("VACUUM ANALYZE ai_jobs, token_wallets")
        yield databases


@pytest.mark.parametrize("case", CASES)
async def test_a_list_touches_few_blocks(full_databases: Databases, case: str) -> None:
    statement, values, max_buffers = CASES[case]
    seen = await explain_once(full_databases.central, statement, values)
    assert seen.rows > 0
    assert seen.buffers <= max_buffers
    assert not seen.scanned & BIG


async def test_figures_of_a_tenant_read_its_wallets_and_active_jobs_only(full_databases: Databases) -> None:
    pool = await full_databases.pool("pool_1")
    values = {"tenant_ids": [TENANT, *FIFTY], "whole_tenant": str(WHOLE_TENANT)}
    seen = await explain_once(pool, POOL_SQL["figures_of_tenants"], values)
    assert seen.rows == 51
    # 300 active jobs, 1,000 wallets of one tenant and 30 of each other one; not 30,000 jobs or 60,000 wallets.
    assert seen.buffers <= 300 * 2 + 1000 // 4 + 50 * 40
    assert not seen.scanned & BIG
