"""Simulates that a database lost what it committed last, as after a failover to a standby that lagged behind.

async with lost_tail(ann.pool) as lose:     # what is in the database now will stay
    await core.complete(started)
    await lose()                            # what was written inside the block is gone, in this database only
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection

TABLES = """SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relpersistence = 'p' AND relnamespace = 'public'::regnamespace ORDER BY relname"""
# A standby has no rows of unlogged tables.
UNLOGGED = """SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relpersistence = 'u' AND relnamespace = 'public'::regnamespace"""
SEQUENCES = "SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace"


@asynccontextmanager
async def lost_tail(*databases: Database) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    kept = [(database, await _remember(database)) for database in databases]

    async def lose() -> None:
        for database, (tables, sequences) in kept:
            await _put_back(database, tables, sequences)

    yield lose


async def _remember(database: Database) -> tuple[dict[str, bytes], dict[str, tuple[int, bool]]]:
    async with database.ordinary() as connection, connection.transaction(isolation="repeatable_read"):
        tables = {row["relname"]: await _copy_of(connection, row["relname"]) for row in await connection.fetch(TABLES)}
        sequences = {}
        for row in await connection.fetch(SEQUENCES):
            [counter] = await connection.fetch(f'SELECT last_value, is_called FROM "{row["relname"]}"')
            sequences[row["relname"]] = (counter["last_value"], counter["is_called"])
    return tables, sequences


async def _copy_of(connection: Connection, table: str) -> bytes:
    content = BytesIO()
    await connection.copy_from_table(table, output=content, format="binary")
    return content.getvalue()


async def _put_back(database: Database, tables: dict[str, bytes], sequences: dict[str, tuple[int, bool]]) -> None:
    async with database.ordinary() as connection, connection.transaction():
        # Without triggers and foreign keys, as a standby replays them.
        await connection.execute("SET LOCAL session_replication_role = replica")
        for row in await connection.fetch(UNLOGGED):
            await connection.execute(f'DELETE FROM "{row["relname"]}"')
        for table, content in tables.items():
            await connection.execute(f'DELETE FROM "{table}"')
            await connection.copy_to_table(table, source=BytesIO(content), format="binary")
        for sequence, (value, is_called) in sequences.items():
            await connection.execute("SELECT setval($1::text::regclass, $2, $3)", f'"{sequence}"', value, is_called)
