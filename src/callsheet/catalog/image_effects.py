"""Published effects that make images, with the parts of their workflows that a step of a pipeline needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.catalog.graph_store import GraphStore
from callsheet.catalog.graphs import Graph
from callsheet.catalog.offers import property_view, show_preview
from callsheet.media.previews.urls import PreviewUrls
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.catalog import Property
from callsheet.wire.effects import EffectPreview, EffectProperty

SQL = statements("callsheet.catalog")


class ImageEffectRow(NamedTuple):
    id: UUID
    slug: str
    name: str
    description: str
    preview: Any
    overrides: Any
    credits_cost: int
    price_formula: str
    workflow: str
    is_active: bool
    properties: Any
    comfyui_workflow_path: str


@dataclass(frozen=True, slots=True)
class ImageEffect:
    id: UUID
    slug: str
    name: str
    description: str
    credits_cost: int
    price_formula: str
    is_active: bool
    workflow: str
    properties: tuple[Property, ...]
    overrides: dict[str, Any]
    graph: Graph
    preview: EffectPreview | None

    def view(self, each: Property) -> EffectProperty:
        return property_view(each, self.overrides)


class ImageEffects:
    def __init__(self, databases: Databases, graphs: GraphStore, preview_urls: PreviewUrls):
        self._databases = databases
        self._graphs = graphs
        self._preview_urls = preview_urls

    async def page(self, before: UUID | None, limit: int) -> tuple[Sequence[ImageEffect], UUID | None]:
        """The effects, newest first, and the cursor of the next page. An effect whose graph is missing is left out."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_image_effects"].rows(connection, ImageEffectRow, before=before, limit=limit + 1)
        found = [effect for row in rows[:limit] if (effect := await self._effect(row)) is not None]
        return found, rows[limit - 1].id if len(rows) > limit else None

    async def _effect(self, row: ImageEffectRow) -> ImageEffect | None:
        graph = await self._graphs.find(row.comfyui_workflow_path)
        if graph is None:
            return None
        return ImageEffect(
            id=row.id,
            slug=row.slug,
            name=row.name,
            description=row.description,
            credits_cost=row.credits_cost,
            price_formula=row.price_formula,
            is_active=row.is_active,
            workflow=row.workflow,
            properties=tuple(Property.model_validate(each) for each in row.properties),
            overrides=row.overrides,
            graph=graph,
            preview=show_preview(self._preview_urls, row.preview) if row.preview else None,
        )
