"""Central and every pool. Rooms use databases only through this module.

`central` has the data for routing; the data of each tenant is in one pool. There are no joins, foreign keys or
transactions across databases.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from urllib.parse import quote, urlsplit

import asyncpg
from pydantic import SecretStr

from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import Database, connected, create_database, has_database
from callsheet.plumbing.database.errors import DatabaseError, PoolUnavailable
from callsheet.plumbing.database.ownership import Central, claim, read_central, read_owner, release
from callsheet.plumbing.database.pool_keeper import DatabaseRole, PoolAddress, PoolKeeper, prepare_pool
from callsheet.plumbing.database.servers.replica import Replica
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.installation.installation import require_installation, unfinished
from callsheet.plumbing.installation.installation_key import check_key, ensure_key
from callsheet.plumbing.installation.secrets import SEAL, master_secret, seal, unseal
from callsheet.settings import Settings
from callsheet.toolbox.concurrently import all_of

SQL = statements("callsheet.plumbing.database")
CENTRAL = "central"
FIRST_POOL = "pool_1"
POOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class Databases:
    """All databases of a process. Create it with `open_databases` and close it with `close`."""

    def __init__(self, settings: Settings, central: Database, embedded: EmbeddedPostgres | None, *, role: DatabaseRole):
        self.central = central
        self.embedded = embedded
        self._settings = settings
        self._role = role
        self._keepers: dict[str, PoolKeeper] = {}
        self._opening = asyncio.Lock()
        self._has_pulses = False
        self._is_closed = False

    @property
    def pools(self) -> Sequence[Database]:
        """The pools that are served. Loops over pools skip the others."""
        return tuple(filter(None, (keeper.served for keeper in self._keepers.values())))

    @property
    def all(self) -> Sequence[Database]:
        """Central and the pools that are served."""
        return self.central, *self.pools

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Registered pools that are currently not served, with the reason."""
        return {name: keeper.reason for name, keeper in self._keepers.items() if keeper.reason is not None}

    def connection_counts(self) -> list[tuple[str, int, int]]:
        """Name, open connections and idle connections of each database."""
        return [(database.name, *database.connection_counts()) for database in self.all]

    async def start_pulses(self) -> None:
        """From now on, each database has a pulse. Returns when all of them were asked once."""
        self._has_pulses = self.central.has_pulse = True
        for keeper in self._keepers.values():
            keeper.start_pulse()
        self.central.pulse.start()
        await all_of(database.pulse.is_fine() for database in (self.central, *self.pools))

    async def pool(self, name: str) -> Database:
        """The pool with this name. A pool that was added after the start is opened first."""
        keeper = self._keepers.get(name)
        if keeper is not None and (served := keeper.served) is not None:
            return served
        if keeper is None or (keeper.database is None and keeper.problem is None):
            await self.refresh_pools()
            keeper = self._keepers.get(name)
        if keeper is None:
            raise DatabaseError(f"There is no pool {name!r}. Add it: callsheet db add-pool {name} DSN")
        if keeper.database is None or keeper.reason is not None:
            # This fails at once, because only the watch tries again. Otherwise every request would wait for a
            # connection that fails.
            raise PoolUnavailable(name, keeper.reason or "")
        return keeper.database

    def require_all(self) -> Sequence[Database]:
        """All registered pools, for work that must not skip one. Raises if one is not served."""
        for name, reason in self.unavailable.items():
            raise PoolUnavailable(name, reason)
        return self.pools

    async def refresh_pools(self) -> None:
        """Opens pools that were added or are available again, reconnects pools that moved, and renews all claims."""
        async with self._opening:
            async with self.central.apart() as connection:
                rows = await SQL["list_pools"].rows(connection)
            if self._is_closed:
                return
            addresses = _addresses(self._settings, self.central.dsn, rows)
            due = [(self._keeper(one.name), one) for one in addresses if self._keeper(one.name).is_due(one)]
            if not due:
                return
            central = await self._read_central()
            await all_of(keeper.attend(address, central, self._read_central) for keeper, address in due)
            if any(keeper.has_seen_rival for keeper, _ in due):
                async with self.central.apart() as connection:
                    await SQL["mark_possible_copy"].run(connection)

    def _keeper(self, name: str) -> PoolKeeper:
        found = self._keepers.get(name)
        if found is None:
            found = self._keepers[name] = PoolKeeper(name, self._settings.database, self._role)
            if self._has_pulses:
                found.start_pulse()
        return found

    async def _read_central(self) -> Central:
        async with self.central.apart() as connection:
            return await read_central(connection, self.central.dsn)

    async def keep_embedded_running(self) -> None:
        """Restarts an embedded server that was killed. It may get another port."""
        if self.embedded is not None and await self.embedded.ensure_running():
            self.central.dsn = self.embedded.application_dsn(CENTRAL)

    async def close(self) -> None:
        """Closes central last, because a running request may still ask for a pool. No pool is opened again."""
        self._is_closed = True
        async with AsyncExitStack() as stack:
            if self.embedded is not None:
                stack.push_async_callback(self.embedded.close)
            stack.push_async_callback(self.central.close)
            for keeper in self._keepers.values():
                stack.push_async_callback(keeper.close)
            if self.embedded is not None:
                # Central's server may stop with its last user and return with another start time.
                await all_of(keeper.release() for keeper in self._keepers.values())


