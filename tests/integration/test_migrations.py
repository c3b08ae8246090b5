"""Two kinds of database, any number of pools: migrated once, forward only, and never those of another installation."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit
from uuid import UUID

import asyncpg
import pytest

from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.operate.installation.examination import examine
from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import Databases, add_pool, open_databases
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.migrate import Migration, SchemaUnknown, known_migrations, migrate
from callsheet.plumbing.database.migrate_all import migrate_all
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import Settings, load_settings
from callsheet.wire.identity import CreateTenantRequest
from tests.support.jobs.core import open_core

numbers = itertools.count(1)
CENTRAL_LABELS = [migration.label for migration in known_migrations("central")]
POOL_LABELS = [migration.label for migration in known_migrations("pool")]


class Server:
    """Makes databases and roles on the tests' server, and removes them."""

    def __init__(self, postgres: EmbeddedPostgres):
        self._postgres = postgres
        self._made: list[str] = []

    async def run(self, statement: str, database: str = "postgres") -> list[asyncpg.Record]:
        async with connected(self.dsn(database), database) as connection:
            return await connection.fetch(statement)

    async def run_as(self, role: str, database: str, statement: str) -> None:
        async with connected(self.dsn(database, role), database) as connection:
            await connection.execute(statement)

    async def create_database(self, name: str | None = None, owner: str = "callsheet") -> str:
        name = name or f"made_{next(numbers)}"
        quoted = name.replace('"', '""')
        await self.run(f'CREATE DATABASE "{quoted}" OWNER {owner}')
        self._made.append(f'DATABASE IF EXISTS "{quoted}" WITH (FORCE)')
        self._made.append(f'DATABASE IF EXISTS "{quoted}_pool_1" WITH (FORCE)')
        return name

    async def create_role(self, rights: str = "") -> str:
        name = f"role_{next(numbers)}"
        await self.run(f"CREATE ROLE {name} LOGIN PASSWORD '{name}-password' {rights}")
        self._made.insert(0, f"ROLE {name}")
        return name

    def dsn(self, database: str | None, role: str | None = None) -> str:
        parts = urlsplit(self._postgres.dsn("postgres"))
        netloc = parts.netloc if role is None else f"{role}:{role}-password@{parts.netloc.rpartition('@')[2]}"
        path = "" if database is None else f"/{quote(database, safe='')}"
        return f"postgresql://{netloc}{path}?sslmode=disable"

    async def tables(self, database: str) -> set[str]:
        rows = await self.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", database)
        return {row["tablename"] for row in rows}

    async def close(self) -> None:
        for made in reversed(self._made):
            await self.run(f"DROP {made}")


@pytest.fixture
async def server(postgres: EmbeddedPostgres) -> AsyncIterator[Server]:
    made = Server(postgres)
    yield made
    await made.close()


@pytest.fixture
async def empty(server: Server) -> str:
    return await server.create_database()


def settings_for(dsn: str, home: Path, **database: object) -> Settings:
    return load_settings(home=home, database={"dsn": dsn, **database}, log={"level": "warning"})


async def opened_once(settings: Settings) -> dict[str, str]:
    """Opens and closes an installation. Returns the name of each database in it."""
    databases = await open_databases(settings)
    try:
        names = {}
        for database in (databases.central, *databases.pools):
            async with database.connection() as connection:
                names[database.name] = await connection.fetchval("SELECT current_database()")
        return names
    finally:
        await databases.close()


async def unavailable(settings: Settings) -> dict[str, str]:
    """Opens and closes an installation. Returns the pools that are unavailable, each with the reason."""
    databases = await open_databases(settings)
    try:
        return dict(databases.unavailable)
    finally:
        await databases.close()


async def test_a_first_start_migrates_central_and_makes_the_first_pool_beside_it(
    server: Server, tmp_path: Path
) -> None:
    central = await server.create_database()
    settings = settings_for(server.dsn(central), tmp_path)
    applied = await migrate_all(settings, server.dsn(central))
    assert {name: [step.label for step in steps] for name, steps in applied.items()} == {
        "central": CENTRAL_LABELS,
        "pool_1": POOL_LABELS,
    }
    assert await opened_once(settings) == {"central": central, "pool_1": f"{central}_pool_1"}
    assert "tenants" in await server.tables(central)
    assert "pool_tenants" in await server.tables(f"{central}_pool_1")
    assert await migrate_all(settings, server.dsn(central)) == {"central": [], "pool_1": []}


