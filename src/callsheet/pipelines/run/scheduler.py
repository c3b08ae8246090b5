"""The scheduler: the loop that examines one active run after the other and starts its next job.

It can run on any number of control planes at once. If another job of the run was started meanwhile, the choice was made
from an old state, and the submit of the job refuses it (`slot_refusal`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.jobs.submit.new_jobs import SlotRefused
from callsheet.jobs.submit.submission import Submission
from callsheet.media.files import Files, ReadyFile
from callsheet.pipelines.rows import ClaimedRun, FailureCounts, StepRow
from callsheet.pipelines.run.parent_draws import EligibleParents, draw_from, draw_parent
from callsheet.pipelines.run.selection import Choice, Draw, Idle, Mode, RunState, StepState, next_group
from callsheet.pipelines.run.slots import NewSlot
from callsheet.pipelines.run.step_jobs import StepJobs, UnsuitableParent, lineage_of, sentence
from callsheet.pipelines.run.strikes import stop_after_strikes
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import is_away
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import PipelineSettings
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import (
    BudgetReached,
    InsufficientStorage,
    InsufficientTokens,
    QuotaExceeded,
    Refusal,
    TooManyActiveJobs,
)
from callsheet.wire.pipelines.pipelines import RunReason, Strategy
from callsheet.wire.plurals import counted

SQL = statements("callsheet.pipelines.run", "loop_statements.sql")

log = get_logger(__name__)
# Maximum number of runs that one tick examines. More runs may be due.
RUNS_PER_TICK = 100
# The end of a job and every action of a user make a run due at once. If such an event is missed, the run is due after
# this time.
MAX_WAIT_SECONDS = 3600.0


class FullTenant(NamedTuple):
    tenant_id: UUID


class Parent(NamedTuple):
    """The candidate that gets the next job."""

    id: UUID
    number: int
    # The number of jobs that were started for the candidate.
    slots: int
    file_id: UUID


class StepNow(NamedTuple):
    """A step, with the state in one run that a choice needs."""

    step: StepRow
    is_approved: bool
    in_flight: int
    has_eligible: bool
    # This is a number of the run, so it is the same for every step.
    active_bases: int


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """The state of a run when the scheduler read it."""

    steps: Sequence[StepNow]
    state: RunState


class TenantFull(Exception):
    """The runs of the tenant have reached the limit of active jobs."""


class RunScheduler(Loop):
    name = "pipeline_jobs"

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        step_jobs: StepJobs,
        files: Files,
        submission: Submission,
        settings: PipelineSettings,
        started: Callable[[UUID], None],
    ):
        """`started` is called with the id of each job that the scheduler started."""
        super().__init__()
        self.interval_seconds = settings.submit_seconds
        self._pools = pools
        self._step_jobs = step_jobs
        self._files = files
        self._submission = submission
        self._settings = settings
        self._started = started

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.advance_due(pool) for pool in self._pools()))

    async def advance_due(self, pool: Database) -> bool:
        """Starts jobs until no run is due or all tenants are full. True if it stopped before that."""
        full = await self._full_tenants(pool)
        for _ in range(RUNS_PER_TICK):
            run = await self._claim(pool, full)
            if run is None:
                return False
            await hit(Failpoint.PIPELINE_CLAIMED_BEFORE_READ)
            try:
                await self.advance(pool, run)
            except TenantFull:
                full.add(run.tenant_id)
            except Exception as error:
                if is_away(error):
                    raise
                # A run that cannot continue must not stop the others.
                await self._report_error(pool, run, error)
        return True

    async def _full_tenants(self, pool: Database) -> set[UUID]:
        async with pool.connection() as connection:
            rows = await SQL["full_tenants"].rows(connection, FullTenant, in_total=self._settings.jobs_in_total)
        return {row.tenant_id for row in rows}

    async def _claim(self, pool: Database, full: Collection[UUID]) -> ClaimedRun | None:
        """The run that is due, of a tenant that may have one more active job."""
        async with pool.connection() as connection:
            return await SQL["claim_run"].row(
                connection, ClaimedRun, later_seconds=self._settings.submit_seconds, full=list(full)
            )

    async def advance(self, pool: Database, run: ClaimedRun) -> None:
        snapshot = await read_snapshot(pool, run)
        in_flight = snapshot.state.in_flight
        if in_flight >= self._concurrency(run):
            await self._wait_for_jobs(pool, run)
            return
        choice = next_group(snapshot.state)
        if choice.mode is Mode.NO_WORK:
            await self._no_work(pool, run, snapshot, choice)
            return
        draw = Draw(run.seed, run.next_draw)
        parent = None
        if choice.mode is Mode.CHILD_GENERATION:
            parent = await choose_parent(pool, run, snapshot, choice, draw)
            if parent is None:
                # The last eligible parent was lost between the snapshot and this second query.
                await self._make_due(pool, run)
                return
        step = snapshot.steps[choice.position].step
        file = await self._file(pool, run, parent)
        if parent is not None and file is None and step.needs_parent_image_path:
            await self._exclude_parent(pool, run, step, parent, "The image of this candidate was deleted.")
            return
        is_started = await self._start_job(pool, run, step, parent, file, draw.seed())
        if is_started and in_flight + 1 < self._concurrency(run):
            # The run may get another job after all other runs had a turn.
            await hit(Failpoint.PIPELINE_SUBMITTED_BEFORE_NEXT)
            await self._make_due(pool, run)

    def _concurrency(self, run: ClaimedRun) -> int:
        max_jobs = self._settings.jobs_per_run
        return min(max_jobs, run.concurrency or max_jobs)

    async def _file(self, pool: Database, run: ClaimedRun, parent: Parent | None) -> ReadyFile | None:
        if parent is None:
            return None
        found = await self._files.ready(pool, run.tenant_id, run.user_id, [parent.file_id])
        return found.get(parent.file_id)

    async def _start_job(
        self, pool: Database, run: ClaimedRun, step: StepRow, parent: Parent | None, file: ReadyFile | None, seed: int
    ) -> bool:
        try:
            new, used_seed = await self._step_jobs.build(pool.name, run, step, file, seed)
            await hit(Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT)
            slot = self._slot(run, step, parent, used_seed)
            submitted = await self._submission.submit(replace(new, slot=slot, key_id=run.key_id))
        except SlotRefused as refused:
            await self._refused(pool, run, new.cost, refused.reason)
        except UnsuitableParent as unsuitable:
            assert parent is not None, "the caller passed the parent to the step"
            await self._exclude_parent(pool, run, step, parent, str(unsuitable))
        except BudgetReached as refusal:
            await self._block(pool, run, RunReason.BUDGET_REACHED, sentence(refusal))
        except InsufficientTokens as refusal:
            await self._block(pool, run, RunReason.INSUFFICIENT_TOKENS, sentence(refusal))
        except TooManyActiveJobs as refusal:
            await self._block(pool, run, RunReason.TOO_MANY_ACTIVE_JOBS, sentence(refusal))
        except InsufficientStorage as refusal:
            await self._block(pool, run, RunReason.INSUFFICIENT_STORAGE, refusal.title())
        except QuotaExceeded as refusal:
            await self._block(pool, run, RunReason.QUOTA_EXCEEDED, sentence(refusal))
        except Refusal as refusal:
            await self._block(pool, run, RunReason.CANNOT_BUILD, f"Step {step.slug!r}: {sentence(refusal)}"[:1000])
        else:
            job_id = submitted.job.id
            draw = run.next_draw
            log.info("pipeline.job_started", run_id=str(run.id), job_id=str(job_id), step=step.slug, draw=draw)
            self._started(job_id)
            return True
        return False

    def _slot(self, run: ClaimedRun, step: StepRow, parent: Parent | None, seed: int) -> NewSlot:
        draw = run.next_draw
        return NewSlot(
            run_id=run.id,
            step_id=step.id,
            position=step.position,
            parent_id=parent.id if parent else None,
            # A base has no parent that counts its slots, so the number of the draw is used.
            ordinal=parent.slots + 1 if parent else draw,
            draw=draw,
            seed=seed,
            lineage=lineage_of(run, step, seed),
            per_run=self._settings.jobs_per_run,
            in_total=self._settings.jobs_in_total,
        )

    async def _refused(self, pool: Database, run: ClaimedRun, cost: int, reason: str) -> None:
        match reason:
            case "budget_spent":
                detail = (
                    f"The next job costs {counted(cost, 'token')}, and the run has spent {run.spent} of its budget of "
                    f"{counted(run.budget, 'token')}. Increase the budget to continue."
                )
                await self._block(pool, run, RunReason.BUDGET_SPENT, detail)
            case "at_capacity" | "tenant_at_capacity":
                # Other jobs reached the limit between the snapshot and the submit.
                async with pool.connection() as connection:
                    await SQL["requeue_run"].run(connection, tenant_id=run.tenant_id, id=run.id, due_at=run.was_due_at)
                if reason == "tenant_at_capacity":
                    raise TenantFull
            case "parent_not_eligible":
                await self._make_due(pool, run)

    async def _no_work(self, pool: Database, run: ClaimedRun, snapshot: RunSnapshot, choice: Choice) -> None:
        if choice.idle is Idle.APPROVAL_NEEDED:
            gate = next(
                now.step
                for now, state in zip(snapshot.steps, snapshot.state.steps, strict=True)
                if state.is_gated and state.has_eligible
            )
            detail = f"The step {gate.name!r} waits for an approval."
            await self._block(pool, run, RunReason.APPROVAL_NEEDED, detail, MAX_WAIT_SECONDS)
        elif choice.idle is Idle.WAITING:
            await self._wait_for_jobs(pool, run)
        elif choice.idle is Idle.DONE:
            reached = snapshot.state.leaves >= run.target_leaves
            reason = RunReason.TARGET_REACHED if reached else RunReason.NOTHING_LEFT
            async with pool.connection() as connection:
                finished = await SQL["finish_run"].value(
                    connection,
                    **_key(run),
                    reason=reason.value,
                    reason_detail=None,
                    due_at=run.due_at,
                )
            if finished is not None:
                log.info("pipeline.run_completed", run_id=str(run.id), reason=reason.value)

    async def _exclude_parent(self, pool: Database, run: ClaimedRun, step: StepRow, parent: Parent, why: str) -> None:
        """Excludes a parent for which no job can be made. Otherwise another draw could choose it again."""
        names = {"tenant_id": run.tenant_id, "run_id": run.id}
        async with pool.transaction() as connection:
            await SQL["lock_run_of_slot"].value(connection, **names)
            found = await SQL["exclude_parent"].row(connection, FailureCounts, **names, candidate_id=parent.id)
            if found is not None:
                await stop_after_strikes(connection, names, found, step.slug, why)
        log.info("pipeline.parent_excluded", run_id=str(run.id), candidate_id=str(parent.id), reason=why)

    async def _make_due(self, pool: Database, run: ClaimedRun) -> None:
        async with pool.connection() as connection:
            await SQL["make_run_due"].run(connection, **_key(run))

    async def _report_error(self, pool: Database, run: ClaimedRun, error: Exception) -> None:
        detail = (
            f"An unexpected error stops the run ({type(error).__name__}). It was logged. The scheduler tries again."
        )
        if _is_new_reason(run, RunReason.INTERNAL_ERROR, detail):
            log.error("pipeline.run_stumbled", run_id=str(run.id), exc_info=error)
        await self._block(pool, run, RunReason.INTERNAL_ERROR, detail)

    async def _wait_for_jobs(self, pool: Database, run: ClaimedRun) -> None:
        """Postpones the run until one of its jobs ends. A thousand waiting runs cost nothing meanwhile."""
        async with pool.connection() as connection:
            await SQL["leave_run"].run(connection, **_key(run), due_at=run.due_at, later_seconds=MAX_WAIT_SECONDS)

    async def _block(
        self, pool: Database, run: ClaimedRun, reason: RunReason, detail: str, later_seconds: float | None = None
    ) -> None:
        async with pool.connection() as connection:
            await SQL["block_run"].run(
                connection,
                **_key(run),
                reason=reason.value,
                reason_detail=detail,
                due_at=run.due_at,
                later_seconds=later_seconds or self._settings.blocked_seconds,
            )
        # A blocked run is examined repeatedly. The same reason is logged once.
        if _is_new_reason(run, reason, detail):
            log.info("pipeline.run_blocked", run_id=str(run.id), reason=reason.value, detail=detail)


async def read_snapshot(pool: Database, run: ClaimedRun) -> RunSnapshot:
    """Reads the data for a choice. Each statement uses an index, and no statement reads the whole tree."""
    breadth_first = run.strategy == Strategy.BREADTH_FIRST
    names = {"tenant_id": run.tenant_id, "run_id": run.id}
    async with pool.connection() as connection:
        steps = await SQL["read_steps"].rows(
            connection,
            StepNow,
            **names,
            pipeline_id=run.pipeline_id,
            version=run.pipeline_version,
            best_only=breadth_first,
        )
        target_leaves = run.target_leaves
        leaves = 0
        if not any(step.has_eligible for step in steps):
            leaves = await SQL["count_active_up_to"].value(
                connection, **names, position=run.steps, max_rows=target_leaves
            )
    state = RunState(
        strategy=Strategy(run.strategy),
        target_leaves=target_leaves,
        leaves=leaves,
        bases=steps[0].active_bases,
        steps=[
            StepState(
                position=now.step.position,
                has_eligible=now.has_eligible,
                in_flight=now.in_flight,
                is_gated=now.step.requires_approval and not now.is_approved,
                is_narrowed=breadth_first and now.step.top_k is not None,
            )
            for now in steps
        ],
    )
    return RunSnapshot(steps, state)


async def choose_parent(
    pool: Database, run: ClaimedRun, snapshot: RunSnapshot, choice: Choice, draw: Draw
) -> Parent | None:
    """The candidate that the draw chooses. None if no candidate is eligible."""
    step = snapshot.steps[choice.position - 1].step
    names: dict[str, Any] = {"tenant_id": run.tenant_id, "run_id": run.id, "position": choice.position}
    async with pool.connection() as connection:
        if snapshot.state.strategy is Strategy.BREADTH_FIRST and step.top_k is not None:
            number = draw_from(
                draw, await SQL["best_parents"].row(connection, EligibleParents, **names, top_k=step.top_k)
            )
        else:
            number = await draw_parent(connection, names, draw)
        if number is None:
            return None
        return await SQL["numbered_candidate"].row(
            connection, Parent, tenant_id=run.tenant_id, run_id=run.id, number=number
        )


def _is_new_reason(run: ClaimedRun, reason: RunReason, detail: str) -> bool:
    return (run.reason, run.reason_detail) != (reason.value, detail)


def _key(run: ClaimedRun) -> dict[str, Any]:
    return {"tenant_id": run.tenant_id, "id": run.id}
