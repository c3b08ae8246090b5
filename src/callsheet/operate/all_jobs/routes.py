"""`/api/admin`: jobs of all tenants, and their errors in groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.operate.all_jobs.errors import ErrorRange, JobErrors
from callsheet.operate.all_jobs.lists import AllJobs
from callsheet.operate.all_jobs.names import Names
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Moment, Page
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.forms import WorkflowSlug
from callsheet.wire.library import MAX_VALUES
from callsheet.wire.operate.all_jobs import (
    ErrorGroup,
    ErrorGroups,
    Fingerprint,
    JobFilter,
    JobQuery,
    JobTotals,
    OperatedJob,
)
from callsheet.wire.tasks import JobOrTaskId

DEFAULT_RANGE = timedelta(days=1)


async def filter_of(wanted: Annotated[JobQuery, Query()]) -> JobFilter:
    return wanted


def all_jobs_router(jobs: AllJobs, names: Names, authentication: Authentication) -> Router:
    see = authentication.may(Permission.SEE_JOBS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/jobs")
    async def list_all_jobs(
        principal: Principal = see,
        wanted: JobFilter = Depends(filter_of),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
    ) -> Page[OperatedJob]:
        """Jobs of all tenants, newest first. Jobs of a pool that is not available are left out.

        A page may be short, or empty, and still have a `next_cursor`: a request reads 10,000 jobs per pool at most. A
        viewer's search does not read the texts of users.
        """
        resolved = await names.resolve(wanted, searches_texts=principal.may(Permission.SEE_PAYLOADS))
        return await jobs.page(resolved, cursor, limit)

    @router.get("/job-totals")
    async def total_all_jobs(principal: Principal = see, wanted: JobFilter = Depends(filter_of)) -> JobTotals:
        """How many jobs match a filter, by status, and what they cost."""
        resolved = await names.resolve(wanted, searches_texts=principal.may(Permission.SEE_PAYLOADS))
        return await jobs.totals(resolved)

    return router


def job_errors_router(errors: JobErrors, authentication: Authentication) -> Router:
    see = authentication.may(Permission.SEE_JOBS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/job-errors")
    async def list_error_groups(
        since: Moment | None = Query(
            None, description="Only jobs that ended at this time or later. Default: a day ago."
        ),
        until: Moment | None = Query(None, description="Only jobs that ended before this time. Default: now."),
        tenant_id: UUID | None = Query(None, description="Only jobs of this tenant."),
        workflow: list[WorkflowSlug] = Query([], max_length=MAX_VALUES, description="Only jobs of these workflows."),
        limit: int = LIMIT,
        principal: Principal = see,
    ) -> ErrorGroups:
        """The errors of failed and expired jobs in groups, the largest group first.

        Errors that differ only in ids, numbers, paths, URLs and hosts are one group. Jobs that were retried do not
        count.
        """
        end = until or datetime.now(UTC) + timedelta(minutes=1)
        try:
            start = since or end - DEFAULT_RANGE
        except OverflowError:
            raise InvalidRequest.field("until", "This time is too early. Use a later one, or send since too.") from None
        return await errors.groups(ErrorRange(start, end, tenant_id, workflow), limit)

    @router.get("/job-errors/{fingerprint}")
    async def get_error_group(
        fingerprint: Annotated[Fingerprint, Path(description="Fingerprint of an error.")], principal: Principal = see
    ) -> ErrorGroup:
        """All jobs that failed with this error. List them with `GET /api/admin/jobs?fingerprint=`."""
        return await errors.group(fingerprint)

    @router.get("/jobs/{job_id}/error-group")
    async def get_error_group_of_job(job_id: JobOrTaskId, principal: Principal = see) -> ErrorGroup:
        """The jobs that failed like this one. 404 if the job has no error."""
        return await errors.of_job(job_id)

    return router
