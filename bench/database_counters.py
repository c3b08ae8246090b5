"""Counts the work of the server: statements, and commits that wrote something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import asyncpg

from bench.installation import BenchInstallation
from callsheet.plumbing.database.databases import Databases

STATEMENTS = """
SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE s.toplevel AND d.datname = ANY ($1::text[]) AND s.query LIKE $2
"""
# Every transaction that writes draws one number, in whichever database of the server.
TRANSACTIONS = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
LEASES = "%UPDATE ai_job_dispatches d SET%lease_seq = d.lease_seq + %"


@dataclass(frozen=True, slots=True)
class Counts:
    statements: int
    commits: int


class Counter:
    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], databases: list[str]):
        self._connection = connection
        self._databases = databases

    async def statements(self, like: str = "%") -> int:
        """How many were run so far in the installation's databases."""
        return int(await self._connection.fetchval(STATEMENTS, self._databases, like))

    async def leases(self) -> int:
        return await self.statements(LEASES)

    async def counts(self) -> Counts:
        return Counts(await self.statements(), int(await self._connection.fetchval(TRANSACTIONS)))


def counter(installation: BenchInstallation) -> AbstractAsyncContextManager[Counter]:
    return counting(installation.databases)


@asynccontextmanager
async def counting(databases: Databases) -> AsyncIterator[Counter]:
    """Counts from a separate database, so that counting is not counted."""
    assert databases.embedded is not None, "benchmarks run on an embedded server of their own"
    # As its superuser, who may add the extension and sees statements of every role.
    connection = await asyncpg.connect(databases.embedded.dsn("postgres"))
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        yield Counter(connection, [database.name for database in (databases.central, *databases.pools)])
    finally:
        await connection.close()
