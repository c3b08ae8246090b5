"""Opens one pool, renews the claim of this central on it, and records why the pool is not served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import Database, connected
from callsheet.plumbing.database.errors import CANNOT_CONNECT, DatabaseError, is_away, unreachable
from callsheet.plumbing.database.ownership import (
    RENEW_SECONDS,
    Central,
    LeaseHeld,
    WrongOwner,
    check_owner,
    claim,
    read_owner,
    release,
)
from callsheet.plumbing.database.servers.replica import Replica
from callsheet.plumbing.database.sql import Connection
from callsheet.settings import DatabaseSettings

# A claim that takes longer counts as failed.
CLAIM_SECONDS = 10.0
RELEASE_SECONDS = 2.0
# One failed renewal is tolerated. After the second one the pool is not served.
MAX_FAILURES = 1
# Another server that renewed its lease twice while this one was refused is alive. A restarted one would not renew it.
RENEWALS_OF_A_RIVAL = 2


@dataclass(frozen=True, slots=True)
class PoolAddress:
    name: str
    # None if it cannot be read; `reason` has the cause.
    readable_dsn: str | None
    # When this database became the pool, as central knows it.
    attached_at: datetime
    reason: str = ""
    # The same database through a pooler, if that is another DSN.
    pooled_dsn: str | None = None
    replica_dsn: str | None = None

    @property
    def dsn(self) -> str:
        if self.readable_dsn is None:
            raise DatabaseError(self.reason)
        return self.readable_dsn


@dataclass(frozen=True, slots=True)
class DatabaseRole:
    """The tasks of this process for pools besides using them. A command neither migrates pools nor holds leases."""

    migrates: bool
    holds_leases: bool


class PoolKeeper:
    def __init__(self, name: str, settings: DatabaseSettings, role: DatabaseRole):
        self.name = name
        # The same object until the process ends, because rooms keep references to it. It is closed and opened again.
        self._database = Database("pool", name, "", settings)
        # Why the pool is not served; None if nothing prevents it.
        self.problem: str | None = None
        self._role = role
        self._settings = settings
        self._claimed_with: datetime | None = None
        self._renewed = float("-inf")
        self._failures = 0
        self._seen_lease: datetime | None = None
        self._seen_renewals = 0
        self._is_closed = False

    @property
    def database(self) -> Database | None:
        return self._database if self._database.is_open else None

    @property
    def served(self) -> Database | None:
        """The database if the pool is served; otherwise None. Called several times for each job."""
        is_served = self.problem is None and not self._is_closed and self._database.is_usable
        return self._database if is_served else None

    @property
    def reason(self) -> str | None:
        """Why the pool is not served; None if it is served."""
        if self._is_closed:
            return f"Pool {self.name} is closed: this process is stopping."
        if self.problem is not None:
            return self.problem
        if self.database is None:
            return f"Pool {self.name} is being opened."
        lost = self.database.pulse.lost
        return None if lost is None else unreachable(self.name, self.database.dsn, lost)

    def start_pulse(self) -> None:
        self._database.has_pulse = True
        if self._database.is_open:
            self._database.pulse.start()

    def is_due(self, address: PoolAddress) -> bool:
        if self.problem is not None or self.database is None:
            return True
        # A DSN that was encrypted again with a new secret key can be read only after a restart of this process.
        if self._has_moved(address):
            return True
        return time.monotonic() - self._renewed >= RENEW_SECONDS

    @property
    def has_seen_rival(self) -> bool:
        return self._seen_renewals >= RENEWALS_OF_A_RIVAL

    async def attend(
        self, address: PoolAddress, central: Central, read_again: Callable[[], Awaitable[Central]]
    ) -> None:
        """Opens the pool, or renews the claim of an open pool. `problem` is set to what prevents it."""
        if self._is_closed:
            return
        try:
            if self.database is not None and self._has_moved(address):
                await self._database.close()
            if self.database is None:
                await self._open(address, central)
            else:
                await self._renew(self.database, address, central, read_again)
        except LeaseHeld as error:
            self._watch_rival(error)
            await self._refused(error)
        except DatabaseError as error:
            await self._refused(error)
        except asyncpg.LockNotAvailableError:
            # The lock of an administrator also keeps every other central from claiming the pool.
            pass
        except CANNOT_CONNECT as error:
            self._failures += 1
            if self.database is None or self._failures > MAX_FAILURES or not is_away(error):
                dsn = self.database.dsn if self.database is not None else address.dsn
                self.problem = unreachable(self.name, dsn, error)
        else:
            self.problem, self._failures = None, 0
            self._seen_lease, self._seen_renewals = None, 0

    async def release(self) -> None:
        """Gives up the lease. If that fails, the lease expires by itself."""
        if self.database is None or self._claimed_with is None:
            return
        with suppress(*CANNOT_CONNECT):
            async with asyncio.timeout(RELEASE_SECONDS), self.database.connection() as connection:
                await release(connection, self._claimed_with)

    async def close(self) -> None:
        """Closes the pool permanently: a task that is opening it at this moment closes it again."""
        self._is_closed = True
        await self._database.close()

    def _has_moved(self, address: PoolAddress) -> bool:
        places = (self._database.dsn, self._database.pooled_dsn)
        return address.readable_dsn is not None and (address.readable_dsn, address.pooled_dsn) != places

    async def _open(self, address: PoolAddress, central: Central) -> None:
        await prepare_pool(address, central, migrate=self._role.migrates)
        async with connected(address.dsn, self.name) as connection:
            await self._claim(connection, address, central)
        self._database.dsn, self._database.pooled_dsn = address.dsn, address.pooled_dsn
        if address.replica_dsn is not None:
            self._database.replica = Replica(self.name, address.replica_dsn, self._settings, self._database.ordinary)
        await self._database.open()
        if self._is_closed:
            await self._database.close()

    async def _renew(
        self, database: Database, address: PoolAddress, central: Central, read_again: Callable[[], Awaitable[Central]]
    ) -> None:
        try:
            async with asyncio.timeout(CLAIM_SECONDS), database.apart() as connection:
                try:
                    await self._claim(connection, address, central)
                except LeaseHeld:
                    # Central may have been restarted after it was read, and another control plane noticed first.
                    again = await read_again()
                    if again.started_at == central.started_at:
                        raise
                    await self._claim(connection, address, again)
        except asyncpg.UndefinedTableError:
            # An empty database has its name, and pg_restore may be filling it.
            await database.close()
            raise empty_pool(self.name) from None

    async def _claim(self, connection: Connection, address: PoolAddress, central: Central) -> None:
        if self._role.holds_leases or await read_owner(connection) is None:
            await claim(connection, self.name, central, address.attached_at, self._claimed_with)
            self._claimed_with = central.started_at
        else:
            await check_owner(connection, self.name, central, address.attached_at)
        self._renewed = time.monotonic()

    async def _refused(self, error: DatabaseError) -> None:
        self.problem = str(error)
        if isinstance(error, WrongOwner):
            # Running statements of this process in the pool must not finish.
            await self._database.close()

    def _watch_rival(self, held: LeaseHeld) -> None:
        if self._seen_lease is not None and held.renewed_at > self._seen_lease:
            self._seen_renewals += 1
        self._seen_lease = held.renewed_at


async def prepare_pool(
    address: PoolAddress, central: Central, *, migrate: bool, may_be_empty: bool = False
) -> list[schema.Migration]:
    """Checks that the pool belongs to this central before anything is written, then migrates or checks its schema."""
    dsn, name = address.dsn, address.name
    try:
        if (await schema.inspect(dsn, "pool", name)).version == 0 and not may_be_empty:
            # pg_restore may be filling it.
            raise empty_pool(name)
        async with connected(dsn, name) as connection:
            await check_owner(connection, name, central, address.attached_at)
        if migrate:
            return await schema.migrate(dsn, "pool", name)
        await schema.require_current(dsn, "pool", name)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise DatabaseError(unreachable(name, dsn, error)) from error
    return []


def empty_pool(name: str) -> DatabaseError:
    """Tenants of the pool would be routed to a database without their data."""
    return DatabaseError(
        f"The database of pool {name} is empty. Restore its data there first, and run: callsheet db adopt {name}"
    )
