"""Effects: the products that users order. An effect is a workflow with some values set, a price and a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

from callsheet.catalog.assets import check_assets
from callsheet.catalog.properties import check_overrides, primary_input
from callsheet.catalog.workflows import refuse
from callsheet.identity.audit_log import record
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.storage import Storage
from callsheet.media.storage.port import discard
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.catalog import FILES, Property, RefundOnCancel
from callsheet.wire.effects import (
    CreateEffect,
    Effect,
    EffectInput,
    EffectOutput,
    EffectPreview,
    EffectProperty,
    EffectRecord,
    UpdateEffect,
)
from callsheet.wire.errors import Conflict, FieldProblem, InUse, InvalidRequest, NotFound, WrongState

SQL = statements("callsheet.catalog")
# Folder of the previews in storage.
FOLDER = "catalog/effects"
SIDES = ("before", "after")
# A forgotten price must not make an effect free: to publish an effect for nothing, the request must contain the price
# 0.
NO_PRICE = (
    "An effect needs a price before it is published. Send credits_cost: tokens for one job, or 0 to make it free."
)
COLUMNS = ("name", "description", "category", "overrides", "credits_cost", "is_published", "provider", "stage")


@dataclass(frozen=True, slots=True)
class EffectRecipe:
    """All data of a published effect that is needed to build a job."""

    # None for a test run of a workflow.
    effect_id: UUID | None
    name: str
    has_jobs: bool
    workflow_id: int
    is_active: bool
    properties: tuple[Property, ...]
    overrides: dict[str, Any]
    cost: int
    provider: str
    stage: str
    run_limit_seconds: int
    lease_seconds: int | None
    max_attempts: int | None
    refund_on_cancel: RefundOnCancel
    graph_path: str
    output_node_id: str | None
    output_extension: str
    output_mime_type: str
    keep_metadata: bool


class EffectRow(NamedTuple):
    id: UUID
    slug: str
    name: str
    description: str
    category: str
    preview: Any
    workflow: str
    overrides: Any
    credits_cost: int
    is_published: bool
    provider: str
    stage: str
    last_processing_time_seconds: float | None
    has_jobs: bool
    version: int
    created_at: datetime
    updated_at: datetime


class LockedEffect(NamedTuple):
    id: UUID
    slug: str
    name: str
    description: str
    category: str
    preview: Any
    workflow: str
    overrides: Any
    credits_cost: int
    is_published: bool
    provider: str
    stage: str
    version: int


class ListedEffect(NamedTuple):
    """A published effect with the columns of its workflow that a list shows."""

    id: UUID
    slug: str
    name: str
    description: str
    category: str
    preview: Any
    overrides: Any
    credits_cost: int
    last_processing_time_seconds: float | None
    provider: str
    stage: str
    workflow_id: int
    is_active: bool
    properties: Any
    output_mime_type: str
    refund_on_cancel: RefundOnCancel


class PublishedEffect(NamedTuple):
    """A published effect with all columns of its workflow that a job needs."""

    id: UUID
    slug: str
    name: str
    description: str
    category: str
    preview: Any
    overrides: Any
    credits_cost: int
    last_processing_time_seconds: float | None
    provider: str
    stage: str
    has_jobs: bool
    workflow_id: int
    is_active: bool
    properties: Any
    comfyui_workflow_path: str
    output_node_id: str | None
    output_extension: str
    output_mime_type: str
    keep_metadata: bool
    run_limit_seconds: int
    lease_seconds: int | None
    max_attempts: int | None
    refund_on_cancel: RefundOnCancel


class EffectNameRow(NamedTuple):
    id: UUID
    slug: str
    name: str


class EffectOfWorkflow(NamedTuple):
    """A published effect of a workflow. Both are None for a workflow without effects."""

    effect_id: UUID | None
    effect: str | None


class LockedWorkflow(NamedTuple):
    id: int
    slug: str
    properties: Any
    comfyui_workflow_path: str | None


class EffectName(NamedTuple):
    slug: str
    name: str


@dataclass(frozen=True, slots=True)
class EffectOffer:
    """An effect as users see it, and the route of its jobs: workflow, stage and provider."""

    effect: Effect
    route: tuple[int, str, str]


# The provider that workers beside an engine serve.
OWN_ENGINES = "self_hosted"


class Effects:
    def __init__(self, databases: Databases, storage: Storage, preview_urls: PreviewUrls):
        self._databases = databases
        self._storage = storage
        self._preview_urls = preview_urls

    async def create(self, request: CreateEffect, actor: str) -> EffectRecord:
        if _as_id(request.slug) is not None:
            raise InvalidRequest.field("slug", "This slug looks like an id. Choose a name.")
        if request.is_published and "credits_cost" not in request.model_fields_set:
            raise InvalidRequest.field("credits_cost", NO_PRICE)
        effect_id = uuid7()
        async with self._databases.central.transaction() as connection:
            workflow = await _lock_workflow(connection, request.workflow, request.overrides)
            row = await SQL["create_effect"].row(
                connection,
                EffectRow,
                id=effect_id,
                slug=request.slug,
                workflow_id=workflow.id,
                **request.model_dump(include=set(COLUMNS)),
            )
            if row is None:
                problem = FieldProblem("slug", "This slug is already in use.")
                raise Conflict(f"An effect {request.slug!r} already exists.", errors=[problem])
            await record(
                connection,
                actor,
                "effect.create",
                "effect",
                effect_id,
                slug=request.slug,
                credits_cost=request.credits_cost,
                is_published=request.is_published,
            )
            warnings = await _warnings(connection, request.provider)
        return self._record(row, warnings)

    async def update(self, id_or_slug: str, request: UpdateEffect, actor: str) -> EffectRecord:
        given = request.model_dump(exclude_unset=True, exclude_none=True)
        async with self._databases.central.transaction() as connection:
            current = await SQL["lock_effect"].row(connection, LockedEffect, **named(id_or_slug))
            if current is None:
                raise NotFound(f"There is no effect {id_or_slug!r}.")
            if given.pop("version", current.version) != current.version:
                reason = f"Another request changed the effect to version {current.version}. Read it again."
                raise WrongState(reason, errors=[FieldProblem("version", reason)])
            values = {name: given.get(name, getattr(current, name)) for name in COLUMNS}
            publishes = values["is_published"] and not current.is_published
            if publishes and values["credits_cost"] == 0 and "credits_cost" not in given:
                raise InvalidRequest.field("credits_cost", NO_PRICE)
            slug = given.get("workflow", current.workflow)
            workflow = await _lock_workflow(connection, slug, values["overrides"])
            row = await SQL["update_effect"].row(
                connection, EffectRow, id=current.id, workflow_id=workflow.id, **values
            )
            assert row is not None
            shown = {name: value for name, value in given.items() if name not in ("overrides", "description")}
            details = {"fields": sorted(given), **shown}
            await record(connection, actor, "effect.update", "effect", current.id, **details)
            warnings = await _warnings(connection, values["provider"]) if "provider" in given else []
        return self._record(row, warnings)

    async def delete(self, id_or_slug: str, actor: str) -> None:
        """Deletes an effect without jobs: the history of jobs refers to their effects."""
        async with self._databases.central.transaction() as connection:
            current = await SQL["lock_effect"].row(connection, LockedEffect, **named(id_or_slug))
            if current is None:
                raise NotFound(f"There is no effect {id_or_slug!r}.")
            if await SQL["effect_has_jobs"].value(connection, id=current.id):
                raise InUse(
                    f"Effect {current.slug} has jobs, so it cannot be deleted. Unpublish it instead: callsheet effects "
                    f"unpublish {current.slug}, or set is_published to false."
                )
            await SQL["delete_effect"].run(connection, id=current.id)
            await record(connection, actor, "effect.delete", "effect", current.id, slug=current.slug)
        folder = f"{FOLDER}/{current.id}"
        await discard(self._storage, [entry.key async for entry in self._storage.list(folder)])

    async def get(self, id_or_slug: str) -> EffectRecord:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_effect"].row(connection, EffectRow, **named(id_or_slug))
        if row is None:
            raise NotFound(f"There is no effect {id_or_slug!r}.")
        return self._record(row)

    async def list(
        self, workflow: str | None, is_published: bool | None, before: UUID | None, limit: int
    ) -> Page[EffectRecord]:
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_effects"].rows(
                connection, EffectRow, workflow=workflow, is_published=is_published, before=before, limit=limit + 1
            )
        return page_of([self._record(row) for row in rows], limit)

    async def list_published(
        self, search: str | None, category: str | None, before: UUID | None, limit: int
    ) -> tuple[Sequence[EffectOffer], bool]:
        """The published effects, and whether there are more."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_published"].rows(
                connection, ListedEffect, search=search, category=category, before=before, limit=limit + 1
            )
        return [self._offer(row) for row in rows[:limit]], len(rows) > limit

    async def get_published(self, id_or_slug: str) -> EffectOffer:
        row = await self._published(id_or_slug)
        if row is None:
            raise NotFound(f"There is no effect {id_or_slug!r}.")
        return self._offer(row)

    def _offer(self, row: ListedEffect | PublishedEffect) -> EffectOffer:
        effect = effect_view(row, self._preview(row.preview))
        return EffectOffer(effect, (row.workflow_id, row.stage, row.provider))

    def _record(self, row: EffectRow, warnings: Sequence[str] = ()) -> EffectRecord:
        return EffectRecord(
            **{**row._asdict(), "preview": self._preview(row.preview), "warnings": [*warnings]},
        )

    def _preview(self, stored: Any) -> EffectPreview | None:
        return show_preview(self._preview_urls, stored) if stored else None

    async def names_of(self, ids: Iterable[UUID]) -> dict[UUID, EffectName]:
        """Slug and name of effects, also of effects that are no longer published."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        async with self._databases.central.connection() as connection:
            rows = await SQL["names_of_effects"].rows(connection, EffectNameRow, ids=wanted)
        return {row.id: EffectName(row.slug, row.name) for row in rows}

    async def ids_of(self, ids_or_slugs: Iterable[str]) -> Sequence[UUID]:
        """The ids of the effects that exist, by id or slug."""
        names = [*ids_or_slugs]
        ids = [effect_id for name in names if (effect_id := _as_id(name)) is not None]
        async with self._databases.central.connection() as connection:
            return await SQL["effects_named"].column(connection, ids=ids, slugs=names)

    async def recipe(self, id_or_slug: str) -> EffectRecipe | None:
        """What a job of this effect is built from; None if the effect is not published."""
        row = await self._published(id_or_slug)
        return _recipe(row) if row is not None else None

    async def selling(self, workflow: str) -> dict[str, UUID] | None:
        """The published effects of a workflow, by slug; None if the workflow does not exist."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["published_of_workflow"].rows(connection, EffectOfWorkflow, slug=workflow)
        return {row.effect: row.effect_id for row in rows if row.effect and row.effect_id} if rows else None

    async def mark_used(self, recipe: EffectRecipe) -> bool:
        """Called before a job of the effect is written. Returns False if the effect was deleted meanwhile."""
        if recipe.has_jobs:
            return True
        async with self._databases.central.connection() as connection:
            return await SQL["mark_used"].value(connection, id=recipe.effect_id) is not None

    async def _published(self, id_or_slug: str) -> PublishedEffect | None:
        async with self._databases.central.connection() as connection:
            return await SQL["find_published"].row(connection, PublishedEffect, **named(id_or_slug))


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def named(id_or_slug: str) -> dict[str, Any]:
    return {"id": _as_id(id_or_slug), "slug": id_or_slug}


