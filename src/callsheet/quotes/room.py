"""The quotes room: it knows every room that submits, and has nothing of its own but its route."""

from __future__ import annotations

from callsheet.batches.room import BatchesRoom
from callsheet.effects.room import EffectsRoom
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.pipelines.room import PipelinesRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.quotes.quoted_batches import BatchQuotes
from callsheet.quotes.quoted_jobs import JobQuotes
from callsheet.quotes.quoted_runs import RunQuotes
from callsheet.quotes.quotes import Quotes
from callsheet.quotes.routes import quote_router
from callsheet.tasks.room import TasksRoom


def quote_routers(
    databases: Databases,
    jobs: JobsRoom,
    effects: EffectsRoom,
    tasks: TasksRoom,
    batches: BatchesRoom,
    pipelines: PipelinesRoom,
    waits: ExpectedWaits,
    authentication: Authentication,
) -> list[Router]:
    submission = jobs.submission
    quotes = Quotes(
        JobQuotes(databases, effects.effect_jobs, tasks.submission, tasks.generation, submission, waits),
        BatchQuotes(batches.batches, submission.usage, waits),
        RunQuotes(databases, pipelines, submission.usage, waits),
    )
    return [quote_router(quotes, authentication)]
