"""Deletes what ended jobs no longer need: events of jobs that ended long ago, and the inputs of jobs that never ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.jobs.repair", "retention_statements.sql")

# A job that was canceled before a worker had it keeps its inputs for this time, so that its user can look at them.
UNUSED_INPUT_SECONDS = 3600


class EndedJob(NamedTuple):
    """A job that ended, and whether it was canceled before it ran and still has its inputs."""

    tenant_id: UUID
    user_id: UUID
    id: UUID
    completed_at: datetime
    is_unused: bool


class EventRetention(Loop):
    """Deletes old events, and unused inputs of jobs. Safe on any number of control planes. Only one at a time deletes
    events of a pool; two may delete the same inputs.
    """

    name = "event_retention"
    interval_seconds = 600.0
    # Number of jobs per tick. Each job has about five events.
    batch = 1000

    def __init__(self, pools: Callable[[], Sequence[Database]], days: int | None):
        """`days`: how long events are kept. None: forever."""
        super().__init__()
        self._pools = pools
        self._days = days

    async def tick(self, now: datetime) -> bool:
        """Returns whether there may be more to delete."""
        pools = self._pools()
        more = await all_of(self._drop_inputs(pool) for pool in pools)
        if self._days is not None:
            more += await all_of(self._delete_some(pool) for pool in pools)
        return any(more)

    async def _drop_inputs(self, pool: Database) -> bool:
        """One user after the other, each in its own transaction: the count of a user's bytes is locked by it."""
        name = "unused_inputs"
        async with pool.ordinary() as connection:
            await SQL["begin_retention"].run(connection, name=name)
            jobs = await SQL["ended_jobs"].rows(
                connection, EndedJob, name=name, seconds=UNUSED_INPUT_SECONDS, limit=self.batch
            )
            unused = sorted((job for job in jobs if job.is_unused), key=_owner)
            for (tenant_id, user_id), found in groupby(unused, key=_owner):
                await SQL["drop_inputs"].run(
                    connection, tenant_id=tenant_id, user_id=user_id, job_ids=[job.id for job in found]
                )
            if jobs:
                last = jobs[-1]
                await SQL["move_mark"].run(connection, name=name, completed_at=last.completed_at, id=last.id)
        return len(jobs) == self.batch

    async def _delete_some(self, pool: Database) -> bool:
        async with pool.ordinary() as connection, connection.transaction():
            await SQL["begin_retention"].run(connection, name="job_events")
            jobs = await SQL["delete_old_events"].value(connection, days=self._days, limit=self.batch)
        return bool(jobs == self.batch)


def _owner(job: EndedJob) -> tuple[UUID, UUID]:
    return job.tenant_id, job.user_id
