"""Lists and counts a user's jobs, filtered by text and other fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.catalog.effects import EffectName, Effects
from callsheet.identity.access.principal import Principal
from callsheet.library.search import Filters
from callsheet.media.files import FileRow, Files
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import copied, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import JobError, JobStatus
from callsheet.wire.library import JobCounts, JobSummary, ListedFile, ListedProgress, Medium
from callsheet.wire.tasks import task_id_of

SQL = statements("callsheet.library")
# Maximum number of rows that one request reads. If filters match few of them, a page is short or empty and has a next
# page.
MAX_READ = 20_000


class LibraryJobRow(NamedTuple):
    id: UUID
    kind: str
    actor: str | None
    status: JobStatus
    medium: Medium | None
    effect_id: UUID | None
    run_id: UUID | None
    cost: int
    created_at: datetime
    submitted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error_type: str | None
    error_message: str | None
    # The job's description. All fields are None for jobs that were submitted before descriptions existed.
    title: str | None
    input_name: str | None
    prompt: str | None
    # Progress of the current run.
    percent: float | None
    message: str | None
    updated_at: datetime | None
    input_file_id: UUID | None
    output_file_id: UUID | None
    output_count: int
    client_reference: str | None
    batch_id: UUID | None
    batch_item: int | None


# The fields that are shown as they are in the row.
_SHOWN = tuple(
    name for name in LibraryJobRow._fields if name in JobSummary.model_fields and name not in ("title", "input_name")
)


class StatusCount(NamedTuple):
    status: JobStatus
    jobs: int


class JobLists:
    def __init__(self, databases: Databases, effects: Effects, files: Files):
        self._databases = databases
        self._effects = effects
        self._files = files

    async def page(
        self, principal: Principal, filters: Filters, cursor: UUID | None, limit: int, max_read: int = MAX_READ
    ) -> Page[JobSummary]:
        """The jobs, newest first."""
        names = self._names(principal, filters, cursor, max_read)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["list_jobs"].rows(
                connection,
                LibraryJobRow,
                **names,
                statuses=filters.statuses,
                limit=limit + 1,
            )
            last = None
            if len(rows) <= limit:
                where = {name: names[name] for name in SQL["last_read"].parameters}
                last = await SQL["last_read"].value(connection, **where)
        items = await self._views(pool, principal.tenant_id, rows[:limit])
        return Page(items=items, next_cursor=str(items[-1].id) if len(rows) > limit else str(last) if last else None)

    async def one(self, principal: Principal, job_id: UUID) -> JobSummary:
        page = await self.page(principal, Filters(), UUID(int=min(job_id.int + 1, 2**128 - 1)), 1, max_read=1)
        if not page.items or page.items[0].id != job_id:
            raise NotFound("There is no such job.")
        return page.items[0]

    async def counts(self, principal: Principal, filters: Filters, max_read: int = MAX_READ) -> JobCounts:
        names = self._names(principal, filters, None, max_read)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["count_jobs"].rows(connection, StatusCount, **names)
            where = {name: names[name] for name in SQL["last_read"].parameters}
            last = await SQL["last_read"].value(connection, **where)
        found = {JobStatus(row.status): row.jobs for row in rows}
        return JobCounts(
            total=sum(found.values()),
            by_status={status: found.get(status, 0) for status in JobStatus},
            is_partial=last is not None,
        )

    @staticmethod
    def _names(principal: Principal, filters: Filters, cursor: UUID | None, max_read: int) -> dict[str, object]:
        owner = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
        return {**owner, **filters.parameters(cursor), "max_read": max_read}

    async def _views(self, pool: Database, tenant_id: UUID, rows: Sequence[LibraryJobRow]) -> list[JobSummary]:
        effects = await self._effects.names_of(row.effect_id for row in rows if row.effect_id is not None)
        wanted = {file_id for row in rows for file_id in (row.input_file_id, row.output_file_id) if file_id is not None}
        found = await self._files.rows(pool, tenant_id, sorted(wanted)) if wanted else []
        files = {file.id: file for file in found}
        return [self._view(row, effects, files) for row in rows]

    def _view(
        self, row: LibraryJobRow, effects: Mapping[UUID, EffectName], files: Mapping[UUID, FileRow]
    ) -> JobSummary:
        effect = effects.get(row.effect_id) if row.effect_id else None
        input_file = files.get(row.input_file_id) if row.input_file_id else None
        output_file = files.get(row.output_file_id) if row.output_file_id else None
        return JobSummary(
            **copied(_SHOWN, row),
            task_id=task_id_of(row.id) if row.actor is not None else None,
            title=title_of(row, effect),
            input_name=row.input_name or (input_file.name if input_file else None),
            effect_slug=effect.slug if effect else None,
            progress=_progress(row),
            error=JobError(type=row.error_type, message=row.error_message or "") if row.error_type else None,
            input=self._file(input_file),
            output=self._file(output_file),
        )

    def _file(self, file: FileRow | None) -> ListedFile | None:
        if file is None:
            return None
        address = self._files.address(file)
        return ListedFile(
            **dict(self._files.shown(file)),
            id=file.id,
            name=file.name,
            mime_type=file.mime_type,
            size=file.size,
            url=address.url if address else None,
        )


def _progress(row: LibraryJobRow) -> ListedProgress | None:
    if row.updated_at is None:
        return None
    return ListedProgress(percent=row.percent, message=row.message, updated_at=row.updated_at)


def title_of(row: LibraryJobRow, effect: EffectName | None) -> str:
    """The current name of the job's effect; otherwise the stored title, or the kind of a job without a title."""
    return effect.name if effect else row.title or row.actor or row.kind
