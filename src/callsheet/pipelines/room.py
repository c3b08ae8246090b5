"""Everything the pipelines room is made of, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.catalog.room import CatalogRoom
from callsheet.jobs.room import JobsRoom
from callsheet.media.room import MediaRoom
from callsheet.pipelines.guidance import Guidance, open_guidance
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.notify import Listener
from callsheet.settings import PipelineSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class PipelinesRoom:
    settings: PipelineSettings
    guidance: Guidance

    @property
    def loops(self) -> tuple[Loop, ...]:
        return self.guidance.loops

    def listen(self, listener: Listener) -> None:
        """Lets the end of a job wake whoever waits for its result."""


def open_pipelines(
    databases: Databases, catalog: CatalogRoom, media: MediaRoom, jobs: JobsRoom, settings: PipelineSettings
) -> PipelinesRoom:
    guidance = open_guidance(databases, catalog, media, jobs, wake=lambda: None)
    return PipelinesRoom(settings=settings, guidance=guidance)
