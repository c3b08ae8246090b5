"""`callsheet db migrate` checks central and all pools before it changes the first of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.migrate import Migration, known_migrations
from callsheet.plumbing.database.migrate_all import NotMigrated, migrate_all
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from tests.support.database.database_copies import DatabaseCopies
from tests.support.database.installation import PLUMBING, dsn_of
from tests.support.programs.commands import Callsheet


@pytest.fixture
async def central(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn_of(settings))
    yield connection
    await connection.close()


@pytest.fixture
def new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """This version of Callsheet has one more migration for each database."""
    known = {kind: known_migrations(kind) for kind in ("central", "pool")}
    for migrations in known.values():
        migrations.append(Migration(len(migrations) + 1, "more", "CREATE TABLE more (id int)"))
    monkeypatch.setattr(schema, "known_migrations", lambda kind: known[kind])


async def has_new_schema(dsn: str) -> bool:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("SELECT to_regclass('more')") is not None
    finally:
        await connection.close()


async def place_pool_2(central: asyncpg.Connection, database: str | None) -> None:
    """Lets central look for the pool in a database of its own server."""
    await PLUMBING["register_pool"].run(central, name="pool_2", database=database, sealed_dsn=None)


async def in_missing_database(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    await place_pool_2(central, "missing")


async def in_database_of_another_pool(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    await place_pool_2(central, await central.fetchval("SELECT database FROM pools WHERE name = 'pool_1'"))


async def in_empty_database(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    await copies.database()
    await place_pool_2(central, copies.made[-1])


async def in_foreign_database(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    connection = await asyncpg.connect(await copies.database())
    await connection.execute("CREATE TABLE invoices (id int)")
    await connection.close()
    await place_pool_2(central, copies.made[-1])


async def on_read_only_server(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    await central.execute(f'ALTER DATABASE "{own}" SET default_transaction_read_only = on')


async def of_another_installation(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    await central.execute("UPDATE installation SET id = gen_random_uuid()")
    pool_1 = await asyncpg.connect(
        copies.dsn(await central.fetchval("SELECT database FROM pools WHERE name = 'pool_1'"))
    )
    await pool_1.execute("DELETE FROM pool_owner")
    await pool_1.close()


async def of_a_newer_version(central: asyncpg.Connection, own: str, copies: DatabaseCopies) -> None:
    connection = await asyncpg.connect(copies.dsn(own))
    await connection.execute("INSERT INTO schema_migrations VALUES (999, 'future', '', 999)")
    await connection.close()


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (in_missing_database, "Create the database, or name another one in the DSN"),
        (in_database_of_another_pool, "That database is pool 'pool_1' already"),
        (in_empty_database, "The database of pool pool_2 is empty. Restore its data there"),
        (in_foreign_database, r"is not empty and not Callsheet's \(it has invoices\)"),
        (on_read_only_server, "is read-only"),
        (of_another_installation, "Pool pool_2 belongs to installation"),
        (of_a_newer_version, "has the migration 0999_future"),
    ],
)
async def test_nothing_is_changed_if_one_pool_cannot_be_migrated(
    settings: Settings,
    central: asyncpg.Connection,
    database_copies: DatabaseCopies,
    new_version: None,
    spoil: Callable[[asyncpg.Connection, str, DatabaseCopies], Awaitable[None]],
    reason: str,
) -> None:
    own = dsn_of(settings).replace("central", "pool_2")
    pool_1 = dsn_of(settings).replace("central", "pool_1")
    await spoil(central, own.rpartition("/")[2].partition("?")[0], database_copies)
    with pytest.raises(NotMigrated, match=reason) as refused:
        await migrate_all(settings, dsn_of(settings))
    assert str(refused.value).startswith("No database was changed.\npool_2: ")
    assert str(refused.value).endswith(
        "Correct this and run callsheet db migrate again. To leave out a pool that cannot be corrected now: "
        "callsheet db migrate --without pool_2"
    )
    assert not await has_new_schema(dsn_of(settings))
    assert not await has_new_schema(pool_1)
    migrated = await migrate_all(settings, dsn_of(settings), without=["pool_2"])
    assert list(migrated) == ["central", "pool_1"]
    assert await has_new_schema(dsn_of(settings))
    assert await has_new_schema(pool_1)


async def test_a_role_that_may_not_change_one_schema_changes_none(
    settings: Settings, central: asyncpg.Connection, new_version: None
) -> None:
    role = "may_not_migrate"
    await central.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of-the-role'")
    host = dsn_of(settings).rpartition("@")[2]
    try:
        await central.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        await central.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
        with pytest.raises(NotMigrated, match=r"central: .* may not change its schema .* owner of its tables, callshe"):
            await migrate_all(settings, f"postgresql://{role}:of-the-role@{host}")
        assert not await has_new_schema(dsn_of(settings))
    finally:
        await central.execute(f"DROP OWNED BY {role}")
        await central.execute(f"DROP ROLE {role}")


async def test_a_first_pool_that_may_not_be_created_is_noticed_before_central_is_changed(
    postgres: EmbeddedPostgres, settings: Settings, database_copies: DatabaseCopies, central: asyncpg.Connection
) -> None:
    role, database = "may_not_create", await database_copies.database()
    name = database_copies.made[-1]
    await central.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of-the-role'")
    try:
        await central.execute(f"ALTER DATABASE {name} OWNER TO {role}")
        with pytest.raises(NotMigrated, match=f"may not create the database '{name}_pool_1'"):
            await migrate_all(settings, f"postgresql://{role}:of-the-role@{database.rpartition('@')[2]}")
        connection = await asyncpg.connect(database)
        assert await connection.fetchval("SELECT to_regclass('schema_migrations')") is None
        await connection.close()
    finally:
        await central.execute(f"ALTER DATABASE {name} OWNER TO callsheet")
        await central.execute(f"DROP ROLE {role}")


async def test_a_migration_that_fails_in_one_pool_names_what_was_migrated(
    settings: Settings, central: asyncpg.Connection, new_version: None
) -> None:
    pool_2 = await asyncpg.connect(dsn_of(settings).replace("central", "pool_2"))
    await pool_2.execute("CREATE VIEW more AS SELECT 1")
    with pytest.raises(NotMigrated) as failed:
        await migrate_all(settings, dsn_of(settings))
    assert str(failed.value).startswith(
        "These databases have the schema of this version now: central, pool_1.\npool_2: Migration "
    )
    await pool_2.execute("DROP VIEW more")
    await pool_2.close()
    assert [len(each) for each in (await migrate_all(settings, dsn_of(settings))).values()] == [0, 0, 1]


def test_the_command_prints_each_database_that_cannot_be_migrated(settings: Settings, tmp_path: Path) -> None:
    command = Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=dsn_of(settings))
    assert "has no pool pool_9" in command.refuse("db", "migrate", "--without", "pool_9")
