"""Candidates of a run with URLs of their images, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.media.files import Files
from callsheet.pipelines.rows import CandidateRow, StepRow
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.base import Page
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.media import File
from callsheet.wire.pipelines.pipelines import Candidate, CandidateStatus, Rejection

SQL = statements("callsheet.pipelines.judge")
NO_SUCH_CANDIDATE = "There is no such candidate."


class OwnRun(NamedTuple):
    """A run of the caller."""

    id: UUID
    # The number of steps of the run.
    steps: int
    pipeline_id: UUID
    pipeline_version: int
    name: str
    target_folder: str
    status: str
    strategy: str
    seed: int
    prompt: str | None
    variables: dict[str, Any]
    max_children: int | None
    target_leaves: int
    budget: int
    spent: int


class HasFiles(Protocol):
    @property
    def file_id(self) -> UUID: ...
    @property
    def thumbnail_file_id(self) -> UUID | None: ...


class Gallery:
    def __init__(self, databases: Databases, files: Files):
        self._databases = databases
        self._files = files

    async def run(self, principal: Principal, run_id: UUID) -> OwnRun:
        """A run of the caller. A run of another user is not found (G6)."""
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            row = await SQL["own_run"].row(
                connection, OwnRun, tenant_id=principal.tenant_id, user_id=principal.user_id, run_id=run_id
            )
        if row is None:
            raise NotFound("There is no such run.")
        return row

    async def candidate(self, principal: Principal, candidate_id: UUID) -> CandidateRow:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            row = await SQL["own_candidate"].row(
                connection,
                CandidateRow,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                candidate_id=candidate_id,
            )
        if row is None:
            raise NotFound(NO_SUCH_CANDIDATE)
        return row

    async def steps(self, principal: Principal, run_id: UUID) -> list[StepRow]:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            return await SQL["steps_of_run"].rows(connection, StepRow, tenant_id=principal.tenant_id, run_id=run_id)

    async def position(self, principal: Principal, run_id: UUID, step: str | None) -> int | None:
        """The position of the step with this slug. None if no slug is given."""
        if step is None:
            return None
        steps = await self.steps(principal, run_id)
        found = next((row.position for row in steps if row.slug == step), None)
        if found is None:
            raise InvalidRequest.field(
                "step", f"This run has no such step. Steps: {', '.join(row.slug for row in steps)}."
            )
        return found

    async def get(self, principal: Principal, candidate_id: UUID) -> Candidate:
        return (await self.views(principal, [await self.candidate(principal, candidate_id)]))[0]

    async def page(
        self,
        principal: Principal,
        run_id: UUID,
        *,
        step: str | None = None,
        parent_id: UUID | None = None,
        status: CandidateStatus | None = None,
        candidate_ids: Sequence[UUID] = (),
        before: int | None = None,
        limit: int,
    ) -> Page[Candidate]:
        """The candidates, newest first. The cursor is the number of the last candidate on the page."""
        await self.run(principal, run_id)
        if candidate_ids:
            found = await self.of_ids(principal, candidate_ids)
            return Page(items=[each for each in found if each.run_id == run_id], next_cursor=None)
        position = await self.position(principal, run_id, step)
        of_page = {"tenant_id": principal.tenant_id, "run_id": run_id, "before": before, "limit": limit + 1}
        filters = {**of_page, "status": status.value if status else None}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            if parent_id is not None:
                rows = await SQL["list_children"].rows(connection, CandidateRow, **filters, parent_id=parent_id)
                rows = [row for row in rows if position in (None, row.position)]
            elif status is CandidateStatus.REJECTED:
                rows = await SQL["list_rejected"].rows(connection, CandidateRow, **of_page, position=position)
            elif position is not None:
                rows = await SQL["list_candidates_of_step"].rows(connection, CandidateRow, **filters, position=position)
            else:
                rows = await SQL["list_candidates"].rows(connection, CandidateRow, **filters)
        shown = await self.views(principal, rows[:limit])
        return Page(items=shown, next_cursor=str(shown[-1].number) if len(rows) > limit else None)

    async def winners(self, principal: Principal, run_id: UUID, step: str | None, limit: int) -> list[Candidate]:
        """The best active candidates of a step, by ELO and then by age. Default: the last step."""
        run = await self.run(principal, run_id)
        position = await self.position(principal, run_id, step)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["best_candidates"].rows(
                connection,
                CandidateRow,
                tenant_id=principal.tenant_id,
                run_id=run_id,
                position=position or run.steps,
                limit=limit,
            )
        return await self.views(principal, rows)

    async def best_of_runs(
        self, principal: Principal, run_ids: Sequence[UUID], limit: int
    ) -> dict[UUID, list[Candidate]]:
        """The best candidates of the last step, by run. The caller must have checked that the runs belong to the
        principal."""
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["best_of_runs"].rows(
                connection, CandidateRow, tenant_id=principal.tenant_id, run_ids=list(run_ids), limit=limit
            )
        found: dict[UUID, list[Candidate]] = {}
        for each in await self.views(principal, rows):
            found.setdefault(each.run_id, []).append(each)
        return found

    async def of_ids(self, principal: Principal, candidate_ids: Sequence[UUID]) -> list[Candidate]:
        """The candidates in the order of the ids. The caller must have checked that they belong to the principal."""
        if not candidate_ids:
            return []
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["candidates_by_ids"].rows(
                connection, CandidateRow, tenant_id=principal.tenant_id, candidate_ids=list(candidate_ids)
            )
        by_id = {row.id: row for row in rows}
        return await self.views(principal, [by_id[each] for each in candidate_ids if each in by_id])

    async def views(self, principal: Principal, rows: Sequence[CandidateRow]) -> list[Candidate]:
        """Candidates with new signed URLs. The files of all candidates are read at once."""
        files = await self.files_of(principal, rows)
        return [candidate_view(row, files) for row in rows]

    async def files_of(self, principal: Principal, rows: Sequence[HasFiles]) -> dict[UUID, File]:
        """Images and thumbnails of all rows, by id."""
        wanted = [file_id for row in rows for file_id in (row.file_id, row.thumbnail_file_id) if file_id is not None]
        pool = await self._databases.pool(principal.pool)
        views = await self._files.views(pool, principal.tenant_id, wanted) if wanted else []
        return {view.id: view for view in views}


def candidate_view(row: CandidateRow, files: Mapping[UUID, File]) -> Candidate:
    return Candidate(
        **row._asdict(),
        rejection=rejection_of(row.id, row.rejected_with, row.rejected_by),
        file=files.get(row.file_id),
        thumbnail=files.get(row.thumbnail_file_id) if row.thumbnail_file_id else None,
    )


def rejection_of(candidate_id: UUID, rejected_with: UUID | None, rejected_by: UUID | None) -> Rejection | None:
    if rejected_with is None:
        return None
    if rejected_with != candidate_id:
        return Rejection.KILLED_WITH_ANCESTOR
    # A candidate that was created rejected cannot be rejected again.
    return Rejection.SURPLUS if rejected_by is None else Rejection.KILLED
