"""Effects: the products that users order. An effect is a workflow with some values set, a price and a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.catalog.assets import check_assets
from callsheet.catalog.offers import (
    EffectOffer,
    EffectRecipe,
    ListedEffect,
    PublishedEffect,
    effect_view,
    recipe_of,
    show_preview,
)
from callsheet.catalog.pricing.formulas import FormulaProblem
from callsheet.catalog.pricing.ranges import lowest_price, measured_files
from callsheet.catalog.properties import check_overrides
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
from callsheet.wire.catalog import FILES, Property
from callsheet.wire.effects import (
    CreateEffect,
    EffectPreview,
    EffectRecord,
    UpdateEffect,
)
from callsheet.wire.errors import Conflict, FieldProblem, InUse, InvalidRequest, NotFound, WrongState

SQL = statements("callsheet.catalog")
# Folder of the previews in storage.
FOLDER = "catalog/effects"
# A forgotten price must not make an effect free: to publish an effect for nothing, the request must contain the price
# 0.
NO_PRICE = (
    "An effect needs a price before it is published. Send credits_cost: tokens for one job, or 0 to make it free."
)
COLUMNS = (
    *("name", "description", "category", "overrides", "credits_cost", "price_formula", "is_published", "provider"),
    "stage",
)
ONE_PRICE = "Send either credits_cost or price_formula: with a formula, the lowest price is calculated."


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
    price_formula: str
    is_published: bool
    provider: str
    stage: str
    last_processing_time_seconds: float | None
    has_jobs: bool
    version: int
    created_at: datetime
    updated_at: datetime


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


# The provider that workers beside an engine serve.
OWN_ENGINES = "self_hosted"


class Effects:
    def __init__(self, databases: Databases, storage: Storage, preview_urls: PreviewUrls, measured: Collection[str]):
        """`measured`: the types of files that this installation measures."""
        self._measured = measured
        self._databases = databases
        self._storage = storage
        self._preview_urls = preview_urls

    async def create(self, request: CreateEffect, actor: str) -> EffectRecord:
        if _as_id(request.slug) is not None:
            raise InvalidRequest.field("slug", "This slug looks like an id. Choose a name.")
        has_cost = "credits_cost" in request.model_fields_set
        if request.price_formula and has_cost:
            raise InvalidRequest.field("credits_cost", ONE_PRICE)
        if request.is_published and not has_cost and not request.price_formula:
            raise InvalidRequest.field("credits_cost", NO_PRICE)
        effect_id = uuid7()
        async with self._databases.central.transaction() as connection:
            workflow = await _lock_workflow(connection, request.workflow, request.overrides)
            values = request.model_dump(include=set(COLUMNS)) | _priced(
                workflow, request.overrides, request.price_formula
            )
            row = await SQL["create_effect"].row(
                connection,
                EffectRow,
                id=effect_id,
                slug=request.slug,
                workflow_id=workflow.id,
                **values,
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
                credits_cost=row.credits_cost,
                price_formula=row.price_formula,
                is_published=request.is_published,
            )
            warnings = await _warnings(connection, request.provider)
        return self._record(row, [*warnings, *self._unmeasured(workflow, request.price_formula)])

    async def update(self, id_or_slug: str, request: UpdateEffect, actor: str) -> EffectRecord:
        given = request.model_dump(exclude_unset=True, exclude_none=True)
        async with self._databases.central.transaction() as connection:
            current = await SQL["lock_effect"].row(connection, EffectRow, **named(id_or_slug))
            if current is None:
                raise NotFound(f"There is no effect {id_or_slug!r}.")
            if given.pop("version", current.version) != current.version:
                reason = f"Another request changed the effect to version {current.version}. Read it again."
                raise WrongState(reason, errors=[FieldProblem("version", reason)])
            values = {name: given.get(name, getattr(current, name)) for name in COLUMNS}
            _check_price(current, given, values)
            slug = given.get("workflow", current.workflow)
            workflow = await _lock_workflow(connection, slug, values["overrides"])
            values |= _priced(workflow, values["overrides"], values["price_formula"])
            row = await SQL["update_effect"].row(
                connection, EffectRow, id=current.id, workflow_id=workflow.id, **values
            )
            assert row is not None
            shown = {name: value for name, value in given.items() if name not in ("overrides", "description")}
            details = {"fields": sorted(given), **shown}
            await record(connection, actor, "effect.update", "effect", current.id, **details)
            warnings = await _warnings(connection, values["provider"]) if "provider" in given else []
        return self._record(row, [*warnings, *self._unmeasured(workflow, given.get("price_formula", ""))])

    def _unmeasured(self, workflow: LockedWorkflow, formula: str) -> list[str]:
        """A warning for each file that decides the price, and that is not measured on this control plane."""
        types = {each["key"]: each["type"] for each in workflow.properties}
        named = {each.key for each in measured_files(formula) if types[each.key] not in self._measured}
        return [
            f"Files of the type {types[key]} are not measured here, so every job of this effect is refused: the price "
            f"depends on {key}. Switch media.previews on; videos and sound also need PyAV."
            for key in sorted(named)
        ]

    async def delete(self, id_or_slug: str, actor: str) -> None:
        """Deletes an effect without jobs: the history of jobs refers to their effects."""
        async with self._databases.central.transaction() as connection:
            current = await SQL["lock_effect"].row(connection, EffectRow, **named(id_or_slug))
            if current is None:
                raise NotFound(f"There is no effect {id_or_slug!r}.")
            if current.has_jobs:
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
        return self._offer(row.listed)

    def _offer(self, row: ListedEffect) -> EffectOffer:
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
        """The recipe of the effect's jobs; None if the effect is not published."""
        row = await self._published(id_or_slug)
        return recipe_of(row) if row is not None else None

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


def _check_price(current: EffectRow, given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuses a change that leaves the price open."""
    has_cost, formula = "credits_cost" in given, values["price_formula"]
    if formula and has_cost:
        raise InvalidRequest.field("credits_cost", f"{ONE_PRICE} To remove the formula, send an empty text.")
    if current.price_formula and not formula and not has_cost:
        raise InvalidRequest.field("credits_cost", "Send the price that replaces the formula.")
    publishes = values["is_published"] and not current.is_published
    if publishes and values["credits_cost"] == 0 and not has_cost and not formula:
        raise InvalidRequest.field("credits_cost", NO_PRICE)


def _priced(workflow: LockedWorkflow, overrides: Mapping[str, Any], formula: str) -> dict[str, Any]:
    """The lowest price, if a formula calculates the price. Raises if a job might have no price."""
    if not formula:
        return {}
    properties = [Property.model_validate(each) for each in workflow.properties]
    try:
        return {"credits_cost": lowest_price(formula, properties, overrides)}
    except FormulaProblem as problem:
        raise InvalidRequest.field("price_formula", str(problem)) from None


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


async def _warnings(connection: Connection, provider: str) -> list[str]:
    """A warning if the provider has no workers, which is often a typing error.

    There is no warning for own engines: their workers are usually added after the first effect, and a fleet that is
    scaled to zero has no workers.
    """
    if provider == OWN_ENGINES or await SQL["provider_is_served"].value(connection, provider=provider):
        return []
    return [f"No worker serves the provider {provider!r}: jobs of this effect wait until one registers."]
