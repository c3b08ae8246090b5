"""Submits an effect job. The order is: form, idempotency key, business rules, payload, then limits and commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.payloads import FIELD, PropertyValues, check_file, resolve, resolved_as_far
from callsheet.catalog.pricing.prices import SentFile, depends_on_files, price_of
from callsheet.catalog.properties import primary_input
from callsheet.catalog.room import CatalogRoom
from callsheet.catalog.workflows import refuse
from callsheet.effects.seeds import with_seeds
from callsheet.identity.access.principal import Owner, Principal
from callsheet.identity.accounts.quotas import check_payload
from callsheet.jobs.show.descriptions import JobDescription, medium_of
from callsheet.jobs.submit.drafts import Draft, outline
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.jobs.submit.priorities import check_priority
from callsheet.jobs.submit.submission import NO_VIDEO, Submission, SubmittedJob
from callsheet.media.files import ReadyFile
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.catalog import FILES, Property, PropertyType
from callsheet.wire.effects import SubmitEffectJob
from callsheet.wire.errors import FieldProblem, InvalidRequest, NotFound, Refusal
from callsheet.wire.plurals import counted
from callsheet.wire.workflow_editing import WorkflowTest

SQL = statements("callsheet.effects")

# The requests from which an effect job is built: values and files.
Wanted = SubmitEffectJob | WorkflowTest
KIND = "effect"
# Jobs of a batch that are built before other requests get their turn.
YIELD_AFTER = 10
# Largest size of the payloads of a batch, as JSON: all of them are in memory at once.
MAX_BATCH_BYTES = 64 * 2**20
NO_EFFECT = "There is no such effect."
MISSING = "You have no such file, or its upload is not confirmed."


class ReadyFiles(Protocol):
    async def ready(
        self, pool: Database, tenant_id: UUID, user_id: UUID, file_ids: Sequence[UUID]
    ) -> dict[UUID, ReadyFile]: ...


@dataclass(frozen=True, slots=True)
class Inputs:
    # The file that the effect processes.
    primary: ReadyFile | None
    # Every file of the user that the job reads.
    files: Mapping[UUID, ReadyFile]
    # The same files, by the keys of their properties.
    sent: Mapping[str, SentFile]
    problems: tuple[FieldProblem, ...]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request, with everything in it that can be used, and the problems of the rest."""

    recipe: EffectRecipe
    given: Mapping[str, Any]
    resolved: PropertyValues
    inputs: Inputs
    problems: tuple[FieldProblem, ...]

    def known_cost(self) -> int | None:
        """The price, if what can be used decides it."""
        try:
            return price_of(self.recipe, self.resolved, self.inputs.sent)
        except Refusal:
            return None


class ReadFiles:
    """Files that were read together, for the jobs of a batch."""

    def __init__(self, found: Mapping[UUID, ReadyFile]):
        self.found = found

    async def ready(
        self, pool: Database, tenant_id: UUID, user_id: UUID, file_ids: Sequence[UUID]
    ) -> dict[UUID, ReadyFile]:
        return {file_id: self.found[file_id] for file_id in file_ids if file_id in self.found}


