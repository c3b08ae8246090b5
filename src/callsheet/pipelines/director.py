"""The loop that looks at one active run after the other and begins its next job.

It may run on any number of control planes at once: what is chosen from an old state of a run is refused when the job
is submitted, because the run has drawn again since (`slot_refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.jobs.new_jobs import SlotRefused
from callsheet.jobs.submit import Submission
from callsheet.media.files import Files, ReadyFile
from callsheet.pipelines.raffle import EligibleParents, draw_parent, drawn
from callsheet.pipelines.rows import ClaimedRun, FailureCounts, StepRow
from callsheet.pipelines.selection import Choice, Draw, Idle, Mode, RunState, StepState, next_group
from callsheet.pipelines.slots import NewSlot
from callsheet.pipelines.step_jobs import StepJobs, UnfitParent, lineage_of, sentence
from callsheet.pipelines.strikes import SQL, stop_where_hopeless
from callsheet.plumbing.database import Database, is_away
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import PipelineSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.together import all_of
from callsheet.wire.errors import InsufficientTokens, QuotaExceeded, Refusal, TooManyActiveJobs
from callsheet.wire.pipelines import RunReason, Strategy

log = get_logger(__name__)
# Looked at in one tick; there may be more.
AT_ONCE = 100
# What happens to a run calls for a look at it; a call that was never made is waited for no longer than this.
UNCALLED_SECONDS = 3600.0


class FullTenant(NamedTuple):
    tenant_id: UUID


class Parent(NamedTuple):
    """The candidate that the next job is for."""

    id: UUID
    number: int
    # Jobs that were started for it.
    slots: int
    file_id: UUID


class StepNow(NamedTuple):
    """A step, and what choosing needs to know of it in one run."""

    id: UUID
    position: int
    name: str
    slug: str
    workflow: str
    effect_id: UUID | None
    payload: dict[str, Any] | None
    values: dict[str, Any]
    needs_run_prompt: bool
    needs_parent_image_path: bool
    needs_run_variables: bool
    max_children: int
    top_k: int | None
    requires_approval: bool
    is_approved: bool
    in_flight: int
    has_eligible: bool
    # Of the run: the same in every step.
    active_bases: int

    @property
    def step(self) -> StepRow:
        return StepRow._make(self[: len(StepRow._fields)])


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it was when it was looked at."""

    steps: Sequence[StepNow]
    state: RunState


class TenantFull(Exception):
    """The runs of the tenant have as many jobs under way as they may."""


