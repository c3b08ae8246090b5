"""What a user may see of jobs: their own."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from callsheet.identity.principal import Principal
from callsheet.jobs.moves import SQL
from callsheet.plumbing.database import Database
from callsheet.plumbing.databases import Databases
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import JobStatus


class JobReader:
    """A user's own jobs: what belongs to somebody else is not there (G6)."""

    def __init__(self, databases: Databases):
        self._databases = databases

    async def row(self, principal: Principal, job_id: UUID) -> asyncpg.Record:
        pool = await self.pool(principal)
        async with pool.connection() as connection:
            row = await SQL["get_job"].row(connection, tenant_id=principal.tenant_id, job_id=job_id)
        if row is None or row["user_id"] != principal.user_id:
            raise NotFound("There is no such job.")
        return row

    async def rows(
        self, principal: Principal, run_id: UUID | None, status: JobStatus | None, before: UUID | None, limit: int
    ) -> list[asyncpg.Record]:
        """Newest first: all of them, or those of a run."""
        names = {
            "tenant_id": principal.tenant_id,
            "user_id": principal.user_id,
            "before": before,
            "status": status.value if status else None,
            "limit": limit,
        }
        pool = await self.pool(principal)
        async with pool.connection() as connection:
            if run_id is None:
                return list(await SQL["list_jobs"].rows(connection, **names))
            return list(await SQL["list_jobs_of_run"].rows(connection, **names, run_id=run_id))

    async def pool(self, principal: Principal) -> Database:
        return await self._databases.pool(principal.pool)