async def _lock_workflow(connection: Connection, slug: str, overrides: dict[str, Any]) -> LockedWorkflow:
    """Locks the workflow. Raises if an effect with these values does not fit the workflow."""
    workflow = await SQL["lock_workflow_of_effect"].row(connection, LockedWorkflow, slug=slug)
    if workflow is None:
        raise InvalidRequest.field("workflow", f"There is no workflow {slug!r}.")
    if workflow.comfyui_workflow_path is None:
        raise InvalidRequest.field("workflow", f"The workflow {slug!r} has no graph, so it cannot have effects.")
    properties = [Property.model_validate(each) for each in workflow.properties]
    refuse(check_overrides(properties, overrides))
    files = {
        f"overrides.{each.key}": (each, overrides[each.key])
        for each in properties
        if each.type in FILES and each.key in overrides
    }
    refuse(await check_assets(connection, files))
    return workflow


def effect_view(row: ListedEffect | PublishedEffect, preview: EffectPreview | None) -> Effect:
    properties = [Property.model_validate(each) for each in row.properties]
    primary = primary_input(properties)
    return Effect(
        id=row.id,
        slug=row.slug,
        name=row.name,
        description=row.description,
        category=row.category,
        preview=preview,
        credits_cost=row.credits_cost,
        refund_on_cancel=row.refund_on_cancel,
        is_available=row.is_active,
        last_processing_time_seconds=row.last_processing_time_seconds,
        input=_input_view(primary) if primary else None,
        output=_output_view(row.output_mime_type),
        properties=[
            property_view(each, row.overrides)
            for each in properties
            if each.user_configurable and not each.is_primary_input
        ],
    )


