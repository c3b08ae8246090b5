"""Kills and restores branches, and approves steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.jobs.change.cancel import Cancellation
from callsheet.pipelines.judge.gallery import Gallery, rejection_of
from callsheet.pipelines.rows import CandidateRow, JobId, JobOfCanceledRun
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import is_away
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import InvalidTransition, NotFound, WrongState
from callsheet.wire.pipelines.candidates import Approval, Killed, Restored
from callsheet.wire.pipelines.pipelines import CandidateStatus, Rejection

SQL = statements("callsheet.pipelines.judge")

log = get_logger(__name__)
BATCH = 200
# Number of candidates that are rejected in one transaction. It takes about 0.1 s.
PIECE = 2000
# A kill that made no progress for this time counts as crashed.
LEFT_SECONDS = 30.0
REASON = "Its parent candidate was rejected."


class BranchKill(NamedTuple):
    """A candidate that a user rejects, together with its descendants."""

    tenant_id: UUID
    candidate_id: UUID
    run_id: UUID
    user_id: UUID


class Branches:
    def __init__(self, databases: Databases, gallery: Gallery, cancellation: Cancellation, wake: Callable[[], None]):
        """`wake` is called when the scheduler may have another choice."""
        self._databases = databases
        self._gallery = gallery
        self._cancellation = cancellation
        self._wake = wake

    async def kill(self, principal: Principal, candidate_id: UUID) -> Killed:
        """Rejects the candidate and its descendants, and cancels the jobs that make more of them."""
        row = await self._gallery.candidate(principal, candidate_id)
        pool = await self._databases.pool(principal.pool)
        run = {"tenant_id": principal.tenant_id, "run_id": row.run_id}
        rejected = await reject(pool, BranchKill(principal.tenant_id, candidate_id, row.run_id, principal.user_id))
        await hit(Failpoint.PIPELINE_KILL_BEFORE_CANCELS)
        async with pool.connection() as connection:
            found = await SQL["jobs_of_rejected"].rows(connection, JobId, **run)
        jobs = [JobOfCanceledRun(principal.tenant_id, each.job_id) for each in found]
        canceled = await cancel_jobs(self._cancellation, jobs, actor=f"user:{principal.user_id}")
        if rejected:
            log.info("pipeline.branch_killed", candidate_id=str(candidate_id), rejected=rejected, canceled=canceled)
        self._wake()
        return Killed(
            candidate=await self._gallery.get(principal, candidate_id), rejected=rejected, canceled_jobs=canceled
        )

    async def restore(self, principal: Principal, candidate_id: UUID) -> Restored:
        """Undoes a kill. Jobs that the kill canceled stay canceled: the run starts others."""
        row = await self._gallery.candidate(principal, candidate_id)
        pool = await self._databases.pool(principal.pool)
        run = {"tenant_id": principal.tenant_id, "run_id": row.run_id}
        own = {"tenant_id": principal.tenant_id, "user_id": principal.user_id}
        restored = 0
        async with pool.transaction() as connection:
            await SQL["lock_run"].row(connection, **run, user_id=principal.user_id)
            found = await SQL["own_candidate"].row(connection, CandidateRow, **own, candidate_id=candidate_id)
            parent = await SQL["own_candidate"].row(connection, CandidateRow, **own, candidate_id=row.parent_id)
            if found is not None and found.rejected_with is not None:
                root = {"tenant_id": principal.tenant_id, "candidate_id": candidate_id}
                _require_restorable(found, parent)
                if await SQL["kill_under_way"].value(connection, **root):
                    raise WrongState("The candidate is being rejected at this moment. Try again in a few seconds.")
                restored = await SQL["restore_branch"].value(connection, **root, run_id=row.run_id)
                await SQL["announce_run"].run(connection, **run)
        if restored:
            log.info("pipeline.branch_restored", candidate_id=str(candidate_id), restored=restored)
        self._wake()
        return Restored(candidate=await self._gallery.get(principal, candidate_id), restored=restored)

    async def approve(self, principal: Principal, run_id: UUID, step: str) -> Approval:
        """Lets the candidates of a step become parents. A second approval returns the first."""
        await self._gallery.run(principal, run_id)
        found = next((row for row in await self._gallery.steps(principal, run_id) if row.slug == step), None)
        if found is None:
            raise NotFound("There is no such step in this run.")
        if not found.requires_approval:
            raise WrongState("This step requires no approval: its candidates continue without one.")
        names = {"tenant_id": principal.tenant_id, "run_id": run_id}
        pool = await self._databases.pool(principal.pool)
        async with pool.transaction() as connection:
            await SQL["lock_run"].row(connection, **names, user_id=principal.user_id)
            await SQL["approve_step"].run(connection, **names, step_id=found.id, user_id=principal.user_id)
            await SQL["announce_run"].run(connection, **names)
            approval = await SQL["get_approval"].row(connection, Approval, **names, step_id=found.id)
        assert approval is not None, "the approval was just written, and approvals are never deleted"
        self._wake()
        return approval


async def reject(pool: Database, kill: BranchKill) -> int:
    """Rejects a branch in pieces, so that no lock is held for long. Returns the number of rejected candidates."""
    rejected = 0
    while True:
        async with pool.transaction() as connection:
            piece = await _reject_piece(connection, kill)
        rejected += piece
        if piece < PIECE:
            return rejected
        await hit(Failpoint.PIPELINE_KILL_BETWEEN_PIECES)


async def _reject_piece(connection: Connection, kill: BranchKill) -> int:
    run = {"tenant_id": kill.tenant_id, "run_id": kill.run_id}
    root = {"tenant_id": kill.tenant_id, "candidate_id": kill.candidate_id}
    await SQL["lock_run"].row(connection, **run, user_id=kill.user_id)
    piece = await SQL["reject_branch"].value(
        connection, **root, run_id=kill.run_id, user_id=kill.user_id, max_rows=PIECE
    )
    if piece == PIECE:
        # There may be more candidates to reject. The scheduler skips the run until they are rejected.
        await SQL["remember_kill"].run(connection, **root, run_id=kill.run_id, user_id=kill.user_id)
    else:
        await SQL["forget_kill"].run(connection, **root)
    await SQL["announce_run"].run(connection, **run)
    return int(piece)


def _require_restorable(row: CandidateRow, parent: CandidateRow | None) -> None:
    rejection = rejection_of(row.id, row.rejected_with, row.rejected_by)
    if rejection is Rejection.KILLED_WITH_ANCESTOR:
        raise WrongState(f"This candidate was rejected together with {row.rejected_with}. Restore that candidate.")
    if rejection is Rejection.SURPLUS:
        raise WrongState("This candidate was surplus: its parent already has its maximum number of children.")
    if parent is not None and parent.status != CandidateStatus.ACTIVE:
        raise WrongState("The parent of this candidate is rejected. Restore the parent first.")


class Pruner(Loop):
    """Finishes kills that crashed: rejects the rest of the branch, and cancels jobs for rejected candidates."""

    name = "branch_pruner"
    interval_seconds = 30.0

    def __init__(self, pools: Callable[[], Sequence[Database]], cancellation: Cancellation):
        super().__init__()
        self._pools = pools
        self._cancellation = cancellation

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.prune(pool) for pool in self._pools()))

    async def prune(self, pool: Database, left_seconds: float = LEFT_SECONDS) -> bool:
        """Rejects and cancels what is left of crashed kills. Returns True while there is more."""
        async with pool.ordinary() as connection:
            kills = await SQL["kills_left"].rows(connection, BranchKill, left_seconds=left_seconds, limit=BATCH)
        for kill in kills:
            await reject(pool, kill)
        async with pool.ordinary() as connection:
            jobs = await SQL["jobs_of_rejected_anywhere"].rows(connection, JobOfCanceledRun, limit=BATCH)
        await cancel_jobs(self._cancellation, jobs, actor="branch_pruner")
        return len(jobs) == BATCH or len(kills) == BATCH


async def cancel_jobs(
    cancellation: Cancellation, jobs: Sequence[tuple[UUID, UUID]], *, actor: str, reason: str = REASON
) -> int:
    """Cancels jobs and returns the number of canceled jobs. A job that has ended meanwhile does not change."""
    canceled = 0
    failed: Exception | None = None
    for tenant_id, job_id in jobs:
        try:
            await cancellation.cancel(tenant_id, job_id, actor=actor, reason=reason)
        except InvalidTransition:
            continue
        except Exception as error:
            if is_away(error):
                raise
            # A job that cannot be canceled must not stop the cancellation of the others.
            failed = error
            continue
        canceled += 1
    if failed is not None:
        raise failed
    return canceled
