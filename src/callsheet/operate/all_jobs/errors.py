"""Groups the errors of failed jobs by their fingerprints, over all pools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.operate.all_jobs.names import Names
from callsheet.operate.all_jobs.sql import SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.wire.errors import NotFound
from callsheet.wire.operate.all_jobs import ErrorExample, ErrorGroup, ErrorGroups

# Maximum number of errors that one request reads in a pool.
MAX_READ = 20_000


class ErrorGroupRow(NamedTuple):
    fingerprint: str
    jobs: int
    tenant_ids: Sequence[UUID]
    first_seen_at: datetime
    last_seen_at: datetime
    # The newest job of the group.
    job_id: UUID
    tenant_id: UUID
    workflow_id: int
    type: str
    message: str
    jobs_read: int


class ErrorRange(NamedTuple):
    since: datetime
    until: datetime
    tenant_id: UUID | None
    workflow: list[str]


def merged(rows: Iterable[ErrorGroupRow]) -> list[ErrorGroupRow]:
    """One row per fingerprint, the groups with the most jobs first. A group with jobs of several pools shows the
    newest job.
    """
    groups: dict[str, ErrorGroupRow] = {}
    for row in rows:
        known = groups.get(row.fingerprint)
        if known is not None:
            newest = max(known, row, key=lambda each: each.job_id)
            row = newest._replace(
                jobs=known.jobs + row.jobs,
                tenant_ids=[*known.tenant_ids, *row.tenant_ids],
                first_seen_at=min(known.first_seen_at, row.first_seen_at),
                last_seen_at=max(known.last_seen_at, row.last_seen_at),
                jobs_read=max(known.jobs_read, row.jobs_read),
            )
        groups[row.fingerprint] = row
    return sorted(groups.values(), key=lambda each: (-each.jobs, each.fingerprint))


class JobErrors:
    def __init__(self, databases: Databases, names: Names):
        self._databases = databases
        self._names = names

    async def groups(self, wanted: ErrorRange, limit: int, max_read: int = MAX_READ) -> ErrorGroups:
        values = {
            "since": wanted.since,
            "until": wanted.until,
            "tenant_id": wanted.tenant_id,
            "workflow_ids": await self._names.workflow_ids(wanted.workflow),
            "limit": limit,
            "max_read": max_read,
        }

        async def groups_in(pool: Database) -> list[ErrorGroupRow]:
            async with pool.reports() as connection:
                return await SQL["group_errors"].rows(connection, ErrorGroupRow, **values)

        found = await asyncio.gather(*(groups_in(pool) for pool in self._databases.pools))
        rows = merged(row for rows in found for row in rows)
        is_partial = any(row.jobs_read >= max_read for row in rows) or len(rows) > limit
        return ErrorGroups(items=await self._views(rows[:limit], None), is_partial=is_partial)

    async def group(self, fingerprint: str, max_read: int = MAX_READ) -> ErrorGroup:
        async def group_in(pool: Database) -> ErrorGroupRow | None:
            async with pool.reports() as connection:
                return await SQL["error_group"].row(
                    connection, ErrorGroupRow, fingerprint=fingerprint, max_read=max_read
                )

        found = await asyncio.gather(*(group_in(pool) for pool in self._databases.pools))
        rows = merged(row for row in found if row is not None)
        if not rows:
            raise NotFound("There is no job with this error.")
        return (await self._views(rows, max_read))[0]

    async def of_job(self, job_id: UUID) -> ErrorGroup:
        """All jobs that failed with the same error as this job, including this job."""

        async def fingerprint_in(pool: Database) -> str | None:
            async with pool.reports() as connection:
                found: str | None = await SQL["fingerprint_of_job"].value(connection, job_id=job_id)
                return found

        found = await asyncio.gather(*(fingerprint_in(pool) for pool in self._databases.pools))
        for fingerprint in found:
            if fingerprint is not None:
                return await self.group(fingerprint)
        raise NotFound("There is no such job, or it has no error.")

    async def _views(self, rows: Sequence[ErrorGroupRow], max_read: int | None) -> list[ErrorGroup]:
        tenants, workflows = await asyncio.gather(
            self._names.tenants(row.tenant_id for row in rows), self._names.workflows(row.workflow_id for row in rows)
        )
        return [
            ErrorGroup(
                fingerprint=row.fingerprint,
                jobs=row.jobs,
                tenants=len(set(row.tenant_ids)),
                first_seen_at=row.first_seen_at,
                last_seen_at=row.last_seen_at,
                example=ErrorExample(
                    job_id=row.job_id,
                    tenant_id=row.tenant_id,
                    tenant=tenants.get(row.tenant_id, str(row.tenant_id)),
                    workflow=workflows.get(row.workflow_id, str(row.workflow_id)),
                    type=row.type,
                    message=row.message,
                ),
                is_partial=max_read is not None and row.jobs_read >= max_read,
            )
            for row in rows
        ]
