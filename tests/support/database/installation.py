"""An installation for a test: its databases, and settings that nothing outside the test reaches."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import asyncpg
import pytest
from pydantic import SecretStr

from callsheet.plumbing.database.databases import Databases, add_pool, open_databases, with_database
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.installation.secrets import SEAL, master_secret, seal
from callsheet.settings import Settings, load_settings
from tests.support.database.pgbouncer import Chosen
from tests.support.database.room_statements import statements_of_room
from tests.support.run.ports import free_port

PLUMBING = statements_of_room("plumbing")

Which = Literal["central", "pool"]
FLEET_SECRET = "a-shared-secret-of-the-tests-with-40-signs"
_numbers = itertools.count(1)


def isolate(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Isolates a test from the developer's shell and directory."""
    for name in list(os.environ):
        if name.startswith("CALLSHEET_"):
            monkeypatch.delenv(name)
    # The places of the developer's own installation and logins.
    monkeypatch.setenv("XDG_DATA_HOME", str(directory / "user-data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory / "user-config"))
    monkeypatch.chdir(directory)


@asynccontextmanager
async def installation(postgres: EmbeddedPostgres, templates: Mapping[str, str], home: Path) -> AsyncIterator[Settings]:
    """Copies of the templates: central, pool_1 on central's server, pool_2 by DSN."""
    number = next(_numbers)
    names = {name: f"test_{number}_{name}" for name in templates}
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        for name, template in templates.items():
            # Copied as files, which takes half as long as through the log.
            await admin.execute(f'CREATE DATABASE "{names[name]}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        central = postgres.dsn(names["central"])
        settings = load_settings(
            home=home,
            # Each takes PostgreSQL 5 ms to begin, and a control plane that starts takes all it may have.
            # Of five, one is for lists.
            database={**places(central), "connections": 5},
            # The result of a test must not depend on whether the web application was built.
            server={"port": free_port(), "web_application": False},
            log={"level": "warning"},
            # A worker that the test did not start would be counted, listed and waited for.
            tasks={"in_process": 0},
            # The result of a test must not depend on the disk of this machine.
            disk={"reserve_bytes": 0, "warning_bytes": 0},
            # Most uploads and results of tests are not real media, and each would start a process.
            media={"previews": False},
            # Clients of tests have other IP addresses than this machine.
            fleet={"secret": FLEET_SECRET, "auto_approve": True},
        )
        connection = await asyncpg.connect(central)
        await PLUMBING["register_pool"].run(connection, name="pool_1", database=names["pool_1"], sealed_dsn=None)
        await connection.close()
        await add_pool(settings, central, "pool_2", *places(postgres.dsn(names["pool_2"])).values())
        yield settings
        for name in names.values():
            await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await admin.close()


def places(dsn: str) -> dict[str, str]:
    """The DSNs of a database by their settings: through the pooler, if the tests run behind one."""
    pooler = Chosen.pooler
    if pooler is None:
        return {"dsn": dsn}
    if pooler.mode == "session":
        return {"dsn": pooler.through(dsn)}
    return {"dsn": pooler.through(dsn), "direct_dsn": dsn}


def place_variables(settings: Settings) -> dict[str, str]:
    """The variables of a command that works on the same installation, without their prefix."""
    found = {"DATABASE__DSN": settings.database.dsn, "DATABASE__DIRECT_DSN": settings.database.direct_dsn}
    return {name: value.get_secret_value() for name, value in found.items() if value is not None}


@asynccontextmanager
async def isolated_installation(
    postgres: EmbeddedPostgres, templates: Mapping[str, str], directory: Path
) -> AsyncIterator[Settings]:
    """An installation that several tests share, isolated from the developer's settings."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with installation(postgres, templates, directory / "home") as settings:
            yield settings


@asynccontextmanager
async def opened(postgres: EmbeddedPostgres, templates: Mapping[str, str], directory: Path) -> AsyncIterator[Databases]:
    """The databases of such an installation."""
    async with isolated_installation(postgres, templates, directory) as settings:
        databases = await open_databases(settings)
        try:
            yield databases
        finally:
            await databases.close()


# These rows identify the database, its owner and its migrations, and stay when an installation is emptied.
KEPT = ("database_identity", "installation", "pool_owner", "pools", "schema_migrations")
# The rows are deleted in replica mode, which ignores the order of parents and children. TRUNCATE would take ten times
# as long.
EMPTY = f"""DO $$
DECLARE
    name text;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname NOT IN {KEPT}
    LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$"""


async def empty(databases: Databases) -> None:
    """Deletes all rows about tenants, jobs and money."""
    for database in (databases.central, *databases.pools):
        async with database.connection() as connection:
            while True:
                # A control plane that runs on them may hold what is deleted, and want what was deleted before.
                with suppress(asyncpg.DeadlockDetectedError):
                    await connection.execute(EMPTY)
                    break


def changed(settings: Settings, **sections: Mapping[str, Any]) -> Settings:
    """The settings with some values replaced: `changed(settings, identity={"login_attempts": 3})`."""
    update = {name: getattr(settings, name).model_copy(update=dict(values)) for name, values in sections.items()}
    return settings.model_copy(update=update)


def dsn_of(settings: Settings) -> str:
    assert settings.database.dsn is not None
    return settings.database.dsn.get_secret_value()


async def installed_on(dsn_of_kind: Callable[[str], str], which: Which, settings: Settings) -> Settings:
    """An installation with one pool. The server of one of its databases is another one, for which `dsn_of_kind` gives
    the DSN of `central` and `pool_1`; the other database is on the server of the tests.
    """
    own = dsn_of(settings)
    connection = await asyncpg.connect(own)
    pool_1 = with_database(own, await connection.fetchval("SELECT database FROM pools WHERE name = 'pool_1'"))
    await connection.execute("DELETE FROM pools")
    await connection.close()
    if which == "central":
        settings = changed(settings, database={"dsn": SecretStr(dsn_of_kind("central"))})
    else:
        pool_1 = dsn_of_kind("pool_1")
    central = await asyncpg.connect(dsn_of(settings), target_session_attrs="read-write")
    sealed = seal(master_secret(settings), SEAL, pool_1)
    await PLUMBING["register_pool"].run(central, name="pool_1", database=None, sealed_dsn=sealed)
    await central.close()
    return settings
