"""Builds the objects of the tasks room."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.room import JobsRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import TaskSettings
from callsheet.tasks.actors import Actors
from callsheet.tasks.generation import GenerationJobs
from callsheet.tasks.limits import TaskLimits
from callsheet.tasks.plans import Plans
from callsheet.tasks.products import Products
from callsheet.tasks.run_tasks import RunTasks
from callsheet.tasks.runner import Runner, SynchronousTasks
from callsheet.tasks.submission import TaskSubmission


@dataclass(frozen=True, slots=True)
class TasksRoom:
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
    gate: ProviderGate | None = None,
) -> TasksRoom:
    """Builds the room. `gate` decides whether a provider may be called. `runner` runs synchronous tasks in this
    process.
    """
    actors = Actors(databases, providers.actors, providers.media, settings)
    plans = Plans(actors, effects, TaskLimits(jobs.dispatch.limits), settings)
    products = Products(databases)
    synchronous = SynchronousTasks(jobs, runner, settings.in_process, settings.sync_wait_seconds, gate)
    return TasksRoom(
        actors=actors,
        submission=TaskSubmission(plans, jobs.submission),
        products=products,
        generation=GenerationJobs(databases, plans, jobs.submission, products, synchronous),
        synchronous=synchronous,
        for_runs=RunTasks(actors, plans),
    )
