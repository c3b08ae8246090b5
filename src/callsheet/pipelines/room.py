"""The pipelines room: its parts and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.registry import Collector as MetricCollector

from callsheet.catalog.room import CatalogRoom
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.machine.journal import CHANNEL as EVENT_CHANNEL
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.presenter import Presenter
from callsheet.media.room import MediaRoom
from callsheet.pipelines.design.definitions import Pipelines
from callsheet.pipelines.design.design_routes import design_router
from callsheet.pipelines.design.pipeline_templates import StartingPoints
from callsheet.pipelines.design.step_workflows import StepWorkflows
from callsheet.pipelines.design.versions import Versions
from callsheet.pipelines.judge.candidate_routes import (
    candidate_router,
    guidance_router,
    run_candidate_router,
    run_view_router,
)
from callsheet.pipelines.judge.guidance import Guidance, open_guidance
from callsheet.pipelines.routes import pipeline_router, run_router
from callsheet.pipelines.run.collector import Collector
from callsheet.pipelines.run.deletion import RunDeletion
from callsheet.pipelines.run.figures import RunMetrics, RunNumbers
from callsheet.pipelines.run.open_jobs import OpenJobs
from callsheet.pipelines.run.previews import RunPreviews
from callsheet.pipelines.run.runs import RunChecks, Runs
from callsheet.pipelines.run.scheduler import RunScheduler
from callsheet.pipelines.run.step_jobs import StepJobs
from callsheet.pipelines.run.task_steps import TaskPlans
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import PipelineSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class Design:
    """The parts that users need to design a pipeline."""

    workflows: StepWorkflows
    starting_points: StartingPoints
    versions: Versions
    previews: RunPreviews


@dataclass(frozen=True, slots=True)
class PipelinesRoom(Room):
    settings: PipelineSettings
    design: Design
    pipelines: Pipelines
    runs: Runs
    scheduler: RunScheduler
    collector: Collector
    guidance: Guidance
    deletion: RunDeletion
    numbers: RunNumbers
    run_metrics: RunMetrics

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.scheduler, self.collector, self.deletion, *self.guidance.loops)

    @property
    def metrics(self) -> tuple[MetricCollector, ...]:
        return self.run_metrics.collectors

    def listen(self, listener: Listener) -> None:
        """Wakes the collector at the end of a job, so that it collects the result."""
        listener.subscribe(EVENT_CHANNEL, self.collector.received)


def open_pipelines(
    databases: Databases,
    catalog: CatalogRoom,
    media: MediaRoom,
    jobs: JobsRoom,
    settings: PipelineSettings,
    tasks: TaskPlans,
) -> PipelinesRoom:
    """Opens the room. `tasks` makes the jobs of steps that are actors."""
    step_jobs = StepJobs(catalog, tasks)
    open_jobs, run_metrics = OpenJobs(), RunMetrics()
    scheduler = RunScheduler(
        lambda: databases.pools, step_jobs, media.files, jobs.submission, settings, started=open_jobs.add
    )
    collector = Collector(
        lambda: databases.pools,
        media.files,
        jobs.cancellation,
        settings,
        open_jobs,
        collected=scheduler.wake,
        observe=run_metrics.observe,
    )
    pipelines = Pipelines(databases, step_jobs, media.usage.quotas)
    workflows = StepWorkflows(catalog.image_effects)
    return PipelinesRoom(
        settings=settings,
        design=Design(
            workflows=workflows,
            starting_points=StartingPoints(workflows),
            versions=Versions(databases, pipelines),
            previews=RunPreviews(pipelines, step_jobs),
        ),
        pipelines=pipelines,
        runs=Runs(
            databases, pipelines, RunChecks(step_jobs, settings), jobs.cancellation, settings, wake=scheduler.wake
        ),
        scheduler=scheduler,
        collector=collector,
        guidance=open_guidance(databases, catalog, media, jobs, step_jobs, wake=scheduler.wake),
        deletion=RunDeletion.of(databases, media, jobs, settings.retention_days),
        numbers=RunNumbers(lambda: databases.pools, settings),
        run_metrics=run_metrics,
    )


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
