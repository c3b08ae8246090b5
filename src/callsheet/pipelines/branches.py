"""Killing a branch, taking that back, and letting a step go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from callsheet.identity.principal import Principal
from callsheet.jobs.endings import Endings
from callsheet.pipelines.gallery import SQL, Gallery, rejection_of
from callsheet.plumbing.database import Database
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.sql import Row
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.together import all_of
from callsheet.wire.candidates import Approval, Killed, Restored
from callsheet.wire.errors import InvalidTransition, NotFound, WrongState
from callsheet.wire.pipelines import CandidateStatus, Rejection

log = get_logger(__name__)
BATCH = 200
REASON = "The candidate it was made from was rejected."


class Branches:
    def __init__(self, databases: Databases, gallery: Gallery, endings: Endings, wake: Callable[[], None]):
        """`wake` is called when there is something else to choose from."""
        self._databases = databases
        self._gallery = gallery
        self._endings = endings
        self._wake = wake

    async def kill(self, principal: Principal, candidate_id: UUID) -> Killed:
        """Rejects the candidate and all that descends from it; jobs that make more of it are canceled."""
        row = await self._gallery.candidate(principal, candidate_id)
        pool = await self._databases.pool(principal.pool)
        run = {"tenant_id": principal.tenant_id, "run_id": row["run_id"]}
        async with pool.transaction() as connection:
            await SQL["lock_run"].row(connection, **run, user_id=principal.user_id)
            rejected = await SQL["reject_branch"].value(
                connection, tenant_id=principal.tenant_id, candidate_id=candidate_id, user_id=principal.user_id
            )
            await SQL["look_at_run"].run(connection, **run)
        await hit(Failpoint.PIPELINE_KILL_BEFORE_CANCELS)
        async with pool.connection() as connection:
            found = await SQL["jobs_of_rejected"].rows(connection, **run)
        jobs = [(principal.tenant_id, each["job_id"]) for each in found]
        canceled = await cancel_jobs(self._endings, jobs, actor=f"user:{principal.user_id}")
        if rejected:
            log.info("pipeline.branch_killed", candidate_id=str(candidate_id), rejected=rejected, canceled=canceled)
        self._wake()
        return Killed(
            candidate=await self._gallery.get(principal, candidate_id), rejected=rejected, canceled_jobs=canceled
        )

    async def restore(self, principal: Principal, candidate_id: UUID) -> Restored:
        """Takes a kill back. Jobs that it canceled stay canceled: the run begins others."""
        row = await self._gallery.candidate(principal, candidate_id)
        pool = await self._databases.pool(principal.pool)
        run = {"tenant_id": principal.tenant_id, "run_id": row["run_id"]}
        own = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
        restored = 0
        async with pool.transaction() as connection:
            await SQL["lock_run"].row(connection, **run, user_id=principal.user_id)
            found = await SQL["own_candidate"].row(connection, **own, candidate_id=candidate_id)
            parent = await SQL["own_candidate"].row(connection, **own, candidate_id=row["parent_id"])
            if found is not None and (rejection := rejection_of(found)) is not None:
                _require_restorable(found, rejection, parent)
                restored = await SQL["restore_branch"].value(
                    connection, tenant_id=principal.tenant_id, candidate_id=candidate_id
                )
                await SQL["look_at_run"].run(connection, **run)
        if restored:
            log.info("pipeline.branch_restored", candidate_id=str(candidate_id), restored=restored)
        self._wake()
        return Restored(candidate=await self._gallery.get(principal, candidate_id), restored=restored)

    async def approve(self, principal: Principal, run_id: UUID, step: str) -> Approval:
        """Lets the candidates of a step go on. Approving once more answers the same."""
        await self._gallery.run(principal, run_id)
        found = next((row for row in await self._gallery.steps(principal, run_id) if row["slug"] == step), None)
        if found is None:
            raise NotFound("There is no such step in this run.")
        if not found["requires_approval"]:
            raise WrongState("Candidates of this step go on by themselves: it requires no approval.")
        names = {"tenant_id": principal.tenant_id, "run_id": run_id}
        pool = await self._databases.pool(principal.pool)
        async with pool.transaction() as connection:
            await SQL["lock_run"].row(connection, **names, user_id=principal.user_id)
            await SQL["approve_step"].run(connection, **names, step_id=found["id"], user_id=principal.user_id)
            await SQL["look_at_run"].run(connection, **names)
            approval = await SQL["get_approval"].row(connection, **names, step_id=found["id"])
        assert approval is not None, "it was written a moment ago, and approvals stay"
        self._wake()
        return Approval(run_id=run_id, step_id=approval["step_id"], approved_at=approval["approved_at"])


def _require_restorable(row: Row, rejection: Rejection, parent: Row | None) -> None:
    if rejection is Rejection.KILLED_WITH_ANCESTOR:
        raise WrongState(f"It was rejected with {row['rejected_with']}: restore that candidate.")
    if rejection is Rejection.SURPLUS:
        raise WrongState("It was never wanted: its parent has as many children as it may.")
    if parent is not None and parent["status"] != CandidateStatus.ACTIVE:
        raise WrongState("What it was made from is rejected: restore that first.")


class Pruner(Loop):
    """Cancels what is still made for candidates that were rejected: a kill that crashed on its way has left it."""

    name = "branch_pruner"
    interval_seconds = 30.0

    def __init__(self, pools: Callable[[], Sequence[Database]], endings: Endings):
        super().__init__()
        self._pools = pools
        self._endings = endings

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.prune(pool) for pool in self._pools()))

    async def prune(self, pool: Database) -> bool:
        """True while there is more."""
        async with pool.connection() as connection:
            rows = await SQL["jobs_of_rejected_anywhere"].rows(connection, limit=BATCH)
        await cancel_jobs(self._endings, [(row["tenant_id"], row["job_id"]) for row in rows], actor="branch_pruner")
        return len(rows) == BATCH


async def cancel_jobs(endings: Endings, jobs: Sequence[tuple[UUID, UUID]], *, actor: str, reason: str = REASON) -> int:
    """How many were canceled; those that have ended meanwhile stay as they are."""
    canceled = 0
    for tenant_id, job_id in jobs:
        try:
            await endings.cancel(tenant_id, job_id, actor=actor, reason=reason)
        except InvalidTransition:
            continue
        canceled += 1
    return canceled
