"""Reads the jobs that a user may see, which are the user's own jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.machine.rows import JobPayload, JobRow, OutcomeRow, WholeJob
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import MAX_PAGE_BYTES
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import Job, JobListFilter

MACHINE_SQL = statements("callsheet.jobs.machine")
SQL = statements("callsheet.jobs.show")
LEASE_SQL = statements("callsheet.jobs.lease")


class DescriptionRow(NamedTuple):
    title: str
    prompt: str | None
    sent: Any


async def find_job(pool: Database, tenant_id: UUID, job_id: UUID) -> WholeJob | None:
    """The job of any user, without its payload, also if the user has deleted the job."""
    async with pool.connection() as connection:
        return await MACHINE_SQL["get_job"].row(connection, WholeJob, tenant_id=tenant_id, job_id=job_id)


async def require_job(pool: Database, tenant_id: UUID, job_id: UUID) -> WholeJob:
    job = await find_job(pool, tenant_id, job_id)
    if job is None:
        raise NotFound("There is no such job.")
    return job


async def active_jobs(connection: Connection, tenant_id: UUID, user_id: UUID) -> list[UUID]:
    return await SQL["active_jobs_of_user"].column(connection, tenant_id=tenant_id, user_id=user_id)


async def with_outcomes(
    connection: Connection, tenant_id: UUID, rows: Sequence[JobRow], limit: int
) -> tuple[list[tuple[JobRow, OutcomeRow]], bool]:
    """The first of these jobs with their results and errors, and whether more jobs are left for the next page.

    Returns at most `limit` jobs. Returns fewer jobs, but at least one, if results and errors exceed the maximum size of
    a page.
    """
    if not rows:
        return [], False
    outcomes = await SQL["outcomes_of_jobs"].rows(
        connection,
        OutcomeRow,
        tenant_id=tenant_id,
        job_ids=[row.id for row in rows[:limit]],
        max_bytes=MAX_PAGE_BYTES,
    )
    page = list(zip(rows, outcomes, strict=False))
    return page, len(page) < len(rows)


async def described(connection: Connection, tenant_id: UUID, user_id: UUID, job: Job) -> Job:
    """The user's job with its title, prompt and sent payload; old jobs may have no description."""
    row = await SQL["description_of_job"].row(
        connection, DescriptionRow, tenant_id=tenant_id, user_id=user_id, job_id=job.id
    )
    if row is None:
        return job
    return job.model_copy(update={"title": row.title, "prompt": row.prompt, "input_payload": row.sent})


class JobReader:
    """A user's own jobs: a job of another user is not found (G6)."""

    def __init__(self, databases: Databases):
        self._databases = databases

    async def job(self, principal: Principal, job_id: UUID) -> WholeJob:
        job = await find_job(await self.pool(principal), principal.tenant_id, job_id)
        if job is None or job.row.user_id != principal.user_id or job.deleted_at is not None:
            raise NotFound("There is no such job.")
        return job

    async def described(self, principal: Principal, job: Job) -> Job:
        """The principal's own job with its title, prompt and sent payload."""
        pool = await self.pool(principal)
        async with pool.connection() as connection:
            return await described(connection, principal.tenant_id, principal.user_id, job)

    async def payload(self, principal: Principal, job_id: UUID) -> Mapping[str, Any]:
        """The payload of a job. The caller must have checked that the job belongs to the principal."""
        pool = await self.pool(principal)
        async with pool.connection() as connection:
            row = await LEASE_SQL["payload_of_job"].row(
                connection, JobPayload, tenant_id=principal.tenant_id, job_id=job_id
            )
        assert row is not None, "The rows of jobs are never deleted."
        return row.payload

    async def page(
        self, principal: Principal, wanted: JobListFilter, before: UUID | None, limit: int
    ) -> tuple[list[tuple[JobRow, OutcomeRow]], bool]:
        """The user's jobs that match, newest first; and whether there are more."""
        values = {
            **wanted.columns,
            "tenant_id": principal.tenant_id,
            "user_id": principal.user_id,
            "before": before,
            "limit": limit + 1,
        }
        pool = await self.pool(principal)
        async with pool.ordinary() as connection:
            match wanted.narrowest:
                case "key":
                    rows = await MACHINE_SQL["list_jobs_of_key"].rows(
                        connection, JobRow, **values, idempotency_key=wanted.idempotency_key
                    )
                case "batch":
                    rows = await MACHINE_SQL["list_jobs_of_batch"].rows(connection, JobRow, **values)
                case "reference":
                    rows = await MACHINE_SQL["list_jobs_of_reference"].rows(connection, JobRow, **values)
                case "run":
                    rows = await MACHINE_SQL["list_jobs_of_run"].rows(connection, JobRow, **values)
                case None:
                    rows = await MACHINE_SQL["list_jobs"].rows(connection, JobRow, **values)
            return await with_outcomes(connection, principal.tenant_id, rows, limit)

    async def pool(self, principal: Principal) -> Database:
        return await self._databases.pool(principal.pool)
