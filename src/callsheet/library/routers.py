"""All routes of the library."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.library.action_routes import job_deletion_router, library_action_router
from callsheet.library.public_link_routes import share_link_router, shared_result_router
from callsheet.library.room import LibraryRoom
from callsheet.library.routes import library_router
from callsheet.plumbing.http.routing import Router


def library_routers(library: LibraryRoom, authentication: Authentication) -> list[Router]:
    return [
        library_router(library.lists, library.catalog.effects, authentication),
        library_action_router(library.bulk, library.downloads, authentication),
        job_deletion_router(library.deletion, authentication),
        share_link_router(library.shares, authentication),
        shared_result_router(library.shares, library.media.files.storage),
    ]
