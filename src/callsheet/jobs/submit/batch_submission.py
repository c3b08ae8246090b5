"""Accepts the jobs of a batch: all of them in one transaction, or none.

Each item is an ordinary job from the start, with its own line in the ledger. What is checked is checked once for all of
them, under the lock of the wallet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
from callsheet.wire.errors import BudgetReached, InsufficientStorage, InsufficientTokens, InvalidRequest, Refusal
from callsheet.wire.jobs import JobStatus
from callsheet.wire.operate.quotas import QuotaLimits

# Jobs of one statement. A statement for all of them would hold a thousand payloads in memory at once.
AT_ONCE = 100
# Writes the batch in the transaction of its jobs. It returns False if an earlier request has written the batch.
Begin = Callable[[Connection], Awaitable[bool]]


class BatchCheck(NamedTuple):
    balance: int
    paid_by_tenant: bool
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


class _Refused(Exception):
    """The jobs are not accepted. The reason is named after the rollback, because finding it takes other queries."""

    def __init__(self, found: BatchCheck):
        super().__init__()
        self.found = found


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
        try:
            async with pool.transaction() as connection:
                found = await SQL["check_batch"].row(connection, BatchCheck, **_names(owner, jobs, quotas))
                assert found is not None
                if not await begin(connection):
                    return
                if not found.has_room or any(self._reasons(found, jobs)):
                    raise _Refused(found)
                numbered = [(new, uuid7()) for new in jobs]
                written = await self._write(connection, owner, numbered, found)
        except _Refused as refused:
            reason, *_ = await self.refusals(pool, owner, refused.found, jobs)
            if isinstance(reason, BudgetReached) and refused.found.budget_refusal is not None:
                await note_refusal(pool, owner.tenant_id, refused.found.budget_refusal)
            raise reason from None
        for job in written:
            self._journal.created(owner.tenant_id, owner.user_id, job.job_id, job.new.kind, job.new.cost)
        await hit(Failpoint.BATCH_BEFORE_RELAY)
        await self._relay.dispatch_all([job.entry for job in written])

    def limit(self) -> int:
        """How many jobs of batches a user may have at once."""
        return self._limits.of(CountedAs.BATCHES)

    async def standing(self, pool: Database, owner: Owner, jobs: Sequence[NewJob]) -> BatchCheck:
        """What `submit` would find for these jobs now. Nothing is written."""
        quotas = await self._usage.quotas.of(owner.tenant_id)
        async with pool.connection() as connection:
            found = await SQL["quote_batch"].row(connection, BatchCheck, **_names(owner, jobs, quotas))
        assert found is not None
        return found

    async def refusals(
        self, pool: Database, owner: Owner, found: BatchCheck, jobs: Sequence[NewJob]
    ) -> Sequence[Refusal]:
        """Why these jobs are not accepted: `submit` raises the first reason, and a quote lists all."""
        reasons = [*self._reasons(found, jobs)]
        try:
            self._require_space()
        except InsufficientStorage as refusal:
            reasons.insert(0, refusal)
        if not found.has_room:
            reasons.append(await self._usage.refusal(pool, owner.tenant_id, owner.user_id))
        return reasons

    def _reasons(self, found: BatchCheck, jobs: Sequence[NewJob]) -> Iterator[Refusal]:
        if not found.has_files:
            yield InvalidRequest.field(
                "items", "A file of this batch was deleted while the batch was submitted. Send the request again."
            )
        if not found.has_webhook:
            yield InvalidRequest.field("webhook_url", UNKNOWN_WEBHOOK)
        if found.balance < _cost(jobs):
            yield InsufficientTokens(_cost(jobs), found.balance, "batch", paid_by_tenant=found.paid_by_tenant)
        elif found.budget_refusal is not None:
            yield BudgetReached.of(_cost(jobs), found.budget_refusal, "batch")
        if found.active + len(jobs) > self.limit():
            yield self._limits.refusal(CountedAs.BATCHES, found.active, new=len(jobs))

    async def _write(
        self, connection: Connection, owner: Owner, jobs: Sequence[NumberedJob], found: BatchCheck
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
                has_budgets=found.has_budgets,
                paid_by_tenant=found.paid_by_tenant,
            )
            times = {row.job_id: (row.accepted_at, row.deadline_at) for row in rows}
            written += [
                AcceptedJob(new, job_id, *attempts_and_lease(new, self._settings), *times[job_id])
                for new, job_id in part
            ]
        return written


def _cost(jobs: Sequence[NewJob]) -> int:
    return sum(job.cost for job in jobs)


def _names(owner: Owner, jobs: Sequence[NewJob], quotas: QuotaLimits) -> dict[str, Any]:
    return {
        "tenant_id": owner.tenant_id,
        "user_id": owner.user_id,
        "counted_as": CountedAs.BATCHES.value,
        # All jobs of a batch are of one effect and one request.
        "key_id": jobs[0].key_id,
        "provider": jobs[0].provider,
        "cost": _cost(jobs),
        "file_ids": list({file_id for job in jobs for file_id in job.input_file_ids}),
        "webhook_url": jobs[0].webhook_url,
        **{name: getattr(quotas, name) for name in STORAGE_QUOTAS},
    }
