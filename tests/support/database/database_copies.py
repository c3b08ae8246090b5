"""Copies databases with pg_dump and psql as operators do, or with a faster way if the tools do not matter."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.embedded.binaries import find_binaries

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


async def dump_and_restore(source: str, target: str) -> None:
    folder = find_binaries().psql.parent
    dump = await _output(folder / "pg_dump", "--no-owner", source)
    await _output(folder / "psql", "--quiet", "--set=ON_ERROR_STOP=1", target, input=dump)


async def _output(program: Path, *arguments: str, input: bytes = b"") -> bytes:
    process = await asyncio.create_subprocess_exec(
        str(program),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate(input)
    assert process.returncode == 0, errors.decode()
    return output


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
