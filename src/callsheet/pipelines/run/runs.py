"""Starts, reads, pauses, resumes and cancels runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Owner, Principal
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.submit.new_jobs import hash_of
from callsheet.media.usage import check_database
from callsheet.pipelines.design.definitions import ROW_BYTES, Pipelines, no_such_pipeline, slug_of, step_view, steps_of
from callsheet.pipelines.judge.branches import cancel_jobs
from callsheet.pipelines.rows import JobId, JobOfCanceledRun, RunId, RunRow, StepRow
from callsheet.pipelines.run.step_jobs import RunInputs, StepJobs
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import PipelineSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import (
    Conflict,
    FieldProblem,
    IdempotencyKeyReused,
    InvalidRequest,
    NotFound,
    TooManyActiveRuns,
    WrongState,
    sentences,
)
from callsheet.wire.pipelines.pipelines import (
    MAX_SEED,
    CreateRun,
    Run,
    RunReason,
    RunStatus,
    RunSummary,
    StepProgress,
    TreeNode,
    UpdateRun,
)
from callsheet.wire.plurals import counted

DESIGN_SQL = statements("callsheet.pipelines.design")
SQL = statements("callsheet.pipelines.run")

ACTIVE, PAUSED, CANCELED = RunStatus.ACTIVE.value, RunStatus.PAUSED.value, RunStatus.CANCELED.value
# What changes when a run that does not work any more continues.
RESUMED: Mapping[str, Any] = {
    "status": ACTIVE,
    "reason": None,
    "reason_detail": None,
    "base_failures": 0,
    "dead_branches": 0,
}
CHANGED = ("name", "budget", "target_leaves", *RESUMED)
MAX_FOLDER_LENGTH = 63
# Maximum number of leaves of a run that its summary counts.
MAX_LEAVES = 10_000
CANCELED_WITH_RUN = "The run was canceled."


class StepCounts(NamedTuple):
    position: int
    candidates: int = 0
    active: int = 0


class StepInFlight(NamedTuple):
    position: int
    in_flight: int


class ApprovedStep(NamedTuple):
    step_id: UUID


class RunProgress(NamedTuple):
    id: UUID
    pipeline_slug: str
    pipeline_name: str
    leaves: int


class StartedRun(NamedTuple):
    run: Run
    # Whether an earlier request with the same idempotency key started it.
    replayed: bool


class Runs:
    def __init__(
        self,
        databases: Databases,
        pipelines: Pipelines,
        step_jobs: StepJobs,
        cancellation: Cancellation,
        settings: PipelineSettings,
        wake: Callable[[], None],
    ):
        """`wake` is called when a run may start a job."""
        self._databases = databases
        self._pipelines = pipelines
        self._step_jobs = step_jobs
        self._cancellation = cancellation
        self._settings = settings
        self._wake = wake

    async def create(self, principal: Principal, pipeline: str, request: CreateRun) -> Run:
        return (await self.start(principal, pipeline, request)).run

    async def start(self, principal: Principal, pipeline: str, request: CreateRun) -> StartedRun:
        """The run; an earlier request with the same idempotency key may have started it."""
        found = await self._pipelines.get(principal, pipeline)
        key = _Key.of(found.id, request)
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            if (earlier := await key.earlier(connection, principal)) is not None:
                return StartedRun(await self._view(connection, earlier), replayed=True)
        if request.concurrency is not None and request.concurrency > self._settings.jobs_per_run:
            raise InvalidRequest.field(
                "concurrency", f"The value must be at most {self._settings.jobs_per_run} here (pipelines.jobs_per_run)."
            )
        async with pool.connection() as connection:
            steps = await steps_of(connection, principal.tenant_id, found.id, found.version)
        await self._check(steps, request)
        run_id = uuid7()
        limits = await self._pipelines.quotas.of(principal.tenant_id)
        async with pool.transaction() as connection:
            await DESIGN_SQL["lock_wallet"].value(connection, **_user(principal))
            # The same request may have committed meanwhile, because it held the lock.
            if (earlier := await key.earlier(connection, principal)) is not None:
                return StartedRun(await self._view(connection, earlier), replayed=True)
            await self._require_fewer_active_runs(connection, principal)
            if await SQL["hold_pipeline"].value(connection, tenant_id=principal.tenant_id, id=found.id) is None:
                raise no_such_pipeline()
            row = await SQL["create_run"].row(
                connection,
                RunRow,
                **_owner(principal, run_id),
                pipeline_id=found.id,
                pipeline_version=found.version,
                steps=len(steps),
                target_folder=request.target_folder or folder_of(request.name, run_id),
                strategy=request.strategy.value,
                strikes=self._settings.strikes,
                seed=secrets.randbelow(MAX_SEED + 1) if request.seed is None else request.seed,
                idempotency_key=key.text,
                request_hash=key.request_hash,
                row_bytes=ROW_BYTES,
                **request.model_dump(
                    include={"name", "prompt", "variables", "max_children", "target_leaves", "concurrency", "budget"}
                ),
            )
            if row is None:
                problem = FieldProblem("target_folder", "Another run uses this folder.")
                raise Conflict(
                    f"The folder {request.target_folder!r} has files of another run. Choose another one.",
                    errors=[problem],
                )
            await check_database(connection, principal, limits)
            shown = await self._view(connection, row)
        self._wake()
        return StartedRun(shown, replayed=False)

    async def _require_fewer_active_runs(self, connection: Connection, principal: Owner) -> None:
        """Checks the limit of active runs. The wallet is locked, so runs that a user starts at the same time are
        counted one after the other.
        """
        max_runs = self._settings.runs_per_user
        if await SQL["active_runs_of_user"].value(connection, **_user(principal), max_rows=max_runs) >= max_runs:
            raise TooManyActiveRuns(max_runs)

    async def _check(self, steps: list[StepRow], request: CreateRun) -> None:
        given = RunInputs(request.prompt, request.variables, 0)
        problems: list[FieldProblem] = []
        unusable: list[FieldProblem] = []
        taken: set[str] = set()
        for step in steps:
            try:
                wrong, names = await self._step_jobs.check_given(step, given)
            except InvalidRequest as refusal:
                place = step.position - 1
                unusable += [FieldProblem(f"steps.{place}.{each.field}", each.reason) for each in refusal.errors]
                continue
            problems += wrong
            taken |= names
        if unusable:
            # The request is correct: a workflow or an actor was changed after the pipeline was defined.
            raise WrongState(sentences(unusable), errors=unusable)
        problems += [
            FieldProblem(f"variables.{name}", "No step of this pipeline uses this variable.")
            for name in request.variables
            if name not in taken and not problems
        ]
        unique = list(dict.fromkeys(problems))
        if unique:
            raise InvalidRequest.of(unique)

    async def get(self, principal: Principal, run_id: UUID) -> Run:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            row = await SQL["get_run"].row(connection, RunRow, **_owner(principal, run_id))
            if row is None:
                raise no_such_run()
            return await self._view(connection, row)

    async def update(self, principal: Principal, run_id: UUID, request: UpdateRun) -> Run:
        def changes(run: RunRow) -> Mapping[str, Any]:
            if request.budget is not None and request.budget < run.spent:
                raise InvalidRequest.field(
                    "budget", f"The run has already spent {counted(run.spent, 'token')}. The budget must not be less."
                )
            changed = request.model_dump(exclude_unset=True, exclude_none=True)
            if request.target_leaves is None:
                return changed
            if run.status == CANCELED:
                raise WrongState("The run was canceled and makes no more candidates. Start another run.")
            continues = run.status == RunStatus.COMPLETED.value and request.target_leaves > run.target_leaves
            return {**changed, **(RESUMED if continues else {})}

        return await self._change(principal, run_id, changes, activates=request.target_leaves is not None)

    async def pause(self, principal: Principal, run_id: UUID) -> Run:
        """Pauses a run: no new job starts. Active jobs continue, and their results are kept."""

        def changes(run: RunRow) -> Mapping[str, Any]:
            if run.status == PAUSED:
                return {}
            _require(run, ACTIVE)
            return {"status": PAUSED, "reason": RunReason.BY_USER.value, "reason_detail": None}

        return await self._change(principal, run_id, changes)

    async def resume(self, principal: Principal, run_id: UUID) -> Run:
        """Resumes a paused run, also one that stopped because of failures: its failed branches are retried. A
        completed run looks for more work."""

        def changes(run: RunRow) -> Mapping[str, Any]:
            if run.status == ACTIVE:
                return {}
            _require(run, PAUSED, RunStatus.COMPLETED.value)
            return RESUMED

        return await self._change(principal, run_id, changes, activates=True)

    async def cancel(self, principal: Owner, run_id: UUID, *, actor: str | None = None) -> Run:
        """Ends the run. Its active jobs are canceled and refunded; its candidates stay. Default `actor`: the user."""

        def changes(run: RunRow) -> Mapping[str, Any]:
            if run.status == CANCELED:
                return {}
            _require(run, ACTIVE, PAUSED)
            return {"status": CANCELED, "reason": RunReason.BY_USER.value, "reason_detail": None}

        run = await self._change(principal, run_id, changes)
        await hit(Failpoint.PIPELINE_CANCEL_BEFORE_JOBS)
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            rows = await SQL["open_jobs_of_run"].rows(connection, JobId, tenant_id=principal.tenant_id, run_id=run_id)
        jobs = [JobOfCanceledRun(principal.tenant_id, row.job_id) for row in rows]
        by = actor or f"user:{principal.user_id}"
        await cancel_jobs(self._cancellation, jobs, actor=by, reason=CANCELED_WITH_RUN)
        self._wake()
        return run

    async def _change(
        self,
        principal: Owner,
        run_id: UUID,
        changes: Callable[[RunRow], Mapping[str, Any]],
        *,
        activates: bool = False,
    ) -> Run:
        """Applies the changes that `changes` returns for the locked run."""
        pool = await self._databases.pool(principal.pool)
        async with pool.transaction() as connection:
            if activates:
                # All use cases lock the wallet before the run.
                await DESIGN_SQL["lock_wallet"].value(connection, **_user(principal))
            row = await SQL["lock_run"].row(connection, RunRow, **_owner(principal, run_id))
            if row is None:
                raise no_such_run()
            changed = changes(row)
            if changed.get("status") == ACTIVE:
                assert activates, "the wallet is locked"
                await self._require_fewer_active_runs(connection, principal)
            if changed:
                values = {name: changed.get(name, getattr(row, name)) for name in CHANGED}
                if values["status"] == ACTIVE and row.reason == RunReason.BRANCHES_FAILED:
                    await SQL["forgive_branches"].run(connection, tenant_id=principal.tenant_id, run_id=run_id)
                row = await SQL["change_run"].row(
                    connection, RunRow, tenant_id=principal.tenant_id, id=run_id, **values
                )
                assert row is not None, "the run is locked"
            shown = await self._view(connection, row)
        self._wake()
        return shown

    async def tree(self, principal: Principal, run_id: UUID, after: int, limit: int) -> Page[TreeNode]:
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            if await SQL["get_run"].row(connection, RunRow, **_owner(principal, run_id)) is None:
                raise no_such_run()
            found = await SQL["list_tree"].rows(
                connection, TreeNode, tenant_id=principal.tenant_id, run_id=run_id, after=after, limit=limit + 1
            )
        nodes = found[:limit]
        return Page(items=nodes, next_cursor=str(nodes[-1].number) if len(found) > limit else None)

    async def list(
        self, principal: Principal, pipeline: str | None, status: RunStatus | None, before: UUID | None, limit: int
    ) -> Page[RunSummary]:
        names: dict[str, Any] = {
            "tenant_id": principal.tenant_id,
            "user_id": principal.user_id,
            "status": status.value if status else None,
            "before": before,
            "limit": limit + 1,
        }
        pipeline_id = (await self._pipelines.get(principal, pipeline)).id if pipeline is not None else None
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            if pipeline_id is None:
                rows = await SQL["list_runs"].rows(connection, RunRow, **names)
            else:
                rows = await SQL["list_runs_of_pipeline"].rows(connection, RunRow, **names, pipeline_id=pipeline_id)
            summaries = await self._summaries(connection, rows)
        return page_of([*summaries], limit)

    async def _view(self, connection: Connection, row: RunRow) -> Run:
        names = {"tenant_id": row.tenant_id, "run_id": row.id}
        steps = await steps_of(connection, row.tenant_id, row.pipeline_id, row.pipeline_version)
        counts = {each.position: each for each in await SQL["counts_of_run"].rows(connection, StepCounts, **names)}
        in_flight = dict(await SQL["in_flight_of_run"].rows(connection, StepInFlight, **names))
        approved = {each.step_id for each in await SQL["approvals_of_run"].rows(connection, ApprovedStep, **names)}
        progress = []
        for step in steps:
            found = counts.get(step.position, StepCounts(step.position))
            progress.append(
                StepProgress(
                    step=step_view(step),
                    candidates=found.candidates,
                    active=found.active,
                    in_flight=in_flight.get(step.position, 0),
                    approved=step.id in approved or not step.requires_approval,
                )
            )
        [summary] = await self._summaries(connection, [row])
        return Run(**summary.model_dump(), steps=progress)

    async def _summaries(self, connection: Connection, rows: Sequence[RunRow]) -> Sequence[RunSummary]:
        """Summaries of runs of one tenant, each with the reason why the run waits, also if the reason is another
        run.
        """
        may_wait = [row.id for row in rows if row.status == ACTIVE and row.reason is None]
        limit = self._settings.jobs_in_total
        waiting = set()
        if may_wait:
            found = await SQL["waiting_for_room"].rows(
                connection,
                RunId,
                tenant_id=rows[0].tenant_id,
                run_ids=may_wait,
                per_run=self._settings.jobs_per_run,
                in_total=limit,
            )
            waiting = {row.id for row in found}
        sentence = (
            f"The runs of your tenant have {counted(limit, 'active job')}, and the limit is {limit} "
            "(pipelines.jobs_in_total). "
            "The run continues when one of them ends."
        )
        at_limit = {"reason": RunReason.TENANT_AT_LIMIT, "reason_detail": sentence}
        progress = await self._progress(connection, rows)
        return [
            RunSummary(**{**row._asdict(), **progress[row.id]._asdict(), **(at_limit if row.id in waiting else {})})
            for row in rows
        ]

    async def _progress(self, connection: Connection, rows: Sequence[RunRow]) -> dict[UUID, RunProgress]:
        if not rows:
            return {}
        found = await SQL["progress_of_runs"].rows(
            connection,
            RunProgress,
            tenant_id=rows[0].tenant_id,
            run_ids=[row.id for row in rows],
            max_rows=MAX_LEAVES,
        )
        return {each.id: each for each in found}


def folder_of(name: str, run_id: UUID) -> str:
    """A folder name from the name of the run and the end of its id, which makes the folder unique."""
    tail = run_id.hex[-12:]
    return f"{slug_of(name)[: MAX_FOLDER_LENGTH - 13].strip('-')}-{tail}".strip("-")


def _require(run: RunRow, *statuses: str) -> None:
    if run.status not in statuses:
        raise WrongState(f"The run is {run.status}.")


@dataclass(frozen=True, slots=True)
class _Key:
    """The idempotency key of a request, and the hash of the request."""

    text: str | None
    request_hash: bytes | None

    @classmethod
    def of(cls, pipeline_id: UUID, request: CreateRun) -> _Key:
        if request.idempotency_key is None:
            return cls(None, None)
        asked = {"pipeline": str(pipeline_id), **request.model_dump(mode="json", exclude={"idempotency_key"})}
        return cls(request.idempotency_key, hash_of(asked))

    async def earlier(self, connection: Connection, principal: Principal) -> RunRow | None:
        """The run that was created with the key."""
        if self.text is None:
            return None
        row = await SQL["run_of_key"].row(connection, RunRow, **_user(principal), idempotency_key=self.text)
        if row is not None and row.request_hash != self.request_hash:
            raise IdempotencyKeyReused()
        return row


def _user(principal: Owner) -> dict[str, Any]:
    return {"tenant_id": principal.tenant_id, "user_id": principal.user_id}


def _owner(principal: Owner, run_id: UUID) -> dict[str, Any]:
    return {"tenant_id": principal.tenant_id, "user_id": principal.user_id, "id": run_id}


def no_such_run() -> NotFound:
    return NotFound("There is no such run.")
