"""The cost of a list of the library does not grow with the tables: an index has everything it filters by (G11)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from callsheet.library.lists import SQL
from callsheet.library.public_links import SQL as SHARES
from callsheet.library.search import Filters
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wallet.ledger import SQL as WALLET
from callsheet.wire.library import LibraryFilter, Medium
from tests.support.database.full_databases import TENANT, fill_pool, job_id, user_id, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, explain_once, literal, pairs, prepare
from tests.support.database.room_statements import statements_of_room

JOBS = statements_of_room("jobs")

pytestmark = pytest.mark.thorough

ROWS = 30_000
# The first user has a tenth of all jobs.
OWN = ROWS // 10
WHENS = ["planned while empty", "analyzed"]
# Jobs as they are submitted and ended today: with an outcome and a text; few of them say something else, or have a run.
DESCRIBED = f"""
    UPDATE ai_jobs SET outcome = status, outcome_cycle = 1, medium = 'video',
        run_id = CASE WHEN ('x' || right(id::text, 8))::bit(32)::int % 1000 = 1 THEN '{UUID(int=7)}'::uuid END,
        step_id = CASE WHEN ('x' || right(id::text, 8))::bit(32)::int % 1000 = 1 THEN '{UUID(int=7)}'::uuid END
    WHERE completed_at IS NOT NULL;
    INSERT INTO job_descriptions (tenant_id, user_id, job_id, title, prompt, search_text)
    SELECT tenant_id, user_id, id, 'Claymation', 'a fox', 'claymation ' || repeat('a fox of clay ', 20) ||
        CASE WHEN ('x' || right(id::text, 8))::bit(32)::int % 10000 = 1 THEN 'unicorn' ELSE '' END
    FROM ai_jobs ORDER BY id
