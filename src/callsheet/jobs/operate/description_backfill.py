"""Adds descriptions to jobs that were submitted before descriptions existed. They are derived from names and filled
graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.catalog.effects import EffectRecipe
from callsheet.catalog.graphs import Graph
from callsheet.catalog.room import CatalogRoom
from callsheet.jobs.show.descriptions import JobDescription, texts_in, texts_of
from callsheet.plumbing.backfills import Backfill, BackfillPlace
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.catalog import PropertyType

SQL = statements("callsheet.jobs.operate", "backfill_statements.sql")

BATCH = 100
# Maximum stored, compressed size of a payload. A graph has some kilobytes; a hundred of the largest payloads would not
# fit into memory.
MAX_PAYLOAD_BYTES = 65_536


class JobToDescribe(NamedTuple):
    """A job in key order. If it has a description or was deleted, the last three fields are None."""

    tenant_id: UUID
    id: UUID
    user_id: UUID
    kind: str
    actor: str | None
    effect_id: UUID | None
    is_bare: bool
    payload: Any
    input_names: Sequence[str] | None
    medium: str | None


class DescriptionBackfill(Backfill):
    name = "job_descriptions"
    batch = BATCH

    def __init__(self, pools: Callable[[], Sequence[Database]], catalog: CatalogRoom):
        super().__init__(pools)
        self._catalog = catalog

    async def fill(self, pool: Database, after: BackfillPlace) -> None:
        async with pool.ordinary() as connection:
            rows = await SQL["jobs_to_describe"].rows(
                connection, JobToDescribe, **after._asdict(), limit=self.batch, most_bytes=MAX_PAYLOAD_BYTES
            )
        described = await self._described([row for row in rows if row.is_bare])
        await hit(Failpoint.BACKFILL_READ_BEFORE_WRITE)
        async with pool.transaction() as connection:
            if not await self.hold(connection, after):
                return
            if described:
                await SQL["describe_jobs"].run(connection, jobs=described)
            last = BackfillPlace(rows[-1].tenant_id, rows[-1].id) if rows else None
            await self.move(connection, last)

    async def _described(self, rows: Sequence[JobToDescribe]) -> list[dict[str, Any]]:
        effects = {row.effect_id for row in rows if row.effect_id is not None}
        names = await self._catalog.effects.names_of(effects)
        sources = {effect_id: await self._source(effect_id) for effect_id in effects}
        found = []
        for row in rows:
            effect = None if row.effect_id is None else names.get(row.effect_id)
            description = JobDescription(
                title=effect.name if effect is not None else title_of(row),
                input_names=tuple(row.input_names or ()),
                texts=texts_of_job(row, None if row.effect_id is None else sources.get(row.effect_id)),
                medium=row.medium,
            )
            found.append({"tenant_id": str(row.tenant_id), "job_id": str(row.id), **description.as_json()})
        return found

    async def _source(self, effect_id: UUID) -> tuple[EffectRecipe, Graph] | None:
        """The current recipe and graph of this effect; None if one of them no longer exists."""
        recipe = await self._catalog.effects.recipe(str(effect_id))
        graph = None if recipe is None else await self._catalog.payloads.find_graph(recipe)
        return None if recipe is None or graph is None else (recipe, graph)


def title_of(row: JobToDescribe) -> str:
    return str(row.actor or row.kind).replace("_", " ").capitalize()


def texts_of_job(row: JobToDescribe, source: tuple[EffectRecipe, Graph] | None) -> Mapping[str, str]:
    payload = row.payload
    if not isinstance(payload, dict):
        return {}
    if row.effect_id is None:
        return texts_of(payload)
    if source is None or not isinstance(payload.get("workflow"), dict):
        return {}
    recipe, graph = source
    filled = texts_in(graph, payload["workflow"], [each.placeholder for each in recipe.properties])
    return {
        each.key: text
        for each in recipe.properties
        if each.user_configurable and each.type in (PropertyType.TEXT, PropertyType.CHOICE)
        # The effect set this value, not the user.
        if (text := filled.get(each.placeholder)) and text != recipe.overrides.get(each.key, each.default)
    }
