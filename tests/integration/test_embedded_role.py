"""Callsheet is not a superuser of its embedded server, and its role keeps a password that the server accepts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.settings import load_settings


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


@pytest.mark.thorough
async def test_a_new_installation_does_not_work_as_superuser(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as databases:
        assert [pool.name for pool in databases.pools] == ["pool_1"]
        for database in (databases.central, *databases.pools):
            assert urlsplit(database.dsn).username == "callsheet_app"
        async with databases.central.connection() as connection:
            await assert_ordinary(connection)


@pytest.mark.thorough
async def test_a_password_file_of_another_days_backup_is_used(tmp_path: Path) -> None:
    passfile = tmp_path / "home" / "postgres" / "pgpass"
    async with opened(tmp_path / "home"):
        pass
    first, role = passfile.read_text().splitlines()
    assert role.startswith("*:*:*:callsheet_app:")
    passfile.write_text(f"{first}\n*:*:*:callsheet_app:of-another-day\n")
    async with opened(tmp_path / "home") as databases, databases.central.connection() as connection:
        assert await connection.fetchval("SELECT current_user") == "callsheet_app"


@pytest.mark.thorough
async def test_a_lost_password_of_the_role_is_set_anew(tmp_path: Path) -> None:
    passfile = tmp_path / "home" / "postgres" / "pgpass"
    async with opened(tmp_path / "home"):
        pass
    passfile.write_text(passfile.read_text().splitlines()[0] + "\n")
    async with opened(tmp_path / "home") as databases:
        assert len(passfile.read_text().splitlines()) == 2
        async with databases.central.connection() as connection:
            await assert_ordinary(connection)
