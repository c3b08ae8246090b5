"""Routes for users who design pipelines: workflows for steps, templates, versions and a dry run."""

from __future__ import annotations

from uuid import UUID

from fastapi import Depends, Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.pipelines.design.pipeline_templates import StartingPoints
from callsheet.pipelines.design.step_workflows import StepWorkflows
from callsheet.pipelines.design.versions import Versions
from callsheet.pipelines.routes import PipelineName
from callsheet.pipelines.run.previews import RunPreviews
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.pipelines.design import PipelineTemplate, PipelineVersion, PreviewRun, RunPreview, StepWorkflow

# A version may have 50 steps, each with a payload.
MAX_VERSIONS = 20


def design_router(
    workflows: StepWorkflows,
    starting_points: StartingPoints,
    versions: Versions,
    previews: RunPreviews,
    authentication: Authentication,
) -> Router:
    router = Router(prefix="/api", tags=["pipelines"])

    @router.get("/pipeline-workflows")
    async def list_step_workflows(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, _: Principal = Depends(authentication.user)
    ) -> Page[StepWorkflow]:
        """Published effects that make images, newest first, as workflows for steps. A page may have fewer items than
        `limit` although another page follows."""
        return await workflows.page(cursor, limit)

    @router.get("/pipeline-templates")
    async def list_pipeline_templates(_: Principal = Depends(authentication.user)) -> list[PipelineTemplate]:
        """Templates of pipelines. You can create a pipeline from a template without changes; each template includes
        a suitable run.
        """
        return await starting_points.list()

    @router.post("/pipelines/preview")
    async def preview_run(body: PreviewRun, principal: Principal = Depends(authentication.user)) -> RunPreview:
        """Shows what a run of these steps would do: its first job, and how many jobs and tokens it would need.
        Nothing is written.
        """
        return await previews.preview(principal, body)

    @router.get("/pipelines/{pipeline}/versions")
    async def list_versions_of_pipeline(
        pipeline: PipelineName,
        cursor: int | None = Query(None, ge=1, le=2**31 - 1, description="`next_cursor` of the page before."),
        limit: int = Query(MAX_VERSIONS, ge=1, le=MAX_VERSIONS, description="Maximum number of versions on the page."),
        principal: Principal = Depends(authentication.user),
    ) -> Page[PipelineVersion]:
        """The versions of a pipeline with their steps, newest first.

        A page ends early, with a `next_cursor`, if the payloads of its steps exceed 4 MiB.
        """
        return await versions.page(principal, pipeline, cursor, limit)

    return router