class EffectJobs:
    def __init__(self, databases: Databases, catalog: CatalogRoom, files: ReadyFiles, submission: Submission):
        self._databases = databases
        self._catalog = catalog
        self._files = files
        self._submission = submission

    async def submit(self, principal: Principal, wanted: SubmitEffectJob) -> SubmittedJob:
        await self._check_form(principal, wanted)
        return await self._submission.once(principal, wanted, partial(self.prepare, principal, wanted))

    async def _check_form(self, principal: Principal, wanted: SubmitEffectJob) -> None:
        check_shape(principal, wanted)
        check_payload(await self._submission.quotas.of(principal.tenant_id), FIELD, wanted.input_payload)

    async def check(self, wanted: SubmitEffectJob) -> int:
        """Checks the parts of the request that do not depend on the user or the file. Returns the price, or the lowest
        one if a file decides.
        """
        recipe = await self._recipe(wanted.effect_id)
        resolved = resolve(recipe, wanted.input_payload)
        return recipe.price.tokens if depends_on_files(recipe.price.formula) else price_of(recipe, resolved, {})

    async def prepare(self, principal: Owner, wanted: SubmitEffectJob) -> NewJob:
        """The effect job, ready for submission: its rules are checked and its payload is built."""
        recipe = await self._recipe(wanted.effect_id)
        prepared = await self.build(principal, wanted, recipe)
        await self.mark_used(recipe)
        return prepared

    async def drafts(
        self, principal: Owner, effect_id: str, wanted: Sequence[SubmitEffectJob]
    ) -> tuple[EffectRecipe, list[Draft]]:
        """The jobs of a batch of one effect, each ready for submission or with the reason why it is refused. Nothing is
        written.
        """
        recipe = await self._recipe(effect_id)
        quotas = await self._submission.quotas.of(principal.tenant_id)
        pool = await self._databases.pool(principal.pool)
        ids = {file_id for each in wanted for file_id in _files_named(recipe, each)}
        files = ReadFiles(await self._files.ready(pool, principal.tenant_id, principal.user_id, sorted(ids)))
        one = EffectJobs(self._databases, self._catalog, files, self._submission)
        drafts: list[Draft] = []
        size = 0
        for number, each in enumerate(wanted):
            try:
                check_payload(quotas, FIELD, each.input_payload)
            except InvalidRequest as refusal:
                drafts.append(Draft(_known(principal, recipe), refusal=refusal))
                continue
            draft = await one.draft_of(principal, each, recipe)
            drafts.append(draft)
            size += len(json.dumps(draft.new.payload))
            if size > MAX_BATCH_BYTES:
                reason = (
                    f"The first {counted(number + 1, 'item')} would have {counted(size, 'byte')}, and the limit of "
                )
                raise InvalidRequest.field("items", f"{reason}a batch is {MAX_BATCH_BYTES}. Send several batches.")
            if number % YIELD_AFTER == 0:
                await asyncio.sleep(0)
        return recipe, drafts

    async def mark_used(self, recipe: EffectRecipe) -> None:
        """An effect with jobs cannot be deleted. Refused if it was deleted or unpublished meanwhile."""
        if not await self._catalog.effects.mark_used(recipe):
            raise no_such_effect()
        await hit(Failpoint.EFFECT_BEFORE_SUBMIT)

    async def draft(self, principal: Principal, wanted: SubmitEffectJob) -> Draft:
        """What `submit` would do with the request, for a quote. Nothing is written."""
        try:
            await self._check_form(principal, wanted)
            recipe = await self._recipe(wanted.effect_id)
        except Refusal as refusal:
            return Draft(outline(principal, KIND), refusal=refusal)
        return await self.draft_of(principal, wanted, recipe)

    async def draft_of(self, principal: Owner, wanted: SubmitEffectJob, recipe: EffectRecipe) -> Draft:
        request = await self._read(principal, wanted, recipe)
        try:
            new = await self._job(principal, wanted, request)
        except Refusal as refusal:
            problems = (*request.problems, *request.inputs.problems)
            return Draft(
                _known(principal, recipe), request.known_cost(), InvalidRequest.of(problems) if problems else refusal
            )
        return Draft(new, new.cost)

    async def recipe_and_job(self, principal: Owner, wanted: SubmitEffectJob) -> tuple[EffectRecipe, NewJob]:
        """Like `prepare`, without a trace: before the job is written, `mark_used` must be called with the recipe."""
        recipe = await self._recipe(wanted.effect_id)
        return recipe, await self.build(principal, wanted, recipe)

    async def build(self, principal: Owner, wanted: Wanted, recipe: EffectRecipe) -> NewJob:
        return await self._job(principal, wanted, await self._read(principal, wanted, recipe))

    async def _read(self, principal: Owner, wanted: Wanted, recipe: EffectRecipe) -> ReadRequest:
        given: Mapping[str, Any] = wanted.input_payload
        # A test run repeats the values of its workflow.
        if isinstance(wanted, SubmitEffectJob):
            given = with_seeds(recipe, given)
        resolved, problems = resolved_as_far(recipe, given)
        return ReadRequest(
            recipe, given, resolved, await self._inputs(principal, wanted, recipe, resolved), tuple(problems)
        )

    async def _job(self, principal: Owner, wanted: Wanted, request: ReadRequest) -> NewJob:
        refuse(request.problems)
        refuse(request.inputs.problems)
        recipe, given, resolved, inputs = request.recipe, request.given, request.resolved, request.inputs
        primary, files = inputs.primary, inputs.files
        cost = price_of(recipe, resolved, inputs.sent)
        payload = await self._catalog.payloads.build(recipe, resolved, primary, files)
        return NewJob(
            tenant_id=principal.tenant_id,
            user_id=principal.user_id,
            kind=KIND,
            workflow_id=recipe.workflow_id,
            payload=payload,
            cost=cost,
            provider=recipe.provider,
            stage=recipe.stage,
            priority=wanted.priority if isinstance(wanted, SubmitEffectJob) else 0,
            run_limit_seconds=recipe.run_limit_seconds,
            refund_on_cancel=recipe.refund_on_cancel,
            lease_seconds=recipe.lease_seconds,
            max_attempts=recipe.max_attempts,
            effect_id=recipe.effect_id,
            video_id=wanted.video_id,
            input_file_ids=input_order(primary, files),
            description=described(recipe, given, primary, files),
            sent=given,
            actor=f"user:{principal.user_id}",
        )

    async def _recipe(self, id_or_slug: str) -> EffectRecipe:
        recipe = await self._catalog.effects.recipe(id_or_slug)
        if recipe is None:
            raise no_such_effect()
        if not recipe.is_active:
            raise InvalidRequest.field(
                "effect_id", "This effect currently accepts no jobs: its workflow is switched off."
            )
        return recipe

    async def _inputs(self, principal: Owner, wanted: Wanted, recipe: EffectRecipe, resolved: PropertyValues) -> Inputs:
        pool = await self._databases.pool(principal.pool)
        problems: list[FieldProblem] = []
        try:
            field, primary_id = await self._primary(pool, principal, wanted, primary_input(recipe.properties))
        except InvalidRequest as refusal:
            field, primary_id = "", None
            problems += refusal.errors
        ids = {*resolved.user_files.values(), *([primary_id] if primary_id else [])}
        found: Mapping[UUID, ReadyFile] = {}
        if ids:
            found = await self._files.ready(pool, principal.tenant_id, principal.user_id, list(ids))
        named = [
            (f"{FIELD}.{each.key}", each, resolved.user_files[each.key])
            for each in recipe.properties
            if each.key in resolved.user_files
        ]
        primary = primary_input(recipe.properties)
        if primary is not None and primary_id is not None:
            named.insert(0, (field, primary, primary_id))
        problems += _check_files(named, found)
        sent = {each.key: SentFile(field, found[file_id]) for field, each, file_id in named if file_id in found}
        return Inputs(found.get(primary_id) if primary_id else None, found, sent, tuple(problems))

    async def _primary(
        self, pool: Database, principal: Owner, wanted: Wanted, primary: Property | None
    ) -> tuple[str, UUID | None]:
        """The field with the file that the effect processes, and the id of the file."""
        field = "video_id" if wanted.video_id else "input_file_id"
        given = wanted.video_id or wanted.input_file_id
        if primary is None:
            if given is not None:
                raise InvalidRequest.field(field, f"This effect takes no file. Leave {field} out.")
            return field, None
        if given is None:
            fields = "video_id or input_file_id" if primary.type is PropertyType.VIDEO else "input_file_id"
            raise InvalidRequest.field("input_file_id", f"This effect needs a file. Send {fields}.")
        if wanted.video_id is None:
            return field, wanted.input_file_id
        async with pool.connection() as connection:
            original = await SQL["original_of_video"].value(
                connection, tenant_id=principal.tenant_id, user_id=principal.user_id, video_id=wanted.video_id
            )
        if original is None:
            raise InvalidRequest.field("video_id", NO_VIDEO)
        return field, original


