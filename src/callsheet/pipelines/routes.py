"""The routes of `/api/pipelines` and `/api/runs`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query, Response

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.pipelines.design.definitions import Pipelines
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.run.deletion import RunDeletion
from callsheet.pipelines.run.runs import Runs
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.pipelines.design import ListedPipeline
from callsheet.wire.pipelines.pipelines import (
    CreatePipeline,
    CreateRun,
    Pipeline,
    Run,
    RunFilter,
    RunItem,
    RunSummary,
    TreeNode,
    UpdatePipeline,
    UpdateRun,
)

PipelineName = Annotated[str, Path(description="Id or slug of a pipeline of yours.", max_length=100)]
DRY_RUN = Query(False, description="Return the result without writing it. The ids of new steps are not stored.")
DRY_RUN_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"model": Pipeline, "description": "A dry run: nothing was written."}
}


async def filter_of(wanted: Annotated[RunFilter, Query()]) -> RunFilter:
    return wanted


def pipeline_router(pipelines: Pipelines, runs: Runs, authentication: Authentication) -> Router:
    router = Router(prefix="/api/pipelines", tags=["pipelines"])

    @router.post("", status_code=201, responses=DRY_RUN_RESPONSE, once=True)
    async def create_pipeline(
        body: CreatePipeline,
        response: Response,
        dry_run: bool = DRY_RUN,
        principal: Principal = Depends(authentication.user),
    ) -> Pipeline:
        """Creates a pipeline. Each step names a workflow and the values of a run that it uses."""
        if dry_run:
            response.status_code = 200
        return await pipelines.create(principal, body, dry_run=dry_run)

    @router.get("")
    async def list_pipelines(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = Depends(authentication.user)
    ) -> Page[ListedPipeline]:
        """Your pipelines, newest first, each with its chain of steps and its newest run."""
        return await pipelines.list(principal, cursor, limit)

    @router.get("/{pipeline}")
    async def get_pipeline(pipeline: PipelineName, principal: Principal = Depends(authentication.user)) -> Pipeline:
        """One pipeline with the steps that a new run would have."""
        return await pipelines.get(principal, pipeline)

    @router.patch("/{pipeline}")
    async def update_pipeline(
        pipeline: PipelineName,
        body: UpdatePipeline,
        dry_run: bool = DRY_RUN,
        principal: Principal = Depends(authentication.user),
    ) -> Pipeline:
        """Changes a pipeline. Send all steps: they become a new version. Runs that have started keep their steps."""
        return await pipelines.update(principal, pipeline, body, dry_run=dry_run)

    @router.delete("/{pipeline}", status_code=204)
    async def delete_pipeline(pipeline: PipelineName, principal: Principal = Depends(authentication.user)) -> None:
        """Deletes a pipeline that has no runs."""
        await pipelines.delete(principal, pipeline)

    @router.post("/{pipeline}/runs", status_code=201, responses=or_earlier(Run))
    async def create_run(
        pipeline: PipelineName,
        body: CreateRun,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Run:
        """Starts a run. It continues by itself until it is done, stopped, or blocked with a reason."""
        return replayed(response, await runs.start(principal, pipeline, with_key(body, idempotency_key))).run

    @router.get("/{pipeline}/runs")
    async def list_runs_of_pipeline(
        pipeline: PipelineName,
        wanted: RunFilter = Depends(filter_of),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[RunSummary]:
        """Your runs of this pipeline, newest first."""
        return await runs.shown.list(principal, pipeline, wanted, cursor, limit)

    return router


def run_router(runs: Runs, deletion: RunDeletion, gallery: Gallery, authentication: Authentication) -> Router:
    router = Router(prefix="/api/runs", tags=["pipelines"])

    @router.get("")
    async def list_runs(
        pipeline: str | None = Query(
            None, max_length=100, description="Only runs of the pipeline with this id or slug."
        ),
        wanted: RunFilter = Depends(filter_of),
        winners: int = Query(0, ge=0, le=5, description="Number of the best candidates to include with each run."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[RunItem]:
        """Your runs, newest first."""
        page = await runs.shown.list(principal, pipeline, wanted, cursor, limit)
        ids = [run.id for run in page.items]
        best = await gallery.best_of_runs(principal, ids, winners) if winners and ids else {}
        items = [RunItem(**run.model_dump(), winners=best.get(run.id, [])) for run in page.items]
        return Page(items=items, next_cursor=page.next_cursor)

    @router.get("/{run_id}")
    async def get_run(run_id: UUID, principal: Principal = Depends(authentication.user)) -> Run:
        """One run with the progress of each step, and why it does not continue."""
        return await runs.shown.get(principal, run_id)

    @router.patch("/{run_id}")
    async def update_run(run_id: UUID, body: UpdateRun, principal: Principal = Depends(authentication.user)) -> Run:
        """Changes the name, the budget or the number of leaves of a run. A run that had spent its budget, and a
        completed run that gets a larger number of leaves, continue by themselves."""
        return await runs.update(principal, run_id, body)

    @router.delete("/{run_id}", status_code=204)
    async def delete_run(run_id: UUID, principal: Principal = Depends(authentication.user)) -> None:
        """Deletes a run that has ended: its candidates with their images, votes and previews, and its jobs. Charges
        do not change. The files are removed within seconds. Cancel a run that has not ended first."""
        await deletion.delete(principal, run_id)

    @router.post("/{run_id}/pause")
    async def pause_run(run_id: UUID, principal: Principal = Depends(authentication.user)) -> Run:
        """Pauses a run: no new job starts. Active jobs continue, and their results are kept."""
        return await runs.pause(principal, run_id)

    @router.post("/{run_id}/resume", once=True)
    async def resume_run(run_id: UUID, principal: Principal = Depends(authentication.user)) -> Run:
        """Resumes a run, also one that stopped because of failures: failed branches are retried. A completed run
        looks for more work.
        """
        return await runs.resume(principal, run_id)

    @router.post("/{run_id}/cancel")
    async def cancel_run(run_id: UUID, principal: Principal = Depends(authentication.user)) -> Run:
        """Cancels a run. Its active jobs are canceled and refunded; its candidates stay."""
        return await runs.cancel(principal, run_id)

    @router.get("/{run_id}/tree")
    async def get_tree(
        run_id: UUID,
        cursor: int | None = Query(None, ge=0, le=2**31 - 1, description="`next_cursor` of the page before."),
        limit: int = Query(1000, ge=1, le=5000, description="Maximum number of candidates on the page."),
        principal: Principal = Depends(authentication.user),
    ) -> Page[TreeNode]:
        """All candidates of a run without their images, parents before their children."""
        return await runs.shown.tree(principal, run_id, cursor or 0, limit)

    return router
