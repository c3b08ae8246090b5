"""A database that fails while the stack runs, which no user and no page can cause."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.browser.stack import Stack

POOL = "SELECT datname FROM pg_database WHERE datname LIKE '%pool\\_1'"


@asynccontextmanager
async def pool_away(stack: Stack) -> AsyncIterator[None]:
    """The pool of all users accepts no connection, as while its server is replaced."""
    async with _administered(stack) as (postgres, pool):
        admin = await asyncpg.connect(postgres.dsn("postgres"))
        try:
            await admin.execute(f"ALTER DATABASE {pool} ALLOW_CONNECTIONS false")
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", pool)
            yield
        finally:
            await admin.execute(f"ALTER DATABASE {pool} ALLOW_CONNECTIONS true")
            await admin.close()


@asynccontextmanager
async def without_table(stack: Stack, table: str) -> AsyncIterator[None]:
    """Statements that need this table of the pool fail, which the control plane does not expect."""
    async with _administered(stack) as (postgres, pool):
        admin = await asyncpg.connect(postgres.dsn(pool))
        try:
            await admin.execute(f"ALTER TABLE {table} RENAME TO {table}_away")
            try:
                yield
            finally:
                await admin.execute(f"ALTER TABLE {table}_away RENAME TO {table}")
        finally:
            await admin.close()


@asynccontextmanager
async def _administered(stack: Stack) -> AsyncIterator[tuple[EmbeddedPostgres, str]]:
    postgres = await EmbeddedPostgres.start(stack.home)
    try:
        admin = await asyncpg.connect(postgres.dsn("postgres"))
        try:
            pool = await admin.fetchval(POOL)
        finally:
            await admin.close()
        yield postgres, pool
    finally:
        await postgres.close()
