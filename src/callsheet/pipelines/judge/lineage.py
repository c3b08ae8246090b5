"""How a candidate was made, and a replay of the job that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.catalog.room import CatalogRoom
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.descriptions import JobDescription, medium_of
from callsheet.jobs.submit.new_jobs import NewJob, SlotRefused
from callsheet.jobs.submit.submission import Submission, SubmittedJob
from callsheet.media.task_files import REPLAY, without_files
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.rows import CandidateRow, StepRow
from callsheet.pipelines.run.slots import ReplaySlot
from callsheet.pipelines.run.step_jobs import sentence
from callsheet.pipelines.run.task_steps import CandidateJob, TaskSteps
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import InvalidRequest, WrongState
from callsheet.wire.media import File
from callsheet.wire.pipelines.candidates import Ancestor, Lineage, Replay
from callsheet.wire.pipelines.pipelines import CandidateStatus, Step
from callsheet.wire.plurals import counted

SQL = statements("callsheet.pipelines.judge")


class AncestorRow(NamedTuple):
    """A candidate, and the job that made it."""

    id: UUID
    number: int
    status: str
    step_id: UUID
    job_id: UUID
    seed: int
    elo: int
    votes: int
    file_id: UUID
    thumbnail_file_id: UUID | None
    created_at: datetime
    draw: int | None
    lineage: dict[str, Any] | None
    kind: str
    actor: str | None
    effect_id: UUID | None
    payload: dict[str, Any]
    cost: int
    started_at: datetime | None
    completed_at: datetime | None


class Lineages:
    def __init__(
        self,
        databases: Databases,
        gallery: Gallery,
        catalog: CatalogRoom,
        submission: Submission,
        tasks: TaskSteps,
    ):
        self._tasks = tasks
        self._databases = databases
        self._gallery = gallery
        self._catalog = catalog
        self._submission = submission

    async def explain(self, principal: Principal, candidate_id: UUID) -> Lineage:
        """Every candidate from the base to this one, with the values that were used to make it."""
        row = await self._gallery.candidate(principal, candidate_id)
        steps = {step.id: step for step in await self._gallery.steps(principal, row.run_id)}
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["ancestors"].rows(
                connection, AncestorRow, tenant_id=principal.tenant_id, candidate_id=candidate_id
            )
        # The graph contains values that the effect hides from users, and names the operator's models.
        with_graph = principal.may(Permission.SEE_PAYLOADS)
        files = await self._gallery.files_of(principal, rows)
        ancestors = [ancestor_view(each, steps[each.step_id], files, with_graph=with_graph) for each in rows]
        return Lineage(candidate_id=candidate_id, run_id=row.run_id, ancestors=ancestors)

    async def replay(self, principal: Principal, candidate_id: UUID, wanted: Replay) -> SubmittedJob:
        """Submits a job with the same graph, values, seed and parent, at the current price. The tree of the run does
        not change. The job counts in the budget of the run.
        """
        row = await self._gallery.candidate(principal, candidate_id)
        try:
            return await self._submission.once(
                principal, wanted, partial(self._job, principal, row), also={"replay": str(candidate_id)}
            )
        except SlotRefused as refused:
            run = await self._gallery.run(principal, row.run_id)
            raise WrongState(
                f"The replay costs {counted(refused.cost, 'token')}, but the run has spent {run.spent} of its budget "
                f"of {counted(run.budget, 'token')}. Raise the budget with PATCH /api/runs/{run.id}, then replay the "
                "candidate again."
            ) from None

    async def _job(self, principal: Principal, candidate: CandidateRow) -> NewJob:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            job = await SQL["job_of_candidate"].row(
                connection, CandidateJob, tenant_id=principal.tenant_id, job_id=candidate.job_id
            )
        assert job is not None, "The rows of jobs are never deleted, and a candidate refers to its job."
        new = await (self._of_effect(principal, job) if job.effect_id else self._of_actor(principal, job))
        return replace(new, slot=ReplaySlot(candidate.run_id, candidate.position))

    async def _of_actor(self, principal: Principal, job: CandidateJob) -> NewJob:
        try:
            return await self._tasks.again(principal, job)
        except InvalidRequest as refusal:
            raise InvalidRequest.field(
                "candidate_id", f"This candidate cannot be made again. {sentence(refusal)}"
            ) from None

    async def _of_effect(self, principal: Principal, job: CandidateJob) -> NewJob:
        recipe = await self._catalog.effects.recipe(str(job.effect_id))
        if recipe is None or not recipe.is_active or recipe.workflow_id != job.workflow_id:
            raise InvalidRequest.field(
                "candidate_id", "This candidate cannot be made again: its workflow is switched off."
            )
        return NewJob(
            tenant_id=principal.tenant_id,
            user_id=principal.user_id,
            kind=REPLAY,
            workflow_id=job.workflow_id,
            payload=job.payload,
            # A formula needs the values of the job, which are only in its graph. Its price is that of these values.
            cost=job.cost if recipe.price.formula else recipe.price.tokens,
            provider=recipe.provider,
            stage=recipe.stage,
            max_attempts=job.max_attempts,
            lease_seconds=job.lease_seconds,
            run_limit_seconds=job.run_limit_seconds,
            refund_on_cancel=recipe.refund_on_cancel,
            effect_id=job.effect_id,
            input_file_ids=tuple(job.input_file_ids),
            description=JobDescription(recipe.name, medium=medium_of(recipe.output_mime_type)),
            actor=f"user:{principal.user_id}",
        )


def ancestor_view(row: AncestorRow, step: StepRow, files: Mapping[UUID, File], *, with_graph: bool) -> Ancestor:
    started, ended = row.started_at, row.completed_at
    by_actor = row.actor is not None and row.effect_id is None
    payload_of_actor = without_files(row.kind, row.payload) if by_actor else None
    return Ancestor(
        candidate_id=row.id,
        number=row.number,
        status=CandidateStatus(row.status),
        step=Step(**step._asdict()),
        job_id=row.job_id,
        seed=row.seed,
        draw=row.draw,
        # The whole payload is not shown, because it names objects in storage.
        workflow=(row.payload.get("workflow") or {}) if with_graph and payload_of_actor is None else {},
        payload=payload_of_actor,
        lineage=row.lineage or {},
        cost=row.cost,
        elo=row.elo,
        votes=row.votes,
        file_id=row.file_id,
        file=files.get(row.file_id),
        thumbnail=files.get(row.thumbnail_file_id) if row.thumbnail_file_id else None,
        created_at=row.created_at,
        seconds=(ended - started).total_seconds() if started and ended else None,
    )
