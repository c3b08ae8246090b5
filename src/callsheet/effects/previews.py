"""Uses a completed job as the example of an effect: its input and its output."""

from __future__ import annotations

from uuid import UUID

from callsheet.catalog.effect_previews import Example, stored_example
from callsheet.identity.access.principal import Principal
from callsheet.jobs.machine.rows import WholeJob
from callsheet.jobs.show.reader import find_job
from callsheet.media.files import FileRow, Files, listed_files
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.jobs import JobStatus

SQL = statements("callsheet.jobs.operate")

NO_SUCH_JOB = "You have no such job."


class JobExamples:
    def __init__(self, files: Files):
        self._files = files

    async def of_own(self, principal: Principal, job_id: UUID) -> tuple[Example | None, Example]:
        """The example from the caller's own job, so that media of another user is not shown by mistake."""
        pool = await self._files.databases.pool(principal.pool)
        job = await find_job(pool, principal.tenant_id, job_id)
        if job is None or job.row.user_id != principal.user_id:
            raise InvalidRequest.field("job_id", NO_SUCH_JOB)
        return await self._examples(pool, job)

    async def of_any(self, job_id: UUID) -> tuple[Example | None, Example]:
        """The example from any user's job, for commands on the machine itself."""
        for pool in self._files.databases.pools:
            async with pool.connection() as connection:
                tenants = await SQL["find_tenants_of_job"].rows(connection, job_id=job_id)
            for tenant in tenants:
                job = await find_job(pool, tenant["tenant_id"], job_id)
                if job is not None:
                    return await self._examples(pool, job)
        raise InvalidRequest.field("job_id", "There is no such job.")

    async def _examples(self, pool: Database, job: WholeJob) -> tuple[Example | None, Example]:
        tenant_id, user_id, status = job.row.tenant_id, job.row.user_id, job.row.status
        if status != JobStatus.COMPLETED:
            raise InvalidRequest.field("job_id", f"The job is {status}. Only a completed job has a result to show.")
        made = listed_files((job.result or {}).get("outputs"))
        rows = await self._files.rows(pool, tenant_id, [*made[:1], *job.input_file_ids[:1]])
        files = {row.id: row for row in rows if row.disk == self._files.disk and row.user_id == user_id}
        after = files.get(made[0]) if made else None
        if after is None:
            raise InvalidRequest.field("job_id", "The result of this job was deleted.")
        before = files.get(job.input_file_ids[0]) if job.input_file_ids else None
        return self._example(before) if before is not None else None, self._example(after)

    def _example(self, row: FileRow) -> Example:
        return stored_example(self._files.storage, "job_id", row.path, row.mime_type, row.size)
