"""Builds the payload for a worker: defaults, then the effect's values, then the user's values; the filled graph and the
files.

Download URLs are signed when a worker polls, because they would expire while a job waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from callsheet.catalog.assets import ReadyAsset, ready_assets
from callsheet.catalog.graph_store import GraphStore
from callsheet.catalog.graphs import Graph
from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.placeholders import Filled, fill
from callsheet.catalog.properties import (
    DEFAULT_INPUT_PLACEHOLDER,
    Unfit,
    Value,
    an,
    fit,
    input_placeholder,
)
from callsheet.catalog.workflows import refuse
from callsheet.plumbing.database.databases import Databases
from callsheet.wire.catalog import FILES, Property, PropertyType
from callsheet.wire.errors import FieldProblem, Unavailable
from callsheet.wire.plurals import counted
from callsheet.wire.reasons import REQUIRED

FIELD = "input_payload"
ROUNDED_SECONDS = 0.5


class PayloadFile(Protocol):
    """The data of a user's file that a payload needs."""

    @property
    def id(self) -> UUID: ...
    @property
    def path(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def mime_type(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PropertyValues:
    """The values of all properties of a job. Files and assets are ids that are not looked up yet."""

    values: Mapping[str, Value]
    """The values that are put into the graph, by placeholder."""
    user_files: Mapping[str, UUID]
    """Files that the user named besides the primary input, by key."""
    assets: Mapping[str, UUID]
    """Assets of the catalog, by key."""


def resolve(recipe: EffectRecipe, given: Mapping[str, Any]) -> PropertyValues:
    """The values of all properties. Raises a refusal that names each wrong property as `input_payload.{key}`."""
    values, problems = resolved_as_far(recipe, given)
    refuse(problems)
    return values


def resolved_as_far(recipe: EffectRecipe, given: Mapping[str, Any]) -> tuple[PropertyValues, list[FieldProblem]]:
    """The values of the properties that are right, and the problems of the others."""
    by_key = {each.key: each for each in recipe.properties}
    problems = [
        FieldProblem(f"{FIELD}.{key[:100]}", reason) for key in given if (reason := _not_theirs(by_key.get(key)))
    ]
    values: dict[str, Value] = {}
    user_files: dict[str, UUID] = {}
    assets: dict[str, UUID] = {}
    for each in recipe.properties:
        if each.is_primary_input:
            continue
        try:
            value = _layered(each, recipe.overrides, given)
        except Unfit as unfit:
            problems.append(FieldProblem(f"{FIELD}.{each.key}", str(unfit)))
            continue
        if each.type not in FILES:
            values[each.placeholder] = value
        elif each.key in given:
            user_files[each.key] = UUID(str(value))
        else:
            assets[each.key] = UUID(str(value))
    return PropertyValues(values, user_files, assets), problems


def _not_theirs(each: Property | None) -> str | None:
    if each is None:
        return "This effect has no such property."
    if each.is_primary_input:
        return "This is the file that the effect works on. Send it as video_id or input_file_id."
    return None if each.user_configurable else "Users cannot set this property."


def _layered(each: Property, overrides: Mapping[str, Any], given: Mapping[str, Any]) -> Value:
    if each.user_configurable and each.key in given:
        return fit(each, given[each.key])
    value = overrides.get(each.key, each.default)
    if value is not None:
        return fit(each, value)
    if each.type is PropertyType.TEXT and not each.required:
        return ""
    raise Unfit(REQUIRED)


def check_file(
    field: str, each: Property, file: PayloadFile, duration_seconds: float | None = None
) -> list[FieldProblem]:
    """Problems of a user's file as the value of this property, as far as they are known."""
    if not file.mime_type.startswith(f"{each.type.value}/"):
        return [FieldProblem(field, f"The file must be {an(each.type)}, but it is {file.mime_type}.")]
    if each.limits.max_bytes is not None and file.size > each.limits.max_bytes:
        return [
            FieldProblem(field, f"The file has {counted(file.size, 'byte')}. The limit is {each.limits.max_bytes}.")
        ]
    max_seconds = each.limits.max_seconds
    # Containers round the duration, and a recorder may add half a second to the set time.
    if max_seconds is not None and duration_seconds is not None and duration_seconds > max_seconds + ROUNDED_SECONDS:
        name = "video" if each.type is PropertyType.VIDEO else "audio file"
        seconds = counted(round(duration_seconds, 1), "second")
        return [FieldProblem(field, f"The {name} is {seconds} long. The limit is {max_seconds:g}.")]
    return []


def filled(recipe: EffectRecipe, graph: Graph, values: Mapping[str, Value]) -> Filled:
    """The graph with the values of every text, number, choice and boolean. The placeholders of files stay for the
    worker.
    """
    of_files = {each.placeholder for each in recipe.properties if each.type in FILES} | {DEFAULT_INPUT_PLACEHOLDER}
    return fill(graph, values, of_files)


def listed(each: Property, placeholder: str, file: PayloadFile, kind: str) -> dict[str, Any]:
    """The entry of a file in `assets`. `placeholder`: the text in the graph of this job."""
    return {
        "key": each.key,
        "placeholder": placeholder,
        "type": each.type.value,
        "is_primary_input": each.is_primary_input,
        "path": file.path,
        "content_hash": file.sha256,
        kind: str(file.id),
        "name": file.name,
        "mime_type": file.mime_type,
    }


class Payloads:
    def __init__(self, databases: Databases, graphs: GraphStore):
        self._databases = databases
        self._graphs = graphs

    async def graph(self, recipe: EffectRecipe) -> Graph:
        """The stored graph with its placeholders. Callers must not change it."""
        return await self._graphs.read(recipe.graph_path)

    async def build(
        self,
        recipe: EffectRecipe,
        resolved: PropertyValues,
        primary: PayloadFile | None,
        user_files: Mapping[UUID, PayloadFile],
    ) -> dict[str, Any]:
        """The `input_payload` of the worker, with storage paths in the places of URLs."""
        graph, names = filled(recipe, await self._graphs.read(recipe.graph_path), resolved.values)
        assets = await self._catalog_assets(resolved)
        entries = []
        for each in recipe.properties:
            if each.is_primary_input and primary is not None:
                entries.append(listed(each, names[each.placeholder], primary, "file_id"))
            elif each.key in resolved.user_files:
                entries.append(
                    listed(each, names[each.placeholder], user_files[resolved.user_files[each.key]], "file_id")
                )
            elif each.key in resolved.assets:
                entries.append(listed(each, names[each.placeholder], assets[resolved.assets[each.key]], "asset_id"))
        return {
            "workflow": graph,
            "assets": entries,
            "output_node_id": recipe.output_node_id,
            "output_extension": recipe.output_extension,
            "output_mime_type": recipe.output_mime_type,
            "keep_metadata": recipe.keep_metadata,
            "input_path_placeholder": names[input_placeholder(recipe.properties)],
            "input_name": primary.name if primary else None,
            "input_mime_type": primary.mime_type if primary else None,
            "extra_data": {},
        }

    async def _catalog_assets(self, resolved: PropertyValues) -> Mapping[UUID, ReadyAsset]:
        wanted = set(resolved.assets.values())
        if not wanted:
            return {}
        async with self._databases.central.connection() as connection:
            found = await ready_assets(connection, wanted)
        if wanted - found.keys():
            raise Unavailable("An asset of this effect is missing. Ask an operator to choose another one.")
        return found
