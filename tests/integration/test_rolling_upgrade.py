"""The previous release still serves while a new schema is rolled out.

A clone has no code of the previous release. What can be checked without it: each of its statements, kept at its
release, is one that PostgreSQL accepts on the newest schema; present code goes on while migrations of each allowed form
are applied under it, and starts on a schema that is newer than it knows; and no statement that jobs pass through is
changed by a new column. That an INSERT of the previous release satisfies a new constraint is for the review to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import asyncpg
import pytest

import callsheet
from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.errors import DatabaseError, is_away
from callsheet.plumbing.database.migrate import Migration, SchemaUnknown, known_migrations, migrate
from callsheet.plumbing.database.sql import DatabaseKind
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from tests.support.database.migration_rules import broken_rules
from tests.support.jobs.core import Core, open_core
from tests.support.jobs.race_control import open_transaction, start_blocked
from tools.keep_statements import every_statement, kept_statements

EVERY_TABLE = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_migrations'"
# One of each allowed form, on tables that every job writes.
FORMS: dict[DatabaseKind, Sequence[str]] = {
    "central": [
        "ALTER TABLE ai_job_dispatches ADD COLUMN color text NOT NULL DEFAULT 'red', ADD COLUMN weight integer",
        "ALTER TABLE ai_job_dispatches ADD CONSTRAINT color_is_set CHECK (color <> '') NOT VALID",
        "ALTER TABLE ai_job_dispatches VALIDATE CONSTRAINT color_is_set",
        "-- outside a transaction\nDROP INDEX CONCURRENTLY IF EXISTS dispatches_by_color;\n"
        "CREATE INDEX CONCURRENTLY dispatches_by_color ON ai_job_dispatches (color);",
    ],
    "pool": [
        "ALTER TABLE ai_jobs ADD COLUMN color text NOT NULL DEFAULT 'red', ADD COLUMN weight integer",
        "ALTER TABLE ai_jobs ADD CONSTRAINT color_is_set CHECK (color <> '') NOT VALID",
        "ALTER TABLE ai_jobs VALIDATE CONSTRAINT color_is_set",
        "CREATE TABLE colors (name text PRIMARY KEY);\nCREATE FUNCTION color_add_1(text) RETURNS void LANGUAGE sql AS "
        "$$ INSERT INTO colors VALUES ($1) $$;",
        "-- outside a transaction\nDROP INDEX CONCURRENTLY IF EXISTS jobs_by_color;\n"
        "CREATE INDEX CONCURRENTLY jobs_by_color ON ai_jobs (color);",
    ],
}


def next_release(kind: DatabaseKind) -> list[Migration]:
    known = known_migrations(kind)
    new = [
        Migration(len(known) + number, f"next_{number}", f"-- needs code: any\n{text}")
        for number, text in enumerate(FORMS[kind], start=1)
    ]
    return known + new


async def upgrade(database: Database) -> list[Migration]:
    return await migrate(database.dsn, database.kind, database.name, next_release(database.kind))


@pytest.fixture
def quick_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(schema, "PAUSE_SECONDS", 0.01)


async def one_job(core: Core) -> None:
    member = await core.member(tokens=10)
    job = await core.submit(member, cost=10)
    await core.complete(await core.start())
    assert (await core.status(member, job.id), await core.balance(member)) == ("completed", 0)


def test_the_tested_migration_forms_are_those_that_the_rules_allow() -> None:
    for kind in FORMS:
        for migration in next_release(kind)[len(known_migrations(kind)) :]:
            assert broken_rules(migration) == []


@pytest.mark.usefixtures("quick_attempts")
async def test_jobs_go_on_while_the_next_schema_is_rolled_out_and_on_it(
    settings: Settings, databases: Databases
) -> None:
    core = await open_core(databases).prepare()
    await one_job(core)
    pool = await databases.pool("pool_1")
    upgrades = [asyncio.create_task(upgrade(database)) for database in (databases.central, pool)]
    while not all(task.done() for task in upgrades):
        await one_job(core)
    assert [len(await task) for task in upgrades] == [len(FORMS["central"]), len(FORMS["pool"])]
    await one_job(core)
    await core.check()
    # A process of this release that starts now finds a schema that it does not know, and can serve.
    restarted = await open_databases(settings)
    try:
        assert restarted.unavailable == {}
        await one_job(await open_core(restarted).prepare())
    finally:
        await restarted.close()


@pytest.mark.usefixtures("quick_attempts")
async def test_a_migration_that_waits_for_a_lock_lets_jobs_go_first(databases: Databases) -> None:
    core = await open_core(databases).prepare()
    pool = await databases.pool("pool_1")
    async with open_transaction(pool, "SELECT count(*) FROM ai_jobs"):
        [upgraded] = await start_blocked(pool, upgrade(pool))
        for _ in range(3):
            await one_job(core)
        assert not upgraded.done()
    assert len(await upgraded) == len(FORMS["pool"])
    await core.check()


@pytest.mark.thorough
@pytest.mark.usefixtures("quick_attempts")
async def test_a_migration_that_never_gets_its_lock_changes_nothing_and_says_so(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOCK_ATTEMPTS", 2)
    pool = await databases.pool("pool_1")
    async with open_transaction(pool, "SELECT count(*) FROM ai_jobs"):
        with pytest.raises(DatabaseError, match="did not get its lock in 2 attempts: a session keeps a transaction"):
            await upgrade(pool)
    assert len(await upgrade(pool)) == len(FORMS["pool"])


@pytest.mark.thorough
async def test_an_index_that_a_crash_left_invalid_is_built_again(databases: Databases) -> None:
    pool = await databases.pool("pool_1")
    known = known_migrations("pool")
    text = (
        "-- needs code: any\n-- outside a transaction\nDROP INDEX CONCURRENTLY IF EXISTS only_one;\n"
        "CREATE UNIQUE INDEX CONCURRENTLY only_one ON retention_marks (completed_at);"
    )
    two_rows = "INSERT INTO retention_marks SELECT name, now(), gen_random_uuid() FROM unnest('{a,b}'::text[]) AS name"
    async with pool.connection() as connection:
        await connection.execute(two_rows)
        with pytest.raises(DatabaseError, match="failed and left what ran before, which running it again replaces"):
            await migrate(pool.dsn, "pool", "pool_1", [*known, Migration(len(known) + 1, "one", text)])
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'only_one'::regclass"
        assert await connection.fetchval(valid) is False
        await connection.execute("DELETE FROM retention_marks WHERE name = 'b'")
        await migrate(pool.dsn, "pool", "pool_1", [*known, Migration(len(known) + 1, "one", text)])
        assert await connection.fetchval(valid) is True


async def test_a_schema_that_needs_newer_code_is_refused(settings: Settings, databases: Databases) -> None:
    known = known_migrations("central")
    later = Migration(len(known) + 1, "removes", f"-- needs code: {len(known):04}\nSELECT 1")
    breaking = Migration(len(known) + 2, "breaks", f"-- needs code: {len(known) + 1:04}\nSELECT 1")
    central = databases.central.dsn
    await migrate(central, "central", "central", [*known, later])
    await (await open_databases(settings)).close()
    await migrate(central, "central", "central", [*known, later, breaking])
    with pytest.raises(SchemaUnknown, match="_breaks, which this version of Callsheet cannot work with"):
        await open_databases(settings)


async def refused_statements(dsn: str, kind: DatabaseKind, kept: Mapping[str, tuple[DatabaseKind, str]]) -> set[str]:
    """The names of the statements that PostgreSQL does not accept on this schema."""
    refused = set()
    connection = await asyncpg.connect(dsn)
    try:
        for name, (of_kind, text) in kept.items():
            if of_kind == kind:
                try:
                    await connection.prepare(text)
                except asyncpg.PostgresError:
                    refused.add(name)
    finally:
        await connection.close()
    return refused


# As if an earlier release had sent them.
MADE_UP: dict[str, tuple[DatabaseKind, str]] = {
    "reads what is there": ("central", "SELECT id FROM tenants WHERE slug = $1"),
    "reads a removed column": ("central", "SELECT removed_column FROM tenants WHERE slug = $1"),
    "calls a removed function": ("pool", "SELECT removed_function($1::uuid)"),
    "calls what is there": ("pool", "SELECT wallet_lock($1, $2)"),
}


@pytest.mark.parametrize(
    ("kind", "refused"), [("central", {"reads a removed column"}), ("pool", {"calls a removed function"})]
)
async def test_a_statement_of_an_earlier_release_that_the_newest_schema_refuses_is_found(
    postgres: EmbeddedPostgres, templates: dict[str, str], kind: DatabaseKind, refused: set[str]
) -> None:
    dsn = postgres.dsn(templates["central" if kind == "central" else "pool_1"])
    assert await refused_statements(dsn, kind, MADE_UP) == refused


@pytest.mark.parametrize("kind", ["central", "pool"])
async def test_the_newest_schema_still_takes_every_statement_of_the_previous_release(
    postgres: EmbeddedPostgres, templates: dict[str, str], kind: DatabaseKind
) -> None:
    """Before 0.1.0 nothing was released, and there is nothing to compare with: tools/keep_statements stores the
    statements of each release. From then on, this test fails if they are missing.
    """
    kept = kept_statements()
    assert kept or callsheet.__version__ == "0.1.0", "Run .venv/bin/python -m tools.keep_statements for each release."
    dsn = postgres.dsn(templates["central" if kind == "central" else "pool_1"])
    assert await refused_statements(dsn, kind, kept) == set()


# Every job, worker and token passes through these. Other rooms return whole rows of their own tables.
NAME_THEIR_COLUMNS = ("dispatch/statements.sql", "fleet/", "jobs/", "pipelines/", "tasks/", "wallet/", "webhooks/")


@pytest.mark.parametrize("kind", ["central", "pool"])
async def test_a_new_column_changes_the_result_of_no_statement_that_jobs_pass_through(
    postgres: EmbeddedPostgres, templates: dict[str, str], kind: str
) -> None:
    """A statement that was prepared before, and whose result has changed since, fails in a transaction."""
    texts = {
        name: one.text
        for name, one in every_statement().items()
        if one.database == kind and name.startswith(NAME_THEIR_COLUMNS)
    }
    connection = await asyncpg.connect(postgres.dsn(templates["central" if kind == "central" else "pool_1"]))

    async def results() -> dict[str, list[str]]:
        return {
            name: [column.name for column in (await connection.prepare(text)).get_attributes()]
            for name, text in texts.items()
        }

    transaction = connection.transaction()
    try:
        await transaction.start()
        before = await results()
        for row in await connection.fetch(EVERY_TABLE):
            await connection.execute(f"ALTER TABLE {row['tablename']} ADD COLUMN added_later text")
        after = await results()
        await transaction.rollback()
    finally:
        await connection.close()
    assert [name for name in texts if before[name] != after[name]] == []


async def test_a_transaction_interrupted_by_a_new_column_must_be_repeated(databases: Databases) -> None:
    pool, query = await databases.pool("pool_1"), "SELECT * FROM pipelines"
    async with pool.transaction() as connection:
        await connection.fetch(query)
    async with pool.connection() as connection:
        await connection.execute("ALTER TABLE pipelines ADD COLUMN added_later text")
    with pytest.raises(asyncpg.InvalidCachedStatementError) as failed:
        async with pool.transaction() as connection:
            await connection.fetch(query)
    assert is_away(failed.value), "a request is answered with 503 and Retry-After, a loop comes again"
    async with pool.transaction() as connection:
        await connection.fetch(query)
