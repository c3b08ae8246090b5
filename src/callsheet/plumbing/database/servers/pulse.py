"""The pulse of a database: asks its server every two seconds whether it accepts writes (decision 0051).

It has a connection of its own, so it neither waits for a free connection nor for a lock. When the server is lost,
silent, read-only or demoted, all connections of this process to it are ended at once, and none is made until the
primary is found. The connection is renewed often: a host name may point to another server by then, and another host of
the DSN may have been promoted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import asyncpg

from callsheet.plumbing.database.servers.connecting import (
    TIMELINES,
    NoPrimary,
    PrimaryConnection,
    ServerState,
    look,
)
from callsheet.plumbing.database.servers.hosts import read_servers
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import Outage

log = get_logger(__name__)

INTERVAL_SECONDS = 2.0
# So long the server may be silent. After that, a new connection decides whether it is lost.
SILENT_SECONDS = 2.0
# A server that is silent for so long is lost although nothing says that another one is the primary. Until then it may
# only be slow, and ending the connections of a busy server would make it slower.
LOST_SECONDS = 12.0
RENEW_SECONDS = 10.0
# Between two attempts to find the primary.
RETRY_SECONDS = 0.25
# A result is as old as this only if the process was held up.
FRESH_SECONDS = INTERVAL_SECONDS + 1.0
CHECK_SECONDS = 2.0
CLOSE_SECONDS = 1.0
# Errors of a connection or of connecting.
FAILED = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, ValueError)


class DatabaseLost(ConnectionError):
    """No server accepts writes for the database at the moment. `reason` is the error of the last attempt."""

    def __init__(self, reason: Exception):
        super().__init__(str(reason) or type(reason).__name__)
        self.reason = reason


class Server(NamedTuple):
    """What the pulse needs of its database."""

    name: str
    dsn: Callable[[], str]
    connect: Callable[[str], Awaitable[PrimaryConnection]]
    # Ends all connections to other servers than this one; to all servers for None.
    keep_only: Callable[[ServerState | None], None]


class Pulse:
    def __init__(self, server: Server):
        self._server = server
        self._connection: PrimaryConnection | None = None
        self._dsn = ""
        self._renew_at = self._responded_at = float("-inf")
        self._identity: tuple[object, ...] | None = None
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._outage = Outage(f"pulse of {server.name}")
        # Whether it connects again soon, because the primary may be another server.
        self._is_searching = False
        # Why there is no server to write to. None if there is one, and if nothing is known.
        self.lost: Exception | None = None
        # Seconds that the clock of this machine is ahead of the server's.
        self.clock_offset = 0.0

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"pulse:{self._server.name}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        connection, self._connection = self._connection, None
        self.lost, self._identity, self._responded_at = None, None, float("-inf")
        if connection is not None:
            await _close(connection)

    def wake(self, *, renew: bool = False) -> None:
        """Asks now. `renew`: on a new connection."""
        if renew:
            self._renew_at = float("-inf")
        self._woken.set()

    async def is_fine(self) -> bool:
        """Whether the server accepts writes and responds now."""
        if self.lost is None and not self._is_fresh():
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self.check()
        return self.lost is None and self._is_fresh()

    async def check(self) -> None:
        """Asks the server; finds the primary if it is another one."""
        async with self._turn:
            state = await self._ask()
            if state is None or time.monotonic() >= self._renew_at or self._dsn != self._server.dsn():
                state = await self._renew(state)
            if state is not None:
                self._found(state)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self.check()
            except Exception:  # The pulse never ends by an error that is not expected.
                log.exception("pulse.failed", database=self._server.name)
            # Not more often, because every failed statement wakes this.
            await asyncio.sleep(RETRY_SECONDS)
            if not self._is_searching:
                with suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL_SECONDS - RETRY_SECONDS):
                        await self._woken.wait()

    async def _ask(self) -> ServerState | None:
        """The state of the server. None if it is not known, or if the server accepts no writes."""
        if self._connection is None:
            return None
        asked = time.time()
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                state = await look(self._connection)
        except FAILED:
            return None
        offset = (asked + time.time()) / 2 - state.now.timestamp()
        if state.is_standby or state.is_read_only or TIMELINES.is_behind(read_servers(self._dsn).hosts, state):
            return None
        self.clock_offset = offset
        return state

    async def _renew(self, state: ServerState | None) -> ServerState | None:
        """Connects again. `state` is that of the connection so far, which is kept if the server refuses another."""
        dsn = self._server.dsn()
        try:
            connection = await self._server.connect(dsn)
        except FAILED as error:
            if dsn == self._dsn and state is not None:
                self._renew_at = time.monotonic() + RENEW_SECONDS
                return state
            await self._replace(None)
            self._is_searching = is_lost(error)
            if self._is_searching and not (is_silent(error) and time.monotonic() - self._responded_at < LOST_SECONDS):
                self._lose(error)
            else:
                self._outage.failed(error)
            return None
        await self._replace(connection)
        self._dsn, self._renew_at = dsn, time.monotonic() + RENEW_SECONDS
        # Again, because connecting may wait for another host after this one has responded.
        return await self._ask()

    async def _replace(self, connection: PrimaryConnection | None) -> None:
        before, self._connection = self._connection, connection
        if before is not None:
            await _close(before)

    def _lose(self, error: Exception) -> None:
        self._outage.failed(error)
        self.lost, self._identity = error, None
        self._server.keep_only(None)

    def _found(self, state: ServerState) -> None:
        if self._identity not in (None, state.identity):
            log.warning("database.another_primary", database=self._server.name, timeline=state.timeline)
        self.lost, self._identity, self._is_searching = None, state.identity, False
        self._responded_at = time.monotonic()
        self._server.keep_only(state)
        self._outage.ended()

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._responded_at < FRESH_SECONDS


def is_lost(error: BaseException) -> bool:
    """Whether no server accepts writes. False if a server refused this one connection, for instance because of its
    password, or because it has too many: those that are open may still work. Pure.
    """
    cause = error.cause if isinstance(error, NoPrimary) else error
    return isinstance(cause, OSError | asyncpg.CannotConnectNowError)


def is_silent(error: BaseException) -> bool:
    """Whether a server gave no response, so that it may still be the primary. Pure."""
    errors = error.errors.values() if isinstance(error, NoPrimary) else (error,)
    return any(isinstance(each, TimeoutError) for each in errors)


async def _close(connection: PrimaryConnection) -> None:
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except BaseException as error:
        connection.terminate()
        if not isinstance(error, FAILED):
            raise