@pytest.mark.thorough
async def test_database_names_may_be_odd_or_left_out_of_the_dsn(server: Server, tmp_path: Path) -> None:
    odd = await server.create_database('odd "name"/ü?')
    assert await opened_once(settings_for(server.dsn(odd), tmp_path)) == {"central": odd, "pool_1": f"{odd}_pool_1"}
    role = await server.create_role("CREATEDB")
    await server.create_database(role, owner=role)
    assert await opened_once(settings_for(server.dsn(None, role), tmp_path)) == {
        "central": role,
        "pool_1": f"{role}_pool_1",
    }


async def test_eight_tasks_that_migrate_at_once_apply_each_migration_once(server: Server, empty: str) -> None:
    results = await asyncio.gather(*(migrate(server.dsn(empty), "central", "central") for _ in range(8)))
    assert [migration.label for applied in results for migration in applied] == CENTRAL_LABELS
    [row] = await server.run("SELECT count(*) FROM schema_migrations", empty)
    assert row["count"] == len(CENTRAL_LABELS)


@pytest.mark.thorough
async def test_two_processes_that_start_at_once_migrate_once_and_share_the_first_pool(
    server: Server, empty: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "CALLSHEET_DATABASE__DSN": server.dsn(empty), "CALLSHEET_HOME": str(tmp_path)}
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "callsheet", "db", "migrate", "--create"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        for _ in range(2)
    ]
    responses = await asyncio.gather(*(process.communicate() for process in processes))
    assert [(process.returncode, errors) for process, (_, errors) in zip(processes, responses, strict=True)] == [
        (0, b"")
    ] * 2
    output = b"".join(response for response, _ in responses).decode()
    labels = CENTRAL_LABELS + POOL_LABELS
    assert {label: output.count(label) for label in labels} == {label: labels.count(label) for label in labels}
    assert [row["name"] for row in await server.run("SELECT name FROM pools", empty)] == ["pool_1"]


async def test_a_schema_of_a_newer_version_is_refused(server: Server, empty: str, tmp_path: Path) -> None:
    await migrate(server.dsn(empty), "central", "central")
    await server.run(
        "INSERT INTO schema_migrations (version, name, checksum, needs) VALUES (999, 'future', 'x', 999)", empty
    )
    with pytest.raises(SchemaUnknown, match=r"has the migration 0999_future, .* Upgrade Callsheet"):
        await open_databases(settings_for(server.dsn(empty), tmp_path))


UNRELEASED = "was made by an unreleased build of Callsheet: it has another text of the migration"


async def test_a_database_of_an_unreleased_build_is_refused_with_what_to_do(
    server: Server, empty: str, tmp_path: Path
) -> None:
    """Before 0.1.0 the first migrations were others, and there were more of them."""
    older = [Migration(number, f"older_{number}", f"CREATE TABLE older_{number} (id int)") for number in range(1, 60)]
    await migrate(server.dsn(empty), "central", "central", older)
    with pytest.raises(SchemaUnknown, match=f"central {UNRELEASED} 0001_older_1. .* name an empty database in its DSN"):
        await open_databases(settings_for(server.dsn(empty), tmp_path))
    # The first builds did not record which code a migration needs.
    await server.run("ALTER TABLE schema_migrations DROP COLUMN needs", empty)
    with pytest.raises(SchemaUnknown, match=UNRELEASED):
        await migrate(server.dsn(empty), "central", "central")
    [finding] = [one for one in await examine(settings_for(server.dsn(empty), tmp_path)) if one.part == "database"]
    assert finding.status == "problem"
    assert UNRELEASED in finding.message


async def test_a_migration_whose_text_has_changed_is_refused(server: Server, empty: str, tmp_path: Path) -> None:
    await migrate(server.dsn(empty), "central", "central")
    last = CENTRAL_LABELS[-1]
    await server.run(f"UPDATE schema_migrations SET checksum = 'other' WHERE version = {len(CENTRAL_LABELS)}", empty)
    with pytest.raises(SchemaUnknown, match=f"{UNRELEASED} {last}"):
        await open_databases(settings_for(server.dsn(empty), tmp_path))


