"""Two control planes, a user whose jobs both use at once, and a bystander in the other pool with the same job ids.

job, started = await race.started()                      # the fixture `race`: ann submits, worker-1 leases
await race.one.complete(started)
await race.two.complete(started)                         # the same report, at the other control plane
await race.check_job(job.id, COMPLETED, CONSUMED)        # history and tokens of ann's job; bob's is unchanged
assert await race.finished(job.id) == [(1, "completed")]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from callsheet.dispatch.facts import QueueEntry
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.plumbing.database.database import Database
from callsheet.toolbox.ids import uuid7
from callsheet.wire.jobs import Job
from tests.support.jobs.core import WORKER, Core, Member, job_ids

QUEUED = [">pending", "pending>queued"]
STARTED = [*QUEUED, "queued>processing"]
COMPLETED = [*STARTED, "processing>completed"]
RESERVE = (1, "JOB_RESERVE", -10)
CONSUMED = [RESERVE, (1, "JOB_CONSUME", 0)]
REFUNDED = [RESERVE, (1, "JOB_REFUND", 10)]


@dataclass(slots=True)
class Race:
    one: Core
    two: Core
    ann: Member
    bob: Member
    # A workflow that no worker of these tests serves, so the bystander's job stays in the queue.
    aside: int

    @property
    def central(self) -> Database:
        """The central database of the second control plane. Locks here are held in a separate connection."""
        return self.two.databases.central

    @property
    def pool(self) -> Database:
        found = next(pool for pool in self.two.databases.pools if pool.name == self.ann.pool.name)
        assert found is not self.ann.pool
        return found

    async def submit(self, **changes: Any) -> Job:
        """Submits a job of ann, and a job of bob with the same id in the other pool."""
        job_id = uuid7()
        with job_ids(job_id, job_id):
            await self.one.submit(self.bob, workflow_id=self.aside)
            return await self.one.submit(self.ann, **changes)

    async def started(self, worker: str = WORKER, **changes: Any) -> tuple[Job, StartedLease]:
        job = await self.submit(**changes)
        return job, await self.one.start(worker)

    async def check_job(
        self, job_id: UUID, steps: Sequence[str], ledger: Sequence[tuple[int, str, int]], dispatch: str | None = None
    ) -> None:
        """Checks the job's history, tokens and the status of its dispatch (None: it has none), and that bob's job is
        unchanged.
        """
        assert await self.one.steps(self.ann, job_id) == list(steps)
        assert await self.one.ledger(self.ann, job_id) == list(ledger)
        rows = await self.one.rows(
            self.central,
            "SELECT status FROM ai_job_dispatches WHERE tenant_job_id = $1 AND tenant_id = $2",
            job_id,
            self.ann.tenant_id,
        )
        assert [row["status"] for row in rows] == ([dispatch] if dispatch else [])
        assert await self.one.steps(self.bob, job_id) == QUEUED
        assert await self.one.ledger(self.bob, job_id) == [RESERVE]
        await self.one.check()

    async def finished(self, job_id: UUID) -> list[tuple[int, str]]:
        """The job's lines in the history of dispatches: (charge cycle, status)."""
        rows = await self.one.rows(
            self.central,
            "SELECT charge_cycle, status FROM dispatch_history WHERE tenant_job_id = $1 AND tenant_id = $2 ORDER BY 1",
            job_id,
            self.ann.tenant_id,
        )
        return [(row["charge_cycle"], row["status"]) for row in rows]

    async def entry(self, job: Job, **changes: Any) -> QueueEntry:
        """The entry that the relay would enqueue."""
        row = await self.one.job(self.ann, job.id)
        names = set(QueueEntry._fields) - {"job_id"}
        return QueueEntry(**{name: row[name] for name in names} | {"job_id": job.id} | changes)
