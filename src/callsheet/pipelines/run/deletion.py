"""Deletes ended runs, when their users or the retention ask for it.

A deleted run is marked first: from then on no user sees it. Then a loop removes it in batches, the last jobs of the
tree first. Each batch deletes jobs with their files, slots and candidates in one transaction. After a crash at any
point, the loop of any control plane continues with what is left. The rows of jobs stay for the ledger, as for every
deleted job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.change.deletion import JobDeletion
from callsheet.jobs.room import JobsRoom
from callsheet.media.deletion import OwnerOfMedia
from callsheet.media.room import MediaRoom
from callsheet.pipelines.rows import RunRow
from callsheet.pipelines.run.shown_runs import no_such_run
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import InUse, WrongState
from callsheet.wire.pipelines.pipelines import RunStatus

log = get_logger(__name__)
DESIGN_SQL = statements("callsheet.pipelines.design")
SQL = statements("callsheet.pipelines.run")
DELETION_SQL = statements("callsheet.pipelines.run", "deletion_statements.sql")
ENDED = (RunStatus.COMPLETED, RunStatus.CANCELED)
ACTOR = "run_deletion"
# Jobs of one transaction, which holds the lock of the user's wallet.
JOBS = 20
VOTES = 1000
OLD_RUNS = 100
# A run that cannot be removed yet is tried again after this time, and that of a control plane that crashed.
LATER_SECONDS = 60.0


class DeletedRun(NamedTuple):
    tenant_id: UUID
    id: UUID
    user_id: UUID


class RunDeletion(Loop):
    name = "run_deletion"
    interval_seconds = 30.0

    def __init__(self, databases: Databases, jobs: JobDeletion, days: int | None):
        """`days`: runs that ended longer ago are deleted. None: runs are kept."""
        super().__init__()
        self._databases = databases
        self._jobs = jobs
        self._days = days

    @classmethod
    def of(cls, databases: Databases, media: MediaRoom, jobs: JobsRoom, days: int | None) -> RunDeletion:
        return cls(databases, JobDeletion(databases, media.deletion, jobs.journal), days)

    async def delete(self, principal: Principal, run_id: UUID) -> None:
        """Deletes an ended run of the principal. Its files are removed within seconds."""
        pool = await self._databases.pool(principal.pool)
        own = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
        async with pool.transaction() as connection:
            # All use cases lock the wallet before the run.
            await DESIGN_SQL["lock_wallet"].value(connection, **own)
            run = await SQL["lock_run_to_delete"].row(connection, RunRow, **own, id=run_id)
            if run is None:
                raise no_such_run()
            if run.status not in ENDED:
                raise WrongState(f"The run is {run.status}. Cancel it, then delete it.")
            await DELETION_SQL["mark_run_deleted"].run(connection, tenant_id=principal.tenant_id, run_id=run_id)
        self.wake()

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.remove_due(pool) for pool in self._databases.pools))

    async def remove_due(self, pool: Database, at: datetime | None = None) -> bool:
        """Removes one deleted run. Returns True while there may be more."""
        marked = await self._mark_old(pool, at)
        async with pool.ordinary() as connection:
            run = await DELETION_SQL["claim_deleted_run"].row(connection, DeletedRun, later_seconds=LATER_SECONDS)
        if run is None:
            return marked
        try:
            removed = await self._remove(pool, run)
        except InUse:
            # An active job reads one of its files.
            removed = False
        if removed:
            log.info("pipeline.run_deleted", run_id=str(run.id))
        return True

    async def _mark_old(self, pool: Database, at: datetime | None) -> bool:
        if self._days is None:
            return False
        async with pool.ordinary() as connection:
            marked = await DELETION_SQL["mark_old_runs"].run(connection, now=at, days=self._days, limit=OLD_RUNS)
        return marked == OLD_RUNS

    async def _remove(self, pool: Database, run: DeletedRun) -> bool:
        """Removes what is left of the run. Returns False if a job of it has not been settled yet."""
        names = {"tenant_id": run.tenant_id, "run_id": run.id}
        async with pool.ordinary() as connection:
            if await DELETION_SQL["has_open_slots"].value(connection, **names):
                return False
            while await DELETION_SQL["delete_votes_of_run"].run(connection, **names, limit=VOTES) == VOTES:
                pass
            await DELETION_SQL["delete_kills_of_run"].run(connection, **names)
            await DELETION_SQL["delete_approvals_of_run"].run(connection, **names)
        while await self._remove_batch(pool, run):
            await hit(Failpoint.RUN_DELETION_BETWEEN_BATCHES)
        async with pool.ordinary() as connection:
            await DELETION_SQL["delete_run"].run(connection, **names)
        return True

    async def _remove_batch(self, pool: Database, run: DeletedRun) -> bool:
        """Removes the jobs that were started last, with everything that was made by them. False if there are none."""
        owner = OwnerOfMedia(run.tenant_id, run.user_id)
        names = {"tenant_id": run.tenant_id, "run_id": run.id}
        async with self._jobs.batch(pool, owner, ACTOR) as batch:
            job_ids: Sequence[UUID] = await DELETION_SQL["last_jobs_of_run"].column(
                batch.connection, **names, limit=JOBS
            )
            for job_id in job_ids:
                await batch.delete(job_id)
            await DELETION_SQL["delete_candidates"].run(
                batch.connection, tenant_id=run.tenant_id, job_ids=list(job_ids)
            )
        return bool(job_ids)
