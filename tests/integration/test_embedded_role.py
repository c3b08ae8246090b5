"""Callsheet is not a superuser of its embedded server, and clusters of earlier versions are handed over to its role."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from callsheet.plumbing.database.database import create_database
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.migrate import migrate
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import load_settings

# Whatever a role that is not ours has in a database: tables, sequences, functions, types, schemas.
FOREIGN = """
SELECT count(*) FROM (
    SELECT relowner AS owner, relnamespace AS namespace FROM pg_class
    UNION ALL SELECT proowner, pronamespace FROM pg_proc
    UNION ALL SELECT typowner, typnamespace FROM pg_type
) found JOIN pg_namespace n ON n.oid = found.namespace
WHERE n.nspname = 'public' AND pg_get_userbyid(found.owner) <> 'callsheet_app'
"""


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[Databases]:
    databases = await open_databases(load_settings(home=home, database={"dsn": None}))
    try:
        yield databases
    finally:
        await databases.close()


async def assert_ordinary(connection: asyncpg.Connection) -> None:
    assert await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    for statement in (
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY pools TO '/tmp/pools'",
        "ALTER SYSTEM SET fsync = off",
        "CREATE ROLE another SUPERUSER",
        "ALTER ROLE callsheet_app SUPERUSER",
        "SET ROLE callsheet",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)


async def test_a_new_installation_does_not_work_as_superuser(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as databases:
        assert [pool.name for pool in databases.pools] == ["pool_1"]
        for database in (databases.central, *databases.pools):
            assert urlsplit(database.dsn).username == "callsheet_app"
        async with databases.central.connection() as connection:
            await assert_ordinary(connection)


@pytest.mark.thorough
async def test_a_cluster_of_an_earlier_version_is_handed_over(tmp_path: Path) -> None:
    """There the superuser owned everything and its password was the only one."""
    passfile = tmp_path / "home" / "postgres" / "pgpass"
    server = await EmbeddedPostgres.start(tmp_path / "home")
    try:
        await create_database(server.dsn("postgres"), "central", "central")
        await migrate(server.dsn("central"), "central", "central")
        admin = await asyncpg.connect(server.dsn("central"))
        await admin.execute("CREATE TYPE mood AS ENUM ('glad'); CREATE DOMAIN phrase AS text")
        await admin.execute(
            'CREATE SCHEMA "odd one"; CREATE VIEW "odd one".seen AS SELECT 1 AS one; CREATE SEQUENCE loose'
        )
        await admin.execute("DROP ROLE callsheet_app")
        await admin.close()
    finally:
        await server.close()
    passfile.write_text(passfile.read_text().splitlines()[0] + "\n")
    async with opened(tmp_path / "home") as databases:
        assert len(passfile.read_text().splitlines()) == 2
        async with databases.central.connection() as connection:
            await assert_ordinary(connection)
            assert await connection.fetchval(FOREIGN) == 0
            # As later migrations do.
            await connection.execute("ALTER TABLE pools ADD COLUMN later text; DROP TYPE mood; DROP SEQUENCE loose")
            await connection.execute('DROP SCHEMA "odd one" CASCADE; DROP DOMAIN phrase')
    # A password file that was put back from another day's backup.
    lines = passfile.read_text().splitlines()
    passfile.write_text(f"{lines[0]}\n*:*:*:callsheet_app:of-another-day\n")
    async with opened(tmp_path / "home") as databases, databases.central.connection() as connection:
        assert await connection.fetchval("SELECT current_user") == "callsheet_app"
