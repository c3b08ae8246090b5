"""The mode of a pooler is recognised, and a wrong one is refused with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest
from pydantic import SecretStr

from callsheet.operate.installation.examination import examine
from callsheet.plumbing.database.adopt import adopt, plan_adoption
from callsheet.plumbing.database.database import HOT, ORDINARY, connected
from callsheet.plumbing.database.databases import add_pool, open_databases, pool_addresses
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.servers.poolers import find_mode
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from tests.support.database.database_copies import open_database_copies
from tests.support.database.installation import changed
from tests.support.database.pgbouncer import (
    TRACKS_STATEMENTS,
    Mode,
    PgBouncer,
    pgbouncer,
    public_directory,
    version_of,
)


class Poolers:
    def __init__(self, config: pytest.Config, postgres: EmbeddedPostgres, directories: pytest.TempPathFactory):
        self._program = config.getoption("--pgbouncer")
        self._postgres = postgres
        self._directories = directories

    @asynccontextmanager
    async def started(self, mode: Mode, *, tracks_statements: bool = True, **options: str) -> AsyncIterator[PgBouncer]:
        directory = public_directory(self._directories, "another-pooler")
        if not tracks_statements and version_of(self._program) >= TRACKS_STATEMENTS:
            options["max_prepared_statements"] = "0"
        async with pgbouncer(self._postgres, directory, mode, self._program, **options) as pooler:
            yield pooler


@pytest.fixture
def central(settings: Settings, postgres: EmbeddedPostgres) -> str:
    """The DSN of central without any pooler."""
    assert settings.database.dsn is not None
    return postgres.dsn(urlsplit(settings.database.dsn.get_secret_value()).path.removeprefix("/"))


def through(settings: Settings, dsn: str, direct_dsn: str | None = None) -> Settings:
    direct = None if direct_dsn is None else SecretStr(direct_dsn)
    return changed(settings, database={"dsn": SecretStr(dsn), "direct_dsn": direct})


@pytest.fixture
def poolers(
    request: pytest.FixtureRequest, postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Poolers:
    return Poolers(request.config, postgres, tmp_path_factory)


async def test_the_mode_is_found_out(poolers: Poolers, postgres: EmbeddedPostgres) -> None:
    dsn = postgres.dsn("postgres")
    assert await find_mode(dsn) is None
    async with poolers.started("session") as pooler:
        assert await find_mode(pooler.through(dsn)) == "session"
    async with poolers.started("transaction", server_round_robin="1") as pooler:
        if pooler.tracks_statements:
            assert await find_mode(pooler.through(dsn)) == "transaction"


async def test_transaction_mode_without_a_direct_dsn_is_refused(
    poolers: Poolers, settings: Settings, central: str
) -> None:
    async with poolers.started("transaction") as pooler:
        pooled = through(settings, pooler.through(central))
        with pytest.raises(DatabaseError) as refused:
            await open_databases(pooled)
        findings = [each for each in await examine(pooled) if each.part == "database"]
        with pytest.raises(DatabaseError, match=r"max_prepared_statements|CALLSHEET_POOL_DIRECT_DSN"):
            await add_pool(settings, central, "pool_3", pooler.through(central))
    advice = (
        "Name the PostgreSQL server itself in CALLSHEET_DATABASE__DIRECT_DSN, or set pool_mode = session."
        if pooler.tracks_statements
        else "PgBouncer must be 1.21 or newer, with max_prepared_statements = 200. Otherwise set pool_mode = session."
    )
    assert str(refused.value).endswith(advice)
    assert [(each.status, each.message) for each in findings] == [("problem", str(refused.value))]


async def test_a_pooler_that_tracks_no_prepared_statements_is_refused_in_transaction_mode(
    poolers: Poolers, settings: Settings, central: str
) -> None:
    async with poolers.started("transaction", tracks_statements=False) as pooler:
        pooled = through(settings, pooler.through(central), central)
        with pytest.raises(DatabaseError, match=r"PgBouncer must be 1\.21 or newer, with max_prepared_statements"):
            await open_databases(pooled)


async def test_a_pool_is_adopted_through_a_pooler_and_keeps_both_of_its_dsns(
    poolers: Poolers, settings: Settings, central: str, postgres: EmbeddedPostgres
) -> None:
    async with open_database_copies(postgres) as copies, poolers.started("session") as pooler:
        copy = await copies.of(central.replace("central", "pool_2"))
        for dsns in ((pooler.through(copy), copy), ()):
            await adopt(settings, central, await plan_adoption(settings, central, "pool_2", *dsns), is_whole=False)
            [address] = [each for each in await pool_addresses(settings, central) if each.name == "pool_2"]
            assert (address.dsn, address.pooled_dsn) == (copy, pooler.through(copy))


async def test_statement_mode_is_refused(poolers: Poolers, settings: Settings, central: str) -> None:
    async with poolers.started("session", pool_mode="statement") as pooler:
        pooled = through(settings, pooler.through(central), central)
        with pytest.raises(DatabaseError, match=r"refuses transactions\. Set pool_mode = session, or transaction\."):
            await open_databases(pooled)


async def test_in_transaction_mode_each_session_has_the_settings_of_its_role(
    poolers: Poolers, settings: Settings, central: str
) -> None:
    async with poolers.started("transaction") as pooler:
        if not pooler.tracks_statements:
            return
        databases = await open_databases(through(settings, pooler.through(central), central))
        await databases.close()
    # The role has them, so a session that Callsheet did not prepare has them too.
    plain = await asyncpg.connect(central)
    assert {name: await plain.fetchval("SELECT current_setting($1)", name) for name in HOT} == HOT
    await plain.close()
    async with connected(central, "central") as connection:
        assert {name: await connection.fetchval("SELECT current_setting($1)", name) for name in ORDINARY} == ORDINARY
