"""Deletes a job: its user no longer sees the job, and its outputs are removed. The ledger and the history keep its
id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.machine.journal import Journal
from callsheet.media.deletion import Deletion, MarkedFile, OwnerOfMedia
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.logs import current_request_id
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.jobs import ACTIVE

SQL = statements("callsheet.jobs.change")


class LockedJob(NamedTuple):
    user_id: UUID
    status: str
    run_id: UUID | None
    deleted_at: datetime | None


@dataclass(slots=True)
class DeletionBatch:
    """Jobs of one user that are deleted in one transaction."""

    connection: Connection
    owner: OwnerOfMedia
    actor: str
    _media: Deletion
    deleted: list[UUID] = field(default_factory=list)
    files: list[MarkedFile] = field(default_factory=list)

    async def delete(self, job_id: UUID) -> None:
        """Deletes an ended job and marks its outputs. Refused while another job works on one of them."""
        self.files += await self._media.mark_outputs(self.connection, self.owner, job_id)
        found = await SQL["delete_job"].value(
            self.connection,
            tenant_id=self.owner.tenant_id,
            job_id=job_id,
            actor=self.actor,
            request_id=current_request_id(),
        )
        if found is not None:
            self.deleted.append(job_id)


class JobDeletion:
    def __init__(self, databases: Databases, media: Deletion, journal: Journal):
        self._databases = databases
        self._media = media
        self._journal = journal

    @asynccontextmanager
    async def batch(self, pool: Database, owner: OwnerOfMedia, actor: str) -> AsyncIterator[DeletionBatch]:
        """A transaction that deletes jobs. The objects of their outputs are deleted after its commit."""
        async with pool.ordinary() as connection, connection.transaction():
            # The wallet is locked first, as for every change of tokens or files: a concurrent retry runs before, or
            # finds no job.
            await SQL["lock_wallet"].run(connection, tenant_id=owner.tenant_id, user_id=owner.user_id)
            batch = DeletionBatch(connection, owner, actor, self._media)
            yield batch
        for job_id in batch.deleted:
            self._journal.deleted(owner.tenant_id, owner.user_id, job_id)
        await self._media.remove(batch.files)

    async def delete(self, principal: Principal, job_id: UUID) -> bool:
        """Deletes an ended job of the principal. Returns False if the job was deleted before."""
        owner = OwnerOfMedia(principal.tenant_id, principal.user_id)
        pool = await self._databases.pool(principal.pool)
        async with self.batch(pool, owner, f"user:{principal.user_id}") as batch:
            row = await SQL["lock_job"].row(batch.connection, LockedJob, tenant_id=owner.tenant_id, job_id=job_id)
            if row is None or row.user_id != principal.user_id:
                raise NotFound("There is no such job.")
            if row.deleted_at is not None:
                return False
            if row.status in ACTIVE:
                raise WrongState(f"The job is {row.status}. Cancel it first, or wait for its end.")
            if row.run_id is not None:
                raise WrongState(
                    f"This job belongs to run {row.run_id}, and the tree of the run shows its outputs. Kill its "
                    "candidate instead, or delete the run when it has ended."
                )
            await batch.delete(job_id)
        return True
