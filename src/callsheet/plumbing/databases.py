"""Central and every pool, opened together: the only way rooms reach a database.

`central` holds what routing needs; each tenant lives in one pool. There are no joins, foreign keys or transactions
across databases.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import asyncpg

from callsheet.plumbing import migrate as schema
from callsheet.plumbing.database import Database, DatabaseError, connected, create_database, has_database
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.installation import require_installation, unfinished
from callsheet.plumbing.secrets import master_secret, seal, unseal
from callsheet.plumbing.sql import statements
from callsheet.settings import Settings

SQL = statements("callsheet.plumbing")
CENTRAL = "central"
FIRST_POOL = "pool_1"
SEAL = "pool dsn"
POOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class PoolAddress:
    name: str
    dsn: str


class Databases:
    """Use `open_databases`; close with `close`."""

    def __init__(self, settings: Settings, central: Database, embedded: EmbeddedPostgres | None):
        self.central = central
        self.embedded = embedded
        self._settings = settings
        self._pools: dict[str, Database] = {}
        self._opening = asyncio.Lock()

    @property
    def pools(self) -> Sequence[Database]:
        return tuple(self._pools.values())

    async def pool(self, name: str) -> Database:
        """The pool of that name; one that was added while this process runs is opened on the way."""
        found = self._pools.get(name)
        if found is None:
            await self.refresh_pools()
            found = self._pools.get(name)
        if found is None:
            raise DatabaseError(f"There is no pool {name!r}. Add it: callsheet db add-pool {name} DSN")
        return found

    async def refresh_pools(self) -> None:
        """Opens the pools that were added since, and follows those that moved to another address."""
        async with self._opening:
            async with self.central.connection() as connection:
                rows = await SQL["list_pools"].rows(connection)
            for address in _addresses(self._settings, self.central.dsn, rows):
                known = self._pools.get(address.name)
                if known is not None:
                    known.dsn = address.dsn
                else:
                    database = Database("pool", address.name, address.dsn, self._settings.database)
                    await database.open()
                    self._pools[address.name] = database

    async def keep_embedded_running(self) -> None:
        """Brings the embedded server back where it was killed; somebody may have taken its port meanwhile."""
        if self.embedded is not None and await self.embedded.ensure_running():
            self.central.dsn = self.embedded.dsn(CENTRAL)

    async def close(self) -> None:
        async with AsyncExitStack() as stack:
            if self.embedded is not None:
                stack.push_async_callback(self.embedded.close)
            for database in (self.central, *self._pools.values()):
                stack.push_async_callback(database.close)


async def open_databases(settings: Settings) -> Databases:
    """Starts the embedded server where no DSN is set, checks or brings up the schemas, opens every pool.

    What is missing is created. That is for a control plane; commands use `open_installation`.
    """
    return await _open(settings, create=True)


async def open_installation(settings: Settings) -> Databases:
    """The databases of an installation that exists and is up to date. Creates and migrates nothing."""
    return await _open(settings, create=False)


async def _open(settings: Settings, *, create: bool) -> Databases:
    async with AsyncExitStack() as undo:
        embedded, dsn = await _reach_central(settings, create=create)
        if embedded is not None:
            undo.push_async_callback(embedded.close)
        if create and settings.database.migrate_on_start:
            await migrate_all(settings, dsn)
        else:
            await require_current(settings, dsn)
        central = Database("central", CENTRAL, dsn, settings.database)
        await central.open()
        databases = Databases(settings, central, embedded)
        undo.pop_all()
        undo.push_async_callback(databases.close)
        await databases.refresh_pools()
        undo.pop_all()
        return databases


@asynccontextmanager
async def reached_central(settings: Settings, *, create: bool = False) -> AsyncIterator[str]:
    """The DSN of central, on a server that runs as long as the block does: for commands."""
    embedded, dsn = await _reach_central(settings, create=create)
    try:
        yield dsn
    finally:
        if embedded is not None:
            await embedded.close()


async def _reach_central(settings: Settings, *, create: bool) -> tuple[EmbeddedPostgres | None, str]:
    if not create:
        await require_installation(settings)
    if settings.database.dsn is not None:
        return None, settings.database.dsn.get_secret_value()
    embedded = await EmbeddedPostgres.start(settings.home)
    try:
        if create:
            await create_database(embedded.dsn("postgres"), CENTRAL, CENTRAL)
        elif not await has_database(embedded.dsn("postgres"), CENTRAL, CENTRAL):
            raise unfinished(settings)
    except BaseException:
        await embedded.close()
        raise
    return embedded, embedded.dsn(CENTRAL)


async def migrate_all(settings: Settings, dsn: str) -> dict[str, list[schema.Migration]]:
    """Central first, then every pool; a first start also gets its first pool. Answers what was applied where."""
    applied = {CENTRAL: await schema.migrate(dsn, "central", CENTRAL)}
    await hit(Failpoint.MIGRATE_BETWEEN_DATABASES)
    addresses = await pool_addresses(settings, dsn)
    if not addresses:
        applied[FIRST_POOL] = await _create_first_pool(dsn)
    for address in addresses:
        applied[address.name] = await schema.migrate(address.dsn, "pool", address.name)
    return applied


async def require_current(settings: Settings, dsn: str) -> None:
    await schema.require_current(dsn, "central", CENTRAL)
    addresses = await pool_addresses(settings, dsn)
    if not addresses:
        raise DatabaseError("There is no pool for tenants to live in yet. Run: callsheet db migrate")
    for address in addresses:
        await schema.require_current(address.dsn, "pool", address.name)


async def pool_addresses(settings: Settings, central_dsn: str) -> list[PoolAddress]:
    async with connected(central_dsn, CENTRAL) as connection:
        try:
            rows = await SQL["list_pools"].rows(connection)
        except asyncpg.UndefinedTableError:
            raise DatabaseError("Database central has no schema yet. Run: callsheet db migrate") from None
    return _addresses(settings, central_dsn, rows)


async def add_pool(settings: Settings, central_dsn: str, name: str, dsn: str) -> list[schema.Migration]:
    """Migrates the database and makes it a place for tenants. Repeating it replaces the address of that pool."""
    if not POOL_NAME.fullmatch(name):
        raise DatabaseError(
            f"{name!r} cannot be the name of a pool: lower-case letters, digits and _, a letter first, 63 at most."
        )
    async with connected(central_dsn, CENTRAL) as connection:
        known = any(row["name"] == name for row in await SQL["list_pools"].rows(connection))
    if known and (await schema.inspect(dsn, "pool", name)).version == 0:
        # Its tenants would be routed to a place where nothing of theirs is.
        raise DatabaseError(
            f"There is a pool {name} already, and an empty database cannot take its place. Restore its data there "
            "first, or choose another name."
        )
    applied = await schema.migrate(dsn, "pool", name)
    await hit(Failpoint.ADD_POOL_BEFORE_REGISTER)
    async with connected(central_dsn, CENTRAL) as connection:
        sealed = seal(master_secret(settings), SEAL, dsn)
        await SQL["register_pool"].run(connection, name=name, database=None, sealed_dsn=sealed)
    return applied


async def _create_first_pool(central_dsn: str) -> list[schema.Migration]:
    async with connected(central_dsn, CENTRAL) as connection:
        # Asked, not read from the DSN: that need not name it.
        central = await connection.fetchval("SELECT current_database()")
    database = FIRST_POOL if central == CENTRAL else f"{central}_{FIRST_POOL}"
    await create_database(central_dsn, CENTRAL, database)
    applied = await schema.migrate(with_database(central_dsn, database), "pool", FIRST_POOL)
    async with connected(central_dsn, CENTRAL) as connection:
        await SQL["register_pool"].run(connection, name=FIRST_POOL, database=database, sealed_dsn=None)
    return applied


def _addresses(settings: Settings, central_dsn: str, rows: Sequence[asyncpg.Record]) -> list[PoolAddress]:
    return [PoolAddress(row["name"], _pool_dsn(settings, central_dsn, row)) for row in rows]


def _pool_dsn(settings: Settings, central_dsn: str, row: asyncpg.Record) -> str:
    name, database, sealed = row["name"], row["database"], row["sealed_dsn"]
    if database is not None:
        return with_database(central_dsn, database)
    dsn = unseal(master_secret(settings, create=False), SEAL, sealed)
    if dsn is None:
        raise DatabaseError(
            f"The address of pool {name} was sealed with another secret key. Set CALLSHEET_SECRET_KEY to the one it "
            f"was added with, or add it again: callsheet db add-pool {name} DSN"
        )
    return dsn


def with_database(dsn: str, database: str) -> str:
    parts = urlsplit(dsn)
    # Not urlunsplit: it drops the // of a DSN whose host stands in the query.
    return f"{parts.scheme}://{parts.netloc}/{quote(database, safe='')}" + (f"?{parts.query}" if parts.query else "")
