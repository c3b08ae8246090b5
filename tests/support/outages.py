"""A database that goes away while this process uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from callsheet.plumbing.database import Database
from tests.support.ports import free_port


@asynccontextmanager
async def away(database: Database) -> AsyncIterator[None]:
    """Whoever asks for a connection is refused, as by a server that is down.

    The database stays open: a pool that is closed is left out by the loops and opened again for whoever asks for it.
    """
    address = database.dsn
    database.dsn = f"postgresql://nobody@127.0.0.1:{free_port()}/away"
    await _drop_connections(database)
    try:
        yield
    finally:
        database.dsn = address


async def _drop_connections(database: Database) -> None:
    """The next ones are made anew, to the address of that moment."""
    assert database._pool is not None
    await database._pool.expire_connections()
