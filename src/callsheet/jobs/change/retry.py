"""Retries a failed or expired job, for its user or for an admin."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import asyncpg

from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.journal import Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.rows import JobRow
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import Transitions, retry_job
from callsheet.jobs.show.reader import require_job
from callsheet.jobs.show.views import job_view
from callsheet.jobs.submit.active_limits import ActiveLimits, NextEnds, counted_as
from callsheet.media.free_space import RequireSpace
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import BudgetReached, InsufficientTokens, InvalidRequest, NotFound, WrongState
from callsheet.wire.jobs import Job
from callsheet.wire.plurals import counted

SQL = statements("callsheet.jobs.change")


class LockedWallet(NamedTuple):
    balance: int
    has_budgets: bool


class _Full(Exception):
    """The user has as many active jobs as allowed. The reason is found after the rollback."""


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
        """Retries a failed or expired job: a new charge cycle starts, and its tokens are reserved again.

        `capped`: the user's limit of active jobs applies. `charge_cycle`: the cycle that is retried. If the job has
        another cycle, it was retried before.
        """
        self._require_space()
        pool = await self._routing.pool_of_tenant(tenant_id)
        job = await require_job(pool, tenant_id, job_id)
        row = job.row
        if charge_cycle not in (None, row.charge_cycle):
            raise WrongState("The job was retried in the meantime.")
        if row.run_id is not None:
            raise _belongs_to_run(row.run_id)
        counted = counted_as(row.run_id, row.batch_id, row.actor, row.kind)
        request = TransitionRequest(row.cycle, actor, reason=reason)
        locked = LockedWallet(0, False)
        try:
            async with pool.transaction() as connection:
                found = await SQL["lock_wallet"].row(connection, LockedWallet, tenant_id=tenant_id, user_id=row.user_id)
                assert found is not None, "it creates the wallet"
                locked = found
                active = await SQL["count_active"].value(
                    connection, tenant_id=tenant_id, user_id=row.user_id, counted_as=counted.value
                )
                retried = await retry_job(connection, request, has_budgets=locked.has_budgets)
                if retried is not None and not await SQL["inputs_are_ready"].value(
                    connection, tenant_id=tenant_id, user_id=row.user_id, file_ids=job.input_file_ids
                ):
                    raise InvalidRequest.field(
                        "input_file_id", "A file of this job was deleted. Submit a new job with another file."
                    )
                if retried is not None and capped and active >= self._limits.of(counted):
                    raise _Full
        except _Full:
            seconds = await self._next_ends.seconds(pool, tenant_id, row.user_id, counted)
            raise self._limits.refusal(counted, active, seconds) from None
        except asyncpg.CheckViolationError as violation:
            if violation.constraint_name == "budget_is_never_exceeded":
                raise await refusal_of_budget(pool, row, row.cost) from None
            raise _refusal_of(violation, row.cost, locked.balance) from None
        if retried is None:
            raise await self._transitions.deny(Transition.RETRY, request)
        self._journal.changed(Transition.RETRY, retried, request)
        await hit(Failpoint.RETRY_BEFORE_RELAY)
        fresh = await require_job(pool, tenant_id, job_id)
        status = await self._relay.dispatch_now(fresh.row.entry)
        return job_view(fresh._replace(row=fresh.row._replace(status=status)))


async def refusal_of_budget(pool: Database, row: JobRow, cost: int, noun: str = "job") -> BudgetReached:
    """Why jobs like this one cannot be retried for this cost. It is found after the rollback."""
    async with pool.connection() as connection:
        found = await SQL["budget_refusal"].value(connection, tenant_id=row.tenant_id, job_id=row.id, cost=cost)
    return BudgetReached.of(cost, found or {}, noun)


def _refusal_of(violation: asyncpg.CheckViolationError, cost: int, balance: int) -> Exception:
    match violation.constraint_name:
        case "only_ended_jobs_are_deleted":
            return NotFound("There is no such job.")
        case "run_stays_in_its_budget":
            return _budget_spent(cost)
        case "wallet_is_never_negative":
            return InsufficientTokens(cost, balance)
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
