"""All routes of the pipelines room."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.show.presenter import Presenter
from callsheet.pipelines.design.design_routes import design_router
from callsheet.pipelines.judge.candidate_routes import (
    candidate_router,
    guidance_router,
    run_candidate_router,
    run_view_router,
)
from callsheet.pipelines.room import PipelinesRoom
from callsheet.pipelines.routes import pipeline_router, run_router
from callsheet.plumbing.http.routing import Router


def pipeline_routers(room: PipelinesRoom, presenter: Presenter, authentication: Authentication) -> list[Router]:
    guidance, design = room.guidance, room.design
    return [
        design_router(design.workflows, design.starting_points, design.versions, design.previews, authentication),
        pipeline_router(room.pipelines, room.runs, authentication),
        run_router(room.runs, room.deletion, guidance.gallery, authentication),
        run_candidate_router(guidance.gallery, guidance.exports, authentication),
        guidance_router(guidance.votes, guidance.branches, authentication),
        run_view_router(guidance.views, authentication),
        candidate_router(
            guidance.gallery, guidance.branches, guidance.lineages, guidance.views, presenter, authentication
        ),
    ]