async def open_databases(settings: Settings) -> Databases:
    """Starts the embedded server if no DSN is set, checks or migrates the schemas, and opens every pool.

    A pool that cannot be opened is left out (`Databases.unavailable`); only central must be usable. Missing databases
    are created. This is for a control plane; commands use `open_installation`.
    """
    return await _open(settings, create=True)


async def open_installation(settings: Settings) -> Databases:
    """Opens the databases of an existing installation that is up to date. Creates and migrates nothing."""
    return await _open(settings, create=False)


async def _open(settings: Settings, *, create: bool) -> Databases:
    migrates = create and settings.database.migrate_on_start
    async with AsyncExitStack() as undo:
        embedded, dsn = await _reach_central(settings, create=create)
        if embedded is not None:
            undo.push_async_callback(embedded.close)
        if migrates:
            await migrate_central(settings, dsn)
        else:
            await require_current(settings, dsn)
        central = Database("central", CENTRAL, dsn, settings.database, _secret(settings.database.pooled_dsn))
        if (replica_dsn := replica_dsn_of(settings)) is not None:
            central.replica = Replica(CENTRAL, replica_dsn, settings.database, central.ordinary)
        await central.open()
        databases = Databases(settings, central, embedded, role=DatabaseRole(migrates, holds_leases=create))
        undo.pop_all()
        undo.push_async_callback(databases.close)
        async with central.connection() as connection:
            await (ensure_key if create else check_key)(connection, settings)
        await databases.refresh_pools()
        undo.pop_all()
        return databases


@asynccontextmanager
async def reached_central(settings: Settings, *, create: bool = False) -> AsyncIterator[str]:
    """Yields the DSN of central for commands. The server runs as long as the block."""
    embedded, dsn = await _reach_central(settings, create=create)
    try:
        yield dsn
    finally:
        if embedded is not None:
            await embedded.close()


async def _reach_central(settings: Settings, *, create: bool) -> tuple[EmbeddedPostgres | None, str]:
    if not create:
        await require_installation(settings)
    server_dsn = _secret(settings.database.server_dsn)
    if server_dsn is not None:
        return None, server_dsn
    embedded = await EmbeddedPostgres.start(settings.home)
    try:
        if create:
            await create_database(embedded.application_dsn("postgres"), CENTRAL, CENTRAL)
        elif not await has_database(embedded.application_dsn("postgres"), CENTRAL, CENTRAL):
            raise unfinished(settings)
    except BaseException:
        await embedded.close()
        raise
    return embedded, embedded.application_dsn(CENTRAL)


async def migrate_central(settings: Settings, dsn: str) -> dict[str, list[schema.Migration]]:
    """Migrates central, and creates the first pool if there is none."""
    applied = {CENTRAL: await schema.migrate(dsn, "central", CENTRAL)}
    await hit(Failpoint.MIGRATE_BETWEEN_DATABASES)
    if not await pool_addresses(settings, dsn):
        applied[FIRST_POOL] = await _create_first_pool(dsn)
    return applied


async def require_current(settings: Settings, dsn: str) -> None:
    """Checks the schema of central. Opening a pool checks the schema of the pool."""
    await schema.require_current(dsn, "central", CENTRAL)
    if not await pool_addresses(settings, dsn):
        raise DatabaseError("There is no pool for the data of tenants yet. Run: callsheet db migrate")


async def pool_addresses(settings: Settings, central_dsn: str) -> list[PoolAddress]:
    async with connected(central_dsn, CENTRAL) as connection:
        try:
            rows = await SQL["list_pools"].rows(connection)
        except asyncpg.UndefinedTableError:
            raise DatabaseError("Database central has no schema yet. Run: callsheet db migrate") from None
    return _addresses(settings, central_dsn, rows)


