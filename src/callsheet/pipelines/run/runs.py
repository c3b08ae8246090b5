"""Starts, reads, pauses, resumes and cancels runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Owner, Principal
from callsheet.jobs.change.cancel import Cancellation
from callsheet.media.usage import check_database
from callsheet.pipelines.design.definitions import ROW_BYTES, Pipelines, no_such_pipeline, slug_of, steps_of
from callsheet.pipelines.judge.branches import cancel_jobs
from callsheet.pipelines.rows import JobId, JobOfCanceledRun, RunRow, StepRow
from callsheet.pipelines.run.shown_runs import ShownRuns, no_such_run, run_names, user_names
from callsheet.pipelines.run.step_jobs import RunInputs, StepJobs
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.http.request_fields import differing, fields_of, hash_of
from callsheet.settings import PipelineSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import (
    Conflict,
    FieldProblem,
    IdempotencyKeyReused,
    InvalidRequest,
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
    UpdateRun,
)
from callsheet.wire.plurals import counted

DESIGN_SQL = statements("callsheet.pipelines.design")
SQL = statements("callsheet.pipelines.run")

ACTIVE, PAUSED, CANCELED = RunStatus.ACTIVE.value, RunStatus.PAUSED.value, RunStatus.CANCELED.value
# Fields that change when a run that does not work any more continues.
RESUMED: Mapping[str, Any] = {
    "status": ACTIVE,
    "reason": None,
    "reason_detail": None,
    "base_failures": 0,
    "dead_branches": 0,
}
CHANGED = ("name", "budget", "target_leaves", *RESUMED)
MAX_FOLDER_LENGTH = 63
CANCELED_WITH_RUN = "The run was canceled."


class RunChecks:
    """What a new run needs. `Runs.start` raises the first refusal, and a quote lists all."""

    def __init__(self, step_jobs: StepJobs, settings: PipelineSettings):
        self._step_jobs = step_jobs
        self.settings = settings

    def require_concurrency(self, request: CreateRun) -> None:
        most = self.settings.jobs_per_run
        if request.concurrency is not None and request.concurrency > most:
            raise InvalidRequest.field(
                "concurrency", f"The value must be at most {most} here (pipelines.jobs_per_run)."
            )

    async def require_fewer_active_runs(self, connection: Connection, principal: Owner) -> None:
        """Checks the limit of active runs. The wallet is locked, so runs that a user starts at the same time are
        counted one after the other.
        """
        most = self.settings.runs_per_user
        self.require_place(await SQL["active_runs_of_user"].value(connection, **user_names(principal), max_rows=most))

    def require_place(self, active: int) -> None:
        if active >= self.settings.runs_per_user:
            raise TooManyActiveRuns(self.settings.runs_per_user)

    async def require_values(self, steps: Sequence[StepRow], request: CreateRun) -> None:
        """Checks the values of a run against the steps that use them."""
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


class StartedRun(NamedTuple):
    run: Run
    # Whether an earlier request with the same idempotency key started it.
    replayed: bool


class Runs:
    def __init__(
        self,
        databases: Databases,
        pipelines: Pipelines,
        checks: RunChecks,
        cancellation: Cancellation,
        settings: PipelineSettings,
        wake: Callable[[], None],
    ):
        """`wake` is called when a run may start a job."""
        self._databases = databases
        self._pipelines = pipelines
        self.checks = checks
        self._cancellation = cancellation
        self._settings = settings
        self.shown = ShownRuns(databases, pipelines, settings)
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
                return StartedRun(await self.shown.view(connection, earlier), replayed=True)
        async with pool.connection() as connection:
            steps = await steps_of(connection, principal.tenant_id, found.id, found.version)
        self.checks.require_concurrency(request)
        await self.checks.require_values(steps, request)
        run_id = uuid7()
        limits = await self._pipelines.quotas.of(principal.tenant_id)
        async with pool.transaction() as connection:
            await DESIGN_SQL["lock_wallet"].value(connection, **user_names(principal))
            # The same request may have committed meanwhile, because it held the lock.
            if (earlier := await key.earlier(connection, principal)) is not None:
                return StartedRun(await self.shown.view(connection, earlier), replayed=True)
            await self.checks.require_fewer_active_runs(connection, principal)
            if await SQL["hold_pipeline"].value(connection, tenant_id=principal.tenant_id, id=found.id) is None:
                raise no_such_pipeline()
            row = await SQL["create_run"].row(
                connection,
                RunRow,
                **run_names(principal, run_id),
                pipeline_id=found.id,
                pipeline_version=found.version,
                steps=len(steps),
                target_folder=request.target_folder or folder_of(request.name, run_id),
                strategy=request.strategy.value,
                strikes=self._settings.strikes,
                seed=secrets.randbelow(MAX_SEED + 1) if request.seed is None else request.seed,
                idempotency_key=key.text,
                request_hash=key.request_hash,
                request_fields=key.request_fields,
                row_bytes=ROW_BYTES,
                key_id=principal.key_id,
                **request.model_dump(
                    include={
                        *("name", "prompt", "variables", "max_children", "target_leaves", "concurrency", "budget"),
                        *("client_reference", "metadata"),
                    }
                ),
            )
            if row is None:
                raise folder_taken(request)
            await check_database(connection, principal, limits)
            shown = await self.shown.view(connection, row)
        self._wake()
        return StartedRun(shown, replayed=False)

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
                await DESIGN_SQL["lock_wallet"].value(connection, **user_names(principal))
            row = await SQL["lock_run"].row(connection, RunRow, **run_names(principal, run_id))
            if row is None:
                raise no_such_run()
            changed = changes(row)
            if changed.get("status") == ACTIVE:
                assert activates, "the wallet is locked"
                await self.checks.require_fewer_active_runs(connection, principal)
            if changed:
                values = {name: changed.get(name, getattr(row, name)) for name in CHANGED}
                if values["status"] == ACTIVE and row.reason == RunReason.BRANCHES_FAILED:
                    await SQL["forgive_branches"].run(connection, tenant_id=principal.tenant_id, run_id=run_id)
                row = await SQL["change_run"].row(
                    connection, RunRow, tenant_id=principal.tenant_id, id=run_id, **values
                )
                assert row is not None, "the run is locked"
            shown = await self.shown.view(connection, row)
        self._wake()
        return shown


def folder_taken(request: CreateRun) -> Conflict:
    return Conflict(
        f"The folder {request.target_folder!r} has files of another run. Choose another one.",
        errors=[FieldProblem("target_folder", "Another run uses this folder.")],
    )


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
    request_fields: Mapping[str, str] | None

    @classmethod
    def of(cls, pipeline_id: UUID, request: CreateRun) -> _Key:
        if request.idempotency_key is None:
            return cls(None, None, None)
        hashed = {"pipeline": str(pipeline_id), **request.model_dump(mode="json", exclude={"idempotency_key"})}
        return cls(request.idempotency_key, hash_of(hashed), fields_of(hashed))

    async def earlier(self, connection: Connection, principal: Principal) -> RunRow | None:
        """The run that was created with the key."""
        if self.text is None:
            return None
        row = await SQL["run_of_key"].row(connection, RunRow, **user_names(principal), idempotency_key=self.text)
        if row is not None and row.request_hash != self.request_hash:
            fields = differing(row.request_fields or {}, self.request_fields or {})
            raise IdempotencyKeyReused.by("run", row.id, fields)
        return row
