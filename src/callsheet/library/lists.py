"""A user's jobs as lists show them: found by text and filters, page by page, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from callsheet.catalog.effects import EffectName, Effects
from callsheet.identity.principal import Principal
from callsheet.library.search import Filters
from callsheet.media.files import Files
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Row, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import JobError, JobStatus
from callsheet.wire.library import JobCounts, JobSummary, ListedFile, ListedProgress
from callsheet.wire.tasks import task_id_of

SQL = statements("callsheet.library")
# Rows that one request reads where filters match few of them. A page may then be short, or empty, and have a next one.
LOOKED_AT = 20_000
# What is known of a file's previews.
PREVIEW = ("preview_kind", "preview_status", "width", "height", "duration_seconds", "has_clip")


class JobLists:
    def __init__(self, databases: Databases, effects: Effects, files: Files):
        self._databases = databases
        self._effects = effects
        self._files = files

    async def page(
        self, principal: Principal, filters: Filters, cursor: UUID | None, limit: int, looked_at: int = LOOKED_AT
    ) -> Page[JobSummary]:
        """Newest first."""
        names = self._names(principal, filters, cursor, looked_at)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["list_jobs"].rows(
                connection, **names, statuses=[each.value for each in filters.statuses] or None, limit=limit + 1
            )
            last = None
            if len(rows) <= limit:
                where = {name: names[name] for name in SQL["last_looked_at"].parameters}
                last = await SQL["last_looked_at"].value(connection, **where)
        items = await self._views(rows[:limit])
        return Page(items=items, next_cursor=str(items[-1].id) if len(rows) > limit else str(last) if last else None)

    async def one(self, principal: Principal, job_id: UUID) -> JobSummary:
        page = await self.page(principal, Filters(), UUID(int=min(job_id.int + 1, 2**128 - 1)), 1, looked_at=1)
        if not page.items or page.items[0].id != job_id:
            raise NotFound("There is no such job.")
        return page.items[0]

    async def counts(self, principal: Principal, filters: Filters, looked_at: int = LOOKED_AT) -> JobCounts:
        names = self._names(principal, filters, None, looked_at)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["count_jobs"].rows(connection, **names)
            where = {name: names[name] for name in SQL["last_looked_at"].parameters}
            last = await SQL["last_looked_at"].value(connection, **where)
        found = {JobStatus(row["status"]): int(row["jobs"]) for row in rows}
        return JobCounts(
            total=sum(found.values()),
            by_status={status: found.get(status, 0) for status in JobStatus},
            is_partial=last is not None,
        )

    @staticmethod
    def _names(principal: Principal, filters: Filters, cursor: UUID | None, looked_at: int) -> dict[str, object]:
        owner = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
        return {**owner, **filters.parameters(cursor), "looked_at": looked_at}

    async def _views(self, rows: Sequence[Row]) -> list[JobSummary]:
        effects = await self._effects.names_of(row["effect_id"] for row in rows if row["effect_id"] is not None)
        return [self._view(row, effects) for row in rows]

    def _view(self, row: Row, effects: Mapping[UUID, EffectName]) -> JobSummary:
        effect = effects.get(row["effect_id"])
        return JobSummary(
            id=row["id"],
            task_id=task_id_of(row["id"]) if row["actor"] is not None else None,
            kind=row["kind"],
            actor=row["actor"],
            status=JobStatus(row["status"]),
            title=title_of(row, effect),
            input_name=row["input_name"] or row["input_file_name"],
            prompt=row["prompt"],
            medium=row["medium"],
            effect_id=row["effect_id"],
            effect_slug=effect.slug if effect else None,
            run_id=row["run_id"],
            cost=row["cost"],
            created_at=row["created_at"],
            submitted_at=row["submitted_at"],
            started_at=row["started_at"],
            completed_at=row["completed_at"],
            progress=_progress(row),
            error=JobError(type=row["error_type"], message=row["error_message"]) if row["error_type"] else None,
            input=self._file(row, "input", row["input_file_name"]),
            output=self._file(row, "output", row["output_name"]),
            output_count=row["output_count"],
        )

    def _file(self, row: Row, which: str, name: str | None) -> ListedFile | None:
        if row[f"{which}_id"] is None or name is None:
            return None
        parts = ("id", "mime_type", "size", "path", "disk", "status", *PREVIEW)
        file = {part: row[f"{which}_{part}"] for part in parts} | {"name": name, "tenant_id": row["tenant_id"]}
        address = self._files.address(file)
        return ListedFile(
            **dict(self._files.shown(file)),
            id=file["id"],
            name=name,
            mime_type=file["mime_type"],
            size=file["size"],
            url=address.url if address else None,
        )


def _progress(row: Row) -> ListedProgress | None:
    if row["updated_at"] is None:
        return None
    return ListedProgress(percent=row["percent"], message=row["message"], updated_at=row["updated_at"])


def title_of(row: Row, effect: EffectName | None) -> str:
    """What its effect is called today; else what it was called, or the kind of a job from before titles were kept."""
    return effect.name if effect else row["title"] or row["actor"] or row["kind"]
