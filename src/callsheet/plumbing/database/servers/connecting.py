"""The one place that connects to a database: to the server among the hosts of its DSN that accepts writes.

All hosts are tried side by side, so a silent one costs nothing if another one responds. Names are resolved at each
attempt. If two servers accept writes, the one with the higher timeline was promoted last: the other one was the primary
before, and is never used again by this process (decision 0048).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from callsheet.plumbing.database.servers.hosts import Host, ServerList, read_servers
from callsheet.plumbing.database.servers.look_alikes import NotPostgreSQL, require_postgresql
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

SQL = statements("callsheet.plumbing.database")

# After the first primary was found, the other hosts have this long to show that they were promoted later: enough for a
# server that works.
GRACE_SECONDS = 0.1
# So often, and at the first connection, a slow one is waited for too.
SCAN_SECONDS, SCAN_GRACE_SECONDS = 10.0, 1.0

# A machine that is gone is noticed in 25 seconds although no statement is running; one that no longer acknowledges what
# was sent, in 15.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}

# A read-only server refuses writes with 25006, and a standby refuses some other statements with 0A000 and 55000. Wrong
# statements have these codes too.
REFUSED_BY_A_STANDBY = frozenset({"25006", "0A000", "55000"})
ASK_SECONDS = 2.0

# The settings that a pooler accepts in a startup message.
AT_THE_START = frozenset({"application_name", "timezone"})

# asyncpg raises it if a connection is terminated between two messages of one statement.
ENDED_BY_THE_PULSE = AttributeError

# All that asyncpg may raise if a connection ends during a statement.
ENDED_MEANWHILE = (
    *(OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, ENDED_BY_THE_PULSE),
    *(asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError),
)

# Servers that do not report their timeline. It is not compared.
UNKNOWN = 0

STANDBY_ADVICE = "Name the primary in the DSN, or all servers: postgresql://user:password@db1,db2/name"
READ_ONLY_ADVICE = "Name a server that accepts writes, or let an administrator set default_transaction_read_only=off."
NO_PRIMARY_ADVICE = "The DSN names no primary: add it to the hosts, or promote one of them."
SPLIT_ADVICE = "Compare their newest jobs before you stop one: jobs that only one of them has are lost with it."

if TYPE_CHECKING:  # generic for the type checker only
    _Base = asyncpg.Connection[asyncpg.Record]
else:
    _Base = asyncpg.Connection


class ServerState(NamedTuple):
    """The facts that a server reports of itself."""

    version: str
    # The process of the server that runs the statements of this connection, at this moment.
    backend: int
    is_standby: bool
    is_read_only: bool
    system: int
    timeline: int
    started_at: datetime
    now: datetime

    @property
    def identity(self) -> tuple[int, int, datetime]:
        """The same for all connections to one primary, until it restarts."""
        return self.system, self.timeline, self.started_at


class NotThePrimary(ConnectionError):
    """The server does not accept writes, or was the primary before another one took over. `advice` says what to do."""

    def __init__(self, message: str, advice: str):
        super().__init__(message)
        self.advice = advice


class SilentHost(TimeoutError):
    """The host did not respond in time."""


class UnusableHost(ConnectionError):
    """The host has no route, no trusted certificate or no socket. The system has no common class for these errors."""


class NoPrimary(ConnectionError):
    """None of the hosts of a DSN is a server that accepts writes. `errors` has what each one responded."""

    def __init__(self, errors: Mapping[Host, Exception]):
        super().__init__("; ".join(response_of(host, error) for host, error in errors.items()))
        self.errors = errors

    @property
    def advice(self) -> str | None:
        """What to do if all servers responded and none of them may be used. None if one of them may be the primary."""
        advice = [error.advice for error in self.errors.values() if isinstance(error, NotThePrimary)]
        if len(advice) < len(self.errors):
            return None
        return advice[0] if len(set(advice)) == 1 and advice[0] != STANDBY_ADVICE else NO_PRIMARY_ADVICE

    @property
    def cause(self) -> Exception:
        """The error that an operator can correct, if one of the servers responded with such an error."""
        errors = self.errors.values()
        return next((error for error in errors if isinstance(error, asyncpg.PostgresError | NotPostgreSQL)), self)


class PrimaryConnection(_Base):
    """A connection to a primary. The kernel notices if the server's machine is gone."""

    state: ServerState
    # When it is closed after its use (monotonic seconds).
    closes_at = float("inf")

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler is in between: it makes up the process id that a connection gets at its start."""
        return self.get_server_pid() != self.state.backend

    def __init__(self, protocol: Any, transport: asyncio.Transport, *others: Any):
        super().__init__(protocol, transport, *others)
        _keep_alive(transport.get_extra_info("socket"))


class _Timelines:
    """The highest timeline that this process has seen of each system behind a list of hosts."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._highest: dict[tuple[tuple[Host, ...], int], int] = {}
        self._scanned: dict[tuple[Host, ...], float] = {}
        self._reported: set[tuple[Host, tuple[int, int, datetime]]] = set()

    def is_behind(self, hosts: tuple[Host, ...], state: ServerState) -> bool:
        """Whether another server was promoted after this one. Remembers the timeline otherwise."""
        key = hosts, state.system
        highest = self._highest.get(key, UNKNOWN)
        if UNKNOWN in (state.timeline, highest) or state.timeline >= highest:
            self._highest[key] = max(state.timeline, highest)
            return False
        return True

    def scans(self, hosts: tuple[Host, ...]) -> bool:
        """Whether this attempt waits for slow hosts."""
        now = time.monotonic()
        is_due = now - self._scanned.get(hosts, float("-inf")) >= SCAN_SECONDS
        if is_due:
            self._scanned[hosts] = now
        return is_due

    def report(self, host: Host, state: ServerState) -> None:
        """Logs a second primary, once."""
        if (host, state.identity) not in self._reported:
            self._reported.add((host, state.identity))
            log.error("database.two_primaries", host=str(host), timeline=state.timeline, advice="stop this server")


