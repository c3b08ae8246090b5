"""One PostgreSQL database and its connections, for hot statements and for ordinary ones.

A use case opens its transaction at its top; helpers take the connection and never commit. Leases and deadlines use the
database's `clock_timestamp()`.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

import asyncpg

from callsheet.plumbing.database.errors import (
    CANNOT_CONNECT,
    DATABASE_AWAY,
    ConnectionNotAccepted,
    DatabaseError,
    is_away,
    unreachable,
)
from callsheet.plumbing.database.servers.apart import ApartConnection
from callsheet.plumbing.database.servers.connecting import (
    ENDED_BY_THE_PULSE,
    PrimaryConnection,
    ServerState,
    connect,
    raise_if_refused_by_a_standby,
)
from callsheet.plumbing.database.servers.poolers import (
    SharedSession,
    prepare_pooler,
    shares_sessions,
)
from callsheet.plumbing.database.servers.pulse import DatabaseLost, Pulse, Server
from callsheet.plumbing.database.sql import Connection, DatabaseKind
from callsheet.settings import POOL_DIRECT_DSN_VARIABLE, DatabaseSettings, variable_name
from callsheet.toolbox.outages import Outage

if TYPE_CHECKING:
    from callsheet.plumbing.database.servers.replica import Replica

Result = TypeVar("Result")

CLOSE_SECONDS = 3.0
# A connection is closed after this time at the latest, so that load balancers can move all of them. The connections of
# a process are not closed at the same time.
LIFETIME_SECONDS = (450.0, 600.0)


# Errors that may leave a statement prepared and not run. asyncpg ends the implicit transaction only when it runs the
# statement. Until then the connection keeps locks on the statement's tables, and its next transaction cannot choose an
# isolation level. DataError is an argument that asyncpg cannot encode.
INSIDE_A_STATEMENT = (asyncio.CancelledError, TimeoutError, asyncpg.InterfaceError, asyncpg.DataError)

# Where an operator names the server itself, if a DSN goes through a pooler.
DIRECT_DSN = variable_name(("database", "direct_dsn"))
POOL_DIRECT_DSN = f"{POOL_DIRECT_DSN_VARIABLE} when you run callsheet db add-pool again"

# For statements that run for each job or worker. They touch few rows by their keys. Planning one for each run costs
# more than running it (0.9 ms for a transition). The planner's estimate is wrong for a queue that is empty now and full
# in a minute: it would then join by scanning.
HOT = {
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    # A bitmap scan finds all rows and sorts them, although twenty rows in the order of the index are enough.
    "enable_bitmapscan": "off",
    "jit": "off",
}
# For all other statements the planner decides. It plans for the values of each call, and keeps a plan only after five
# calls and if that plan costs no more. Compiling takes longer than reading the few thousand rows that the largest
# statement reads. All settings are named, because the role may have those of HOT (decision 0052).
ORDINARY = {**dict.fromkeys(HOT, "on"), "plan_cache_mode": "auto", "jit": "off"}


class Database:
    """`dsn` is where a session stays the same. `pooled_dsn` is the same database through a pooler: for hot statements,
    if there is one.
    """

    def __init__(
        self, kind: DatabaseKind, name: str, dsn: str, settings: DatabaseSettings, pooled_dsn: str | None = None
    ):
        self.kind = kind
        self.name = name
        self.dsn = dsn
        self.pooled_dsn = pooled_dsn
        self._settings = settings
        self._hot: asyncpg.Pool[asyncpg.Record] | None = None
        self._ordinary: asyncpg.Pool[asyncpg.Record] | None = None
        self._outage = Outage(f"requests to {name}")
        # All that are open, with the time at which each is closed.
        self._connections: WeakSet[PrimaryConnection] = WeakSet()
        self.pulse = Pulse(Server(name, lambda: self.dsn, self._connect_pulse, self._keep_only))
        # Whether the pulse runs while the database is open. Commands end before they would need it.
        self.has_pulse = False
        self._apart = ApartConnection(self.connect_apart)
        # Only `reports` reads it.
        self.replica: Replica | None = None

    async def open(self) -> None:
        """Opens both connection pools. If they are open already, new ones replace them and the old ones are closed."""
        ordinary = ordinary_connections(self._settings.connections)
        before = self._hot, self._ordinary
        try:
            if self.pooled_dsn is not None:
                await prepare_pooler(self.pooled_dsn, self._session(HOT))
            hot = await self._create_pool(HOT, self._settings.connections - ordinary)
            async with hot.acquire():
                pass
        except CANNOT_CONNECT as error:
            raise DatabaseError(unreachable(self.name, self.pooled_dsn or self.dsn, error)) from error
        # It connects at the first statement.
        self._hot, self._ordinary = hot, await self._create_pool(ORDINARY, ordinary)
        for pool in before:
            await _close(pool)
        if self.has_pulse:
            self.pulse.start()

    async def _create_pool(self, planning: Mapping[str, str], max_size: int) -> asyncpg.Pool[asyncpg.Record]:
        return await asyncpg.create_pool(
            self.dsn,
            # asyncpg would keep up a larger number by itself, with a traceback for each attempt during an outage.
            min_size=0,
            max_size=max_size,
            max_inactive_connection_lifetime=60,
            command_timeout=self._settings.statement_seconds + 5,
            connect=partial(self._connect, planning),
            init=prepare_connection,
            # The default reset costs one more round trip per release. No statement here leaves state in a session.
            reset=_keep_as_it_is,
            server_settings={"application_name": "callsheet", "timezone": "UTC"},
        )

    async def connect_apart(self, dsn: str | None = None, **options: Any) -> PrimaryConnection:
        """A connection outside the pools, with the options of `connect`. It ends with theirs if the server is lost. The
        caller closes it.
        """
        if self.pulse.lost is not None:
            raise DatabaseLost(self.pulse.lost)
        # The current DSN: an embedded server that was killed may restart on another port.
        connection = await connect(dsn or self.dsn, **options)
        connection.closes_at = time.monotonic() + random.uniform(*LIFETIME_SECONDS)  # noqa: S311 - spreads load
        self._connections.add(connection)
        return connection

    async def _connect(
        self, planning: Mapping[str, str], *_: Any, **options: Any
    ) -> asyncpg.Connection[asyncpg.Record]:
        dsn = self.pooled_dsn if planning is HOT else None
        try:
            return await self.connect_apart(dsn, session=self._session(planning), **options)
        except asyncpg.PostgresError as error:
            # These errors have their own class, because some of them have another meaning when a statement raises them.
            raise ConnectionNotAccepted(error) from error

    async def _connect_pulse(self, dsn: str) -> PrimaryConnection:
        return await connect(dsn, server_settings={"application_name": "callsheet pulse"})

    def _keep_only(self, state: ServerState | None) -> None:
        for connection in tuple(self._connections):
            if state is None or connection.state.identity != state.identity:
                connection.terminate()

    def _session(self, planning: Mapping[str, str]) -> Mapping[str, str]:
        return {
            **planning,
            "statement_timeout": str(int(self._settings.statement_seconds * 1000)),
            # A process that hangs inside a transaction must not keep its row locks forever.
            "idle_in_transaction_session_timeout": "60000",
        }

    async def close(self) -> None:
        pools, self._hot, self._ordinary = (self._hot, self._ordinary), None, None
        await self.pulse.stop()
        self._apart.close()
        if self.replica is not None:
            await self.replica.close()
        for pool in pools:
            await _close(pool)

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for hot statements, outside a transaction: each statement commits by itself."""
        return self._acquired(self._hot)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    def ordinary(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for lists, overviews and sweeps, outside a transaction: the planner chooses each plan."""
        return self._acquired(self._ordinary)

    def apart(self) -> AbstractAsyncContextManager[Connection]:
        """A connection for statements without which this process could not go on, such as claims on pools. In a control
        plane they wait neither for the connections of requests nor long for a lock.
        """
        return self._apart.use() if self.has_pulse else self.connection()

    @asynccontextmanager
    async def reports(self) -> AsyncIterator[Connection]:
        """For lists and charts of operators: an ordinary connection that only reads, perhaps from a replica."""
        async with nullcontext() if self.replica is None else self.replica.connection() as connection:
            if connection is not None:
                yield connection
                return
        async with self.ordinary() as connection, connection.transaction(readonly=True):
            yield connection

    @property
    def is_open(self) -> bool:
        return self._hot is not None

    @property
    def is_usable(self) -> bool:
        """Whether it is open and its primary is not lost."""
        return self._hot is not None and self.pulse.lost is None

    async def is_fine(self) -> bool:
        """Whether it is open and its server responds now and accepts writes. Waits for no connection of the pools."""
        return self.is_open and await self.pulse.is_fine()

    def connection_counts(self) -> tuple[int, int]:
        """Number of open connections, and how many of them are idle."""
        pools = [pool for pool in (self._hot, self._ordinary) if pool is not None]
        return sum(pool.get_size() for pool in pools), sum(pool.get_idle_size() for pool in pools)

    @asynccontextmanager
    async def _acquired(self, pool: asyncpg.Pool[asyncpg.Record] | None) -> AsyncIterator[Connection]:
        is_acquired = False
        attempt = self._outage.start_attempt()
        try:
            if pool is None:
                raise asyncpg.InterfaceError(f"database {self.name} is closed")
            async with pool.acquire() as connection:
                is_acquired, closes_at = True, cast("PrimaryConnection", connection).closes_at
                try:
                    yield connection
                except INSIDE_A_STATEMENT:
                    # The connection may have ended already, when the server was lost.
                    with suppress(asyncpg.InterfaceError):
                        connection.terminate()
                    raise
                except ENDED_BY_THE_PULSE as error:
                    if cast("Any", connection)._con is None:
                        raise ConnectionResetError("the connection ended inside a statement") from error
                    raise
                except asyncpg.PostgresError as error:
                    await raise_if_refused_by_a_standby(connection, error)
                    raise
                if time.monotonic() >= closes_at:
                    await connection.close(timeout=CLOSE_SECONDS)
        except DATABASE_AWAY as error:
            # After a connection was acquired, a timeout may be one that the caller has set.
            if is_away(error) and not (is_acquired and isinstance(error, TimeoutError)):
                self.pulse.wake()
                self._outage.failed(error, attempt)
            raise
        self._outage.ended(attempt)


def ordinary_connections(connections: int) -> int:
    """How many of a process's connections are for lists and sweeps, so that workers always have connections. Pure."""
    return max(1, connections * 3 // 10)


@asynccontextmanager
async def connected(dsn: str, name: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A separate connection without a statement timeout, for migrations and commands. Its session stays the same."""
    try:
        connection = await _connect_command(dsn)
        try:
            if await shares_sessions(connection, partial(_connect_command, dsn)):
                raise SharedSession.without_direct_dsn(DIRECT_DSN if name == "central" else POOL_DIRECT_DSN)
        except BaseException:
            connection.terminate()
            raise
    except CANNOT_CONNECT as error:
        raise DatabaseError(unreachable(name, dsn, error)) from error
    try:
        yield connection
    finally:
        with suppress(TimeoutError):
            await connection.close(timeout=CLOSE_SECONDS)


async def _connect_command(dsn: str) -> PrimaryConnection:
    # The role may have the settings of hot statements (decision 0052).
    session = {**ORDINARY, "statement_timeout": "0"}
    return await connect(dsn, session=session, server_settings={"application_name": "callsheet"})


async def has_database(dsn: str, name: str, database: str) -> bool:
    async with connected(dsn, name) as connection:
        return bool(await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database))


async def create_database(dsn: str, name: str, database: str) -> None:
    """Creates `database` on the server of `dsn`, unless it exists."""
    async with connected(dsn, name) as connection:
        if await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database):
            return
        try:
            quoted = await connection.fetchval("SELECT quote_ident($1)", database)
            await connection.execute(f"CREATE DATABASE {quoted} TEMPLATE template0")
        except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            pass  # Another process was faster.
        except asyncpg.InsufficientPrivilegeError:
            raise may_not_create(name, database) from None


def may_not_create(name: str, database: str) -> DatabaseError:
    return DatabaseError(
        f"The user of {name} may not create the database {database!r}. Let an administrator create it, owned by that "
        "user, and start again; or name another: callsheet db add-pool NAME DSN"
    )


async def _close(pool: asyncpg.Pool[asyncpg.Record] | None) -> None:
    if pool is None:
        return
    # A statement that several callers share is not cancelled when one of them leaves, so it may still wait for a lock.
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await pool.close()


async def prepare_connection(connection: Connection) -> None:
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def _keep_as_it_is(connection: Connection) -> None:
    return
