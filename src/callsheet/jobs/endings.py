"""Canceling and retrying, by the job's user or by an admin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import EndStatus, JobEnd
from callsheet.jobs.active_limits import ActiveLimits, counted_as
from callsheet.jobs.journal import Journal
from callsheet.jobs.mover import Mover
from callsheet.jobs.moves import SQL, Move, move_jobs
from callsheet.jobs.relay import Relay
from callsheet.jobs.states import Happening
from callsheet.jobs.views import job_view
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import InsufficientTokens, InvalidRequest, NotFound, WrongState
from callsheet.wire.jobs import Job

# The charge cycle can change between the read and the move, but not forever.
TRIES = 3


class Endings:
    def __init__(self, mover: Mover, relay: Relay, journal: Journal, limits: ActiveLimits):
        self._mover = mover
        self._relay = relay
        self._journal = journal
        self._limits = limits

    async def cancel(self, tenant_id: UUID, job_id: UUID, *, actor: str, reason: str | None = None) -> Job:
        """Ends the job and refunds its tokens; a worker that runs the job learns it with its next heartbeat."""
        for _ in range(TRIES):
            row = await self._row(tenant_id, job_id)
            move = Move(tenant_id, job_id, row["charge_cycle"], actor, reason=reason)
            moved = await self._mover.move(Happening.CANCEL, move, tell_central="close")
            if moved is not None:
                await hit(Failpoint.CANCEL_BEFORE_RELAY)
                end = cast("EndStatus", moved.status.value)
                await self._relay.close_now(JobEnd(tenant_id, job_id, moved.charge_cycle, end))
                return job_view(await self._row(tenant_id, job_id))
            if (await self._row(tenant_id, job_id))["charge_cycle"] == row["charge_cycle"]:
                break
        raise await self._mover.deny(Happening.CANCEL, move)

    async def retry(
        self, tenant_id: UUID, job_id: UUID, *, actor: str, reason: str | None = None, capped: bool = True
    ) -> Job:
        """Retries a failed or expired job: a new charge cycle, tokens reserved again. `capped`: the limit applies."""
        row = await self._row(tenant_id, job_id)
        if row["run_id"] is not None:
            # The job lost its place in the tree when it ended, and the run's budget counts each job once.
            run = row["run_id"]
            raise WrongState(
                f"This job belongs to run {run}, which replaces a failed job by itself. If the run is paused, resume "
                f"it with POST /api/runs/{run}/resume. To repeat a completed job of the run, replay its candidate."
            )
        counted = counted_as(row)
        move = Move(tenant_id, job_id, row["charge_cycle"], actor, reason=reason)
        pool = await self._mover.pool_of(tenant_id)
        try:
            async with pool.transaction() as connection:
                balance = await SQL["lock_wallet"].value(connection, tenant_id=tenant_id, user_id=row["user_id"])
                active = await SQL["count_active"].value(
                    connection, tenant_id=tenant_id, user_id=row["user_id"], counted_as=counted.value
                )
                moved = await move_jobs(connection, Happening.RETRY, [move], tell_central="dispatch")
                if moved and not await SQL["inputs_are_ready"].value(
                    connection, tenant_id=tenant_id, user_id=row["user_id"], file_ids=row["input_file_ids"]
                ):
                    raise InvalidRequest.field(
                        "input_file_id", "A file of this job was deleted. Submit a new job with another file."
                    )
                if moved and capped and active >= self._limits.of(counted):
                    raise self._limits.refusal(counted, active)
        except asyncpg.CheckViolationError as violation:
            if violation.constraint_name == "only_ended_jobs_are_deleted":
                raise NotFound("There is no such job.") from None
            if violation.constraint_name != "wallet_is_never_negative":
                raise
            raise InsufficientTokens(row["cost"], balance) from None
        if not moved:
            raise await self._mover.deny(Happening.RETRY, move)
        self._journal.moved(Happening.RETRY, moved[tenant_id, job_id], move)
        await hit(Failpoint.RETRY_BEFORE_RELAY)
        fresh = await self._row(tenant_id, job_id)
        status = await self._relay.dispatch_now({**fresh, "job_id": job_id})
        return job_view({**fresh, "status": status})

    async def _row(self, tenant_id: UUID, job_id: UUID) -> Mapping[str, Any]:
        pool = await self._mover.pool_of(tenant_id)
        async with pool.connection() as connection:
            row = await SQL["get_job"].row(connection, tenant_id=tenant_id, job_id=job_id)
        if row is None:
            raise NotFound("There is no such job.")
        return dict(row)
