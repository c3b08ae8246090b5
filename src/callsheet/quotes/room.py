"""The quotes room: it knows every room that submits, and has nothing of its own but its route."""

from __future__ import annotations

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.room import JobsApi, JobsRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.quotes.quotes import Quotes
from callsheet.quotes.routes import quote_router
from callsheet.tasks.room import TasksRoom


def quote_routers(
    databases: Databases,
    effects: EffectJobs,
    tasks: TasksRoom,
    jobs: JobsRoom,
    jobs_api: JobsApi,
    authentication: Authentication,
) -> list[Router]:
    quotes = Quotes(databases, effects, tasks.submission, tasks.generation, jobs.submission, jobs.submission.usage)
    return [quote_router(quotes, jobs_api.waits, authentication)]
