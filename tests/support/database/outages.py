"""A database that goes away while this process uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from callsheet.plumbing.database.database import Database
from tests.support.run.ports import free_port


@asynccontextmanager
async def away(database: Database) -> AsyncIterator[None]:
    """Every request for a connection is refused, as by a server that is down.

    The database stays open: the loops leave out a closed pool, and the next request opens it again.
    """
    places = database.dsn, database.pooled_dsn
    database.dsn, database.pooled_dsn = f"postgresql://nobody@127.0.0.1:{free_port()}/away", None
    await _drop_connections(database)
    try:
        yield
    finally:
        database.dsn, database.pooled_dsn = places
        await _ask(database)


@asynccontextmanager
async def closed(database: Database) -> AsyncIterator[None]:
    """This process has no connection to the database, and opens none."""
    await database.close()
    try:
        yield
    finally:
        await database.open()


@asynccontextmanager
async def accepting_no_connections(database: Database) -> AsyncIterator[None]:
    """The server runs, but an administrator has closed this database (SQLSTATE 55000)."""
    async with database.connection() as connection:
        name = await connection.fetchval("SELECT quote_ident(current_database())")
    admin = await asyncpg.connect(database.dsn, database="postgres")
    try:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await _drop_connections(database)
        try:
            yield
        finally:
            await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    finally:
        await admin.close()


async def _drop_connections(database: Database) -> None:
    """Drops the connections. New ones are made with the current DSN."""
    for pool in (database._hot, database._ordinary):
        assert pool is not None
        await pool.expire_connections()
    await _ask(database)


async def _ask(database: Database) -> None:
    """Notices at once what a control plane would notice within two seconds."""
    if database.pulse.is_running:
        await database.pulse.check()
