"""Errors of databases: which of them mean that one is away, and the sentences that say what to do."""

from __future__ import annotations

import socket
from collections.abc import Awaitable
from typing import TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from callsheet.plumbing.database.servers.connecting import NoPrimary, NotThePrimary
from callsheet.plumbing.database.servers.hosts import RefusedDsn
from callsheet.plumbing.database.servers.look_alikes import NotPostgreSQL
from callsheet.plumbing.database.servers.poolers import MIXED_STATEMENTS, SharedSession
from callsheet.plumbing.database.servers.pulse import DatabaseLost
from callsheet.toolbox.errors import OperatorError

Result = TypeVar("Result")

# Errors of connecting; ValueError if the DSN cannot be parsed.
CANNOT_CONNECT = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)


class DatabaseError(OperatorError):
    """The database cannot be used. The message contains the reason and what to do."""


class PoolUnavailable(DatabaseError):
    """A pool that is registered and currently not served. The message contains the reason; it is not for tenants."""

    def __init__(self, pool: str, reason: str):
        super().__init__(reason)
        self.pool = pool


class ConnectionNotAccepted(ConnectionRefusedError):
    """The server responds but refuses connections: the database takes none (`ALLOW_CONNECTIONS false`, SQLSTATE 55000),
    was renamed, or its password is being changed. `reason` is the server's message."""

    def __init__(self, reason: asyncpg.PostgresError):
        super().__init__(str(reason))
        self.reason = reason


# Errors of a database that cannot be reached, restarts or has no connection left. The request is not the cause.
DATABASE_AWAY = (
    PoolUnavailable,
    ConnectionError,
    TimeoutError,
    # The server's name cannot be resolved at the moment.
    socket.gaierror,
    asyncpg.InterfaceError,
    # "cannot switch to state 11": the first query after the server was killed, in one of six kills.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    # A migration added a column to the result of a prepared statement. asyncpg prepares the statement again, but it
    # cannot repeat the earlier statements of a transaction: the caller must. It happens once per connection pool and
    # migration.
    asyncpg.InvalidCachedStatementError,
)


def is_away(error: BaseException) -> bool:
    """Whether the database cannot be reached. False for a statement that took too long, and for a wrong argument, which
    asyncpg reports as DataError."""
    return isinstance(error, DATABASE_AWAY) and not isinstance(error, ValueError | asyncpg.QueryCanceledError)


def is_outage(error: BaseException) -> bool:
    """Whether the log needs no traceback: the database cannot be reached, or an operator has to correct something."""
    return is_away(error) or isinstance(error, OperatorError)


async def unless_unavailable(work: Awaitable[Result]) -> Result | None:
    """Returns None if the pool of this work is unavailable. For loops over all pools, which try again at their next
    tick.
    """
    try:
        return await work
    except PoolUnavailable:
        return None


def unreachable(name: str, dsn: str, error: BaseException) -> str:
    if isinstance(error, ConnectionNotAccepted | DatabaseLost):
        error = error.reason
    if isinstance(error, RefusedDsn):
        return f"The DSN of database {name} is refused. {error}"
    if isinstance(error, ValueError):
        # The message contains neither the DSN nor the error: a part of the password may be anywhere in a misread DSN.
        return (
            f"The DSN of database {name} cannot be read. Write it like postgresql://user:password@host:5432/name, "
            "with %40 for @, %2F for / and so on in user and password."
        )
    if isinstance(error, MIXED_STATEMENTS):
        error = SharedSession.mixes_statements()
    address = "/".join(filter(None, shown_address(dsn)))
    reason = error.cause if isinstance(error, NoPrimary) else error
    return f"Database {name} at {address} cannot be used: {str(error) or type(error).__name__}. {_hint(reason)}"


def _hint(error: BaseException) -> str:
    match error:
        case SharedSession(advice=advice) | NotPostgreSQL(advice=advice):
            return advice
        case asyncpg.InsufficientPrivilegeError():
            return "Let an administrator run there: GRANT CONNECT ON DATABASE … TO …"
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return "Check user and password in its DSN."
        case asyncpg.InvalidCatalogNameError():
            return "Create the database, or name another one in the DSN."
        case asyncpg.ObjectNotInPrerequisiteStateError():
            return "Let an administrator run there: ALTER DATABASE … ALLOW_CONNECTIONS true"
        case NotThePrimary(advice=advice) | NoPrimary(advice=str(advice)):
            return advice
        case _:
            return "Check that PostgreSQL is running there, and that the URL is right."


def shown_address(dsn: str) -> tuple[str, str]:
    """Host and database of a DSN, for messages. The user, the password and the options, which may contain a
    password, are left out.
    """
    parts = urlsplit(dsn)
    if "@" in dsn.partition(parts.netloc)[2]:
        return "(unreadable)", ""  # The password has an unescaped character: the apparent host is part of the password.
    host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", ["localhost"])[0]
    return host, unquote(parts.path.removeprefix("/"))
