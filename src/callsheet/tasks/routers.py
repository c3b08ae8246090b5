"""All routes of the tasks room."""

from __future__ import annotations

from collections.abc import Mapping

from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.routers import JobsApi
from callsheet.plumbing.http.routing import Router
from callsheet.providers.media import MediaProvider
from callsheet.tasks.generation_routes import generation_router, product_router
from callsheet.tasks.reader import TaskReader
from callsheet.tasks.room import TasksRoom
from callsheet.tasks.routes import provider_router, task_router


def task_routers(
    tasks: TasksRoom,
    jobs: JobsRoom,
    jobs_api: JobsApi,
    providers: Mapping[str, MediaProvider],
    authentication: Authentication,
) -> list[Router]:
    reader = TaskReader(jobs_api.reader, jobs_api.presenter)
    return [
        task_router(tasks.submission, reader, jobs.cancellation, jobs.retries, jobs_api.streams, authentication),
        provider_router(tasks.actors, providers, authentication),
        generation_router(tasks.generation, jobs_api.presenter, authentication),
        product_router(tasks.products, authentication),
    ]
