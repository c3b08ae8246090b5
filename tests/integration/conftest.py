"""Fixtures for the tests of the core and of the commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from tests.support.database.database_copies import DatabaseCopies, open_database_copies
from tests.support.database.dumps import dump_and_restore
from tests.support.database.installation import installation, place_variables
from tests.support.fleets.scaling_harness import ScalingHarness, harness
from tests.support.jobs.core import Core, Member
from tests.support.programs.commands import Callsheet
from tests.support.providers.replicate_server import ReplicateServer, replicate_server


@pytest.fixture
async def ann(core: Core) -> Member:
    return await core.member("pool_1")


@pytest.fixture
async def database_copies(postgres: EmbeddedPostgres) -> AsyncIterator[DatabaseCopies]:
    async with open_database_copies(postgres) as made:
        yield made


@pytest.fixture
async def scaling(core: Core) -> AsyncIterator[ScalingHarness]:
    opened = harness(core)
    yield opened
    await opened.autoscaler.stop()


@pytest.fixture(scope="session")
async def restored_templates(postgres: EmbeddedPostgres, templates: dict[str, str]) -> dict[str, str]:
    """The templates after pg_dump and psql, which creates the indexes in another order than the migrations do.
    Of two equally good indexes PostgreSQL takes the newer one."""
    names = {name: f"restored_{template}" for name, template in templates.items()}
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        for name, template in templates.items():
            await admin.execute(f'CREATE DATABASE "{names[name]}" TEMPLATE template0')
            await dump_and_restore(postgres.dsn(template), postgres.dsn(names[name]))
    finally:
        await admin.close()
    return names


@pytest.fixture(scope="module", params=["migrated", "restored"])
def templates_in_both_orders(
    request: pytest.FixtureRequest, templates: dict[str, str], restored_templates: dict[str, str]
) -> dict[str, str]:
    return restored_templates if request.param == "restored" else templates


@pytest.fixture(scope="module")
async def installed(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Settings]:
    """One installation for all tests of a file: they name their tenants apart."""
    async with installation(postgres, templates, tmp_path_factory.mktemp("cli")) as settings:
        yield settings


@pytest.fixture(scope="module")
async def installed_with_one_pool(installed: Settings) -> Settings:
    """For tests of commands that need no second one: each command connects to every pool, several times."""
    assert installed.database.dsn is not None
    central = await asyncpg.connect(installed.database.dsn.get_secret_value())
    await central.execute("DELETE FROM pools WHERE name = 'pool_2'")
    await central.close()
    return installed


@pytest.fixture
def dsn(installed: Settings) -> str:
    assert installed.database.dsn is not None
    return installed.database.dsn.get_secret_value()


@pytest.fixture
def callsheet(installed: Settings, tmp_path: Path) -> Callsheet:
    return Callsheet(tmp_path, HOME=str(installed.home), **place_variables(installed))


@pytest.fixture(scope="session")
async def _replicate() -> AsyncIterator[ReplicateServer]:
    async with replicate_server() as server:
        yield server


@pytest.fixture
def replicate(_replicate: ReplicateServer) -> ReplicateServer:
    """One for all, as if it were new."""
    _replicate.forget()
    return _replicate
