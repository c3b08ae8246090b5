"""Everything the pipelines room is made of, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.catalog.room import CatalogRoom
from callsheet.jobs.journal import CHANNEL as EVENT_CHANNEL
from callsheet.jobs.room import JobsRoom
from callsheet.media.room import MediaRoom
from callsheet.pipelines.collector import Collector
from callsheet.pipelines.definitions import Pipelines
from callsheet.pipelines.director import Director
from callsheet.pipelines.guidance import Guidance, open_guidance
from callsheet.pipelines.numbers import RunNumbers
from callsheet.pipelines.runs import Runs
from callsheet.pipelines.step_jobs import StepJobs
from callsheet.pipelines.task_steps import TaskSteps
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.notify import Listener
from callsheet.settings import PipelineSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class PipelinesRoom:
    settings: PipelineSettings
    pipelines: Pipelines
    runs: Runs
    director: Director
    collector: Collector
    guidance: Guidance
    # Asks the room of tasks what an actor takes: `app.py` sets `task_steps.plans`.
    task_steps: TaskSteps
    numbers: RunNumbers

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.director, self.collector, *self.guidance.loops)

    def listen(self, listener: Listener) -> None:
        """Lets the end of a job wake the collector, which takes its result."""
        listener.subscribe(EVENT_CHANNEL, self.collector.received)


def open_pipelines(
    databases: Databases, catalog: CatalogRoom, media: MediaRoom, jobs: JobsRoom, settings: PipelineSettings
) -> PipelinesRoom:
    step_jobs = StepJobs(catalog)
    director = Director(lambda: databases.pools, step_jobs, media.files, jobs.submission, settings)
    collector = Collector(lambda: databases.pools, media.files, jobs.endings, settings, collected=director.wake)
    director.begun = collector.begun
    pipelines = Pipelines(databases, step_jobs, media.usage.quotas)
    return PipelinesRoom(
        settings=settings,
        pipelines=pipelines,
        runs=Runs(databases, pipelines, step_jobs, jobs.endings, settings, wake=director.wake),
        director=director,
        collector=collector,
        guidance=open_guidance(databases, catalog, media, jobs, step_jobs.tasks, wake=director.wake),
        task_steps=step_jobs.tasks,
        numbers=RunNumbers(lambda: databases.pools, settings),
    )