def _input_view(primary: Property) -> EffectInput:
    return EffectInput(
        # `check_properties` accepts only a file as the primary input.
        type=cast("Literal['image', 'video', 'audio']", primary.type.value),
        label=primary.label or primary.key,
        description=primary.description,
        max_bytes=primary.limits.max_bytes,
        max_seconds=primary.limits.max_seconds,
        accept=accepted_types(primary),
    )


def _output_view(mime_type: str) -> EffectOutput:
    match mime_type.partition("/")[0]:
        case "image" | "video" | "audio" | "text" as kind:
            return EffectOutput(type=kind, mime_type=mime_type)
    return EffectOutput(type="other", mime_type=mime_type)


def show_preview(urls: PreviewUrls, stored: Mapping[str, Any]) -> EffectPreview:
    """`stored`: the preview as the row of the effect contains it."""
    shown = {name: urls.shown(f"{stored['folder']}/{name}", **stored[name]) for name in SIDES if name in stored}
    return EffectPreview(**shown)


def accepted_types(each: Property) -> list[str]:
    """The media types that `payloads.check_file` accepts."""
    return [f"{each.type.value}/*"] if each.type in FILES else []


def property_view(each: Property, overrides: dict[str, Any]) -> EffectProperty:
    value = overrides.get(each.key, each.default)
    return EffectProperty(
        key=each.key,
        type=each.type,
        label=each.label or each.key,
        description=each.description,
        required=each.required and value is None,
        # Users cannot fetch or send an asset of the catalog, so the default of a file property is not shown.
        default=None if each.type in FILES else value,
        accept=accepted_types(each),
        limits=each.limits,
    )


