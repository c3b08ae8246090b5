"""Reads the progress of the jobs that workers hold: one statement for each pool, for any number of workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from callsheet.jobs.lease.progress import LeaseProgressRow, progress_of_leases
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import is_outage
from callsheet.wire.fleet import Worker, WorkerLease

JobKey = tuple[UUID, UUID]


class LeaseProgress:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def added_to(self, workers: Sequence[Worker]) -> list[Worker]:
        """The workers, with the progress of each lease. The progress of jobs in an unavailable pool is unknown."""
        jobs = [(lease.tenant_id, lease.job_id) for worker in workers for lease in worker.leases]
        if not jobs:
            return list(workers)
        found = await asyncio.gather(*(_progress_in(pool, jobs) for pool in self._databases.pools))
        progress = {(row.tenant_id, row.job_id): row for rows in found for row in rows}
        return [
            worker.model_copy(update={"leases": [_with_progress(lease, progress) for lease in worker.leases]})
            for worker in workers
        ]


async def _progress_in(pool: Database, jobs: Sequence[JobKey]) -> Sequence[LeaseProgressRow]:
    try:
        async with pool.ordinary() as connection:
            return await progress_of_leases(connection, jobs)
    except Exception as error:
        # An unavailable pool must not fail the list: operators need it most while something is broken.
        if is_outage(error):
            return ()
        raise


def _with_progress(lease: WorkerLease, progress: dict[JobKey, LeaseProgressRow]) -> WorkerLease:
    row = progress.get((lease.tenant_id, lease.job_id))
    return lease if row is None else lease.model_copy(update={"percent": row.percent, "message": row.message})
