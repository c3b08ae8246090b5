"""Reads and lists the tasks of a user."""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.machine.rows import JobRow, WholeJob
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.reader import JobReader, with_outcomes
from callsheet.jobs.show.views import job_view, listed_job_view
from callsheet.plumbing.database.sql import statements
from callsheet.tasks.views import task_view
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.jobs import Job, JobStatus
from callsheet.wire.tasks import Task, job_id_of

SQL = statements("callsheet.jobs.machine")

NO_SUCH_TASK = "There is no such task."


class TaskReader:
    def __init__(self, jobs: JobReader, presenter: Presenter):
        self._jobs = jobs
        self._presenter = presenter

    async def job(self, principal: Principal, task_id: str) -> WholeJob:
        """The job of a task. A task of another user is not found (G6), and neither is a job that is not a task."""
        job_id = job_id_of(task_id)
        if job_id is None:
            raise NotFound(NO_SUCH_TASK)
        try:
            job = await self._jobs.job(principal, job_id)
        except NotFound:
            raise NotFound(NO_SUCH_TASK) from None
        if job.row.actor is None:
            raise NotFound(NO_SUCH_TASK)
        return job

    async def get(self, principal: Principal, task_id: str) -> Task:
        return await self.shown(principal, await self.job(principal, task_id))

    async def of_job(self, principal: Principal, job: Job) -> Task:
        """The task of a job that belongs to the principal."""
        return await self.shown(principal, await self._jobs.job(principal, job.id))

    async def shown(self, principal: Principal, job: WholeJob) -> Task:
        """A single task with its payload. Lists have no payloads."""
        payload = await self._jobs.payload(principal, job.row.id)
        return task_view(job.row, await self._presenter.one(principal.tenant_id, job_view(job)), payload)

    async def list(
        self,
        principal: Principal,
        *,
        workflow_run_id: str | None,
        status: JobStatus | None,
        actor: str | None,
        queue_name: str | None,
        before: UUID | None,
        limit: int,
    ) -> Page[Task]:
        """The tasks, newest first, without payloads."""
        filters = {
            "tenant_id": principal.tenant_id,
            "user_id": principal.user_id,
            "status": status.value if status else None,
            "actor": actor,
            "queue_name": queue_name,
            "before": before,
            "limit": limit + 1,
        }
        pool = await self._jobs.pool(principal)
        async with pool.ordinary() as connection:
            if workflow_run_id is None:
                rows = await SQL["list_tasks"].rows(connection, JobRow, **filters)
            else:
                rows = await SQL["list_tasks_of_run"].rows(
                    connection, JobRow, **filters, workflow_run_id=workflow_run_id
                )
            page, is_cut = await with_outcomes(connection, principal.tenant_id, rows, limit)
        jobs = await self._presenter.many(principal.tenant_id, [listed_job_view(row, outcome) for row, outcome in page])
        tasks = [task_view(row, job) for (row, _), job in zip(page, jobs, strict=True)]
        return Page(items=tasks, next_cursor=str(tasks[-1].job_id) if is_cut else None)