async def test_a_database_of_another_program_is_refused_and_stays_as_it_is(server: Server, empty: str) -> None:
    await server.run("CREATE TABLE invoices (id int)", empty)
    with pytest.raises(SchemaUnknown, match=r"is not empty and not Callsheet's \(it has invoices\)"):
        await migrate(server.dsn(empty), "central", "central")
    assert await server.tables(empty) == {"invoices"}


async def test_one_database_cannot_be_two_pools(server: Server, empty: str, tmp_path: Path) -> None:
    await migrate(server.dsn(empty), "pool", "pool_1")
    with pytest.raises(SchemaUnknown, match=r"is pool 'pool_1' already. It cannot be pool 'pool_2' too"):
        await migrate(server.dsn(empty), "pool", "pool_2")
    with pytest.raises(SchemaUnknown, match=r"is pool 'pool_1' already. It cannot be central 'central' too"):
        await open_databases(settings_for(server.dsn(empty), tmp_path))
    assert "tenants" not in await server.tables(empty)


@pytest.mark.parametrize(
    ("mistake", "reason"),
    [
        ("SELECT 1/0", "division by zero"),
        # The text itself runs through, and only recording it fails.
        ("INSERT INTO schema_migrations (version, name, checksum, needs) VALUES (2, '', '', 2)", "duplicate key"),
    ],
)
async def test_a_failing_migration_leaves_nothing_of_itself_and_the_next_run_goes_on(
    server: Server, empty: str, mistake: str, reason: str
) -> None:
    first = Migration(1, "first", "CREATE TABLE first (id int)")
    broken = Migration(2, "second", f"CREATE TABLE second (id int); {mistake}")
    mended = Migration(2, "second", "CREATE TABLE second (id int)")
    with pytest.raises(DatabaseError, match=f"0002_second of database pool_1 failed and left nothing .*{reason}"):
        await migrate(server.dsn(empty), "pool", "pool_1", [first, broken])
    assert {"first", "second"} & await server.tables(empty) == {"first"}
    assert await migrate(server.dsn(empty), "pool", "pool_1", [first, mended]) == [mended]
    assert {"first", "second"} <= await server.tables(empty)


async def test_the_files_of_users_are_counted_by_triggers_and_counted_again(server: Server, empty: str) -> None:
    await migrate(server.dsn(empty), "pool", "pool_1")
    tenant, ann, bob = (UUID(int=number) for number in (1, 2, 3))
    await server.run(f"INSERT INTO pool_tenants (tenant_id) VALUES ('{tenant}')", empty)
    for number, (user, size, deleted_at) in enumerate(
        [(ann, 10, "NULL"), (ann, 5, "NULL"), (ann, 7, "now()"), (bob, 3, "NULL")]
    ):
        await server.run(
            "INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, ready_at, "
            f"deleted_at) VALUES ('{tenant}', gen_random_uuid(), '{user}', 'upload', 'ready', 'local', '{number}', "
            f"'a', 'video/mp4', {size}, now(), {deleted_at})",
            empty,
        )
    rows = await server.run("SELECT user_id, files, bytes FROM storage_usage ORDER BY user_id", empty)
    assert [tuple(row) for row in rows] == [(UUID(int=0), 3, 18), (ann, 2, 15), (bob, 1, 3)]
    await server.run("DELETE FROM files WHERE size = 5", empty)
    await server.run("UPDATE files SET deleted_at = NULL, size = 8 WHERE size = 7", empty)
    rows = await server.run("SELECT user_id, files, bytes FROM storage_usage ORDER BY user_id", empty)
    assert [tuple(row) for row in rows] == [(UUID(int=0), 3, 21), (ann, 2, 18), (bob, 1, 3)]
    # A wrong count keeps nothing from being deleted, and is corrected.
    await server.run("UPDATE storage_usage SET files = 0, bytes = 0", empty)
    await server.run("DELETE FROM files WHERE size = 3", empty)
    await server.run(f"SELECT storage_recount('{tenant}')", empty)
    rows = await server.run("SELECT user_id, files, bytes FROM storage_usage ORDER BY user_id", empty)
    assert [tuple(row) for row in rows] == [(UUID(int=0), 2, 18), (ann, 2, 18)]


@pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_c.sql"], ["0001_a.sql", "0001_b.sql"]])
def test_migrations_that_are_not_numbered_in_a_row_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    (tmp_path / "pool").mkdir()
    for name in names:
        (tmp_path / "pool" / name).write_text("SELECT 1")
    monkeypatch.setattr(schema.resources, "files", lambda package: tmp_path)
    with pytest.raises(ValueError, match="the pool migrations are not numbered 1, 2, 3"):
        known_migrations("pool")


