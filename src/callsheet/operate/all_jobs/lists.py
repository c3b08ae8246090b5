"""Lists and counts jobs of all tenants, from all pools at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.catalog.effects import Effects
from callsheet.operate.all_jobs.filters import ResolvedFilter
from callsheet.operate.all_jobs.names import Names
from callsheet.operate.all_jobs.sql import SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import copied
from callsheet.wire.base import Page
from callsheet.wire.jobs import JobError, JobStatus
from callsheet.wire.operate.all_jobs import JobTotals, OperatedJob, StatusTotal
from callsheet.wire.tasks import task_id_of

# Maximum number of rows that one request reads in a pool. If there are words to search for, each row also costs a check
# of its texts.
MAX_READ = 10_000
SEARCHED = 4000


class AllJobsRow(NamedTuple):
    tenant_id: UUID
    id: UUID
    user_id: UUID
    kind: str
    actor: str | None
    status: JobStatus
    workflow_id: int
    effect_id: UUID | None
    run_id: UUID | None
    cost: int
    priority: int
    charge_cycle: int
    created_at: datetime
    submitted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_type: str | None
    error_message: str | None
    fingerprint: str | None
    title: str | None
    percent: float | None
    client_reference: str | None


# The fields that are shown as they are in the row.
_SHOWN = tuple(name for name in AllJobsRow._fields if name in OperatedJob.model_fields and name != "title")


class StatusRow(NamedTuple):
    status: JobStatus
    jobs: int
    tokens: int


class PoolPage(NamedTuple):
    rows: list[AllJobsRow]
    # All matching jobs from this id on are in `rows`. None: there are no more in this pool.
    read_down_to: UUID | None


def merged(pages: Sequence[PoolPage], limit: int) -> tuple[list[AllJobsRow], UUID | None]:
    """The newest rows of all pools, and where the next page starts. Rows that are older than what every pool has
    read must wait.
    """
    ends = [page.read_down_to for page in pages if page.read_down_to is not None]
    end = max(ends, default=None)
    rows = sorted((row for page in pages for row in page.rows), key=lambda row: row.id, reverse=True)
    ready = [row for row in rows if end is None or row.id >= end]
    # Two tenants may have a job with the same id: both are on one page, because the next page starts below the id.
    while limit < len(ready) and ready[limit].id == ready[limit - 1].id:
        limit += 1
    shown = ready[:limit]
    if len(ready) > limit:
        return shown, shown[-1].id
    return shown, end


class AllJobs:
    def __init__(self, databases: Databases, names: Names, effects: Effects):
        self._databases = databases
        self._names = names
        self._effects = effects

    async def page(
        self, resolved: ResolvedFilter, cursor: UUID | None, limit: int, max_read: int | None = None
    ) -> Page[OperatedJob]:
        """A page of jobs, newest first."""
        max_rows = max_read or (limit + 1 if resolved.is_source_alone else _max_read(resolved))
        pages = await asyncio.gather(
            *(_page_of(pool, resolved, cursor, limit, max_rows) for pool in self._databases.pools)
        )
        rows, end = merged(pages, limit)
        return Page(items=await self._views(rows), next_cursor=None if end is None else str(end))

    async def totals(self, resolved: ResolvedFilter, max_read: int | None = None) -> JobTotals:
        max_rows = max_read or _max_read(resolved)
        counted = await asyncio.gather(*(_totals_of(pool, resolved, max_rows) for pool in self._databases.pools))
        jobs, tokens = dict.fromkeys(JobStatus, 0), dict.fromkeys(JobStatus, 0)
        for rows, _ in counted:
            for row in rows:
                jobs[JobStatus(row.status)] += row.jobs
                tokens[JobStatus(row.status)] += row.tokens
        return JobTotals(
            jobs=sum(jobs.values()),
            tokens=sum(tokens.values()),
            by_status={status: StatusTotal(jobs=jobs[status], tokens=tokens[status]) for status in JobStatus},
            is_partial=any(is_partial for _, is_partial in counted),
        )

    async def _views(self, rows: Sequence[AllJobsRow]) -> list[OperatedJob]:
        if not rows:
            return []
        tenants, users, workflows, effects = await asyncio.gather(
            self._names.tenants(row.tenant_id for row in rows),
            self._names.users(row.user_id for row in rows),
            self._names.workflows(row.workflow_id for row in rows),
            self._effects.names_of(row.effect_id for row in rows if row.effect_id is not None),
        )
        shown = []
        for row in rows:
            effect = effects.get(row.effect_id) if row.effect_id else None
            workflow = workflows.get(row.workflow_id, str(row.workflow_id))
            job = OperatedJob(
                **copied(_SHOWN, row),
                task_id=task_id_of(row.id) if row.actor is not None else None,
                tenant=tenants.get(row.tenant_id, str(row.tenant_id)),
                user=users.get(row.user_id),
                # The title of a deleted job is deleted with its texts.
                title=effect.name if effect else row.title or row.actor or workflow,
                workflow=workflow,
                effect_slug=effect.slug if effect else None,
                error=JobError(type=row.error_type, message=row.error_message or "") if row.error_type else None,
            )
            shown.append(job)
        return shown


def _max_read(resolved: ResolvedFilter) -> int:
    return SEARCHED if resolved.parameters(None)["patterns"] else MAX_READ


async def _page_of(
    pool: Database, resolved: ResolvedFilter, cursor: UUID | None, limit: int, max_read: int
) -> PoolPage:
    values = {**resolved.parameters(cursor), "max_read": max_read}
    # Not from a replica, which has no rows of job_progress: that table is not logged.
    async with pool.ordinary() as connection:
        rows = await SQL["list_jobs"].rows(connection, AllJobsRow, **values, limit=limit + 1)
        if len(rows) > limit:
            return PoolPage(rows, rows[-1].id)
        where = {name: values[name] for name in SQL["last_read"].parameters}
        return PoolPage(rows, await SQL["last_read"].value(connection, **where))


async def _totals_of(pool: Database, resolved: ResolvedFilter, max_read: int) -> tuple[list[StatusRow], bool]:
    values = {**resolved.parameters(None), "max_read": max_read}
    async with pool.reports() as connection:
        rows = await SQL["total_jobs"].rows(connection, StatusRow, **values)
        where = {name: values[name] for name in SQL["last_read"].parameters}
        return rows, await SQL["last_read"].value(connection, **where) is not None
