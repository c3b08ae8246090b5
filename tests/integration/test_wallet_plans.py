"""The wallet of a tenant that pays for its users costs no more when its jobs and its ledger are many (G11).

As in test_core_plans: blocks are counted, and plans are also those that were made while the tables were empty. The
tenant has as many active jobs in small tables as in large ones, because what they hold is a sum over them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wallet.ledger import SQL as WALLET
from tests.support.database.full_databases import TENANT, numbered, user_id, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, pairs, prepare

pytestmark = pytest.mark.thorough

SMALL, LARGE = 2000, 100_000
USERS, ACTIVE = 50, 200
STRANGER = "dddddddd-0000-7000-8000-0000000000ff"
BIG = {"ai_jobs", "token_transactions", "job_descriptions"}
WHENS = ("planned while empty", "analyzed")
PAGE = {"tenant_id": TENANT, "before": None, "limit": 51}
# The text, its arguments, and the most blocks that it may touch.
CASES: dict[str, tuple[str, list[object], int]] = {
    "wallet_held": ("the body", [TENANT, TENANT], 3 * ACTIVE + 50),
    "wallet_held of a user": ("the body", [TENANT, user_id(7)], 100),
    "user_held": ("the body", [TENANT, user_id(7)], 100),
    "list_transactions_of_tenant": (
        WALLET["list_transactions_of_tenant"].text,
        [PAGE[name] for name in WALLET["list_transactions_of_tenant"].parameters],
        51 * 10 + 50,
    ),
    "list_transactions_of_tenant, far back": (
        WALLET["list_transactions_of_tenant"].text,
        [{**PAGE, "before": 1500}[name] for name in WALLET["list_transactions_of_tenant"].parameters],
        51 * 10 + 50,
    ),
}
FILL = """
INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, lease_seq, event_seq, cost, workflow_id, stage, provider,
    lifetime_seconds, payload, idempotency_key, request_hash, deadline_at, completed_at, paid_by_tenant)
SELECT '{tenant}', {job}, {owner}, 'effect', CASE WHEN n > {active} THEN 'completed' ELSE 'queued' END, 1, 1, 1, 1,
    'production', 'self_hosted', 86400, '{{}}', 'key-' || n, '', now() + interval '1 day',
    CASE WHEN n > {active} THEN now() END, true
FROM generate_series({first}, {last}) n;
INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, of_tenant)
SELECT '{tenant}', {owner}, 'JOB_RESERVE', -1, {job}, 1, true FROM generate_series({first}, {last}) n;
-- Newer lines of another tenant: the newest ones of the whole table are not those of this tenant.
INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, of_tenant)
SELECT '{stranger}', {owner}, 'JOB_RESERVE', -1, {job}, 1, true FROM generate_series({first}, {last}) n;
"""
WALLETS = f"""
INSERT INTO pool_tenants (tenant_id, pays_for_users) VALUES ('{TENANT}', true);
INSERT INTO token_wallets (tenant_id, owner_id, balance) VALUES ('{TENANT}', '{TENANT}', 1000000);
INSERT INTO token_wallets (tenant_id, owner_id, balance)
SELECT '{TENANT}', {numbered("bbbbbbbb", "n")}, 0 FROM generate_series(1, {USERS}) n;
"""


async def text_of(connection: Connection, name: str) -> str:
    text, _, _ = CASES[name]
    if " " in text and text != "the body":
        return text
    function = await connection.fetchrow(
        "SELECT proargnames, prosrc FROM pg_proc WHERE proname = $1", name.partition(" ")[0]
    )
    assert function is not None
    body = str(function["prosrc"])
    for number, argument in enumerate(function["proargnames"], 1):
        body = body.replace(argument, f"${number}")
    return body


async def fill(connection: Connection, first: int, last: int) -> None:
    values = {"job": numbered("aaaaaaaa", "n"), "owner": numbered("bbbbbbbb", f"1 + n % {USERS}")}
    text = FILL.format(tenant=TENANT, stranger=STRANGER, active=ACTIVE, first=first, last=last, **values)
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
        await connection.execute(WALLETS + text if first == 1 else text, timeout=600)


async def measured(connection: Connection, prefix: str) -> dict[str, Seen]:
    seen = {}
    for number, (name, (_, arguments, _)) in enumerate(CASES.items()):
        transaction = connection.transaction()
        await transaction.start()
        seen[name] = await explain(connection, f"{prefix}_{number}", arguments)
        await transaction.rollback()
    return seen


async def prepared(connection: Connection, prefix: str) -> None:
    """Each statement with the plan that is made now."""
    for number, name in enumerate(CASES):
        await prepare(connection, f"{prefix}_{number}", await text_of(connection, name))
    await measured(connection, prefix)


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[int, str, str], Seen]]:
    """What was seen, by the number of jobs, when the statement was planned, and its name."""
    found: dict[tuple[int, str, str], Seen] = {}
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("wallet")) as databases:
        pool = await databases.pool("pool_1")
        await without_autovacuum(pool, "ai_jobs", "token_transactions", "token_wallets")
        async with pool.connection() as connection:
            await prepared(connection, "early")
            for first, last in ((1, SMALL), (SMALL + 1, LARGE)):
                await fill(connection, first, last)
                early = await measured(connection, "early")
                # What a session keeps is planned again after ANALYZE.
                await connection.execute("ANALYZE")
                await prepared(connection, f"late_{last}")
                late = await measured(connection, f"late_{last}")
                for when, all_seen in zip(WHENS, (early, late), strict=True):
                    found |= {(last, when, name): one for name, one in all_seen.items()}
            await connection.execute("DEALLOCATE ALL")
        yield found


@pytest.mark.parametrize(("name", "when"), pairs({name: case[0] for name, case in CASES.items()}, WHENS))
def test_g11_what_concerns_the_wallet_of_a_tenant_is_found_by_an_index(
    seen: dict[tuple[int, str, str], Seen], name: str, when: str
) -> None:
    for rows in (SMALL, LARGE):
        assert seen[rows, when, name].scanned & BIG == set()
        assert seen[rows, when, name].buffers <= CASES[name][2]


@pytest.mark.parametrize("name", CASES)
def test_g11_the_wallet_of_a_tenant_costs_no_more_in_large_tables(
    seen: dict[tuple[int, str, str], Seen], name: str
) -> None:
    small, large = seen[SMALL, "analyzed", name], seen[LARGE, "analyzed", name]
    assert small.rows == large.rows
    # Indexes are a level or two deeper.
    assert large.buffers <= small.buffers * 1.6 + 15
