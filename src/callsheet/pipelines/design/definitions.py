"""Creates, changes and reads pipelines and their steps. Steps are never changed: a change creates a new version."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.quotas import Quotas, payload_problems
from callsheet.media.usage import check_database
from callsheet.pipelines.rows import StepRow
from callsheet.pipelines.run.step_jobs import StepJobs
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, FieldProblem, InUse, InvalidRequest, NotFound, QuotaExceeded
from callsheet.wire.operate.quotas import QuotaLimits
from callsheet.wire.pipelines.design import ListedPipeline
from callsheet.wire.pipelines.pipelines import CreatePipeline, NewStep, Pipeline, PipelineSummary, Step, UpdatePipeline
from callsheet.wire.plurals import counted

SQL = statements("callsheet.pipelines.design")
MAX_SLUG_LENGTH = 63
# Bytes that a step of a version, or a run, takes in the database besides its JSON, with its indexes.
ROW_BYTES = 500
# The id of steps that are checked but not written.
NO_STEP = UUID(int=0)
STEP_COLUMNS = (
    "name",
    "workflow",
    "payload",
    "values",
    "needs_run_prompt",
    "needs_parent_image_path",
    "needs_run_variables",
    "max_children",
    "top_k",
    "requires_approval",
)


class Pipelines:
    def __init__(self, databases: Databases, step_jobs: StepJobs, quotas: Quotas):
        self._databases = databases
        self.quotas = quotas
        self._step_jobs = step_jobs

    async def create(self, principal: Principal, request: CreatePipeline, *, dry_run: bool = False) -> Pipeline:
        if _as_id(request.slug) is not None:
            raise InvalidRequest.field("slug", "This slug looks like an id. Choose a name.")
        limits = await self.quotas.of(principal.tenant_id)
        steps = await self._checked(request.steps, limits)
        pipeline_id = uuid7()
        pool = await self._databases.pool(principal.pool)
        async with _writing(pool, dry_run) as connection:
            # This locks the user, so that two pipelines that are created at the same time are counted one after the
            # other.
            await SQL["lock_wallet"].run(connection, tenant_id=principal.tenant_id, user_id=principal.user_id)
            created = await SQL["create_pipeline"].row(
                connection,
                PipelineSummary,
                tenant_id=principal.tenant_id,
                id=pipeline_id,
                user_id=principal.user_id,
                slug=request.slug,
                name=request.name,
                description=request.description,
            )
            if created is None:
                problem = FieldProblem("slug", "This slug is already in use.")
                raise Conflict(f"You already have a pipeline {request.slug!r}.", errors=[problem])
            await _check_number(connection, principal, limits)
            await _add_steps(connection, principal, created, steps)
            await check_database(connection, principal, limits)
            return await _with_steps(connection, principal.tenant_id, created)

    async def update(
        self, principal: Principal, id_or_slug: str, request: UpdatePipeline, *, dry_run: bool = False
    ) -> Pipeline:
        """Changes a pipeline. Started runs keep their steps."""
        # If the user has no such pipeline, the response is this error, not an error about its steps.
        await self.get(principal, id_or_slug)
        limits = await self.quotas.of(principal.tenant_id)
        steps = await self._checked(request.steps, limits) if request.steps is not None else None
        pool = await self._databases.pool(principal.pool)
        async with _writing(pool, dry_run) as connection:
            pipeline_id = await _id_of(connection, principal, id_or_slug)
            current = await SQL["lock_pipeline"].row(connection, PipelineSummary, **_own(principal, pipeline_id))
            if current is None:
                raise no_such_pipeline()
            changed = steps is not None and steps != await _declared(connection, principal.tenant_id, current)
            if changed:
                _check_version(current.version, limits)
            updated = await SQL["update_pipeline"].row(
                connection,
                PipelineSummary,
                tenant_id=principal.tenant_id,
                id=pipeline_id,
                name=request.name or current.name,
                description=current.description if request.description is None else request.description,
                version=current.version + changed,
            )
            assert updated is not None, "the pipeline is locked"
            if changed and steps is not None:
                await _add_steps(connection, principal, updated, steps)
                await check_database(connection, principal, limits)
            return await _with_steps(connection, principal.tenant_id, updated)

    async def delete(self, principal: Principal, id_or_slug: str) -> None:
        pool = await self._databases.pool(principal.pool)
        async with pool.transaction() as connection:
            pipeline_id = await _id_of(connection, principal, id_or_slug)
            if await SQL["lock_pipeline"].row(connection, PipelineSummary, **_own(principal, pipeline_id)) is None:
                raise no_such_pipeline()
            if await SQL["pipeline_has_runs"].value(connection, tenant_id=principal.tenant_id, id=pipeline_id):
                raise InUse("The pipeline has runs, which need it to explain their images, so it cannot be deleted.")
            await SQL["delete_pipeline"].run(connection, tenant_id=principal.tenant_id, id=pipeline_id)

    async def get(self, principal: Principal, id_or_slug: str) -> Pipeline:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            pipeline_id = await _id_of(connection, principal, id_or_slug)
            found = await SQL["get_pipeline"].row(connection, PipelineSummary, **_own(principal, pipeline_id))
            if found is None:
                raise no_such_pipeline()
            return await _with_steps(connection, principal.tenant_id, found)

    async def check(self, principal: Principal, steps: Sequence[NewStep]) -> list[StepRow]:
        """The steps as a new version would have them. Nothing is written."""
        checked = await self._checked(steps, await self.quotas.of(principal.tenant_id))
        return [
            StepRow(**{**step, "id": NO_STEP, "effect_id": step["effect_id"] and UUID(step["effect_id"])})
            for step in checked
        ]

    async def _checked(self, steps: Sequence[NewStep], limits: QuotaLimits) -> list[dict[str, Any]]:
        """The steps in order, checked, each with the effect that sets its price."""
        ordered = in_order(steps)
        slugs = slugs_of([step for _, step in ordered])
        problems: list[FieldProblem] = []
        found = []
        for position, ((place, step), slug) in enumerate(zip(ordered, slugs, strict=True), start=1):
            problems += payload_problems(limits, f"steps.{place}.payload", step.payload or {})
            problems += payload_problems(limits, f"steps.{place}.values", step.values)
            try:
                effect_id = await self._step_jobs.effect_of(step)
                wrong = await self._step_jobs.check(step, effect_id, position)
                if position == len(ordered):
                    wrong += gates_behind(step)
            except InvalidRequest as refusal:
                problems += [FieldProblem(f"steps.{place}.{each.field}", each.reason) for each in refusal.errors]
                continue
            problems += [FieldProblem(f"steps.{place}.{each.field}", each.reason) for each in wrong]
            fields = step.model_dump(mode="json", include=set(STEP_COLUMNS))
            found.append({**fields, "position": position, "slug": slug, "effect_id": effect_id and str(effect_id)})
        if problems:
            raise InvalidRequest.of(problems)
        return found

    async def list(self, principal: Principal, before: UUID | None, limit: int) -> Page[ListedPipeline]:
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            found = await SQL["list_pipelines"].rows(
                connection,
                ListedPipeline,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                before=before,
                limit=limit + 1,
            )
        return page_of(found, limit)


async def _check_number(connection: Connection, principal: Principal, limits: QuotaLimits) -> None:
    """Checks the limit of pipelines; the count includes the new one. The user is locked, so no other request creates
    one meanwhile.
    """
    limit = limits.pipelines_per_user
    used = await SQL["count_pipelines"].value(connection, tenant_id=principal.tenant_id, user_id=principal.user_id)
    if used > limit:
        remedy = "Delete pipelines that have no runs, or ask an operator for more."
        sentence = f"You have {used - 1} pipelines, and the limit is {limit} (pipelines_per_user). {remedy}"
        raise QuotaExceeded("pipelines_per_user", used - 1, limit, sentence)


def _check_version(version: int, limits: QuotaLimits) -> None:
    limit = limits.versions_per_pipeline
    if version >= limit:
        sentence = (
            f"The pipeline has {counted(version, 'version')}, and the limit is {limit} (versions_per_pipeline). "
            "Create another pipeline, or ask an operator for more."
        )
        raise QuotaExceeded("versions_per_pipeline", version, limit, sentence)


class _NotKept(Exception):
    pass


@asynccontextmanager
async def _writing(pool: Database, dry_run: bool) -> AsyncIterator[Connection]:
    """A transaction. A dry run executes and checks everything as usual, and rolls back at the end."""
    with suppress(_NotKept):
        async with pool.transaction() as connection:
            yield connection
            if dry_run:
                raise _NotKept


def in_order(steps: Sequence[NewStep]) -> list[tuple[int, NewStep]]:
    """The steps by position, each with its index in the request. Either all steps have a position or none has."""
    positions = [step.position for step in steps]
    if all(position is None for position in positions):
        return list(enumerate(steps))
    problems = []
    for place, position in enumerate(positions):
        if position is None:
            problems.append(
                FieldProblem(f"steps.{place}.position", "This step needs a position, because other steps have one.")
            )
        elif position in positions[:place]:
            other = positions.index(position)
            reason = f"Step {other} has the same position. Give each step its own position."
            problems.append(FieldProblem(f"steps.{place}.position", reason))
        elif position > 1 and position - 1 not in positions:
            problems.append(
                FieldProblem(f"steps.{place}.position", f"The positions have a gap: there is no step {position - 1}.")
            )
    if 1 not in positions and not problems:
        problems.append(FieldProblem("steps.0.position", "The positions have a gap: there is no step 1."))
    if problems:
        raise InvalidRequest.of(problems)
    return sorted(enumerate(steps), key=lambda numbered: numbered[1].position or 0)


def gates_behind(last: NewStep) -> list[FieldProblem]:
    """Problems of the last step: options that would have no effect, because leaves have no children."""
    gates = {"top_k": last.top_k is not None, "requires_approval": last.requires_approval}
    return [
        FieldProblem(name, "The last step cannot have this option, because no step follows it.")
        for name, is_set in gates.items()
        if is_set
    ]


def slug_of(text: str) -> str:
    """A slug from the letters and digits of a name, for a folder. Empty if the name has none."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_SLUG_LENGTH].strip("-")


