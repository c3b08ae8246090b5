"""Databases that were restored: none becomes a pool before an operator has seen what it has, and a retired one never
does by mistake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from pydantic import SecretStr

from callsheet.operate.installation.examination import examine
from callsheet.operate.installation.pool_contents import read_contents
from callsheet.plumbing.database.adopt import adopt, plan_adoption
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import Databases, add_pool, open_databases
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.migrate_all import NotMigrated, migrate_all
from callsheet.plumbing.database.ownership import NotAttached
from callsheet.plumbing.database.repoint import repoint
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import Settings
from tests.support.database.database_copies import DatabaseCopies
from tests.support.database.dumps import dump_and_restore
from tests.support.database.installation import PLUMBING, changed, dsn_of
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.job_states import CONSUMED, RESERVED
from tests.support.programs.commands import Callsheet


@dataclass(frozen=True)
class Production:
    """An installation of which pool_2 was dumped, restored into another database and attached. Jobs followed."""

    settings: Settings
    # Central from before the new database was attached.
    restored: Settings
    # The dump of the pool, restored but not attached.
    spare: str
    former: str
    successor: str
    core: Core
    ann: Member

    def command(self, settings: Settings, directory: Path, **variables: str) -> Callsheet:
        return Callsheet(directory, HOME=str(settings.home), DATABASE__DSN=dsn_of(settings), **variables)


@asynccontextmanager
async def moved_production(settings: Settings, copies: DatabaseCopies) -> AsyncIterator[Production]:
    async with opened(settings) as databases:
        core = await open_core(databases).prepare()
        ann = await core.member("pool_2")
        for _ in range(3):
            await core.submit(ann)
        former = ann.pool.dsn
        restored = with_central(settings, await copies.of(dsn_of(settings)))
        spare, successor = await copies.of(former), await copies.of(former)
        await attach(settings, "pool_2", successor)
        await databases.refresh_pools()
        await core.relay()
        for _ in range(2):
            await core.submit(ann)
        await core.complete(await core.start())
        yield Production(settings, restored, spare, former, successor, core, ann)


@pytest.fixture
async def production(settings: Settings, database_copies: DatabaseCopies) -> AsyncIterator[Production]:
    async with moved_production(settings, database_copies) as production:
        yield production
        if production.core.databases.central.is_open:
            await production.core.check()


def with_central(settings: Settings, dsn: str) -> Settings:
    return changed(settings, database={"dsn": SecretStr(dsn)})


def place(dsn: str) -> str:
    parts = urlsplit(dsn)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Databases]:
    databases = await open_databases(settings)
    try:
        yield databases
    finally:
        await databases.close()


async def attach(settings: Settings, pool: str | None = None, dsn: str | None = None, retired: bool = False) -> None:
    plan = await plan_adoption(settings, dsn_of(settings), pool, dsn, may_be_retired=retired)
    await adopt(settings, dsn_of(settings), plan, is_whole=pool is None)


async def run(dsn: str, statement: str) -> list[asyncpg.Record]:
    async with connected(dsn, "a database") as connection:
        return await connection.fetch(statement)


async def stop(*dsns: str) -> None:
    """As if the control planes had been stopped a day ago."""
    for dsn in dsns:
        await run(dsn, "UPDATE pool_owner SET renewed_at = renewed_at - interval '1 day'")


async def renew(databases: Databases) -> None:
    """As a control plane does every few seconds."""
    for keeper in databases._keepers.values():
        keeper._renewed = float("-inf")
    await databases.refresh_pools()


async def jobs_in(databases: Databases) -> int:
    async with (await databases.pool("pool_2")).connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM ai_jobs"))


@pytest.mark.thorough
async def test_restored_central_that_names_a_retired_database_gets_the_name_of_its_successor(
    production: Production,
) -> None:
    """The restored central is from before the pool was moved. Of five jobs, the retired database has three."""
    await production.core.databases.close()
    await stop(production.former, production.successor, dsn_of(production.settings).replace("central", "pool_1"))
    with pytest.raises(NotAttached, match=r"was retired at .* UTC, when .* took its place") as refused:
        await attach(production.restored)
    assert f"when {place(production.successor)} took its place. Attach that one: callsheet db adopt pool_2 DSN" in str(
        refused.value
    )
    await attach(production.restored, "pool_2", production.successor)
    await attach(production.restored)
    async with opened(production.restored) as databases:
        assert databases.unavailable == {}
        assert await jobs_in(databases) == 5


@pytest.mark.thorough
async def test_a_retired_database_is_refused_everywhere_with_its_successor_and_the_time(
    production: Production, database_copies: DatabaseCopies, tmp_path: Path
) -> None:
    settings, sentence = production.settings, f"was retired at .* UTC, when {place(production.successor)} took"
    with pytest.raises(DatabaseError, match=sentence):
        await add_pool(settings, dsn_of(settings), "pool_2", production.former)
    with pytest.raises(DatabaseError, match=sentence):
        await attach(settings, "pool_2", production.former)
    pool_1 = await database_copies.of(dsn_of(settings).replace("central", "pool_1"))
    copy = with_central(settings, await database_copies.of(dsn_of(settings)))
    with pytest.raises(DatabaseError, match=sentence):
        await repoint(copy, dsn_of(copy), {"pool_1": pool_1, "pool_2": await database_copies.of(production.former)})
    # Another user wrote its name into central.
    name = urlsplit(production.former).path.removeprefix("/")
    central = await asyncpg.connect(dsn_of(settings))
    await PLUMBING["register_pool"].run(central, name="pool_2", database=name, sealed_dsn=None)
    await central.close()
    await production.core.databases.refresh_pools()
    assert "was retired at" in production.core.databases.unavailable["pool_2"]
    with pytest.raises(NotMigrated, match=sentence):
        await migrate_all(settings, dsn_of(settings))
    assert any("was retired at" in each.message for each in await examine(settings))
    status = production.command(settings, tmp_path).succeed("db", "status", "--json").json
    assert "was retired at" in {row["name"]: row for row in status["databases"]}["pool_2"]["problem"]
    await attach(settings, "pool_2", production.successor)
    await production.core.databases.refresh_pools()


@pytest.mark.thorough
async def test_an_operator_can_return_to_a_retired_database_in_so_many_words(production: Production) -> None:
    settings, databases = production.settings, production.core.databases
    await attach(settings, "pool_2", production.former, retired=True)
    await databases.refresh_pools()
    assert databases.unavailable == {}
    assert await jobs_in(databases) == 3
    with pytest.raises(NotAttached, match=f"when {place(production.former)} took its place"):
        await attach(settings, "pool_2", production.successor)
    await attach(settings, "pool_2", production.successor, retired=True)
    await databases.refresh_pools()


@pytest.mark.thorough
async def test_a_copy_from_before_the_mark_is_recognized_by_the_time_at_which_it_became_the_pool(
    production: Production,
) -> None:
    """As a disk snapshot that was put back: it is at the same place, and knows nothing of its successor."""
    settings, databases = production.settings, production.core.databases
    await run(production.former, "UPDATE pool_owner SET retired_at = NULL, successor = NULL")
    name = urlsplit(production.former).path.removeprefix("/")
    central = await asyncpg.connect(dsn_of(settings))
    await PLUMBING["register_pool"].run(central, name="pool_2", database=name, sealed_dsn=None)
    await central.close()
    await databases.refresh_pools()
    assert "This is an earlier database of pool pool_2: it became the pool at" in databases.unavailable["pool_2"]
    [one] = await plan_adoption(settings, dsn_of(settings), "pool_2")
    contents = await read_contents(dsn_of(settings), "pool_2", one.target.dsn)
    assert (contents.found.jobs, contents.newer_in_central.jobs, contents.newer_in_pool) == (3, 2, 0)
    await attach(settings, "pool_2", production.successor)
    await databases.refresh_pools()
    assert databases.unavailable == {}


@pytest.mark.thorough
async def test_a_central_that_is_older_than_its_pool_is_noticed(production: Production) -> None:
    """As a disk snapshot of central that was put back."""
    settings, databases = production.settings, production.core.databases
    await run(dsn_of(settings), "UPDATE pools SET attached_at = attached_at - interval '1 hour' WHERE name = 'pool_2'")
    await renew(databases)
    assert "This central is older than pool pool_2" in databases.unavailable["pool_2"]
    await attach(settings)
    await databases.refresh_pools()
    assert databases.unavailable == {}


@pytest.mark.thorough
async def test_a_pool_that_was_restored_under_its_old_name_waits_for_the_operator(
    settings: Settings, database_copies: DatabaseCopies, tmp_path: Path
) -> None:
    """The control plane runs meanwhile: it neither fills the empty database nor serves the restored one."""
    async with opened(settings) as databases:
        core = await open_core(databases).prepare()
        ann = await core.member("pool_2")
        before = await core.submit(ann)
        started = await core.start()
        spare = await database_copies.of(ann.pool.dsn)
        after = await core.submit(ann)
        name = urlsplit(ann.pool.dsn).path.removeprefix("/")
        await run(dsn_of(settings), f'DROP DATABASE "{name}" WITH (FORCE)')
        await run(dsn_of(settings), f'CREATE DATABASE "{name}"')
        # The first renewals find connections that the server has closed.
        for _ in range(3):
            await renew(databases)
        assert "The database of pool pool_2 is empty" in databases.unavailable["pool_2"]
        assert await run(ann.pool.dsn, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []
        await dump_and_restore(spare, ann.pool.dsn)
        await renew(databases)
        assert "is a restored copy, with the state of" in databases.unavailable["pool_2"]
        command = Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=dsn_of(settings))
        refused = command.run("db", "adopt", "pool_2")
        assert refused.code == 1
        assert refused.err.strip() == "callsheet: Nothing was attached. Add --yes to attach 1 database."
        assert f"pool_2: {place(ann.pool.dsn)}\n  why: The database of pool pool_2 is a restored copy" in refused.out
        assert f"  has: 1 job, the newest {before.id} of " in refused.out
        assert "  lacks: 1 job that central knows, the newest of " in refused.out
        assert command.succeed("db", "adopt", "pool_2", "--yes").out.endswith("This central owns pool_2 now.\n")
        # Nothing is shown and asked again.
        assert command.succeed("db", "adopt").out == "This central owns pool_1, pool_2 now.\n"
        await databases.refresh_pools()
        assert databases.unavailable == {}
        await core.complete(started)
        assert (await core.status(ann, before.id), await core.rows(ann.pool, "SELECT 1 FROM ai_jobs")) == (
            "completed",
            [{"?column?": 1}],
        )
        assert await core.ledger(ann, after.id) == []
        await core.drain()


@pytest.mark.thorough
async def test_at_a_terminal_the_command_asks_and_attaches(production: Production, tmp_path: Path) -> None:
    command = production.command(production.settings, tmp_path, POOL_DSN=production.spare)
    shown = command.at_terminal("db", "adopt", "pool_2", typed="n\n", columns=200)
    assert shown.code == 1
    assert f"It replaces the database at {place(production.successor)}." in shown.out
    assert "has: 3 jobs" in shown.out
    assert "lacks: 2 jobs that central knows" in shown.out
    assert "Attach 1 database?" in shown.out
    assert await run(production.successor, "SELECT 1 FROM pool_owner WHERE retired_at IS NOT NULL") == []
    assert command.at_terminal("db", "adopt", "pool_2", typed="y\n", columns=200).code == 0
    await production.core.databases.refresh_pools()
    assert await jobs_in(production.core.databases) == 3
    assert await run(production.successor, "SELECT 1 FROM pool_owner WHERE retired_at IS NOT NULL") != []
    await attach(production.settings, "pool_2", production.successor, retired=True)
    await production.core.databases.refresh_pools()


@pytest.mark.thorough
async def test_a_restored_central_takes_no_database_while_the_old_one_uses_the_pool(production: Production) -> None:
    with pytest.raises(DatabaseError, match=r"used pool pool_2 \d+ seconds? ago. Stop its control planes, wait 30"):
        await attach(production.restored, "pool_2", production.successor)
    with pytest.raises(DatabaseError, match=r"callsheet db adopt pool_1 DSN|used pool pool_1|was retired"):
        await attach(production.restored)
    await production.core.databases.refresh_pools()
    assert production.core.databases.unavailable == {}


@pytest.mark.parametrize("point", [Failpoint.ADOPT_BEFORE_RETIRE, Failpoint.ADOPT_BEFORE_REGISTER])
async def test_g12_a_crash_while_a_database_is_attached_is_repaired_by_attaching_it_again(
    production: Production, point: Failpoint
) -> None:
    settings, databases = production.settings, production.core.databases
    with armed({point: crash}), pytest.raises(Crashed):
        await attach(settings, "pool_2", production.spare)
    await attach(settings, "pool_2", production.spare)
    await databases.refresh_pools()
    assert databases.unavailable == {}
    assert await jobs_in(databases) == 3
    with pytest.raises(NotAttached, match=f"when {place(production.spare)} took its place"):
        await attach(settings, "pool_2", production.successor)
    await attach(settings, "pool_2", production.successor, retired=True)
    await databases.refresh_pools()


async def test_every_failpoint_of_adopting_is_tested() -> None:
    assert {point for point in Failpoint if point.startswith("adopt.")} == {
        Failpoint.ADOPT_BEFORE_RETIRE,
        Failpoint.ADOPT_BEFORE_REGISTER,
    }


@pytest.mark.thorough
async def test_a_pool_that_central_has_forgotten_is_attached_again(
    production: Production, database_copies: DatabaseCopies
) -> None:
    """Central was restored from before `db add-pool`."""
    settings, dsn = production.settings, await database_copies.database()
    await add_pool(settings, dsn_of(settings), "pool_3", dsn)
    await run(dsn_of(settings), "DELETE FROM pools WHERE name = 'pool_3'")
    with pytest.raises(DatabaseError, match=r"This central has no pool pool_3\. It has: pool_1, pool_2"):
        await attach(settings, "pool_3")
    await attach(settings, "pool_3", dsn)
    await production.core.databases.refresh_pools()
    assert (await production.core.databases.pool("pool_3")).dsn == dsn


@pytest.mark.thorough
async def test_doctor_names_tenants_that_were_moved_to_another_pool(production: Production) -> None:
    tenant = production.ann.tenant_id
    [row] = await run(dsn_of(production.settings), f"SELECT slug FROM tenants WHERE id = '{tenant}'")

    async def found() -> list[str]:
        return [each.message for each in await examine(production.settings) if "central routes" in each.message]

    assert await found() == []
    await run(dsn_of(production.settings), f"UPDATE tenants SET db_pool = 'pool_1' WHERE id = '{tenant}'")
    assert await found() == [
        f"Pool pool_2 has data of tenants that central routes to another pool: {row['slug']} (now in pool_1). Nothing "
        "of it is served. If the move was right, this data is an old copy; otherwise central was restored from before "
        "the move."
    ]
    await run(dsn_of(production.settings), f"UPDATE tenants SET db_pool = 'pool_2' WHERE id = '{tenant}'")


async def test_central_and_a_pool_are_restored_with_jobs_in_flight(
    settings: Settings, database_copies: DatabaseCopies, tmp_path: Path
) -> None:
    """Everything goes back to the dumps: no job that they have is lost, run twice for one charge or charged twice."""
    async with opened(settings) as databases:
        core = await open_core(databases).prepare()
        ann = await core.member("pool_2")
        running, finished = [await core.submit(ann) for _ in range(2)]
        leases = {started.lease.job_id: started for started in [await core.start() for _ in range(2)]}
        await core.complete(leases[finished.id])
        waiting = await core.submit(ann)
        restored = with_central(settings, await database_copies.of(dsn_of(settings)))
        # Accepted between the two dumps.
        between = await core.submit(ann)
        pools = {pool.name: await database_copies.of(pool.dsn) for pool in databases.pools}
        # And on it goes: all of this is lost.
        await core.complete(leases[running.id])
        lost = await core.submit(ann)
        workflow, originals = core.workflow, [pool.dsn for pool in databases.pools]
    await stop(*originals)
    for name, dsn in pools.items():
        command = Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=dsn_of(restored), POOL_DSN=dsn)
        assert (
            f"{name}: {place(dsn)}\n  why: It replaces the database at "
            in command.succeed("db", "adopt", name, "--yes").out
        )
    command = Callsheet(tmp_path, HOME=str(settings.home), DATABASE__DSN=dsn_of(restored))
    assert "This central owns pool_1, pool_2 now." in command.succeed("db", "adopt", "--yes").out
    async with opened(settings) as old:
        assert all("was retired at" in reason for reason in old.unavailable.values())
        assert set(old.unavailable) == set(pools)
    async with opened(restored) as databases:
        assert databases.unavailable == {}
        core = open_core(databases)
        core.workflow = workflow
        ann = replace(ann, pool=await databases.pool("pool_2"))
        # Its worker did not notice anything, and reports again.
        await core.complete(leases[running.id])
        reconciler = core.room.reconciler
        reconciler.settle_seconds = reconciler.confirm_seconds = 0
        for _ in range(4):
            await reconciler.tick(datetime.now(UTC))
        await core.drain()
        for job in (waiting, running, finished, between):
            assert await core.status(ann, job.id) == "completed"
            assert await core.ledger(ann, job.id) == [RESERVED, CONSUMED]
        assert await core.ledger(ann, lost.id) == []
        assert await core.balance(ann) == 1000 - 4 * 10
        await core.check_drained()
    assert "problem" not in {each.status for each in await examine(restored) if each.part == "database"}
    command.succeed("wallet", "audit")
