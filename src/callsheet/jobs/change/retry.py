"""Retries a failed or expired job, for its user or for an admin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

import asyncpg

from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.journal import Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.rows import JobRow, WholeJob
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest, TransitionResult
from callsheet.jobs.machine.transitions import Transitions, retry_job
from callsheet.jobs.show.reader import require_job
from callsheet.jobs.show.views import job_view
from callsheet.jobs.submit.active_limits import ActiveLimits, CountedAs, NextEnds, counted_as
from callsheet.media.free_space import RequireSpace
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import (
    BudgetReached,
    FieldProblem,
    IdempotencyKeyReused,
    InsufficientTokens,
    InvalidRequest,
    NotFound,
    WrongState,
)
from callsheet.wire.jobs import Job
from callsheet.wire.plurals import counted

SQL = statements("callsheet.jobs.change")
Shown = TypeVar("Shown")


class LockedPayer(NamedTuple):
    """The wallet that pays for a retry now. An earlier charge cycle may have been paid from another one."""

    balance: int
    paid_by_tenant: bool
    has_budgets: bool


@dataclass(frozen=True, slots=True)
class Retried(Generic[Shown]):
    """A job or a batch after a retry. `replayed`: an earlier request with the same idempotency key retried it."""

    shown: Shown
    replayed: bool


class _Full(Exception):
    """The user has as many active jobs as allowed. The reason is found after the rollback."""

    def __init__(self, active: int):
        self.active = active


class Retries:
    def __init__(
        self,
        routing: TenantRouting,
        transitions: Transitions,
        relay: Relay,
        journal: Journal,
        limits: ActiveLimits,
        next_ends: NextEnds,
        require_space: RequireSpace,
    ):
        self._require_space = require_space
        self._routing = routing
        self._transitions = transitions
        self._relay = relay
        self._journal = journal
        self._limits = limits
        self._next_ends = next_ends

    async def retry(
        self,
        tenant_id: UUID,
        job_id: UUID,
        *,
        actor: str,
        reason: str | None = None,
        capped: bool = True,
        charge_cycle: int | None = None,
    ) -> Job:
        """Retries a failed or expired job, as `once` does without a key. `charge_cycle`: the cycle that is retried. If
        the job has another cycle, it was retried before.
        """
        retried = await self.once(
            tenant_id, job_id, None, actor=actor, reason=reason, capped=capped, charge_cycle=charge_cycle
        )
        return retried.shown

    async def once(
        self,
        tenant_id: UUID,
        job_id: UUID,
        idempotency_key: str | None,
        *,
        actor: str,
        reason: str | None = None,
        capped: bool = True,
        charge_cycle: int | None = None,
    ) -> Retried[Job]:
        """Retries a failed or expired job: a new charge cycle starts, and its tokens are reserved again. If an earlier
        request with the same key retried the job, it stays as it is, even if it has failed again.

        `capped`: the user's limit of active jobs applies.
        """
        pool = await self._routing.pool_of_tenant(tenant_id)
        job = await require_job(pool, tenant_id, job_id)
        row = job.row
        if charge_cycle not in (None, row.charge_cycle):
            raise WrongState("The job was retried in the meantime.")
        if row.run_id is not None:
            raise _belongs_to_run(row.run_id)
        counted = counted_as(row.run_id, row.batch_id, row.actor, row.kind)
        request = TransitionRequest(row.cycle, actor, reason=reason)
        user = {"tenant_id": tenant_id, "user_id": row.user_id}
        locked = LockedPayer(0, False, False)
        try:
            async with pool.transaction() as connection:
                found = await SQL["lock_payer"].row(connection, LockedPayer, **user)
                assert found is not None, "it creates the wallet"
                locked = found
                replayed = await is_repeated(connection, user, idempotency_key, job_id)
                retried = None
                if not replayed:
                    most = self._limits.of(counted) if capped else None
                    retried = await self._start_cycle(connection, job, request, locked, counted, most)
                if retried is not None:
                    await keep_key(connection, user, idempotency_key, job_id)
        except _Full as full:
            seconds = await self._next_ends.seconds(pool, tenant_id, row.user_id, counted)
            raise self._limits.refusal(counted, full.active, seconds) from None
        except asyncpg.CheckViolationError as violation:
            if violation.constraint_name == "budget_is_never_exceeded":
                raise await refusal_of_budget(pool, row, row.cost) from None
            raise _refusal_of(violation, row.cost, locked) from None
        if replayed:
            return Retried(job_view(await require_job(pool, tenant_id, job_id)), replayed)
        if retried is None:
            raise await self._transitions.deny(Transition.RETRY, request)
        self._journal.changed(Transition.RETRY, retried, request)
        await hit(Failpoint.RETRY_BEFORE_RELAY)
        fresh = await require_job(pool, tenant_id, job_id)
        status = await self._relay.dispatch_now(fresh.row.entry)
        return Retried(job_view(fresh._replace(row=fresh.row._replace(status=status))), replayed=False)

    async def _start_cycle(
        self,
        connection: Connection,
        job: WholeJob,
        request: TransitionRequest,
        locked: LockedPayer,
        counted: CountedAs,
        most: int | None,
    ) -> TransitionResult | None:
        """Under the locks of the wallet and of the budgets. `most`: how many active jobs the user may have."""
        self._require_space()
        user = {"tenant_id": job.row.tenant_id, "user_id": job.row.user_id}
        active = await SQL["count_active"].value(connection, **user, counted_as=counted.value)
        retried = await retry_job(
            connection, request, has_budgets=locked.has_budgets, paid_by_tenant=locked.paid_by_tenant
        )
        if retried is None:
            return None
        if not await SQL["inputs_are_ready"].value(connection, **user, file_ids=job.input_file_ids):
            raise InvalidRequest.field(
                "input_file_id", "A file of this job was deleted. Submit a new job with another file."
            )
        if most is not None and active >= most:
            raise _Full(active)
        return retried


async def is_repeated(connection: Connection, user: Mapping[str, UUID], key: str | None, retried_id: UUID) -> bool:
    """Whether an earlier request with this key retried the same. The caller holds the lock of the wallet."""
    if key is None:
        return False
    earlier = await SQL["retried_by_key"].value(connection, **user, idempotency_key=key)
    if earlier not in (None, retried_id):
        reason = f"An earlier request with this key retried {earlier}. Use a new key for a new request."
        raise IdempotencyKeyReused(reason, errors=[FieldProblem("header.idempotency-key", reason)])
    return earlier is not None


async def keep_key(connection: Connection, user: Mapping[str, UUID], key: str | None, retried_id: UUID) -> None:
    """Keeps the key with the new charge cycle: the caller commits both together, or neither."""
    if key is not None:
        await SQL["keep_retry_key"].run(connection, **user, idempotency_key=key, retried_id=retried_id)


async def refusal_of_budget(pool: Database, row: JobRow, cost: int, noun: str = "job") -> BudgetReached:
    """Why jobs like this one cannot be retried for this cost. It is found after the rollback."""
    async with pool.connection() as connection:
        found = await SQL["budget_refusal"].value(connection, tenant_id=row.tenant_id, job_id=row.id, cost=cost)
    return BudgetReached.of(cost, found or {}, noun)


def _refusal_of(violation: asyncpg.CheckViolationError, cost: int, locked: LockedPayer) -> Exception:
    match violation.constraint_name:
        case "only_ended_jobs_are_deleted":
            return NotFound("There is no such job.")
        case "run_stays_in_its_budget":
            return _budget_spent(cost)
        case "wallet_is_never_negative":
            return InsufficientTokens(cost, locked.balance, paid_by_tenant=locked.paid_by_tenant)
    return violation


def _budget_spent(cost: int) -> WrongState:
    return WrongState(
        f"This job is a replay of a candidate. It costs {counted(cost, 'token')}, and less than that is left of "
        "the budget of its run. Raise the budget of the run, then retry the job."
    )


def _belongs_to_run(run_id: UUID) -> WrongState:
    # The job lost its place in the tree when it ended, and the run's budget counts each job once.
    return WrongState(
        f"This job belongs to run {run_id}, which replaces a failed job by itself. If the run is paused, resume "
        f"it with POST /api/runs/{run_id}/resume. To repeat a completed job of the run, replay its candidate."
    )
