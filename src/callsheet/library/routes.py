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
from callsheet.wire.base import Line, Moment, OptionalLine, Page
from callsheet.wire.forms import Slug
from callsheet.wire.jobs import JobStatus
from callsheet.wire.library import JobCounts, JobSummary, Medium
from callsheet.wire.tasks import ActorName

Kind = Annotated[str, Query(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
MAX_VALUES = 50


def library_router(lists: JobLists, effects: Effects, authentication: Authentication) -> Router:
    router = Router(prefix="/api/library", tags=["library"])

    async def filters_of(
        q: OptionalLine | None = Query(
            None,
            description="Words that must all be in the prompt, the name of the input or the name of the effect. Upper "
            "and lower case are the same, and a part of a word is enough.",
        ),
        status: list[JobStatus] = Query([], max_length=MAX_VALUES, description="Only jobs of these statuses."),
        effect: list[Slug] = Query([], max_length=MAX_VALUES, description="Only jobs of these effects: ids or slugs."),
        kind: list[Kind] = Query([], max_length=MAX_VALUES, description="Only jobs of these kinds: effect, task, …"),
        medium: list[Medium] = Query(
            [], max_length=MAX_VALUES, description="Only jobs whose main output is of this type."
        ),
        actor: list[ActorName] = Query([], max_length=MAX_VALUES, description="Only tasks of these actors."),
        run_id: UUID | None = Query(None, description="Only jobs of this run of a pipeline."),
        client_reference: Line | None = Query(None, description="Only jobs that were submitted with this reference."),
        created_from: Moment | None = Query(None, description="Only jobs submitted at this time or later."),
        created_to: Moment | None = Query(None, description="Only jobs submitted before this time."),
    ) -> Filters:
        return Filters(
            text=q or "",
            statuses=status,
            kinds=kind,
            media=medium,
            actors=actor,
            effect_ids=await effects.ids_of(effect) if effect else None,
            run_id=run_id,
            client_reference=client_reference,
            created_from=created_from,
            created_to=created_to,
        )

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
