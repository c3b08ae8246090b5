"""A stopped control plane finishes its running work and exits with code 0."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.http.server import AddressInUse, HttpServer
from callsheet.settings import QuotaSettings, Settings
from tests.support.http.accounts import People, Person
from tests.support.http.responses import assert_refused
from tests.support.waiting import PATIENCE_SECONDS, until


def dsn(settings: Settings) -> str:
    assert settings.database.dsn is not None
    return settings.database.dsn.get_secret_value()


async def serve(settings: Settings) -> asyncio.subprocess.Process:
    environment = os.environ | {
        "CALLSHEET_HOME": str(settings.home),
        "CALLSHEET_DATABASE__DSN": dsn(settings),
        "CALLSHEET_SERVER__PORT": str(settings.server.port),
        "CALLSHEET_LOG__FORMAT": "json",
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from callsheet.cli.main import main; main()", "serve", env=environment, stderr=-1
    )


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    process = await serve(settings)
    client = httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=60)
    try:
        await until(lambda: responds(settings.public_url))
        yield process, client
    finally:
        await client.aclose()
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def responds(url: str) -> bool:
    """On a connection of its own: a stopping server still responds on the connections it has."""
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        try:
            return (await client.get("/readyz")).status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture
async def person(settings: Settings) -> Person:
    databases = await open_databases(settings)
    try:
        return await People(
            Accounts(databases, Passwords()), Keys(databases, Quotas(databases, QuotaSettings()))
        ).user()
    finally:
        await databases.close()


@pytest.mark.parametrize(
    "sent", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)], ids=lambda sent: sent.name
)
async def test_a_running_request_is_finished_after_the_signal(
    settings: Settings, person: Person, sent: signal.Signals
) -> None:
    blocker = await asyncpg.connect(dsn(settings))
    async with serving(settings) as (process, client):
        await blocker.execute("BEGIN; LOCK TABLE api_keys")
        slow = asyncio.create_task(client.get("/api/me", headers=person.headers))
        await until(lambda: blocker.fetchval("SELECT true FROM pg_locks WHERE NOT granted LIMIT 1"))
        process.send_signal(sent)

        async def refuses() -> bool:
            return not await responds(settings.public_url)

        await until(refuses)
        assert (process.returncode, slow.done()) == (None, False)
        await blocker.execute("ROLLBACK")
        assert (await slow).json()["email"] == person.user.email
        _, log = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
        assert process.returncode == 0, log.decode()
        assert log.decode().splitlines()[-1].count("control_plane.stopped") == 1
        # The key that was used last is written on the way out.
        query = "SELECT last_used_at FROM api_keys WHERE user_id = $1"
        assert await blocker.fetchval(query, person.user.id) is not None
    await blocker.close()


@pytest.mark.thorough
async def test_a_request_that_does_not_end_is_aborted_after_the_grace_time(
    settings: Settings, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = await asyncpg.connect(dsn(settings))
    monkeypatch.setenv("CALLSHEET_SERVER__SHUTDOWN_SECONDS", "0.2")
    async with serving(settings) as (process, client):
        await blocker.execute("BEGIN; LOCK TABLE tenants")
        stuck = asyncio.create_task(client.get("/api/me", headers=person.headers))
        await until(lambda: blocker.fetchval("SELECT true FROM pg_locks WHERE NOT granted LIMIT 1"))
        # Either signal ends it with 0.
        process.send_signal(signal.SIGINT)
        _, log = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
        assert process.returncode == 0, log.decode()
        assert_refused(await stuck, 503, "unavailable")
    await blocker.close()


async def test_a_second_server_on_the_same_port_fails_and_takes_no_request_of_the_first(
    plane: ControlPlane, client: httpx.AsyncClient
) -> None:
    """Both would listen: the system lets servers of one user share a port."""
    taken = f"Cannot listen on 127.0.0.1:{plane.settings.server.port}: Address already in use."
    with pytest.raises(AddressInUse, match=re.escape(taken)):
        await HttpServer(plane.http.asgi, plane.settings.server).start()
    assert (await client.get("/healthz")).status_code == 200
