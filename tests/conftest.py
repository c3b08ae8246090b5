"""Real parts for every test: one PostgreSQL server per run, fresh databases per test, real HTTP where it matters."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from callsheet.app import ControlPlane, running_control_plane, with_free_port
from callsheet.plumbing.databases import SQL, Databases, add_pool, open_databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.migrate import migrate
from callsheet.settings import Settings, load_settings
from tests.support.people import People

numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _only_settings_of_the_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the developer's shell or directory has set must not reach a test."""
    for name in list(os.environ):
        if name.startswith("CALLSHEET_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedPostgres]:
    server = await EmbeddedPostgres.start(tmp_path_factory.mktemp("postgres"))
    yield server
    await server.close()


@pytest.fixture(scope="session")
async def templates(postgres: EmbeddedPostgres) -> dict[str, str]:
    """Migrated once; every test gets copies, which takes a tenth of the time."""
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    names = {"central": "template_central", "pool_1": "template_pool_1", "pool_2": "template_pool_2"}
    try:
        for name, template in names.items():
            await admin.execute(f'CREATE DATABASE "{template}" TEMPLATE template0')
            await migrate(postgres.dsn(template), "central" if name == "central" else "pool", name)
    finally:
        await admin.close()
    return names


@pytest.fixture
async def settings(postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path: Path) -> AsyncIterator[Settings]:
    """An installation of its own: central, pool_1 on central's server, pool_2 by DSN."""
    number = next(numbers)
    names = {name: f"test_{number}_{name}" for name in templates}
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        for name, template in templates.items():
            await admin.execute(f'CREATE DATABASE "{names[name]}" TEMPLATE "{template}"')
        central = postgres.dsn(names["central"])
        settings = load_settings(
            home=tmp_path / "home", database={"dsn": central}, server={"port": 0}, log={"level": "warning"}
        )
        connection = await asyncpg.connect(central)
        await SQL["register_pool"].run(connection, name="pool_1", database=names["pool_1"], sealed_dsn=None)
        await connection.close()
        await add_pool(settings, central, "pool_2", postgres.dsn(names["pool_2"]))
        yield await with_free_port(settings)
        for name in names.values():
            await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await admin.close()


@pytest.fixture
async def databases(settings: Settings) -> AsyncIterator[Databases]:
    opened = await open_databases(settings)
    yield opened
    await opened.close()


@pytest.fixture
async def plane(settings: Settings) -> AsyncIterator[ControlPlane]:
    """A control plane that answers real HTTP at `plane.settings.public_url`."""
    async with running_control_plane(settings) as plane:
        yield plane


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def people(plane: ControlPlane) -> People:
    return People(plane.accounts, plane.keys)
