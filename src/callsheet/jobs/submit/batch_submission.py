"""Accepts the jobs of a batch: all of them in one transaction, or none.

Each item is an ordinary job from the start, with its own line in the ledger. What is checked is checked once for all of
them, under the lock of the wallet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Owner
from callsheet.jobs.machine.journal import Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.submit.active_limits import ActiveLimits, CountedAs
from callsheet.jobs.submit.new_jobs import AcceptedJob, NewJob, attempts_and_lease, entry_of_new_job
from callsheet.jobs.submit.submission import SQL, STORAGE_QUOTAS, UNKNOWN_WEBHOOK, NumberedJob, note_refusal
from callsheet.media.free_space import RequireSpace
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import JobSettings
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import current_request_id
from callsheet.wire.errors import BudgetReached, InsufficientTokens, InvalidRequest
from callsheet.wire.jobs import JobStatus

# Jobs of one statement. A statement for all of them would hold a thousand payloads in memory at once.
AT_ONCE = 100
# Writes the batch in the transaction of its jobs. It returns False if an earlier request has written the batch.
Begin = Callable[[Connection], Awaitable[bool]]


class BatchCheck(NamedTuple):
    balance: int
    has_budgets: bool
    active: int
    has_files: bool
    has_room: bool
    has_webhook: bool
    budget_refusal: Mapping[str, Any] | None


class BatchJobRow(NamedTuple):
    job_id: UUID
    accepted_at: datetime
    deadline_at: datetime


class _NoBudget(Exception):
    """A budget has no room for all jobs. It is noted after the rollback."""

    def __init__(self, budget: Mapping[str, Any]):
        super().__init__()
        self.budget = budget


class _NoRoom(Exception):
    """The user may store no more. The reason is found after the rollback."""


class BatchSubmission:
    def __init__(
        self,
        relay: Relay,
        journal: Journal,
        settings: JobSettings,
        limits: ActiveLimits,
        usage: StorageUsage,
        require_space: RequireSpace,
    ):
        self._relay = relay
        self._journal = journal
        self._settings = settings
        self._limits = limits
        self._usage = usage
        self._require_space = require_space

    async def submit(self, pool: Database, owner: Owner, jobs: Sequence[NewJob], begin: Begin) -> None:
        """Writes the batch and its jobs, and then sends the jobs to the queue. After a crash in between, the relay does
        that.
        """
        self._require_space()
        quotas = await self._usage.quotas.of(owner.tenant_id)
        limits = {name: getattr(quotas, name) for name in STORAGE_QUOTAS}
        try:
            async with pool.transaction() as connection:
                found = await self._found(connection, owner, jobs, limits)
                if not await begin(connection):
                    return
                self._check(found, jobs)
                numbered = [(new, uuid7()) for new in jobs]
                written = await self._write(connection, owner, numbered, found.has_budgets)
        except _NoBudget as refused:
            await note_refusal(pool, owner.tenant_id, refused.budget)
            raise BudgetReached.of(sum(job.cost for job in jobs), refused.budget, "batch") from None
        except _NoRoom:
            raise await self._usage.refusal(pool, owner.tenant_id, owner.user_id) from None
        for job in written:
            self._journal.created(owner.tenant_id, owner.user_id, job.job_id, job.new.kind, job.new.cost)
        await hit(Failpoint.BATCH_BEFORE_RELAY)
        await self._relay.dispatch_all([job.entry for job in written])

    async def _found(
        self, connection: Connection, owner: Owner, jobs: Sequence[NewJob], limits: Mapping[str, Any]
    ) -> BatchCheck:
        found = await SQL["check_batch"].row(
            connection,
            BatchCheck,
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            counted_as=CountedAs.BATCHES.value,
            # All jobs of a batch are of one effect and one request.
            key_id=jobs[0].key_id,
            provider=jobs[0].provider,
            cost=sum(job.cost for job in jobs),
            file_ids=list({file_id for job in jobs for file_id in job.input_file_ids}),
            webhook_url=jobs[0].webhook_url,
            **limits,
        )
        assert found is not None
        return found

    def _check(self, found: BatchCheck, jobs: Sequence[NewJob]) -> None:
        if not found.has_files:
            raise InvalidRequest.field(
                "items", "A file of this batch was deleted while the batch was submitted. Send the request again."
            )
        if not found.has_webhook:
            raise InvalidRequest.field("webhook_url", UNKNOWN_WEBHOOK)
        cost = sum(job.cost for job in jobs)
        if found.balance < cost:
            raise InsufficientTokens(cost, found.balance, "batch")
        if found.budget_refusal is not None:
            raise _NoBudget(found.budget_refusal)
        if not found.has_room:
            raise _NoRoom
        if found.active + len(jobs) > self._limits.of(CountedAs.BATCHES):
            raise self._limits.refusal(CountedAs.BATCHES, found.active, new=len(jobs))

    async def _write(
        self, connection: Connection, owner: Owner, jobs: Sequence[NumberedJob], has_budgets: bool
    ) -> list[AcceptedJob]:
        written = []
        for start in range(0, len(jobs), AT_ONCE):
            part = jobs[start : start + AT_ONCE]
            rows = await SQL["submit_batch"].rows(
                connection,
                BatchJobRow,
                tenant_id=owner.tenant_id,
                user_id=owner.user_id,
                entries=[entry_of_new_job(new, job_id, self._settings) for new, job_id in part],
                to_status=JobStatus.PENDING.value,
                lifetime_seconds=self._settings.lifetime_seconds,
                actor=f"user:{owner.user_id}",
                request_id=current_request_id(),
                has_budgets=has_budgets,
            )
            times = {row.job_id: (row.accepted_at, row.deadline_at) for row in rows}
            written += [
                AcceptedJob(new, job_id, *attempts_and_lease(new, self._settings), *times[job_id])
                for new, job_id in part
            ]
        return written