"""
# A page of the index holds some twenty jobs, or ten texts; each job that is shown costs some lookups by key.
LISTED, TEXTS, SHOWN = OWN // 15, OWN // 10, 21 * 50


def of(**wanted: object) -> Filters:
    return Filters(LibraryFilter.model_validate(wanted))


CASES: dict[str, tuple[str, Filters, UUID | None, set[str], int]] = {
    "first page": ("list_jobs", Filters(), None, {"jobs_of_user"}, SHOWN),
    "far back": ("list_jobs", Filters(), UUID(job_id(2000)), {"jobs_of_user"}, SHOWN),
    "rare word": (
        "list_jobs",
        of(q="unicorn"),
        None,
        {"jobs_of_user", "job_descriptions_pkey"},
        LISTED + TEXTS + SHOWN,
    ),
    "no such word": (
        "list_jobs",
        of(q="nowhere"),
        None,
        {"jobs_of_user", "job_descriptions_pkey"},
        LISTED + TEXTS,
    ),
    "no such medium": ("list_jobs", of(medium=[Medium.AUDIO]), None, {"jobs_of_user"}, LISTED),
    "of a run": ("list_jobs", of(run_id=UUID(int=7)), None, {"jobs_of_user"}, LISTED + SHOWN),
    "of a batch": ("list_jobs", of(batch_id=UUID(int=7)), None, {"jobs_of_user"}, LISTED + SHOWN),
    "of a reference": (
        "list_jobs",
        of(client_reference="order 7"),
        None,
        {"jobs_of_user", "jobs_of_client_reference"},
        LISTED + SHOWN,
    ),
    "counts": ("count_jobs", Filters(), None, {"jobs_of_user"}, LISTED),
    "counts of a word": (
        "count_jobs",
        of(q="fox"),
        None,
        {"jobs_of_user", "job_descriptions_pkey"},
        LISTED + TEXTS,
    ),
    "last looked at": ("last_read", Filters(), None, {"jobs_of_user"}, LISTED),
}


def arguments(case: str) -> list[object]:
    name, filters, cursor, _, _ = CASES[case]
    values: dict[str, Any] = {"tenant_id": TENANT, "user_id": user_id(1), **filters.parameters(cursor)}
    values |= {"statuses": None, "max_read": 20_000, "limit": 21}
    return [values[parameter] for parameter in SQL[name].parameters]


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Mapping[tuple[str, str], Seen]]:
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("library_crowd")) as databases:
        yield await _everything(databases)


async def _everything(databases: Databases) -> dict[tuple[str, str], Seen]:
    found: dict[tuple[str, str], Seen] = {}
    pool = await databases.pool("pool_1")
    await without_autovacuum(pool, "ai_jobs", "job_descriptions")
    async with pool.connection() as connection:
        for when in WHENS:
            await _plan(connection)
            if when == WHENS[0]:
                await fill_pool(pool, ROWS)
                async with pool.transaction() as filling:
                    await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL enable_seqscan = on")
                    await filling.execute(DESCRIBED)
                await connection.execute("VACUUM ai_jobs, job_descriptions")
            found |= {(name, when): one for name, one in (await _measure(connection)).items()}
            found |= {(name, when): await _explained(connection, name) for name in OTHERS}
            await connection.execute("; ".join(f"DEALLOCATE {name}" for name in _prepared()))
            await connection.execute("ANALYZE")
    return found


async def _plan(connection: Connection) -> None:
    """The plans that are made now are kept."""
    for name, (statement, values, _, _) in OTHERS.items():
        await prepare(connection, f"other_{name}", statement.text)
        given = ", ".join(literal(values[parameter]) for parameter in statement.parameters)
        await connection.execute(f"EXPLAIN EXECUTE other_{name}({given})")
    for number, (case, (name, *_)) in enumerate(CASES.items()):
        await prepare(connection, f"library_{number}", SQL[name].text)
        await connection.execute(
            f"EXPLAIN EXECUTE library_{number}({', '.join(literal(value) for value in arguments(case))})"
        )


def _prepared() -> list[str]:
    return [*(f"library_{number}" for number in range(len(CASES))), *(f"other_{name}" for name in OTHERS)]


async def _explained(connection: Connection, name: str) -> Seen:
    statement, values, _, _ = OTHERS[name]
    transaction = connection.transaction()
    await transaction.start()
    try:
        return await explain(connection, f"other_{name}", [values[parameter] for parameter in statement.parameters])
    finally:
        await transaction.rollback()


async def _measure(connection: Connection) -> dict[str, Seen]:
    measured = {}
    for number, case in enumerate(CASES):
        transaction = connection.transaction()
        await transaction.start()
        measured[case] = await explain(connection, f"library_{number}", arguments(case))
        await transaction.rollback()
    return measured


# Statements beside the lists, with the indexes they must use and the most blocks they may touch.
USER: dict[str, object] = {"tenant_id": TENANT, "user_id": user_id(1)}
OTHERS: dict[str, tuple[Statement, dict[str, object], set[str], int]] = {
    "shared_job": (SQL["shared_job"], {**USER, "job_id": job_id(1), "max_rows": 20}, set(), 60),
    "outputs_of_jobs": (SQL["outputs_of_jobs"], {**USER, "job_ids": [job_id(1)]}, set(), 60),
    "list_holds": (WALLET["list_holds"], {**USER, "before": None, "limit": 21}, {"jobs_active_of_user"}, 100),
    "list_transactions": (
        WALLET["list_transactions"],
        {**USER, "user_id": user_id(2), "before": None, "limit": 21},
        {"transactions_of_user"},
        21 * 15,
    ),
    "description_of_job": (JOBS["description_of_job"], {**USER, "job_id": job_id(1)}, {"job_descriptions_pkey"}, 10),
    "follow_user": (
        JOBS["follow_user"],
        {**USER, "after": ROWS - 100, "at": None, "limit": 200, "is_first": True},
        {"events_of_user"},
        200,
    ),
}


@pytest.mark.parametrize(
    ("name", "when"), pairs({name: statement.text for name, (statement, *_) in OTHERS.items()}, WHENS)
)
def test_the_statements_beside_the_lists_read_by_key(
    seen: Mapping[tuple[str, str], Seen], name: str, when: str
) -> None:
    _, _, indexes, max_buffers = OTHERS[name]
    found = seen[name, when]
    assert indexes <= found.indexes
    assert not found.scanned & {"ai_jobs", "job_descriptions", "files", "token_transactions"}
    assert found.buffers <= max_buffers


async def test_a_token_is_found_by_its_hash_however_many_links_there_are(databases: Databases) -> None:
    central = databases.central
    fill = f"""
        SET LOCAL session_replication_role = replica;
        INSERT INTO tenants (id, slug, name, db_pool) VALUES ('{TENANT}', 'links', 'Links', 'pool_1');
        INSERT INTO users (id, tenant_id, email, password_hash)
            VALUES ('{user_id(1)}', '{TENANT}', 'a@example.com', '$argon2id$');
        INSERT INTO share_links (id, token_hash, tenant_id, user_id, job_id, shows_prompt, shows_input, expires_at)
        SELECT gen_random_uuid(), sha256(n::text::bytea), '{TENANT}', '{user_id(1)}', gen_random_uuid(), false, true,
            now() + interval '1 day' FROM generate_series(1, 20000) n
    """
    async with central.transaction() as connection:
        await connection.execute(fill)
    for token, rows in (("7", 1), ("no such token", 0)):
        found = await explain_once(central, SHARES["find_share"], {"token_hash": _hashed(token)})
        assert "one_share_link_per_token" in found.indexes
        assert not found.scanned
        assert (found.rows, found.buffers <= 20) == (rows, True)


def _hashed(token: str) -> str:
    return "\\x" + hashlib.sha256(token.encode()).hexdigest()


LIST_TEXTS = {case: SQL[name].text for case, (name, *_) in CASES.items()}


@pytest.mark.parametrize(("case", "when"), pairs(LIST_TEXTS, WHENS))
def test_a_list_reads_its_indexes_and_few_blocks(seen: Mapping[tuple[str, str], Seen], case: str, when: str) -> None:
    _, _, _, indexes, max_buffers = CASES[case]
    found = seen[case, when]
    assert indexes <= found.indexes
    assert not found.scanned & {"ai_jobs", "job_descriptions", "files"}
    assert found.buffers <= max_buffers