def slugs_of(steps: Sequence[NewStep]) -> list[str]:
    """A unique slug for each step: the given one, or one derived from the name."""
    named = [step.slug for step in steps if step.slug is not None]
    for place, step in enumerate(steps):
        if step.slug is not None and named.count(step.slug) > 1:
            raise InvalidRequest.field(f"steps.{place}.slug", f"Another step has the slug {step.slug!r}.")
    taken = set(named)
    slugs = []
    for position, step in enumerate(steps, start=1):
        slug = step.slug or slug_of(step.name) or f"step-{position}"
        numbers = count(position)
        plain = slug[: MAX_SLUG_LENGTH - 4].strip("-")
        while step.slug is None and slug in taken:
            slug = f"{plain}-{next(numbers)}"
        taken.add(slug)
        slugs.append(slug)
    return slugs


async def _add_steps(
    connection: Connection, principal: Principal, pipeline: PipelineSummary, steps: Sequence[dict[str, Any]]
) -> None:
    await SQL["add_steps"].run(
        connection,
        tenant_id=principal.tenant_id,
        pipeline_id=pipeline.id,
        version=pipeline.version,
        steps=[{"id": str(uuid7()), **step, **_document_of(step)} for step in steps],
        row_bytes=ROW_BYTES,
    )


def _document_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """Versions share the payload and the values of a step that did not change. Equal digests mean the same document."""
    text = json.dumps([step["payload"], step["values"]], sort_keys=True).encode("utf-8", "surrogatepass")
    return {"digest": hashlib.sha256(text).hexdigest(), "bytes": len(text)}