class Director(Loop):
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
        """`started` is called with the id of each job that the director started."""
        super().__init__()
        self.interval_seconds = settings.submit_seconds
        self._pools = pools
        self._step_jobs = step_jobs
        self._files = files
        self._submission = submission
        self._settings = settings
        self._started = started

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.direct(pool) for pool in self._pools()))

    async def direct(self, pool: Database) -> bool:
        """Begins jobs until there is no room or nothing is due; true where it stopped before."""
        full = await self._full_tenants(pool)
        for _ in range(AT_ONCE):
            run = await self._claim(pool, full)
            if run is None:
                return False
            await hit(Failpoint.PIPELINE_CLAIMED_BEFORE_LOOK)
            try:
                await self.advance(pool, run)
            except TenantFull:
                full.add(run.tenant_id)
            except Exception as error:
                if is_away(error):
                    raise
                # A run that cannot continue must not keep the others waiting.
                await self._stumble(pool, run, error)
        return True

    async def _full_tenants(self, pool: Database) -> set[UUID]:
        async with pool.connection() as connection:
            rows = await SQL["full_tenants"].rows(connection, FullTenant, in_total=self._settings.jobs_in_total)
        return {row.tenant_id for row in rows}

    async def _claim(self, pool: Database, full: Collection[UUID]) -> ClaimedRun | None:
        """The run whose turn it is, of a tenant that has room for one more job."""
        async with pool.connection() as connection:
            return await SQL["claim_run"].row(
                connection, ClaimedRun, later_seconds=self._settings.submit_seconds, full=list(full)
            )

    async def advance(self, pool: Database, run: ClaimedRun) -> None:
        snapshot = await look(pool, run)
        in_flight = snapshot.state.in_flight
        if in_flight >= self._at_once(run):
            await self._leave(pool, run)
            return
        choice = next_group(snapshot.state)
        if choice.mode is Mode.NO_WORK:
            await self._rest(pool, run, snapshot, choice)
            return
        draw = Draw(run.seed, run.next_draw)
        parent = None
        if choice.mode is Mode.CHILD_GENERATION:
            parent = await choose_parent(pool, run, snapshot, choice, draw)
            if parent is None:
                # The last eligible parent was lost between `look` and this second query.
                await self._again(pool, run)
                return
        step = snapshot.steps[choice.position].step
        file = await self._file(pool, run, parent)
        if parent is not None and file is None and step.needs_parent_image_path:
            await self._leave_alone(pool, run, step, parent, "Its image was deleted.")
            return
        begun = await self._begin(pool, run, step, parent, file, draw.seed())
        if begun and in_flight + 1 < self._at_once(run):
            # There is room for another of its jobs, after all other runs had a turn.
            await hit(Failpoint.PIPELINE_BEGUN_BEFORE_AGAIN)
            await self._again(pool, run)

    def _at_once(self, run: ClaimedRun) -> int:
        most = self._settings.jobs_per_run
        return min(most, run.concurrency or most)

    async def _file(self, pool: Database, run: ClaimedRun, parent: Parent | None) -> ReadyFile | None:
        if parent is None:
            return None
        found = await self._files.ready(pool, run.tenant_id, run.user_id, [parent.file_id])
        return found.get(parent.file_id)

    async def _begin(
        self, pool: Database, run: ClaimedRun, step: StepRow, parent: Parent | None, file: ReadyFile | None, seed: int
    ) -> bool:
        try:
            new, used_seed = await self._step_jobs.build(pool.name, run, step, file, seed)
            await hit(Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT)
            submitted = await self._submission.submit(replace(new, slot=self._slot(run, step, parent, used_seed)))
        except SlotRefused as refused:
            await self._refused(pool, run, new.cost, refused.reason)
        except UnfitParent as unfit:
            assert parent is not None, "it was handed to the step"
            await self._leave_alone(pool, run, step, parent, str(unfit))
        except InsufficientTokens as refusal:
            await self._block(pool, run, RunReason.INSUFFICIENT_TOKENS, sentence(refusal))
        except TooManyActiveJobs as refusal:
            await self._block(pool, run, RunReason.TOO_MANY_ACTIVE_JOBS, sentence(refusal))
        except QuotaExceeded as refusal:
            await self._block(pool, run, RunReason.QUOTA_EXCEEDED, sentence(refusal))
        except Refusal as refusal:
            await self._block(pool, run, RunReason.CANNOT_BUILD, f"Step {step.slug!r}: {sentence(refusal)}"[:1000])
        else:
            job_id = submitted.job.id
            draw = run.next_draw
            log.info("pipeline.job_begun", run_id=str(run.id), job_id=str(job_id), step=step.slug, draw=draw)
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
            # Bases have no parent to count them; draws are counted anyway.
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
                detail = f"The next job costs {cost} tokens, and {run.spent} of the budget of {run.budget} are spent."
                await self._block(pool, run, RunReason.BUDGET_SPENT, detail)
            case "at_capacity" | "tenant_at_capacity":
                # Other jobs took the room between our look and our job.
                async with pool.connection() as connection:
                    await SQL["put_back_run"].run(connection, tenant_id=run.tenant_id, id=run.id, due_at=run.was_due_at)
                if reason == "tenant_at_capacity":
                    raise TenantFull
            case "parent_not_eligible":
                await self._again(pool, run)

    async def _rest(self, pool: Database, run: ClaimedRun, snapshot: RunSnapshot, choice: Choice) -> None:
        if choice.idle is Idle.APPROVAL_NEEDED:
            gate = next(
                step
                for step, state in zip(snapshot.steps, snapshot.state.steps, strict=True)
                if state.is_gated and state.has_eligible
            )
            detail = f"The step {gate.slug!r} waits for an approval."
            await self._block(pool, run, RunReason.APPROVAL_NEEDED, detail, UNCALLED_SECONDS)
        elif choice.idle is Idle.WAITING:
            await self._leave(pool, run)
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

    async def _leave_alone(self, pool: Database, run: ClaimedRun, step: StepRow, parent: Parent, why: str) -> None:
        """Nothing can be made of this parent. Drawing again would fall on it again, so it is struck out at once."""
        names = {"tenant_id": run.tenant_id, "run_id": run.id}
        async with pool.transaction() as connection:
            await SQL["lock_run_of_slot"].value(connection, **names)
            found = await SQL["strike_out"].row(connection, FailureCounts, **names, candidate_id=parent.id)
            if found is not None:
                await stop_where_hopeless(connection, names, found, step.slug, why)
        log.info("pipeline.parent_left_alone", run_id=str(run.id), candidate_id=str(parent.id), reason=why)

    async def _again(self, pool: Database, run: ClaimedRun) -> None:
        async with pool.connection() as connection:
            await SQL["look_again"].run(connection, **_key(run))

    async def _stumble(self, pool: Database, run: ClaimedRun, error: Exception) -> None:
        detail = (
            f"An unexpected error stops the run ({type(error).__name__}). It was logged. The scheduler tries again."
        )
        if _is_news(run, RunReason.INTERNAL_ERROR, detail):
            log.error("pipeline.run_stumbled", run_id=str(run.id), exc_info=error)
        await self._block(pool, run, RunReason.INTERNAL_ERROR, detail)

    async def _leave(self, pool: Database, run: ClaimedRun) -> None:
        """The end of one of its jobs will call: a thousand runs that wait for theirs cost nothing meanwhile."""
        async with pool.connection() as connection:
            await SQL["leave_run"].run(connection, **_key(run), due_at=run.due_at, later_seconds=UNCALLED_SECONDS)

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
        # It is looked at again and again; once is enough to say what is found.
        if _is_news(run, reason, detail):
            log.info("pipeline.run_blocked", run_id=str(run.id), reason=reason.value, detail=detail)


