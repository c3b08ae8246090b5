"""The part of the room with which users guide runs: galleries, votes, kills, approvals, lineage and exports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from callsheet.catalog.room import CatalogRoom
from callsheet.jobs.room import JobsRoom
from callsheet.media.room import MediaRoom
from callsheet.pipelines.judge.branches import Branches, Pruner
from callsheet.pipelines.judge.export import Exports
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.judge.lineage import Lineages
from callsheet.pipelines.judge.thumbnails import ThumbnailMaker
from callsheet.pipelines.judge.votes import Votes
from callsheet.pipelines.run.step_jobs import StepJobs
from callsheet.pipelines.run.views import RunViews
from callsheet.plumbing.database.databases import Databases
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class Guidance:
    gallery: Gallery
    votes: Votes
    branches: Branches
    lineages: Lineages
    exports: Exports
    views: RunViews
    pruner: Pruner
    thumbnails: ThumbnailMaker

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.pruner, self.thumbnails)


def open_guidance(
    databases: Databases,
    catalog: CatalogRoom,
    media: MediaRoom,
    jobs: JobsRoom,
    step_jobs: StepJobs,
    wake: Callable[[], None],
) -> Guidance:
    """Builds this part of the room. `wake` is called when the scheduler may have another choice."""
    gallery = Gallery(databases, media.files)
    return Guidance(
        gallery=gallery,
        votes=Votes(databases, gallery),
        branches=Branches(databases, gallery, jobs.cancellation, wake),
        lineages=Lineages(databases, gallery, catalog, jobs.submission, step_jobs.tasks),
        exports=Exports(databases, gallery, media.files),
        views=RunViews(databases, gallery, step_jobs),
        pruner=Pruner(lambda: databases.pools, jobs.cancellation),
        thumbnails=ThumbnailMaker(lambda: databases.pools, media.files),
    )