TIMELINES = _Timelines()


async def connect(dsn: str, *, session: Mapping[str, str] | None = None, **options: Any) -> PrimaryConnection:
    """Connects to the primary. `options` are those of `asyncpg.connect`.

    `session`: settings of PostgreSQL for this session. They are set by a statement, because a pooler refuses a startup
    message that has them, or drops them silently. A pooler accepts `application_name` and `timezone` at the start.

    Raises NoPrimary, or the error of the only host.
    """
    if not (options.get("server_settings") or {}).keys() <= AT_THE_START:
        raise TypeError(f"a pooler refuses other settings than {sorted(AT_THE_START)} at the start: use session=")
    servers = read_servers(dsn)
    if len(servers.hosts) == 1:
        return await _attempt(servers, servers.hosts[0], session or {}, options)
    return await _latest_primary(servers, session or {}, options)


async def connect_to(dsn: str, host: Host, **options: Any) -> PrimaryConnection:
    """Connects to one of the hosts of the DSN if it accepts writes, whatever the others do."""
    return await _attempt(replace(read_servers(dsn), hosts=(host,)), host, {}, options)


def response_of(host: Host, error: Exception) -> str:
    """The response of a host, for operators."""
    match error:
        case NotThePrimary() | SilentHost() | UnusableHost():
            return str(error)
        case ConnectionRefusedError():
            return f"{host} refused the connection"
        case socket.gaierror():
            return f"the name of {host} cannot be resolved"
        case _:
            return f"{host}: {str(error) or type(error).__name__}"


def _keep_alive(socket_: socket.socket | None) -> None:
    if socket_ is None or socket_.family not in (socket.AF_INET, socket.AF_INET6):
        return
    socket_.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        # Each system has some of them.
        if hasattr(socket, name):
            socket_.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def look(connection: Connection) -> ServerState:
    """Asks the server whether it is a primary that accepts writes, and which one."""
    try:
        state = await SQL["look_at_server"].row(connection, ServerState)
    except (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedFunctionError, asyncpg.FeatureNotSupportedError):
        # Some services keep the functions about the log and the control file to themselves.
        try:
            state = await SQL["look_at_closed_server"].row(connection, ServerState)
        except asyncpg.PostgresError:
            require_postgresql(await connection.fetchval("SELECT version()"))
            raise
    assert state is not None
    require_postgresql(state.version)
    return state


async def raise_if_refused_by_a_standby(connection: Connection, error: asyncpg.PostgresError) -> None:
    """Raises a ConnectionError if the statement failed because of its server, which is asked for its role."""
    if error.sqlstate not in REFUSED_BY_A_STANDBY:
        return
    try:
        async with asyncio.timeout(ASK_SECONDS):
            state = await look(connection)
    except ENDED_MEANWHILE as ended:
        # By the pulse, or by the server.
        raise ConnectionResetError(f"the connection ended when the server was asked about: {error}") from ended
    except asyncpg.PostgresError:
        return
    if state.is_standby or state.is_read_only:
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
        advice = STANDBY_ADVICE if state.is_standby else READ_ONLY_ADVICE
        raise NotThePrimary(f"the server accepts no writes: {error}", advice) from error


