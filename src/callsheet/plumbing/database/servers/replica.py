"""A read-only replica of a database, for lists and charts of operators (decision 0054).

Each use asks the replica whether it is still a standby of this database, and how old its data may be. If it cannot be
used, the caller reads the primary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, NamedTuple

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from callsheet.plumbing.database.database import ORDINARY, ordinary_connections, prepare_connection
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import DatabaseSettings
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

SQL = statements("callsheet.plumbing.database.servers", "replication_statements.sql")

# The position of the primary is read again after this time: the greatest lag of a replica that has everything.
POSITION_SECONDS = 5.0
# A replica that could not be used is asked again after this time. Until then nothing waits for it.
RETRY_SECONDS = 10.0
CONNECT_SECONDS = 3.0
CLOSE_SECONDS = 3.0
CANNOT_ASK = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, ValueError)
APPLICATION_NAME = "callsheet reports"


class UnusableReplica(ConnectionError):
    """The replica cannot be read. The message contains the reason, and neither its DSN nor a password."""


class PrimaryPosition(NamedTuple):
    """What the primary had written. A replica of the same database that has it too is as old as this at most."""

    database: str
    system: int
    position: str


class ReplicaView(NamedTuple):
    database: str
    system: int
    is_standby: bool
    has_position: bool
    # Since the last commit that it has replayed. None if it has replayed none yet.
    replayed_seconds: float | None


class ReplicaState(NamedTuple):
    """`lag_seconds`: how old the data of the replica may be. `problem`: why it is not read."""

    lag_seconds: float | None
    problem: str | None


PrimaryReader = Callable[[], AbstractAsyncContextManager[Connection]]


class Replica:
    def __init__(
        self,
        name: str,
        dsn: str,
        settings: DatabaseSettings,
        primary: PrimaryReader,
    ):
        """`primary`: a connection to the primary."""
        self._name = name
        self._dsn = dsn
        self._settings = settings
        self._primary = primary
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._position: PrimaryPosition | None = None
        self._position_at = float("-inf")
        self._retry_at = float("-inf")
        # At the last use.
        self.state = ReplicaState(None, "it was not read yet")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection | None]:
        """A connection in a read-only transaction. None if the replica cannot be used now."""
        connection = await self._acquire()
        if connection is None:
            yield None
            return
        try:
            async with connection.transaction(readonly=True):
                yield connection
        except asyncpg.SerializationError as error:
            # The replay removed rows that the statement needed.
            raise self._failed(UnusableReplica(f"the replica of {self._name} cancelled a read: {error}")) from error
        except (asyncio.CancelledError, TimeoutError, asyncpg.InterfaceError, asyncpg.DataError):
            with suppress(asyncpg.InterfaceError):
                connection.terminate()
            raise
        finally:
            await self._release(connection)

    async def check(self) -> ReplicaState:
        """The state now."""
        connection = await self._acquire()
        if connection is not None:
            await self._release(connection)
        return self.state

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await pool.close()

    async def _acquire(self) -> Any:
        """A connection, if the replica can be used. Otherwise None, and `state` has the reason."""
        if time.monotonic() < self._retry_at:
            return None
        connection: Any = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS + 1):
                pool = await self._opened()
                connection = await pool.acquire()
                await self._read_position()
                lag_seconds = await self._look(connection)
        except CANNOT_ASK as error:
            await self._drop(connection)
            self._failed(error)
            return None
        except BaseException:
            await self._drop(connection)
            raise
        if lag_seconds > self._settings.replica_lag_seconds:
            problem = f"it is {lag_seconds:.0f} s behind, more than {self._settings.replica_lag_seconds:g} s"
            self._set(ReplicaState(lag_seconds, problem))
            await self._release(connection)
            return None
        self._set(ReplicaState(lag_seconds, None))
        return connection

    async def _look(self, connection: Connection) -> float:
        """How old the data of the replica may be, in seconds. Raises if it is not a replica of this database."""
        position = self._position
        if position is None:
            raise UnusableReplica("the position of the primary is not known yet")
        found = await SQL["look_at_replica"].row(connection, ReplicaView, position=position.position)
        assert found is not None
        if not found.is_standby:
            raise UnusableReplica("the server is not a standby: it was promoted, or the DSN names the primary")
        if (found.database, found.system) != (position.database, position.system):
            raise UnusableReplica("it is a copy of another server, or its DSN names another database")
        lags = [found.replayed_seconds] if found.replayed_seconds is not None else []
        if found.has_position:
            lags.append(time.monotonic() - self._position_at)
        if not lags:
            raise UnusableReplica("it has replayed nothing yet")
        return max(0.0, min(lags))

    async def _read_position(self) -> None:
        """While the primary is away, the last position counts, and the lag grows with its age."""
        at = time.monotonic()
        if at - self._position_at < POSITION_SECONDS:
            return
        with suppress(*(CANNOT_ASK if self._position is not None else ())):
            async with self._primary() as connection:
                position = await SQL["read_position"].row(connection, PrimaryPosition)
            self._position, self._position_at = position, at

    async def _opened(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=ordinary_connections(self._settings.connections),
                    max_inactive_connection_lifetime=60,
                    command_timeout=self._settings.statement_seconds + 5,
                    timeout=CONNECT_SECONDS,
                    target_session_attrs=SessionAttribute.prefer_standby,
                    init=self._prepare_session,
                    reset=_keep_as_it_is,
                    server_settings={"application_name": APPLICATION_NAME, "timezone": "UTC"},
                )
            return self._pool

    async def _prepare_session(self, connection: Connection) -> None:
        await prepare_connection(connection)
        session = {**ORDINARY, "statement_timeout": str(int(self._settings.statement_seconds * 1000))}
        await SQL["set_replica_session"].rows(connection, names=list(session), settings=list(session.values()))

    async def _release(self, connection: Any) -> None:
        if self._pool is not None:
            await self._pool.release(connection)

    async def _drop(self, connection: Any) -> None:
        if connection is not None:
            with suppress(asyncpg.InterfaceError):
                connection.terminate()
            await self._release(connection)

    def _failed(self, error: Exception) -> Exception:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        # A part of the password may be anywhere in the error about a DSN that cannot be read.
        reason = "its DSN cannot be read" if isinstance(error, ValueError) else str(error) or "it does not respond"
        self._set(ReplicaState(None, reason))
        return error

    def _set(self, state: ReplicaState) -> None:
        """Logs one line when the replica is no longer read, and one when it is read again."""
        before, self.state = self.state, state
        if state.problem is not None and before.problem is None:
            log.warning("database.replica_not_read", database=self._name, reason=state.problem)
        elif state.problem is None and before.problem is not None:
            log.info("database.replica_read", database=self._name, lag_seconds=round(state.lag_seconds or 0.0, 1))


async def _keep_as_it_is(connection: Connection) -> None:
    return
