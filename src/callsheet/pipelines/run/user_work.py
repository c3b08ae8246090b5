"""Counts and cancels the active runs and jobs of a user that an operator deletes."""

from __future__ import annotations

from typing import Any

from callsheet.identity.access.principal import Owner
from callsheet.identity.accounts.deletion import Active
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.show.reader import active_jobs
from callsheet.pipelines.judge.branches import cancel_jobs
from callsheet.pipelines.rows import RunId
from callsheet.pipelines.run.runs import Runs
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import WrongState

SQL = statements("callsheet.pipelines.run")


class JobsAndRunsOfUser:
    def __init__(self, databases: Databases, runs: Runs, cancellation: Cancellation):
        self._databases = databases
        self._runs = runs
        self._cancellation = cancellation

    async def active(self, owner: Owner) -> Active:
        pool = await self._databases.pool(owner.pool)
        async with pool.connection() as connection:
            jobs = await active_jobs(connection, owner.tenant_id, owner.user_id)
            runs = await SQL["list_active_runs"].rows(connection, RunId, **_names(owner))
        return Active(len(jobs), len(runs))

    async def cancel(self, owner: Owner, actor: str, reason: str) -> None:
        """Cancels the user's runs and then the jobs. Runs come first, because an active run would start another job
        for each canceled one.
        """
        pool = await self._databases.pool(owner.pool)
        async with pool.connection() as connection:
            runs = await SQL["list_active_runs"].rows(connection, RunId, **_names(owner))
        for run in runs:
            try:
                await self._runs.cancel(owner, run.id, actor=actor)
            except WrongState:
                continue  # The run has ended meanwhile.
        async with pool.connection() as connection:
            jobs = await active_jobs(connection, owner.tenant_id, owner.user_id)
        await cancel_jobs(
            self._cancellation, [(owner.tenant_id, job_id) for job_id in jobs], actor=actor, reason=reason
        )


def _names(owner: Owner) -> dict[str, Any]:
    return {"tenant_id": owner.tenant_id, "user_id": owner.user_id}