async def steps_of(connection: Connection, tenant_id: UUID, pipeline_id: UUID, version: int) -> list[StepRow]:
    return await SQL["steps_of_pipeline"].rows(
        connection, StepRow, tenant_id=tenant_id, pipeline_id=pipeline_id, version=version
    )


async def _declared(connection: Connection, tenant_id: UUID, pipeline: PipelineSummary) -> list[dict[str, Any]]:
    """The current steps, in the form of a request, so that they can be checked like new ones."""
    rows = await steps_of(connection, tenant_id, pipeline.id, pipeline.version)
    names = (*STEP_COLUMNS, "position", "slug")
    return [
        {**{name: getattr(row, name) for name in names}, "effect_id": row.effect_id and str(row.effect_id)}
        for row in rows
    ]


async def _with_steps(connection: Connection, tenant_id: UUID, pipeline: PipelineSummary) -> Pipeline:
    steps = await steps_of(connection, tenant_id, pipeline.id, pipeline.version)
    return Pipeline(**pipeline.model_dump(), steps=[step_view(each) for each in steps])


def step_view(row: StepRow) -> Step:
    return Step(**row._asdict())


async def _id_of(connection: Connection, principal: Principal, id_or_slug: str) -> UUID:
    found = _as_id(id_or_slug)
    if found is None:
        found = await SQL["find_pipeline"].value(
            connection, tenant_id=principal.tenant_id, user_id=principal.user_id, slug=id_or_slug
        )
    if found is None:
        raise no_such_pipeline()
    return found


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _own(principal: Principal, pipeline_id: UUID) -> dict[str, Any]:
    return {"tenant_id": principal.tenant_id, "user_id": principal.user_id, "id": pipeline_id}


def no_such_pipeline() -> NotFound:
    return NotFound("There is no such pipeline.")
