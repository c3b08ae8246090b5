"""Builds all parts of the library."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.catalog.room import CatalogRoom
from callsheet.jobs.change.deletion import JobDeletion
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.reader import JobReader
from callsheet.library.bulk import LibraryActions
from callsheet.library.downloads import LibraryDownloads
from callsheet.library.lists import JobLists
from callsheet.library.public_links import Openings, Shares
from callsheet.media.room import MediaRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class LibraryRoom:
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
    databases: Databases, catalog: CatalogRoom, media: MediaRoom, jobs: JobsRoom, settings: Settings
) -> LibraryRoom:
    reader = JobReader(databases)
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
