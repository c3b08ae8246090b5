"""Everything the library is made of, put together once."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.catalog.room import CatalogRoom
from callsheet.identity.authentication import Authentication
from callsheet.jobs.deletion import JobDeletion
from callsheet.jobs.reader import JobReader
from callsheet.jobs.room import JobsRoom
from callsheet.library.action_routes import job_deletion_router, library_action_router
from callsheet.library.bulk import BulkActions
from callsheet.library.downloads import Downloads
from callsheet.library.lists import JobLists
from callsheet.library.routes import library_router
from callsheet.media.room import MediaRoom
from callsheet.plumbing.databases import Databases


def library_routers(
    databases: Databases,
    catalog: CatalogRoom,
    media: MediaRoom,
    jobs: JobsRoom,
    reader: JobReader,
    authentication: Authentication,
) -> list[APIRouter]:
    deletion = JobDeletion(databases, media.deletion, jobs.journal)
    bulk = BulkActions(reader, jobs.endings, deletion)
    return [
        library_router(JobLists(databases, catalog.effects, media.files), catalog.effects, authentication),
        library_action_router(bulk, Downloads(databases, media.files), authentication),
        job_deletion_router(deletion, authentication),
    ]