@pytest.mark.thorough
async def test_a_start_without_permission_to_migrate_names_the_command_to_run(
    server: Server, empty: str, tmp_path: Path
) -> None:
    settings = settings_for(server.dsn(empty), tmp_path, migrate_on_start=False)
    with pytest.raises(SchemaUnknown, match=r"central lacks the migrations 0001_.* Run: callsheet db migrate"):
        await open_databases(settings)
    assert await server.tables(empty) == set()
    await migrate(server.dsn(empty), "central", "central")
    with pytest.raises(DatabaseError, match="no pool for the data of tenants yet"):
        await open_databases(settings)
    await migrate_all(settings, server.dsn(empty))
    await server.run("DELETE FROM schema_migrations WHERE version = 1", f"{empty}_pool_1")
    assert await unavailable(settings) == {
        "pool_1": f"Database pool_1 lacks the migrations {POOL_LABELS[0]}. Run: callsheet db migrate"
    }


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("CockroachDB CCL v26.3.0 (x86_64-pc-linux-gnu, built 2026/08/03 17:28:15, go1.26.1)", "it is CockroachDB, "),
        ("PostgreSQL 14.4 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 8.5.0, 64-bit", "it is PostgreSQL 14. "),
    ],
    ids=["look-alike", "old"],
)
async def test_a_server_that_is_not_a_new_postgresql_is_refused(
    server: Server, empty: str, version: str, reason: str
) -> None:
    await server.run("CREATE SCHEMA other", empty)
    await server.run(f"CREATE FUNCTION other.version() RETURNS text RETURN '{version}'", empty)
    await server.run(f'ALTER DATABASE "{empty}" SET search_path = other, pg_catalog, public', empty)
    with pytest.raises(DatabaseError, match=f"Database central at .* cannot be used: {reason}") as refused:
        await schema.migrate(server.dsn(empty), "central", "central")
    assert str(refused.value).endswith("Callsheet needs PostgreSQL itself, 15 or newer.")


async def test_a_role_that_may_not_create_databases_gets_the_reason_and_can_be_given_one(
    server: Server, tmp_path: Path
) -> None:
    role = await server.create_role()
    central = await server.create_database(owner=role)
    settings = settings_for(server.dsn(central, role), tmp_path)
    with pytest.raises(DatabaseError, match=f"may not create the database '{central}_pool_1'") as refused:
        await open_databases(settings)
    assert "callsheet db add-pool" in str(refused.value)
    own = await server.create_database(owner=role)
    await add_pool(settings, server.dsn(central, role), "first", server.dsn(own, role))
    assert await opened_once(settings) == {"central": central, "first": own}


async def test_a_role_that_does_not_own_its_database_gets_the_statement_that_helps(
    server: Server, empty: str, tmp_path: Path
) -> None:
    role = await server.create_role()
    with pytest.raises(DatabaseError, match=r"may not create tables there \(permission denied .*OWNER TO"):
        await open_databases(settings_for(server.dsn(empty, role), tmp_path))


@pytest.mark.thorough
async def test_a_role_without_grants_gets_the_grants_to_run_and_they_suffice(
    server: Server, empty: str, tmp_path: Path
) -> None:
    """The account that serves owns nothing; another one has migrated."""
    owner, role = await server.create_role("CREATEDB"), await server.create_role()
    central = await server.create_database(owner=owner)
    await migrate_all(settings_for(server.dsn(central, owner), tmp_path), server.dsn(central, owner))
    settings = settings_for(server.dsn(central, role), tmp_path, migrate_on_start=False)
    with pytest.raises(DatabaseError, match=f"Role {role} may not use all tables of database central") as refused:
        await open_databases(settings)
    assert f"as their owner {owner}: GRANT USAGE ON SCHEMA public TO {role};" in str(refused.value)
    await grant(server, central, owner, str(refused.value))
    # Central can be used now; the pool says the same about itself.
    [reason] = (await unavailable(settings)).values()
    assert f"Role {role} may not use all tables of database pool_1" in reason
    [schema_finding, pool_finding] = [one for one in await examine(settings) if one.part == "database"]
    assert (schema_finding.status, pool_finding.status) == ("ok", "problem")
    assert reason in pool_finding.message
    await grant(server, f"{central}_pool_1", owner, reason)
    assert await unavailable(settings) == {}
    databases = await open_databases(settings)
    try:
        core = await open_core(databases).prepare()
        ann = await core.member()
        await core.submit(ann)
        await core.complete(await core.start())
        await core.check()
    finally:
        await databases.close()
    # Tables of later migrations are granted with them.
    await server.run_as(owner, central, "CREATE TABLE later (id int)")
    assert await unavailable(settings) == {}


