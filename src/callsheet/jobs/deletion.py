"""Deletes a job: its user no longer sees the job, and its outputs are removed. The ledger and the history keep its
id.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.principal import Principal
from callsheet.jobs.journal import Journal
from callsheet.jobs.sql import SQL
from callsheet.media.deletion import Deletion, OwnerOfMedia
from callsheet.plumbing.databases import Databases
from callsheet.toolbox.logs import current_request_id
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.jobs import ACTIVE


class LockedJob(NamedTuple):
    user_id: UUID
    status: str
    run_id: UUID | None
    deleted_at: datetime | None


class JobDeletion:
    def __init__(self, databases: Databases, media: Deletion, journal: Journal):
        self._databases = databases
        self._media = media
        self._journal = journal

    async def delete(self, principal: Principal, job_id: UUID) -> bool:
        """Deletes an ended job of the principal. Returns False if the job was deleted before."""
        owner = OwnerOfMedia(principal.tenant_id, principal.user_id)
        names = {"tenant_id": principal.tenant_id, "job_id": job_id}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection, connection.transaction():
            # The wallet is locked first, as for every change of tokens or files: a concurrent retry runs before, or
            # finds no job.
            await SQL["lock_wallet"].run(connection, tenant_id=principal.tenant_id, user_id=principal.user_id)
            row = await SQL["lock_job"].row(connection, LockedJob, **names)
            if row is None or row.user_id != principal.user_id:
                raise NotFound("There is no such job.")
            if row.deleted_at is not None:
                return False
            if row.status in ACTIVE:
                raise WrongState(f"The job is {row.status}. Cancel it first, or wait for its end.")
            if row.run_id is not None:
                raise WrongState(
                    f"This job belongs to run {row.run_id}, and the tree of the run shows its outputs. Kill its "
                    "candidate instead."
                )
            gone = await self._media.mark_outputs(connection, owner, job_id)
            await SQL["delete_job"].run(
                connection, **names, actor=f"user:{principal.user_id}", request_id=current_request_id()
            )
        self._journal.deleted(principal.tenant_id, principal.user_id, job_id)
        await self._media.remove(gone)
        return True