async def look(pool: Database, run: ClaimedRun) -> RunSnapshot:
    """What choosing needs, read by index: never the tree."""
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
        most = run.target_leaves
        leaves = 0
        if not any(step.has_eligible for step in steps):
            leaves = await SQL["count_active_up_to"].value(connection, **names, position=run.steps, most=most)
    state = RunState(
        strategy=Strategy(run.strategy),
        target_leaves=most,
        leaves=leaves,
        bases=steps[0].active_bases,
        steps=[
            StepState(
                position=step.position,
                has_eligible=step.has_eligible,
                in_flight=step.in_flight,
                is_gated=step.requires_approval and not step.is_approved,
                is_narrowed=breadth_first and step.top_k is not None,
            )
            for step in steps
        ],
    )
    return RunSnapshot(steps, state)


async def choose_parent(
    pool: Database, run: ClaimedRun, snapshot: RunSnapshot, choice: Choice, draw: Draw
) -> Parent | None:
    """The one the draw falls on; none where no candidate is eligible any more."""
    step = snapshot.steps[choice.position - 1]
    names: dict[str, Any] = {"tenant_id": run.tenant_id, "run_id": run.id, "position": choice.position}
    async with pool.connection() as connection:
        if snapshot.state.strategy is Strategy.BREADTH_FIRST and step.top_k is not None:
            number = drawn(draw, await SQL["best_parents"].row(connection, EligibleParents, **names, top_k=step.top_k))
        else:
            number = await draw_parent(connection, names, draw)
        if number is None:
            return None
        return await SQL["numbered_candidate"].row(
            connection, Parent, tenant_id=run.tenant_id, run_id=run.id, number=number
        )


def _is_news(run: ClaimedRun, reason: RunReason, detail: str) -> bool:
    return (run.reason, run.reason_detail) != (reason.value, detail)


def _key(run: ClaimedRun) -> dict[str, Any]:
    return {"tenant_id": run.tenant_id, "id": run.id}
