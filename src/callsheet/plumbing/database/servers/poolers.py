"""Finds out how a connection pooler shares the sessions of PostgreSQL, and whether Callsheet can work behind it.

In session mode, each connection keeps its session. In transaction mode, each transaction gets any session, so nothing
that belongs to one works: settings, LISTEN, locks of a session (decision 0052). Callsheet then needs a second DSN
without the pooler, and the pooler must track prepared statements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal

import asyncpg

from callsheet.plumbing.database.servers.connecting import PrimaryConnection, connect, look
from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.plumbing.database")

PoolMode = Literal["session", "transaction"]

# A session of the pooler is free within this time.
PROBE_SECONDS = 10.0

# Raised by a server that gets the prepared statements of several clients in one session.
MIXED_STATEMENTS = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)


class SharedSession(ConnectionError):
    """The pooler shares sessions in a way that Callsheet cannot work with. `advice` says what to do."""

    def __init__(self, reason: str, advice: str):
        super().__init__(reason)
        self.advice = advice

    @classmethod
    def mixes_statements(cls) -> SharedSession:
        return cls(
            "a pooler in transaction mode mixes up the prepared statements of its clients",
            "PgBouncer must be 1.21 or newer, with max_prepared_statements = 200. Otherwise set pool_mode = session.",
        )

    @classmethod
    def without_direct_dsn(cls, variable: str) -> SharedSession:
        return cls(
            "a pooler in transaction mode is in front of it, and this connection needs a session of its own",
            f"Name the PostgreSQL server itself in {variable}, or set pool_mode = session.",
        )


async def shares_sessions(
    connection: PrimaryConnection, connect_another: Callable[[], Awaitable[PrimaryConnection]]
) -> bool:
    """Whether the pooler is in transaction mode. `connection` has no open transaction.

    Raises SharedSession if the pooler mixes up prepared statements.
    """
    if not connection.is_pooled:
        return False
    async with asyncio.timeout(PROBE_SECONDS):
        other = await connect_another()
        try:
            # The session that became free last is given out first. In session mode, none becomes free.
            async with other.transaction():
                held = (await look(other)).backend
                # This statement was prepared in the first session of the connection, which may be in use now.
                now = (await look(connection)).backend
            return held in (connection.state.backend, now) or now != connection.state.backend
        except MIXED_STATEMENTS as error:
            raise SharedSession.mixes_statements() from error
        except (asyncpg.ProtocolViolationError, asyncpg.ConnectionDoesNotExistError) as error:
            if "pooling mode" not in str(error):
                raise
            raise SharedSession(
                "a pooler in statement mode refuses transactions", "Set pool_mode = session, or transaction."
            ) from error
        finally:
            other.terminate()


async def find_mode(dsn: str) -> PoolMode | None:
    """The mode of the pooler in front of a database. None if there is no pooler.

    Raises SharedSession if Callsheet cannot work behind this pooler.
    """
    connection = await connect(dsn)
    try:
        if await shares_sessions(connection, partial(connect, dsn)):
            return "transaction"
        return "session" if connection.is_pooled else None
    finally:
        connection.terminate()


async def prepare_pooler(dsn: str, session: Mapping[str, str]) -> None:
    """In transaction mode, the settings become defaults of the role, because each transaction gets any session."""
    if await find_mode(dsn) == "transaction":
        connection = await connect(dsn)
        try:
            await _keep_for_role(connection, session)
        finally:
            connection.terminate()


async def _keep_for_role(connection: Connection, settings: Mapping[str, str]) -> None:
    """The settings become defaults of the role in this database: each session that the pooler opens later has them."""
    async with connection.transaction():
        # Two processes that start at once would change the same row.
        await SQL["take_turn_at_role"].row(connection)
        names, values = list(settings), list(settings.values())
        for command in await SQL["write_role_settings"].column(connection, names=names, settings=values):
            await connection.execute(command)
