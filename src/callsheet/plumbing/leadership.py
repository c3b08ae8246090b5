"""Elects one leader among any number of processes: the process that holds a lock in a database, on its own connection.

The lock belongs to the session and ends with the connection: at once if the process dies, and after `SILENT_SECONDS` if
it hangs or its machine is gone, because the server ends a session that is silent for this time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from callsheet.plumbing.database.database import CLOSE_SECONDS, ORDINARY, Database, prepare_connection
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import Connection

TRY = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
PING_SECONDS = 5.0
SILENT_SECONDS = 20.0
STATEMENT_SECONDS = 10.0


class LeadershipLost(ConnectionError):
    """The lock was lost: another process may lead now."""


class Leadership:
    def __init__(self, database: Database, name: str, silent_seconds: float = SILENT_SECONDS):
        self._database = database
        self._name = name
        self._silent_seconds = silent_seconds
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        # One statement at a time.
        self._turn = asyncio.Lock()
        self.is_held = False

    async def take(self) -> bool:
        """Asks the database whether this process leads now."""
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self.is_held = False
                self._connection = await self._connect()
            try:
                if self.is_held:
                    await self._connection.execute("SELECT 1")
                else:
                    self.is_held = await self._connection.fetchval(TRY, self._name)
            except BaseException:
                self._drop()
                raise
            return self.is_held

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """The connection that holds the lock. A process that lost the lock cannot write over it."""
        async with self._turn:
            if self._connection is None or self._connection.is_closed() or not self.is_held:
                raise LeadershipLost(f"This process no longer holds {self._name!r}.")
            yield self._connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Does the work and keeps the session alive. If the lock is lost, the work is cancelled."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=PING_SECONDS))[0]:
                async with self.connection() as connection:
                    await connection.execute("SELECT 1")
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Lets another process lead."""
        async with self._turn:
            connection, self._connection, self.is_held = self._connection, None, False
            if connection is not None:
                with suppress(*DATABASE_AWAY):
                    await connection.close(timeout=CLOSE_SECONDS)

    def _drop(self) -> None:
        self.is_held = False
        if self._connection is not None:
            self._connection.terminate()

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        connection = await self._database.connect_apart(
            command_timeout=STATEMENT_SECONDS + 5,
            server_settings={"application_name": f"callsheet {self._name}", "timezone": "UTC"},
            session={
                **ORDINARY,
                "statement_timeout": str(int(STATEMENT_SECONDS * 1000)),
                "idle_session_timeout": str(int(self._silent_seconds * 1000)),
                "idle_in_transaction_session_timeout": str(int(self._silent_seconds * 1000)),
            },
        )
        await prepare_connection(connection)
        return connection
