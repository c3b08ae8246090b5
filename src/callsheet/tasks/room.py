"""The tasks room: its parts and its routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.room import JobsApi, JobsRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.providers.media import MediaProvider
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import TaskSettings
from callsheet.tasks.actors import Actors
from callsheet.tasks.generation import GenerationJobs
from callsheet.tasks.generation_routes import generation_router, product_router
from callsheet.tasks.limits import TaskLimits
from callsheet.tasks.plans import Plans
from callsheet.tasks.products import Products
from callsheet.tasks.reader import TaskReader
from callsheet.tasks.routes import provider_router, task_router
from callsheet.tasks.run_tasks import RunTasks
from callsheet.tasks.runner import Runner, SynchronousTasks
from callsheet.tasks.submission import TaskSubmission


@dataclass(frozen=True, slots=True)
class TasksRoom(Room):
    actors: Actors
    submission: TaskSubmission
    products: Products
    generation: GenerationJobs
    synchronous: SynchronousTasks
    for_runs: RunTasks


def open_tasks(
    databases: Databases,
    jobs: JobsRoom,
    effects: EffectJobs,
    providers: ActorRegistry,
    settings: TaskSettings,
    runner: Runner | None,
    gate: ProviderGate,
) -> TasksRoom:
    """Builds the room. `gate` decides whether a provider may be called. `runner` runs synchronous tasks in this
    process.
    """
    actors = Actors(databases, providers.actors, providers.media, settings)
    plans = Plans(actors, effects, TaskLimits(jobs.dispatch.limits), settings)
    products = Products(databases)
    synchronous = SynchronousTasks(jobs, runner, settings.in_process, settings.sync_wait_seconds, gate)
    submission = TaskSubmission(plans, jobs.submission)
    generation = GenerationJobs(databases, plans, jobs.submission, products, synchronous)
    return TasksRoom(
        actors=actors,
        submission=submission,
        products=products,
        generation=generation,
        synchronous=synchronous,
        for_runs=RunTasks(actors, plans),
    )


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
