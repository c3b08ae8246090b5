"""Only one central may work on a pool: a restored or copied one is refused until an operator decides which it is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr

from callsheet.plumbing.database.adopt import adopt, plan_adoption
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import Databases, add_pool, open_databases, open_installation
from callsheet.plumbing.database.errors import DatabaseError, PoolUnavailable
from callsheet.plumbing.database.migrate import migrate
from callsheet.plumbing.database.migrate_all import migrate_all
from callsheet.plumbing.database.ownership import Central, LeaseHeld, WrongOwner, claim, read_central, read_owner
from callsheet.plumbing.database.repoint import repoint
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import Settings, load_settings
from tests.support.database.database_copies import DatabaseCopies, open_database_copies
from tests.support.database.installation import changed, dsn_of, isolated_installation
from tests.support.jobs.core import Core, open_core
from tests.support.programs.commands import Callsheet

POOLS = ("pool_1", "pool_2")
ATTACHED = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class CopiedInstallation:
    """A running installation, and the settings of a copy of its central, with the same secret key."""

    settings: Settings
    databases: Databases
    core: Core
    copy: Settings

    @property
    def pool_dsns(self) -> dict[str, str]:
        return {pool.name: pool.dsn for pool in self.databases.pools}


@asynccontextmanager
async def open_copied_installation(
    settings: Settings, database_copies: DatabaseCopies
) -> AsyncIterator[CopiedInstallation]:
    async with opened(settings) as databases:
        workflow = (await open_core(databases).prepare()).workflow
    # Copied while no session is connected to it: that takes a quarter of the time of a dump.
    copy = with_central(settings, await database_copies.duplicate(dsn_of(settings)))
    async with opened(settings) as databases:
        core = open_core(databases)
        core.workflow = workflow
        yield CopiedInstallation(settings, databases, core, copy)


@pytest.fixture
async def copied_installation(settings: Settings, database_copies: DatabaseCopies) -> AsyncIterator[CopiedInstallation]:
    """A running installation, and a copy of its central database."""
    async with open_copied_installation(settings, database_copies) as copied_installation:
        yield copied_installation


@pytest.fixture(scope="module")
async def unchanged_installation(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CopiedInstallation]:
    """For tests that leave it as it is."""
    directory = tmp_path_factory.mktemp("untouched")
    async with (
        open_database_copies(postgres) as database_copies,
        isolated_installation(postgres, templates, directory) as settings,
        open_copied_installation(settings, database_copies) as copied_installation,
    ):
        yield copied_installation


def with_central(settings: Settings, dsn: str) -> Settings:
    return changed(settings, database={"dsn": SecretStr(dsn)})


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Databases]:
    databases = await open_databases(settings)
    try:
        yield databases
    finally:
        await databases.close()


async def adopt_all(settings: Settings) -> list[str]:
    return await adopt(settings, dsn_of(settings), await plan_adoption(settings, dsn_of(settings)))


async def rows_of(core: Core, pool: Any) -> dict[str, Any]:
    """Everything of a pool that a stranger could have changed."""
    tables = ("ai_jobs", "job_events", "outbox", "token_transactions", "token_wallets")
    return {table: await core.rows(pool, f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables}


async def renew_leases(databases: Databases) -> None:
    """As a control plane does every few seconds."""
    for keeper in databases._keepers.values():
        keeper._renewed = float("-inf")
    await databases.refresh_pools()


async def expire_leases(dsns: dict[str, str]) -> None:
    """As if no control plane had renewed them for a day."""
    for name, dsn in dsns.items():
        async with connected(dsn, name) as connection:
            await connection.execute("UPDATE pool_owner SET renewed_at = renewed_at - interval '1 day'")


async def central_of(settings: Settings) -> Central:
    async with connected(dsn_of(settings), "central") as connection:
        return await read_central(connection, dsn_of(settings))


async def test_a_copy_of_central_with_the_same_key_changes_no_production_job_and_leases_none(
    settings: Settings, databases: Databases, database_copies: DatabaseCopies
) -> None:
    core = await open_core(databases).prepare()
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    for member in (ann, bob):
        # Waiting; running; and one that came apart, which a reconciler heals.
        await core.submit(member)
        await core.submit(member)
        await core.start()
        lost = await core.submit(member)
        await core.rows(
            databases.central, "DELETE FROM ai_job_dispatches WHERE tenant_job_id = $1 RETURNING 1", lost.id
        )
    copy = with_central(settings, await database_copies.of(databases.central.dsn))
    before = {member.pool.name: await rows_of(core, member.pool) for member in (ann, bob)}
    async with opened(copy) as stranger:
        assert set(stranger.unavailable) == set(POOLS)
        assert stranger.pools == ()
        there = open_core(stranger)
        there.workflow = core.workflow
        room = there.room
        room.reconciler.settle_seconds = room.reconciler.confirm_seconds = 0
        for _ in range(3):
            for loop in (room.relay, room.reaper, room.reconciler, room.deadlines, room.dispatch.lane_keeper):
                await loop.tick(datetime.now(UTC) + timedelta(days=1))
        assert not any(room.reconciler.healed.values())
        assert await there.lease("worker-of-the-copy") is None
        with pytest.raises(PoolUnavailable):
            await there.submit(ann)
    assert {member.pool.name: await rows_of(core, member.pool) for member in (ann, bob)} == before
    # And production goes on.
    await databases.refresh_pools()
    assert databases.unavailable == {}
    assert await core.lease("worker-1") is not None


async def test_the_refusal_names_both_centrals_and_the_two_commands(unchanged_installation: CopiedInstallation) -> None:
    async with opened(unchanged_installation.copy) as stranger:
        reason = stranger.unavailable["pool_2"]
    here, there = (
        dsn_of(settings).rpartition("@")[2].partition("?")[0]
        for settings in (unchanged_installation.settings, unchanged_installation.copy)
    )
    assert f"belongs to the central at {here}, and this central at {there} is a restored or copied one" in reason
    assert "callsheet db adopt" in reason
    assert "callsheet db repoint pool_2=DSN" in reason


async def test_a_newer_version_at_a_copy_does_not_migrate_productions_pools(
    copied_installation: CopiedInstallation,
) -> None:
    dsn = copied_installation.pool_dsns["pool_1"]
    async with connected(dsn, "pool_1") as connection:
        # As after an upgrade of the copy alone: it knows a migration that production's pool lacks.
        await connection.execute("DELETE FROM schema_migrations WHERE version = 1")
    with pytest.raises(DatabaseError, match=r"No database was changed\.\npool_1: .*restored or copied"):
        await migrate_all(copied_installation.copy, dsn_of(copied_installation.copy))
    async with opened(copied_installation.copy) as stranger:
        assert "restored or copied" in stranger.unavailable["pool_1"]
    async with connected(dsn, "pool_1") as connection:
        assert await connection.fetchval("SELECT count(*) FROM schema_migrations WHERE version = 1") == 0


async def test_central_restored_alone_takes_over_on_command_and_the_old_one_is_refused(
    copied_installation: CopiedInstallation,
) -> None:
    with pytest.raises(DatabaseError, match=r"used pool pool_1 \d seconds? ago. Stop its control planes"):
        await adopt_all(copied_installation.copy)
    await expire_leases(copied_installation.pool_dsns)
    assert await adopt_all(copied_installation.copy) == list(POOLS)
    async with opened(copied_installation.copy) as restored:
        assert restored.unavailable == {}
        core = open_core(restored)
        core.workflow = copied_installation.core.workflow
        ann = await core.member("pool_1")
        await core.submit(ann)
        assert await core.lease() is not None
    # The old one was not stopped: it loses the pools at its next renewal, and whatever it has open there.
    old = await copied_installation.databases.pool("pool_1")
    await renew_leases(copied_installation.databases)
    assert set(copied_installation.databases.unavailable) == set(POOLS)
    with pytest.raises(asyncpg.InterfaceError):
        async with old.connection():
            pass
    # Repeating it changes nothing.
    assert await adopt_all(copied_installation.copy) == list(POOLS)


@pytest.mark.thorough
async def test_a_copy_of_all_databases_is_repointed_and_works_beside_production(
    copied_installation: CopiedInstallation, database_copies: DatabaseCopies
) -> None:
    core = copied_installation.core
    ann = await core.member("pool_1")
    job = await core.submit(ann)
    copied = {name: await database_copies.of(dsn) for name, dsn in copied_installation.pool_dsns.items()}
    copy = with_central(
        copied_installation.settings, await database_copies.of(copied_installation.databases.central.dsn)
    )
    # A copy may have a secret key of its own.
    copy = copy.model_copy(update={"secret_key": SecretStr("the key of staging, with 32 characters")})
    before = await rows_of(core, ann.pool)
    new_id = await repoint(copy, dsn_of(copy), copied)
    assert (
        new_id
        == (await central_of(copy)).installation_id
        != (await central_of(copied_installation.settings)).installation_id
    )
    async with opened(copy) as staging:
        assert staging.unavailable == {}
        there = open_core(staging)
        there.workflow = core.workflow
        started = await there.start()
        assert started.lease.job_id == job.id
    assert await rows_of(core, ann.pool) == before
    assert (await core.start()).lease.job_id == job.id
    # Now each refuses the other's.
    with pytest.raises(WrongOwner, match=r"belongs to installation .*callsheet db repoint pool_1=DSN"):
        await add_pool(copy, dsn_of(copy), "pool_1", copied_installation.pool_dsns["pool_1"])
    with pytest.raises(WrongOwner, match="belongs to installation"):
        await add_pool(
            copied_installation.settings, copied_installation.databases.central.dsn, "pool_1", copied["pool_1"]
        )


@pytest.mark.thorough
async def test_repoint_does_not_mistake_an_original_for_a_copy(
    unchanged_installation: CopiedInstallation, database_copies: DatabaseCopies
) -> None:
    central = dsn_of(unchanged_installation.copy)
    await renew_leases(unchanged_installation.databases)
    with pytest.raises(DatabaseError, match="Pool pool_1 is still the original at"):
        await repoint(unchanged_installation.copy, central, {})
    copied = await database_copies.of(unchanged_installation.pool_dsns["pool_1"])
    given = {"pool_1": copied, "pool_2": unchanged_installation.pool_dsns["pool_2"]}
    with pytest.raises(DatabaseError, match="is the original of pool pool_2, not a copy restored from a dump"):
        await repoint(unchanged_installation.copy, central, given)
    with pytest.raises(DatabaseError, match=r"used pool pool_2 \d+ seconds? ago. Stop its control planes"):
        await repoint(unchanged_installation.copy, central, given, physical_copy=True)
    with pytest.raises(DatabaseError, match=r"has no pool pool_9. It has: pool_1, pool_2"):
        await repoint(unchanged_installation.copy, central, {"pool_9": copied})
    with pytest.raises(DatabaseError, match="The database for pool pool_2 is empty"):
        await repoint(
            unchanged_installation.copy, central, {"pool_1": copied, "pool_2": await database_copies.database()}
        )
    with pytest.raises(DatabaseError, match=r"is pool 'pool_1' already\. It cannot be pool 'pool_2' too"):
        await repoint(unchanged_installation.copy, central, {"pool_1": copied, "pool_2": copied})
    # None of it has changed an owner.
    await renew_leases(unchanged_installation.databases)
    assert unchanged_installation.databases.unavailable == {}


@pytest.mark.thorough
async def test_g12_a_crash_between_two_pools_is_repaired_by_repointing_again(
    copied_installation: CopiedInstallation, database_copies: DatabaseCopies
) -> None:
    copied = {name: await database_copies.of(dsn) for name, dsn in copied_installation.pool_dsns.items()}
    central = dsn_of(copied_installation.copy)
    with armed({Failpoint.REPOINT_BETWEEN_DATABASES: crash}), pytest.raises(Crashed):
        await repoint(copied_installation.copy, central, copied)
    async with opened(copied_installation.copy) as half:
        # Central still has the id and the DSNs of production.
        assert set(half.unavailable) == set(POOLS)
    await repoint(copied_installation.copy, central, copied)
    async with opened(copied_installation.copy) as staging:
        assert staging.unavailable == {}


async def test_one_of_two_centrals_gets_a_pool_without_an_owner(
    unchanged_installation: CopiedInstallation, database_copies: DatabaseCopies
) -> None:
    dsn = await database_copies.database()
    await migrate(dsn, "pool", "pool_3")
    first, second = await central_of(unchanged_installation.settings), await central_of(unchanged_installation.copy)
    async with connected(dsn, "pool_3") as one, connected(dsn, "pool_3") as other:
        claims = await asyncio.gather(
            claim(one, "pool_3", first, ATTACHED), claim(other, "pool_3", second, ATTACHED), return_exceptions=True
        )
        assert sorted(type(outcome) for outcome in claims if outcome is not None) == [WrongOwner]
        owner = await read_owner(one)
    winner = first if claims[0] is None else second
    assert owner is not None
    assert owner.central_database == winner.database


async def test_a_physical_copy_does_not_get_the_lease_of_its_original(
    unchanged_installation: CopiedInstallation, database_copies: DatabaseCopies
) -> None:
    """Both have the same id, server and database; only the start times of their servers differ."""
    dsn = await database_copies.database()
    await migrate(dsn, "pool", "pool_3")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    original = replace(await central_of(unchanged_installation.settings), started_at=start)
    copy = replace(original, started_at=start + timedelta(days=1))
    async with connected(dsn, "pool_3") as connection:
        await claim(connection, "pool_3", original, ATTACHED)
        with pytest.raises(LeaseHeld, match=r"used pool pool_3 0 seconds ago.*served within 30 seconds"):
            await claim(connection, "pool_3", copy, ATTACHED)
        # A control plane that runs through a restart of central knows the time before.
        await claim(connection, "pool_3", copy, ATTACHED, known_started_at=original.started_at)
        with pytest.raises(LeaseHeld):
            await claim(connection, "pool_3", original, ATTACHED)
        await expire_leases({"pool_3": dsn})
        # An installation that knows that it may be a copy does not claim a pool without a holder.
        with pytest.raises(WrongOwner, match="may be a copy"):
            await claim(connection, "pool_3", replace(original, is_possible_copy=True), ATTACHED)
        await claim(connection, "pool_3", original, ATTACHED)
        with pytest.raises(WrongOwner, match="belongs to installation"):
            await claim(connection, "pool_3", replace(original, installation_id=uuid4()), ATTACHED)


@pytest.mark.thorough
async def test_a_command_does_not_touch_the_lease(copied_installation: CopiedInstallation) -> None:
    async def owner() -> Any:
        async with connected(copied_installation.pool_dsns["pool_1"], "pool_1") as connection:
            return await connection.fetchrow("SELECT * FROM pool_owner")

    await expire_leases(copied_installation.pool_dsns)
    before = await owner()
    databases = await open_installation(copied_installation.settings)
    assert databases.unavailable == {}
    await databases.close()
    assert await owner() == before
    copy = await open_installation(copied_installation.copy)
    assert set(copy.unavailable) == set(POOLS)
    await copy.close()


@pytest.mark.thorough
async def test_central_and_pool_on_one_server_need_no_lease(copied_installation: CopiedInstallation) -> None:
    """A server that was killed with all that used it is used again at once."""
    dsn = copied_installation.pool_dsns["pool_1"]
    async with connected(dsn, "pool_1") as connection:
        await connection.execute("UPDATE pool_owner SET central_started_at = '2020-01-01', renewed_at = now()")
        attached_at = await connection.fetchval("SELECT attached_at FROM pool_owner")
        await claim(connection, "pool_1", await central_of(copied_installation.settings), attached_at)


@pytest.mark.thorough
async def test_status_shows_the_location_of_each_database_and_every_mismatch(
    unchanged_installation: CopiedInstallation, tmp_path: Path
) -> None:
    def status(settings: Settings) -> Any:
        command = Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=dsn_of(settings))
        shown = command.succeed("db", "status").out
        assert all(part not in shown for part in (dsn_of(settings).split(":")[2].split("@")[0],))
        return {row["name"]: row for row in command.succeed("db", "status", "--json").json["databases"]}

    here, copy = status(unchanged_installation.settings), status(unchanged_installation.copy)
    installation = str((await central_of(unchanged_installation.settings)).installation_id)
    for name, dsn in {
        "central": unchanged_installation.databases.central.dsn,
        **unchanged_installation.pool_dsns,
    }.items():
        address = dsn.rpartition("@")[2].partition("?")[0]
        assert f"{here[name]['host']}/{here[name]['database']}" == address
        assert here[name]["installation"] == installation
        assert here[name]["problem"] is None
    assert [here[name]["matches"] for name in POOLS] == [True, True]
    assert [copy[name]["matches"] for name in POOLS] == [False, False]
    assert copy["pool_1"]["installation"] == installation
    assert "callsheet db adopt" in copy["pool_1"]["problem"]


@pytest.mark.thorough
async def test_a_physical_copy_of_central_is_refused_while_production_runs_and_stays_refused(
    postgres: EmbeddedPostgres, database_copies: DatabaseCopies, tmp_path: Path
) -> None:
    """Central has a server of its own here, whose data directory is copied; the pool is on another server."""
    home, copied_home = tmp_path / "production", tmp_path / "copy"
    settings = load_settings(home=home, log={"level": "warning"}, tasks={"in_process": 0})
    pool_dsn = await database_copies.database()
    async with opened(settings) as databases:
        assert databases.embedded is not None
        await add_pool(settings, databases.central.dsn, "pool_2", pool_dsn)
    # Copies owners and modes too: PostgreSQL refuses a data directory of another user.
    await asyncio.to_thread(subprocess.run, ["cp", "-a", home, copied_home], check=True)
    copy = settings.model_copy(update={"home": copied_home})
    async with opened(settings) as databases, opened(copy) as stranger:
        # The copy has its own pool_1, which was copied with it.
        assert set(databases.unavailable) == set()
        assert set(stranger.unavailable) == {"pool_2"}
        assert "Another server with the data of this central" in stranger.unavailable["pool_2"]
        for _ in range(3):
            await renew_leases(databases)
            await stranger.refresh_pools()
        assert databases.unavailable == {}
    await expire_leases({"pool_2": pool_dsn})
    async with opened(copy) as stranger:
        assert "may be a copy" in stranger.unavailable["pool_2"]
    async with opened(settings) as databases:
        assert databases.unavailable == {}