def _known(owner: Owner, recipe: EffectRecipe) -> NewJob:
    """A job of which only the effect is known."""
    known = outline(owner, KIND)
    return replace(known, workflow_id=recipe.workflow_id, stage=recipe.stage, provider=recipe.provider)


def described(
    recipe: EffectRecipe, given: Mapping[str, Any], primary: ReadyFile | None, files: Mapping[UUID, ReadyFile]
) -> JobDescription:
    """The texts of a job of this effect that lists show and search uses."""
    first = () if primary is None else (primary.name,)
    others = (file.name for file_id, file in files.items() if primary is None or file_id != primary.id)
    written = {each.key for each in recipe.properties if each.type in (PropertyType.TEXT, PropertyType.CHOICE)}
    return JobDescription(
        title=recipe.name,
        input_names=(*first, *others),
        texts={key: value for key, value in given.items() if key in written and isinstance(value, str)},
        medium=medium_of(recipe.output_mime_type),
    )


def _files_named(recipe: EffectRecipe, wanted: SubmitEffectJob) -> Iterable[UUID]:
    """The ids of all files that a request may name."""
    if wanted.input_file_id is not None:
        yield wanted.input_file_id
    for each in recipe.properties:
        if each.type in FILES and isinstance(value := wanted.input_payload.get(each.key), str):
            with suppress(ValueError):
                yield UUID(value)


def check_shape(principal: Principal, wanted: SubmitEffectJob) -> None:
    refuse_both(wanted)
    check_priority(principal, wanted.priority)


def refuse_both(wanted: Wanted) -> None:
    if wanted.video_id is not None and wanted.input_file_id is not None:
        raise InvalidRequest.field("input_file_id", "Send either input_file_id or video_id, not both.")


def no_such_effect() -> NotFound:
    return NotFound(NO_EFFECT, errors=[FieldProblem("effect_id", NO_EFFECT)])


def _check_files(
    named: Iterable[tuple[str, Property, UUID]], found: Mapping[UUID, ReadyFile]
) -> Iterable[FieldProblem]:
    for field, each, file_id in named:
        file = found.get(file_id)
        if file is None:
            yield FieldProblem(field, MISSING)
        else:
            yield from check_file(field, each, file, file.duration_seconds)


def input_order(primary: ReadyFile | None, files: Mapping[UUID, Any]) -> tuple[UUID, ...]:
    """The ids of all files that the job reads, the primary input first."""
    first = () if primary is None else (primary.id,)
    return (*first, *(file_id for file_id in files if file_id not in first))
