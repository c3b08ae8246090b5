"""The effects room: effects as jobs, and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.catalog.room import CatalogRoom
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.effects.preview_routes import effect_preview_router
from callsheet.effects.previews import JobExamples
from callsheet.effects.routes import effect_job_router
from callsheet.effects.workflow_tests import workflow_test_router
from callsheet.identity.room import IdentityRoom
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.presenter import Presenter
from callsheet.media.room import MediaRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room


@dataclass(frozen=True, slots=True)
class EffectsRoom(Room):
    catalog: CatalogRoom
    media: MediaRoom
    jobs: JobsRoom
    effect_jobs: EffectJobs
    examples: JobExamples


def open_effects(databases: Databases, catalog: CatalogRoom, media: MediaRoom, jobs: JobsRoom) -> EffectsRoom:
    effect_jobs = EffectJobs(databases, catalog, media.files, jobs.submission)
    return EffectsRoom(catalog, media, jobs, effect_jobs, JobExamples(media.files))


def effects_routers(room: EffectsRoom, presenter: Presenter, identity: IdentityRoom) -> list[Router]:
    jobs, storage, users = room.effect_jobs, room.media.files.storage, identity.authentication
    return [
        effect_job_router(jobs, presenter, users),
        effect_preview_router(room.catalog, room.examples, storage, users),
        workflow_test_router(room.catalog, jobs, room.jobs.submission, presenter, identity.audit, users),
    ]
