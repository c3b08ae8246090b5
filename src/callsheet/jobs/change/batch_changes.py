"""Cancels and retries jobs of a batch together. Each of them changes as any other job does."""

from __future__ import annotations

from typing import cast
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import EndStatus, JobEnd
from callsheet.identity.access.principal import Owner
from callsheet.jobs.change.retry import SQL, LockedPayer, is_repeated, keep_key, refusal_of_budget
from callsheet.jobs.machine.journal import Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.rows import JobRow
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest, TransitionResult
from callsheet.jobs.machine.transitions import Transitions, retry_job
from callsheet.jobs.submit.active_limits import ActiveLimits, CountedAs
from callsheet.media.free_space import RequireSpace
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.concurrently import all_of
from callsheet.wire.errors import InsufficientTokens, InvalidRequest
from callsheet.wire.jobs import ACTIVE, JobStatus

MACHINE_SQL = statements("callsheet.jobs.machine")
# Jobs of one statement.
AT_ONCE = 100
RETRIED = (JobStatus.FAILED, JobStatus.EXPIRED)


class BatchChanges:
    def __init__(
        self,
        transitions: Transitions,
        relay: Relay,
        journal: Journal,
        limits: ActiveLimits,
        require_space: RequireSpace,
    ):
        self._transitions = transitions
        self._relay = relay
        self._journal = journal
        self._limits = limits
        self._require_space = require_space

    async def cancel(self, pool: Database, owner: Owner, batch_id: UUID) -> None:
        """Cancels every active job and refunds its tokens. A job that ends meanwhile keeps its end. After a crash the
        request can be repeated.
        """
        async with pool.connection() as connection:
            rows = await self._jobs(connection, owner, batch_id, tuple(ACTIVE))
        # The last items first: workers take the first ones meanwhile.
        rows.reverse()
        for start in range(0, len(rows), AT_ONCE):
            canceled = await all_of(
                self._transitions.apply(
                    Transition.CANCEL, TransitionRequest(row.cycle, f"user:{owner.user_id}"), close_dispatch=True
                )
                for row in rows[start : start + AT_ONCE]
            )
            await hit(Failpoint.BATCH_CANCEL_BEFORE_RELAY)
            await self._relay.close_all(
                [JobEnd(*each.job, cast("EndStatus", each.status)) for each in canceled if each is not None]
            )

    async def retry(self, pool: Database, owner: Owner, batch_id: UUID, idempotency_key: str | None = None) -> bool:
        """Retries every job that failed or expired, all in one transaction. Their tokens are reserved again. Returns
        whether an earlier request with the same key did that: then all jobs stay as they are.
        """
        retried: list[tuple[TransitionRequest, TransitionResult]] = []
        rows: list[JobRow] = []
        locked = LockedPayer(0, False, False)
        try:
            async with pool.transaction() as connection:
                names = {"tenant_id": owner.tenant_id, "user_id": owner.user_id}
                found = await SQL["lock_payer"].row(connection, LockedPayer, **names)
                assert found is not None, "it creates the wallet"
                locked = found
                if await is_repeated(connection, names, idempotency_key, batch_id):
                    return True
                self._require_space()
                rows = await self._jobs(connection, owner, batch_id, RETRIED)
                await self._check(connection, owner, rows, locked)
                for row in rows:
                    request = TransitionRequest(row.cycle, f"user:{owner.user_id}")
                    result = await retry_job(
                        connection, request, has_budgets=locked.has_budgets, paid_by_tenant=locked.paid_by_tenant
                    )
                    if result is not None:
                        retried.append((request, result))
                if retried:
                    await keep_key(connection, names, idempotency_key, batch_id)
                # Each job has a new cycle and a new deadline.
                waiting = await self._jobs(connection, owner, batch_id, (JobStatus.PENDING,))
        except asyncpg.CheckViolationError as violation:
            cost = sum(row.cost for row in rows)
            if violation.constraint_name == "wallet_is_never_negative":
                raise _too_few(cost, locked) from None
            if violation.constraint_name == "budget_is_never_exceeded":
                raise await refusal_of_budget(pool, rows[0], cost, "retry") from None
            raise
        for request, result in retried:
            self._journal.changed(Transition.RETRY, result, request)
        await hit(Failpoint.BATCH_RETRY_BEFORE_RELAY)
        wanted = {result.job_id for _, result in retried}
        await self._relay.dispatch_all([row.entry for row in waiting if row.id in wanted])
        return False

    async def _check(self, connection: Connection, owner: Owner, rows: list[JobRow], locked: LockedPayer) -> None:
        names = {"tenant_id": owner.tenant_id, "user_id": owner.user_id}
        active = await SQL["count_active"].value(connection, **names, counted_as=CountedAs.BATCHES.value)
        if active + len(rows) > self._limits.of(CountedAs.BATCHES):
            raise self._limits.refusal(CountedAs.BATCHES, active, new=len(rows))
        if (cost := sum(row.cost for row in rows)) > locked.balance:
            raise _too_few(cost, locked)
        missing = await SQL["items_without_files"].column(connection, **names, job_ids=[row.id for row in rows])
        if missing:
            raise InvalidRequest.field(
                f"items.{missing[0]}",
                f"A file of item {missing[0]} was deleted, so it cannot run again. Delete the job of this item, then "
                "retry the others.",
            )

    async def _jobs(
        self, connection: Connection, owner: Owner, batch_id: UUID, statuses: tuple[JobStatus, ...]
    ) -> list[JobRow]:
        return await MACHINE_SQL["jobs_of_batch"].rows(
            connection,
            JobRow,
            tenant_id=owner.tenant_id,
            user_id=owner.user_id,
            batch_id=batch_id,
            statuses=[status.value for status in statuses],
        )


def _too_few(cost: int, locked: LockedPayer) -> InsufficientTokens:
    return InsufficientTokens(cost, locked.balance, "retry", paid_by_tenant=locked.paid_by_tenant)
