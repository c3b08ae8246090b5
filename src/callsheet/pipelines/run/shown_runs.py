"""Runs as their users read them: lists, the tree, the progress of the steps, and why a run waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Owner, Principal
from callsheet.pipelines.design.definitions import Pipelines, step_view, steps_of
from callsheet.pipelines.rows import RunId, RunRow
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import PipelineSettings
from callsheet.wire.base import Page
from callsheet.wire.errors import (
    NotFound,
)
from callsheet.wire.pipelines.pipelines import (
    Run,
    RunFilter,
    RunReason,
    RunStatus,
    RunSummary,
    StepProgress,
    TreeNode,
)
from callsheet.wire.plurals import counted

SQL = statements("callsheet.pipelines.run")

# Maximum number of leaves of a run that its summary counts.
MAX_LEAVES = 10_000


class StepCounts(NamedTuple):
    position: int
    candidates: int = 0
    active: int = 0


class StepInFlight(NamedTuple):
    position: int
    in_flight: int


class ApprovedStep(NamedTuple):
    step_id: UUID


class RunProgress(NamedTuple):
    id: UUID
    pipeline_slug: str
    pipeline_name: str
    leaves: int


class ShownRuns:
    def __init__(self, databases: Databases, pipelines: Pipelines, settings: PipelineSettings):
        self._databases = databases
        self._pipelines = pipelines
        self._settings = settings

    async def get(self, principal: Principal, run_id: UUID) -> Run:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            row = await SQL["get_run"].row(connection, RunRow, **run_names(principal, run_id))
            if row is None:
                raise no_such_run()
            return await self.view(connection, row)

    async def tree(self, principal: Principal, run_id: UUID, after: int, limit: int) -> Page[TreeNode]:
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            if await SQL["get_run"].row(connection, RunRow, **run_names(principal, run_id)) is None:
                raise no_such_run()
            found = await SQL["list_tree"].rows(
                connection, TreeNode, tenant_id=principal.tenant_id, run_id=run_id, after=after, limit=limit + 1
            )
        nodes = found[:limit]
        return Page(items=nodes, next_cursor=str(nodes[-1].number) if len(found) > limit else None)

    async def list(
        self, principal: Principal, pipeline: str | None, wanted: RunFilter, before: UUID | None, limit: int
    ) -> Page[RunSummary]:
        names: dict[str, Any] = {
            "tenant_id": principal.tenant_id,
            "user_id": principal.user_id,
            **wanted.columns,
            "before": before,
            "limit": limit + 1,
        }
        pipeline_id = (await self._pipelines.get(principal, pipeline)).id if pipeline is not None else None
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            if wanted.idempotency_key is not None:
                names |= {"idempotency_key": wanted.idempotency_key, "pipeline_id": pipeline_id}
                rows = await SQL["list_runs_of_key"].rows(connection, RunRow, **names)
            elif pipeline_id is None:
                rows = await SQL["list_runs"].rows(connection, RunRow, **names)
            else:
                rows = await SQL["list_runs_of_pipeline"].rows(connection, RunRow, **names, pipeline_id=pipeline_id)
            summaries = await self._summaries(connection, rows)
        return page_of([*summaries], limit)

    async def view(self, connection: Connection, row: RunRow) -> Run:
        names = {"tenant_id": row.tenant_id, "run_id": row.id}
        steps = await steps_of(connection, row.tenant_id, row.pipeline_id, row.pipeline_version)
        counts = {each.position: each for each in await SQL["counts_of_run"].rows(connection, StepCounts, **names)}
        in_flight = dict(await SQL["in_flight_of_run"].rows(connection, StepInFlight, **names))
        approved = {each.step_id for each in await SQL["approvals_of_run"].rows(connection, ApprovedStep, **names)}
        progress = []
        for step in steps:
            found = counts.get(step.position, StepCounts(step.position))
            progress.append(
                StepProgress(
                    step=step_view(step),
                    candidates=found.candidates,
                    active=found.active,
                    in_flight=in_flight.get(step.position, 0),
                    approved=step.id in approved or not step.requires_approval,
                )
            )
        [summary] = await self._summaries(connection, [row])
        return Run(**summary.model_dump(), steps=progress)

    async def _summaries(self, connection: Connection, rows: Sequence[RunRow]) -> Sequence[RunSummary]:
        """Summaries of runs of one tenant, each with the reason why the run waits, also if the reason is another
        run.
        """
        may_wait = [row.id for row in rows if row.status == RunStatus.ACTIVE.value and row.reason is None]
        limit = self._settings.jobs_in_total
        waiting = set()
        if may_wait:
            found = await SQL["waiting_for_room"].rows(
                connection,
                RunId,
                tenant_id=rows[0].tenant_id,
                run_ids=may_wait,
                per_run=self._settings.jobs_per_run,
                in_total=limit,
            )
            waiting = {row.id for row in found}
        sentence = (
            f"The runs of your tenant have {counted(limit, 'active job')}, and the limit is {limit} "
            "(pipelines.jobs_in_total). "
            "The run continues when one of them ends."
        )
        at_limit = {"reason": RunReason.TENANT_AT_LIMIT, "reason_detail": sentence}
        progress = await self._progress(connection, rows)
        return [
            RunSummary(**{**row._asdict(), **progress[row.id]._asdict(), **(at_limit if row.id in waiting else {})})
            for row in rows
        ]

    async def _progress(self, connection: Connection, rows: Sequence[RunRow]) -> dict[UUID, RunProgress]:
        if not rows:
            return {}
        found = await SQL["progress_of_runs"].rows(
            connection,
            RunProgress,
            tenant_id=rows[0].tenant_id,
            run_ids=[row.id for row in rows],
            max_rows=MAX_LEAVES,
        )
        return {each.id: each for each in found}


def user_names(principal: Owner) -> dict[str, Any]:
    return {"tenant_id": principal.tenant_id, "user_id": principal.user_id}


def run_names(principal: Owner, run_id: UUID) -> dict[str, Any]:
    return {"tenant_id": principal.tenant_id, "user_id": principal.user_id, "id": run_id}


def no_such_run() -> NotFound:
    return NotFound("There is no such run.")
