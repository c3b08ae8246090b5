"""Published effects: as users see them, and as what jobs are built from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast
from uuid import UUID

from callsheet.catalog.properties import primary_input
from callsheet.media.previews.urls import PreviewUrls
from callsheet.wire.catalog import FILES, Property, RefundOnCancel
from callsheet.wire.effects import Effect, EffectInput, EffectOutput, EffectPreview, EffectProperty

SIDES = ("before", "after")


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
    price_formula: str
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

    listed: ListedEffect
    has_jobs: bool
    comfyui_workflow_path: str
    output_node_id: str | None
    output_extension: str
    keep_metadata: bool
    run_limit_seconds: int
    lease_seconds: int | None
    max_attempts: int | None


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an effect's jobs. `pricing.prices.price_of` calculates the price of one job."""

    # With a formula, the lowest price.
    tokens: int
    formula: str = ""


FREE = Price(0)


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
    price: Price
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


@dataclass(frozen=True, slots=True)
class EffectOffer:
    """An effect as users see it, and the route of its jobs: workflow, stage and provider."""

    effect: Effect
    route: tuple[int, str, str]


def effect_view(row: ListedEffect, preview: EffectPreview | None) -> Effect:
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
        price_formula=row.price_formula,
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


def recipe_of(row: PublishedEffect) -> EffectRecipe:
    effect = row.listed
    return EffectRecipe(
        effect_id=effect.id,
        name=effect.name,
        has_jobs=row.has_jobs,
        workflow_id=effect.workflow_id,
        is_active=effect.is_active,
        properties=tuple(Property.model_validate(each) for each in effect.properties),
        overrides=effect.overrides,
        price=Price(effect.credits_cost, effect.price_formula),
        provider=effect.provider,
        stage=effect.stage,
        run_limit_seconds=row.run_limit_seconds,
        lease_seconds=row.lease_seconds,
        max_attempts=row.max_attempts,
        refund_on_cancel=effect.refund_on_cancel,
        graph_path=row.comfyui_workflow_path,
        output_node_id=row.output_node_id,
        output_extension=row.output_extension,
        output_mime_type=effect.output_mime_type,
        keep_metadata=row.keep_metadata,
    )
