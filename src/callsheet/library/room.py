"""The library: its parts and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.catalog.room import CatalogRoom
from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.change.deletion import JobDeletion
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.reader import JobReader
from callsheet.library.action_routes import job_deletion_router, library_action_router
from callsheet.library.bulk import LibraryActions
from callsheet.library.downloads import LibraryDownloads
from callsheet.library.lists import JobLists
from callsheet.library.public_link_routes import share_link_router, shared_result_router
from callsheet.library.public_links import Openings, Shares
from callsheet.library.routes import library_router
from callsheet.media.room import MediaRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class LibraryRoom(Room):
    catalog: CatalogRoom
    media: MediaRoom
    lists: JobLists
    bulk: LibraryActions
    downloads: LibraryDownloads
    deletion: JobDeletion
    shares: Shares
    openings: Openings

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.openings,)


def open_library(
    databases: Databases,
    catalog: CatalogRoom,
    media: MediaRoom,
    jobs: JobsRoom,
    reader: JobReader,
    settings: Settings,
) -> LibraryRoom:
    deletion = JobDeletion(databases, media.deletion, jobs.journal)
    openings = Openings(databases)
    return LibraryRoom(
        catalog=catalog,
        media=media,
        lists=JobLists(databases, catalog.effects, media.files),
        bulk=LibraryActions(reader, jobs.cancellation, jobs.retries, deletion),
        downloads=LibraryDownloads(databases, media.files),
        deletion=deletion,
        shares=Shares(databases, reader, media.files, settings, openings),
        openings=openings,
    )


def library_routers(library: LibraryRoom, authentication: Authentication) -> list[Router]:
    return [
        library_router(library.lists, library.catalog.effects, authentication),
        library_action_router(library.bulk, library.downloads, authentication),
        job_deletion_router(library.deletion, authentication),
        share_link_router(library.shares, authentication),
        shared_result_router(library.shares, library.media.files.storage),
    ]
