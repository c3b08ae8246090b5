"""All routes of the room."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.all_jobs.bulk_routes import bulk_action_router
from callsheet.all_jobs.room import AllJobsRoom
from callsheet.all_jobs.routes import all_jobs_router, job_errors_router
from callsheet.identity.authentication import Authentication


def all_jobs_routers(room: AllJobsRoom, authentication: Authentication) -> list[APIRouter]:
    return [
        all_jobs_router(room.jobs, room.names, authentication),
        job_errors_router(room.errors, authentication),
        bulk_action_router(room.bulk_actions, authentication),
    ]