async def _attempt(
    servers: ServerList, host: Host, session: Mapping[str, str], options: Mapping[str, Any]
) -> PrimaryConnection:
    seconds = servers.connect_seconds
    # Our check of the session has a reason in each case, and compares timelines.
    ours: dict[str, Any] = {
        "connection_class": PrimaryConnection,
        "target_session_attrs": "any",
        "timeout": seconds + 1,
    }
    if host.name is not None:
        ours |= {"host": host.name, "port": host.port}
    connection: PrimaryConnection | None = None
    try:
        async with asyncio.timeout(seconds):
            made = await asyncpg.connect(servers.dsn, **{**options, **ours})
            assert isinstance(made, PrimaryConnection)
            connection = made
            connection.state = await look(connection)
            _require_primary(servers, host, connection.state)
            if session:
                await SQL["set_session"].row(connection, names=list(session), settings=list(session.values()))
    except BaseException as error:
        if connection is not None:
            connection.terminate()
        match error:
            case TimeoutError():
                raise SilentHost(f"{host} gave no response in {seconds:g} s") from error
            case asyncpg.InternalClientError():
                # asyncpg raises it if the connection ends at the first statement.
                raise ConnectionResetError(f"{host} ended the connection at once") from error
            case ConnectionError() | socket.gaierror():
                raise
            case OSError():
                raise UnusableHost(f"{host}: {error}") from error
        raise
    return connection


def _require_primary(servers: ServerList, host: Host, state: ServerState) -> None:
    if state.is_standby:
        raise NotThePrimary(f"{host} is a standby", STANDBY_ADVICE)
    if state.is_read_only:
        raise NotThePrimary(f"{host} is read-only", READ_ONLY_ADVICE)
    if TIMELINES.is_behind(servers.hosts, state):
        TIMELINES.report(host, state)
        raise NotThePrimary(
            f"{host} accepts writes, but another server was promoted after it (timeline {state.timeline}): stop it",
            NO_PRIMARY_ADVICE,
        )


async def _latest_primary(
    servers: ServerList, session: Mapping[str, str], options: Mapping[str, Any]
) -> PrimaryConnection:
    grace = SCAN_GRACE_SECONDS if TIMELINES.scans(servers.hosts) else GRACE_SECONDS
    attempts = {asyncio.create_task(_attempt(servers, host, session, options)): host for host in servers.hosts}
    pending = set(attempts)
    chosen: PrimaryConnection | None = None
    try:
        while pending and not _connections(attempts):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if pending:
            await asyncio.wait(pending, timeout=grace)
        found = _connections(attempts)
        if not found:
            raise NoPrimary({host: _error(attempt) for attempt, host in attempts.items()})
        _require_one_system(found)
        chosen = max(found.values(), key=lambda connection: connection.state.timeline)
        for host, connection in found.items():
            if TIMELINES.is_behind(servers.hosts, connection.state):
                TIMELINES.report(host, connection.state)
    finally:
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        for connection in _connections(attempts).values():
            if connection is not chosen:
                connection.terminate()
    return chosen


def _connections(attempts: Mapping[asyncio.Task[PrimaryConnection], Host]) -> dict[Host, PrimaryConnection]:
    ended = {host: attempt for attempt, host in attempts.items() if attempt.done() and not attempt.cancelled()}
    return {host: attempt.result() for host, attempt in ended.items() if attempt.exception() is None}


def _error(attempt: asyncio.Task[PrimaryConnection]) -> Exception:
    error = attempt.exception()
    if isinstance(error, ValueError) or not isinstance(error, Exception):
        raise error or AssertionError("an attempt without an error")
    return error


def _require_one_system(found: Mapping[Host, PrimaryConnection]) -> None:
    """No order is known of servers that are not copies of one another, and of copies that were not promoted after one
    another. An operator has to decide."""
    latest = max(connection.state.timeline for connection in found.values())
    if len({connection.state.system for connection in found.values()}) == 1:
        found = {host: each for host, each in found.items() if each.state.timeline == latest}
    if len({connection.state.identity for connection in found.values()}) > 1:
        reason = f"accepts writes, and only one of {' and '.join(map(str, found))} may: stop the others"
        raise NoPrimary({host: NotThePrimary(f"{host} {reason}", SPLIT_ADVICE) for host in found})