async def add_pool(
    settings: Settings, central_dsn: str, name: str, dsn: str, direct_dsn: str | None = None
) -> list[schema.Migration]:
    """Migrates the database and registers it as a pool. Repeating it changes the DSN of the same database; another
    database takes its place by `adopt`.

    `direct_dsn`: the same database without a pooler, if `dsn` goes through one.
    """
    pooled_dsn, dsn = (None, dsn) if direct_dsn is None else (dsn, direct_dsn)
    if not POOL_NAME.fullmatch(name):
        raise DatabaseError(
            f"{name!r} cannot be the name of a pool. Use lower-case letters, digits and _, a letter first, at most 63."
        )
    async with connected(central_dsn, CENTRAL) as connection:
        await check_key(connection, settings)
        known = {row["name"]: row["attached_at"] for row in await SQL["list_pools"].rows(connection)}
        central = await read_central(connection, central_dsn)
        now = await SQL["read_clock"].value(connection)
    address = PoolAddress(name, dsn, known.get(name) or await _attached_before(name, dsn) or now)
    if name in known and (await schema.inspect(dsn, "pool", name)).version == 0:
        raise DatabaseError(
            f"Pool {name} already exists, and an empty database cannot replace it. Restore its data there first, or "
            "choose another name."
        )
    applied = await prepare_pool(address, central, migrate=True, may_be_empty=True)
    async with connected(dsn, name) as connection:
        await claim(connection, name, central, address.attached_at)
        # Only control planes keep the lease.
        await release(connection, central.started_at)
    await hit(Failpoint.ADD_POOL_BEFORE_REGISTER)
    sealed = seal_dsns(settings, dsn, pooled_dsn)
    async with connected(central_dsn, CENTRAL) as connection:
        await SQL["attach_pool"].run(connection, name=name, sealed_dsn=sealed, attached_at=address.attached_at)
    return applied


def seal_dsns(settings: Settings, dsn: str, pooled_dsn: str | None) -> bytes:
    return seal(master_secret(settings), SEAL, "\n".join(filter(None, (dsn, pooled_dsn))))


async def _attached_before(name: str, dsn: str) -> datetime | None:
    """When the database became this pool, if it did: after a crash, or if central was restored from before."""
    async with connected(dsn, name) as connection:
        owner = await read_owner(connection)
    return None if owner is None else owner.attached_at


async def first_pool_database(connection: Connection) -> str:
    """The name of the database that the first pool gets, on the server of central."""
    # Read from the server, because the DSN may not name the database.
    central = await connection.fetchval("SELECT current_database()")
    return FIRST_POOL if central == CENTRAL else f"{central}_{FIRST_POOL}"


async def _create_first_pool(central_dsn: str) -> list[schema.Migration]:
    async with connected(central_dsn, CENTRAL) as connection:
        database = await first_pool_database(connection)
    await create_database(central_dsn, CENTRAL, database)
    applied = await schema.migrate(with_database(central_dsn, database), "pool", FIRST_POOL)
    async with connected(central_dsn, CENTRAL) as connection:
        await SQL["register_pool"].run(connection, name=FIRST_POOL, database=database, sealed_dsn=None)
    return applied


def _addresses(settings: Settings, central_dsn: str, rows: Sequence[asyncpg.Record]) -> list[PoolAddress]:
    return [_address(settings, central_dsn, row) for row in rows]


def _address(settings: Settings, central_dsn: str, row: asyncpg.Record) -> PoolAddress:
    name, database, sealed, attached_at = row["name"], row["database"], row["sealed_dsn"], row["attached_at"]
    replica_dsn = replica_dsn_of(settings, name, database)
    if database is not None:
        pooled = _secret(settings.database.pooled_dsn)
        pooled_dsn = None if pooled is None else with_database(pooled, database)
        return PoolAddress(
            name, with_database(central_dsn, database), attached_at, pooled_dsn=pooled_dsn, replica_dsn=replica_dsn
        )
    dsn, _, pooled_dsn = (unseal(master_secret(settings, create=False), SEAL, sealed) or "").partition("\n")
    return PoolAddress(
        name,
        dsn or None,
        attached_at,
        f"The URL of pool {name} was sealed with another secret key. Set CALLSHEET_SECRET_KEY to the one it was "
        f"added with, or add it again: callsheet db add-pool {name} DSN",
        pooled_dsn or None,
        replica_dsn,
    )


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def replica_dsn_of(settings: Settings, pool: str | None = None, database: str | None = None) -> str | None:
    """The DSN of the replica of central, or of a pool. `database`: the pool's database if it is on central's server,
    whose replica then has it too.
    """
    chosen = settings.database
    own = chosen.replica_dsn if pool is None else chosen.pool_replica_dsns.get(pool)
    if own is not None:
        return own.get_secret_value()
    if database is None or chosen.replica_dsn is None:
        return None
    return with_database(chosen.replica_dsn.get_secret_value(), database)


def with_database(dsn: str, database: str) -> str:
    parts = urlsplit(dsn)
    # urlunsplit is not used: it drops the // of a DSN whose host is in the query.
    return f"{parts.scheme}://{parts.netloc}/{quote(database, safe='')}" + (f"?{parts.query}" if parts.query else "")
