"""A pool that cannot be used causes a 503 for its own tenants, and has no effect on others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import asyncpg
import httpx
import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.operate.installation.examination import examine
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.installation.secrets import SEAL, master_secret, seal
from callsheet.settings import Settings
from callsheet.wire.identity import CreateTenantRequest
from tests.support.database.installation import installation, isolate
from tests.support.database.room_statements import statements_of_room
from tests.support.http.accounts import People, Person
from tests.support.http.responses import assert_refused
from tests.support.jobs.core import Core, Member, open_core
from tests.support.run.ports import free_port

PLUMBING = statements_of_room("plumbing")


@dataclass(frozen=True)
class PoolOutage:
    """A control plane that was started while pool_2 could not be used; work of both pools waits."""

    settings: Settings
    plane: ControlPlane
    client: httpx.AsyncClient
    ann: Person
    bob: Person
    core: Core
    members: dict[str, Member]
    # Where pool_2 really is.
    address: str

    async def get(self, person: Person, path: str) -> httpx.Response:
        return await self.client.get(path, headers=person.headers)


async def registered(settings: Settings, dsn: str) -> None:
    """Where pool_2 is from now on."""
    assert settings.database.dsn is not None
    central = await asyncpg.connect(settings.database.dsn.get_secret_value())
    try:
        sealed = seal(master_secret(settings), SEAL, dsn)
        await PLUMBING["register_pool"].run(central, name="pool_2", database=None, sealed_dsn=sealed)
    finally:
        await central.close()


@asynccontextmanager
async def open_pool_outage(
    postgres: EmbeddedPostgres, templates: dict[str, str], directory: Path
) -> AsyncIterator[PoolOutage]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with installation(postgres, templates, directory / "home") as settings:
            databases = await open_databases(settings)
            core = await open_core(databases).prepare()
            members = {name: await core.member(name) for name in ("pool_2", "pool_1")}
            for member in members.values():
                await core.submit(member)
            address = (await databases.pool("pool_2")).dsn
            await databases.close()
            await registered(settings, f"postgresql://user:hidden@127.0.0.1:{free_port()}/gone")
            async with (
                running_control_plane(settings) as plane,
                httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=30) as client,
            ):
                people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
                ann = await people.admin()
                bob = await people.user(await _tenant_in_pool_2(plane))
                here = open_core(plane.databases)
                here.workflow = core.workflow
                yield PoolOutage(settings, plane, client, ann, bob, here, members, address)


@pytest.fixture(scope="module")
async def pool_outage(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PoolOutage]:
    """A control plane whose pool_2 is unavailable."""
    async with open_pool_outage(postgres, templates, tmp_path_factory.mktemp("half")) as pool_outage:
        yield pool_outage


@pytest.fixture(scope="module")
async def ended_pool_outage(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PoolOutage]:
    """Another one, whose pool_2 can be used since."""
    async with open_pool_outage(postgres, templates, tmp_path_factory.mktemp("whole")) as ended_pool_outage:
        assert_refused(await ended_pool_outage.get(ended_pool_outage.bob, "/api/wallet"), 503, "unavailable")
        await registered(ended_pool_outage.settings, ended_pool_outage.address)
        await ended_pool_outage.plane.databases.refresh_pools()
        yield ended_pool_outage


async def _tenant_in_pool_2(plane: ControlPlane) -> Any:
    """A tenant of it that is there already: none can be made while it is away."""
    async with plane.databases.central.connection() as connection:
        slug = await connection.fetchval("SELECT slug FROM tenants WHERE db_pool = 'pool_2'")
    return await plane.rooms.identity.accounts.find_tenant(slug)


async def test_tenants_of_the_pool_get_a_503_and_all_others_are_served(pool_outage: PoolOutage) -> None:
    problem = assert_refused(refused := await pool_outage.get(pool_outage.bob, "/api/wallet"), 503, "unavailable")
    assert refused.headers["retry-after"] == "5"
    assert (
        problem["detail"]
        == "The database pool pool_2, which holds the data of this tenant, is currently not available."
    )
    assert "127.0.0.1" not in refused.text
    assert (await pool_outage.get(pool_outage.ann, "/api/wallet")).status_code == 200
    assert (await pool_outage.get(pool_outage.bob, "/api/me")).status_code == 200


async def test_operators_see_which_pool_is_unavailable_and_why(pool_outage: PoolOutage) -> None:
    ready = await pool_outage.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "status": "degraded",
        "databases": {"central": "ok", "pool_1": "ok", "pool_2": "unavailable"},
    }
    alerts = (await pool_outage.get(pool_outage.ann, "/api/admin/alerts")).json()["alerts"]
    [alert] = [alert for alert in alerts if alert["code"] == "pool_unavailable"]
    assert (alert["severity"], alert["subject"]) == ("critical", "pool_2")
    assert "Check that PostgreSQL is running there" in alert["message"]
    found = [finding for finding in await examine(pool_outage.settings) if finding.part == "database"]
    assert [finding.status for finding in found] == ["ok", "problem"]
    assert found[1].message.startswith("Pool pool_2 is not served. Database pool_2 at 127.0.0.1:")
    assert "hidden" not in repr([alert, found])


async def test_jobs_of_the_pool_do_not_block_jobs_of_other_pools(pool_outage: PoolOutage) -> None:
    # The job of pool_2 is the older one.
    started = await pool_outage.core.start()
    assert started.lease.tenant_id == pool_outage.members["pool_1"].tenant_id
    assert await pool_outage.core.lease() is None


async def test_a_new_tenant_does_not_get_an_unavailable_pool(pool_outage: PoolOutage) -> None:
    for _ in range(4):
        created = await pool_outage.plane.rooms.identity.accounts.create_tenant(
            CreateTenantRequest(slug=f"new-{uuid4().hex}", name="New")
        )
        assert created.pool == "pool_1"
    wanted = {"slug": "there", "name": "There", "pool": "pool_2"}
    response = await pool_outage.client.post("/api/admin/tenants", json=wanted, headers=pool_outage.ann.headers)
    assert_refused(response, 503, "unavailable")


@pytest.mark.thorough
async def test_the_pool_is_opened_without_a_restart_when_it_is_available(ended_pool_outage: PoolOutage) -> None:
    assert (await ended_pool_outage.get(ended_pool_outage.bob, "/api/wallet")).status_code == 200
    assert (await ended_pool_outage.client.get("/readyz")).json()["status"] == "ready"
    tenants = {(await ended_pool_outage.core.start()).lease.tenant_id for _ in range(2)}
    assert tenants == {member.tenant_id for member in ended_pool_outage.members.values()}


async def test_a_pool_counts_as_unavailable_after_the_second_failed_renewal(
    ended_pool_outage: PoolOutage, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases = ended_pool_outage.plane.databases
    await ended_pool_outage.plane.loops.stop()
    keeper = databases._keepers["pool_2"]

    async def served(outcome: Exception | None) -> list[str]:
        """The pools after one more renewal."""
        keeper._renewed = float("-inf")
        with monkeypatch.context() as patched:
            if outcome is not None:
                patched.setattr(pool_2, "apart", Mock(side_effect=outcome))
            await databases.refresh_pools()
        return [pool.name for pool in databases.pools]

    pool_2 = await databases.pool("pool_2")
    assert await served(ConnectionResetError("gone")) == ["pool_1", "pool_2"]
    assert await served(ConnectionRefusedError("gone")) == ["pool_1"]
    assert "Check that PostgreSQL is running there" in databases.unavailable["pool_2"]
    assert await served(None) == ["pool_1", "pool_2"]
