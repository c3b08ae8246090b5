"""The batches room: its parts and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.batches.batches import Batches
from callsheet.batches.routes import batch_router
from callsheet.catalog.effects import Effects
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.room import JobsRoom
from callsheet.library.downloads import LibraryDownloads
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import JobSettings


@dataclass(frozen=True, slots=True)
class BatchesRoom(Room):
    batches: Batches


def open_batches(
    databases: Databases,
    effects: Effects,
    effect_jobs: EffectJobs,
    jobs: JobsRoom,
    downloads: LibraryDownloads,
    settings: JobSettings,
) -> BatchesRoom:
    return BatchesRoom(Batches(databases, effects, effect_jobs, jobs, downloads, settings))


def batch_routers(room: BatchesRoom, authentication: Authentication) -> list[Router]:
    return [batch_router(room.batches, authentication)]
