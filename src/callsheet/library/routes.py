"""`/api/library`: lists and searches a user's jobs."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from callsheet.catalog.effects import Effects
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.library.lists import JobLists
from callsheet.library.search import Filters
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.library import JobCounts, JobSummary, LibraryFilter


def library_router(lists: JobLists, effects: Effects, authentication: Authentication) -> Router:
    router = Router(prefix="/api/library", tags=["library"])

    async def filters_of(wanted: Annotated[LibraryFilter, Query()]) -> Filters:
        return Filters(wanted, await effects.ids_of(wanted.effect) if wanted.effect else None)

    @router.get("/jobs")
    async def list_library(
        principal: Principal = Depends(authentication.user),
        filters: Filters = Depends(filters_of),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
    ) -> Page[JobSummary]:
        """Your jobs of all kinds, newest first, as summaries for a list.

        A page may be short, or empty, and still have a `next_cursor`: a request reads 20,000 jobs at most.
        """
        return await lists.page(principal, filters, cursor, limit)

    @router.get("/counts")
    async def count_library(
        principal: Principal = Depends(authentication.user), filters: Filters = Depends(filters_of)
    ) -> JobCounts:
        """The number of your jobs by status. The filter `status` is ignored."""
        return await lists.counts(principal, filters)

    @router.get("/jobs/{job_id}")
    async def get_summary(job_id: UUID, principal: Principal = Depends(authentication.user)) -> JobSummary:
        """The summary of one of your jobs."""
        return await lists.one(principal, job_id)

    return router
