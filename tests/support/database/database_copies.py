"""Copies of databases: dumped and restored as operators do, or made in a faster way if the tools do not matter."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.dumps import dump_and_restore

_numbers = itertools.count(1)


class DatabaseCopies:
    """Databases on a server that are removed at the end."""

    def __init__(self, postgres: EmbeddedPostgres, admin: asyncpg.Connection):
        self._postgres = postgres
        self._admin = admin
        self.made: list[str] = []

    def dsn(self, name: str) -> str:
        return self._postgres.dsn(name)

    async def database(self) -> str:
        """Creates an empty database. Returns its DSN."""
        name = f"copy_{next(_numbers)}"
        await self._admin.execute(f"CREATE DATABASE {name}")
        self.made.append(name)
        return self._postgres.dsn(name)

    async def of(self, dsn: str) -> str:
        """Restores a dump of a database under another name. Returns its DSN."""
        copy = await self.database()
        await dump_and_restore(dsn, copy)
        return copy

    async def duplicate(self, dsn: str) -> str:
        """Lets PostgreSQL copy a database that has no connections. Returns the DSN of the copy."""
        copy, source = f"copy_{next(_numbers)}", urlsplit(dsn).path.removeprefix("/")
        await self._admin.execute(f'CREATE DATABASE {copy} TEMPLATE "{source}" STRATEGY FILE_COPY')
        self.made.append(copy)
        return self._postgres.dsn(copy)


@asynccontextmanager
async def open_database_copies(postgres: EmbeddedPostgres) -> AsyncIterator[DatabaseCopies]:
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    database_copies = DatabaseCopies(postgres, admin)
    try:
        yield database_copies
    finally:
        for name in database_copies.made:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()