async def _warnings(connection: Connection, provider: str) -> list[str]:
    """A warning if the provider has no workers, which is often a typing error.

    There is no warning for own engines: their workers are usually added after the first effect, and a fleet that is
    scaled to zero has no workers.
    """
    if provider == OWN_ENGINES or await SQL["provider_is_served"].value(connection, provider=provider):
        return []
    return [f"No worker serves the provider {provider!r}: jobs of this effect wait until one registers."]


def _recipe(row: PublishedEffect) -> EffectRecipe:
    return EffectRecipe(
        effect_id=row.id,
        name=row.name,
        has_jobs=row.has_jobs,
        workflow_id=row.workflow_id,
        is_active=row.is_active,
        properties=tuple(Property.model_validate(each) for each in row.properties),
        overrides=row.overrides,
        cost=row.credits_cost,
        provider=row.provider,
        stage=row.stage,
        run_limit_seconds=row.run_limit_seconds,
        lease_seconds=row.lease_seconds,
        max_attempts=row.max_attempts,
        refund_on_cancel=row.refund_on_cancel,
        graph_path=row.comfyui_workflow_path,
        output_node_id=row.output_node_id,
        output_extension=row.output_extension,
        output_mime_type=row.output_mime_type,
        keep_metadata=row.keep_metadata,
    )