async def grant(server: Server, database: str, owner: str, sentence: str) -> None:
    for statement in re.findall(r"(?:GRANT|ALTER) [^;]+;", sentence):
        await server.run_as(owner, database, statement)


async def test_a_role_that_may_not_connect_gets_the_grant_to_run(server: Server, empty: str, tmp_path: Path) -> None:
    role = await server.create_role()
    await server.run(f'REVOKE CONNECT ON DATABASE "{empty}" FROM PUBLIC')
    with pytest.raises(DatabaseError, match="GRANT CONNECT ON DATABASE"):
        await open_databases(settings_for(server.dsn(empty, role), tmp_path))


async def test_a_role_that_may_not_migrate_gets_the_name_of_the_owner(server: Server, tmp_path: Path) -> None:
    owner, role = await server.create_role("CREATEDB"), await server.create_role()
    central = await server.create_database(owner=owner)
    await migrate_all(settings_for(server.dsn(central, owner), tmp_path), server.dsn(central, owner))
    await server.run(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}", central)
    await server.run(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}", central)
    last = known_migrations("central")[-1]
    more = [*known_migrations("central"), Migration(last.version + 1, "more", "ALTER TABLE tenants ADD more int")]
    with pytest.raises(DatabaseError, match=f"may not change its schema .* a DSN of the owner of its tables, {owner}"):
        await migrate(server.dsn(central, role), "central", "central", more)


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("dsn", "sentence"),
    [
        ("postgresql://user:hidden/word@localhost/name", "cannot be read"),
        ("mysql://user:hidden@localhost/name", "cannot be read"),
        (
            "postgresql://user:hidden@127.0.0.1:1/name",
            r"at 127.0.0.1:1/name cannot be used: .*Check that PostgreSQL is running",
        ),
        ("postgresql://user@127.0.0.1:1/name?password=hidden", "at 127.0.0.1:1/name cannot be used"),
        ("postgresql://user:hidden@no-such-host.invalid/name", "at no-such-host.invalid/name cannot be used"),
    ],
)
async def test_a_dsn_that_does_not_work_is_reported_without_its_password(dsn: str, sentence: str) -> None:
    with pytest.raises(DatabaseError, match=sentence) as refused:
        await migrate(dsn, "pool", "pool_9")
    assert "hidden" not in str(refused.value)


async def test_a_wrong_password_and_a_missing_database_are_distinguished(server: Server, empty: str) -> None:
    with pytest.raises(DatabaseError, match="Check user and password"):
        await migrate(server.dsn(empty, "callsheet"), "pool", "pool_9")
    with pytest.raises(DatabaseError, match="Create the database, or name another"):
        await migrate(server.dsn("missing"), "pool", "pool_9")


async def test_a_pool_added_while_others_run_takes_tenants_and_only_its_own(
    server: Server, empty: str, settings: Settings, databases: Databases
) -> None:
    central = databases.central.dsn
    assert [step.label for step in await add_pool(settings, central, "pool_3", server.dsn(empty))] == POOL_LABELS
    accounts = Accounts(databases, Passwords())
    tenant = await accounts.create_tenant(CreateTenantRequest(slug="there", name="There", pool="pool_3"))
    assert tenant.pool == "pool_3"
    assert [row["tenant_id"] for row in await server.run("SELECT tenant_id FROM pool_tenants", empty)] == [tenant.id]
    for name in ("pool_1", "pool_2"):
        async with (await databases.pool(name)).connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM pool_tenants") == 0


@pytest.mark.thorough
async def test_adding_a_pool_again_changes_only_its_dsn(
    server: Server, empty: str, settings: Settings, databases: Databases
) -> None:
    central = databases.central.dsn
    await add_pool(settings, central, "pool_3", server.dsn(empty))
    assert await add_pool(settings, central, "pool_3", server.dsn(empty) + "&application_name=moved") == []
    assert (await databases.pool("pool_3")).dsn.endswith("&application_name=moved")
    async with databases.central.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM pools WHERE name = 'pool_3'") == 1


