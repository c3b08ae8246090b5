"""A connection outside the pools of a database, for the few short statements that a process needs to go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from callsheet.plumbing.database.servers.connecting import PrimaryConnection
from callsheet.plumbing.database.sql import Connection

LOCK_SECONDS, STATEMENT_SECONDS = 2.0, 5.0


class ApartConnection:
    """It is made at its first use, and again after an error. One use at a time."""

    def __init__(self, connect: Callable[..., Awaitable[PrimaryConnection]]):
        self._connect = connect
        self._connection: PrimaryConnection | None = None
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect(
                    command_timeout=STATEMENT_SECONDS + 1,
                    server_settings={"application_name": "callsheet watch", "timezone": "UTC"},
                    session={
                        "lock_timeout": str(int(LOCK_SECONDS * 1000)),
                        "statement_timeout": str(int(STATEMENT_SECONDS * 1000)),
                    },
                )
            try:
                yield self._connection
            except BaseException:
                # A statement may still run there.
                self._connection.terminate()
                raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
