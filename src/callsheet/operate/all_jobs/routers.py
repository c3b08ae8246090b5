"""All routes of the room."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.operate.all_jobs.bulk_routes import bulk_action_router
from callsheet.operate.all_jobs.room import AllJobsRoom
from callsheet.operate.all_jobs.routes import all_jobs_router, job_errors_router
from callsheet.plumbing.http.routing import Router


def all_jobs_routers(room: AllJobsRoom, authentication: Authentication) -> list[Router]:
    return [
        all_jobs_router(room.jobs, room.names, authentication),
        job_errors_router(room.errors, authentication),
        bulk_action_router(room.bulk_actions, authentication),
    ]