async def test_an_empty_database_cannot_replace_a_pool(
    server: Server, empty: str, shared_settings: Settings, shared_databases: Databases
) -> None:
    with pytest.raises(DatabaseError, match="an empty database cannot replace it"):
        await add_pool(shared_settings, shared_databases.central.dsn, "pool_2", server.dsn(empty))
    assert await server.tables(empty) == set()


async def test_a_pool_with_a_wrong_name_is_refused_and_its_database_stays_empty(
    server: Server, empty: str, shared_settings: Settings, shared_databases: Databases
) -> None:
    for name in ("", "Pool", "2nd", "a-b", "a b", "a" * 64, "ä", "pool_3\n"):
        with pytest.raises(DatabaseError, match="cannot be the name of a pool"):
            await add_pool(shared_settings, shared_databases.central.dsn, name, server.dsn(empty))
    assert await server.tables(empty) == set()


async def test_the_dsn_of_a_pool_cannot_be_read_from_its_row(shared_databases: Databases) -> None:
    pool = await shared_databases.pool("pool_2")
    async with shared_databases.central.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM pools WHERE name = 'pool_2'")
    assert row is not None
    parts = urlsplit(pool.dsn)
    for piece in (parts.password, parts.hostname, parts.path.lstrip("/")):
        assert piece
        assert piece not in repr(dict(row))
        assert piece.encode() not in row["sealed_dsn"]


@dataclass(frozen=True)
class CrashSetup:
    """What a crash interrupts: an installation that was never started, and one that runs."""

    server: Server
    fresh: Settings
    spare: str
    settings: Settings
    databases: Databases


async def first_start(crash_setup: CrashSetup) -> None:
    assert list(await opened_once(crash_setup.fresh)) == ["central", "pool_1"]


async def adding_a_pool(crash_setup: CrashSetup) -> None:
    await add_pool(
        crash_setup.settings, crash_setup.databases.central.dsn, "pool_3", crash_setup.server.dsn(crash_setup.spare)
    )
    assert (await crash_setup.databases.pool("pool_3")).name == "pool_3"


async def creating_a_tenant(crash_setup: CrashSetup) -> None:
    accounts = Accounts(crash_setup.databases, Passwords())
    tenant = await accounts.create_tenant(CreateTenantRequest(slug="acme", name="Acme", pool="pool_1"))
    assert await accounts.find_tenant("acme") == tenant
    async with (await crash_setup.databases.pool("pool_1")).connection() as connection:
        assert await connection.fetchval("SELECT true FROM pool_tenants WHERE tenant_id = $1", tenant.id)


CRASHES: dict[Failpoint, Callable[[CrashSetup], Awaitable[None]]] = {
    Failpoint.MIGRATE_BETWEEN_DATABASES: first_start,
    Failpoint.ADD_POOL_BEFORE_REGISTER: adding_a_pool,
    Failpoint.CREATE_TENANT_BEFORE_CENTRAL: creating_a_tenant,
}


def test_every_failpoint_of_databases_and_tenants_is_tested() -> None:
    here = ("migrate.", "add_pool.", "create_tenant.")
    assert set(CRASHES) == {point for point in Failpoint if point.startswith(here)}


@pytest.mark.parametrize("point", CRASHES)
async def test_the_next_attempt_after_a_crash_succeeds(
    server: Server, settings: Settings, databases: Databases, tmp_path: Path, point: Failpoint
) -> None:
    fresh = settings_for(server.dsn(await server.create_database()), tmp_path / "fresh")
    crash_setup = CrashSetup(server, fresh, await server.create_database(), settings, databases)
    with armed({point: crash}), pytest.raises(Crashed):
        await CRASHES[point](crash_setup)
    await CRASHES[point](crash_setup)


async def test_a_tenant_whose_creation_crashed_does_not_exist(shared_databases: Databases) -> None:
    accounts = Accounts(shared_databases, Passwords())
    request = CreateTenantRequest(slug="half", name="Half", pool="pool_1")
    with armed({Failpoint.CREATE_TENANT_BEFORE_CENTRAL: crash}), pytest.raises(Crashed):
        await accounts.create_tenant(request)
    assert await accounts.find_tenant("half") is None
