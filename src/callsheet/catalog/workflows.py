"""Workflows, which engines and actors run. Storage has the graph, and central has all other data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from callsheet.catalog.assets import check_assets
from callsheet.catalog.engines.environments import judge
from callsheet.catalog.engines.requirements import loaded_by, required_of
from callsheet.catalog.graph_store import MAX_GRAPH_BYTES, GraphStore, encoded
from callsheet.catalog.graphs import Graph, check_graph, normalized
from callsheet.catalog.pricing.formulas import FormulaProblem
from callsheet.catalog.pricing.ranges import lowest_price
from callsheet.catalog.properties import check_output, check_overrides, check_properties
from callsheet.catalog.proposing.reachable_nodes import check_reach
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.base import Page
from callsheet.wire.catalog import (
    FILES,
    CreateWorkflow,
    Property,
    UpdateWorkflow,
    WorkflowDetail,
    WorkflowSummary,
)
from callsheet.wire.errors import Conflict, FieldProblem, InUse, InvalidRequest, NotFound, WrongState
from callsheet.wire.worker.environment import Required, Requirements

SQL = statements("callsheet.catalog")
MAX_PROBLEMS = 50
# The fields of a row beside the name of its graph.
COLUMNS = (
    "name",
    "description",
    "is_active",
    "properties",
    "output_node_id",
    "output_extension",
    "output_mime_type",
    "keep_metadata",
    "run_limit_seconds",
    "lease_seconds",
    "max_attempts",
    "refund_on_cancel",
    "requirements",
)
# Null is a value of these fields: every output of the graph, or the value of the settings.
NULLABLE = {"output_node_id", "lease_seconds", "max_attempts"}


class WorkflowRow(NamedTuple):
    id: int
    slug: str
    name: str
    description: str
    is_active: bool
    comfyui_workflow_path: str | None
    properties: Any
    output_node_id: str | None
    output_extension: str
    output_mime_type: str
    keep_metadata: bool
    run_limit_seconds: int
    lease_seconds: int | None
    max_attempts: int | None
    refund_on_cancel: str
    requirements: Any
    required: Any
    created_at: datetime
    updated_at: datetime


class EffectOverrides(NamedTuple):
    slug: str
    overrides: Any
    price_formula: str


class Workflows:
    def __init__(self, databases: Databases, graphs: GraphStore):
        self._databases = databases
        self._graphs = graphs

    async def create(self, request: CreateWorkflow, actor: str) -> WorkflowDetail:
        values = request.model_dump(mode="json", include=set(COLUMNS))
        graph = checked(request.graph, request.properties, values)
        required = required_of(graph, request.properties, request.requirements)
        path = await self._graphs.write(request.slug, graph) if graph is not None else None
        await hit(Failpoint.CATALOG_BEFORE_ROW)
        async with self._databases.central.transaction() as connection:
            await _require_assets(connection, request.properties)
            row = await SQL["create_workflow"].row(
                connection,
                WorkflowRow,
                slug=request.slug,
                comfyui_workflow_path=path,
                required=_stored(required),
                models=loaded_by(graph, request.properties),
                **values,
            )
            if row is None:
                problem = FieldProblem("slug", "This slug is already in use.")
                raise Conflict(f"A workflow {request.slug!r} already exists.", errors=[problem])
            await judge(connection, row.id, required)
            await SQL["keep_version"].run(connection, id=row.id, actor=actor)
            await record(connection, actor, "workflow.create", "workflow", request.slug, graph=path)
        return WorkflowDetail(**row._asdict(), graph=graph, version=1)

    async def update(self, slug: str, request: UpdateWorkflow, actor: str) -> WorkflowDetail:
        """Replaces the given fields. The whole workflow is checked again, together with its effects."""
        given = request.model_dump(mode="json", exclude_unset=True)
        expected = given.pop("version", None)
        given = {name: value for name, value in given.items() if value is not None or name in NULLABLE}
        while True:
            row = await self._row(slug)
            updated = await self._try_update(row, given, expected, actor)
            # None if another request changed the workflow meanwhile: then this check used mixed values.
            if updated is not None:
                return updated

    async def _try_update(
        self, row: WorkflowRow, given: dict[str, Any], expected: int | None, actor: str
    ) -> WorkflowDetail | None:
        values = {name: given.get(name, getattr(row, name)) for name in COLUMNS}
        properties = [Property.model_validate(each) for each in values["properties"]]
        path = row.comfyui_workflow_path
        stored = await self._graphs.read(path) if path is not None else None
        graph = checked(given.get("graph", stored), properties, values)
        required = required_of(graph, properties, Requirements.model_validate(values["requirements"]))
        if "graph" in given and graph is not None:
            path = await self._graphs.write(row.slug, graph)
            await hit(Failpoint.CATALOG_BEFORE_ROW)
        async with self._databases.central.transaction() as connection:
            if "properties" in given:
                await SQL["lock_priced_effects"].column(connection, workflow_id=row.id)
            if await SQL["lock_workflow"].value(connection, id=row.id) != row.updated_at:
                return None
            # The workflow of an actor has no version before its first change.
            await SQL["keep_version"].run(connection, id=row.id, actor=None)
            current = await SQL["version_of_workflow"].value(connection, id=row.id)
            if expected is not None and expected != current:
                reason = f"Another request changed the workflow to version {current}. Read it again."
                raise WrongState(reason, errors=[FieldProblem("version", reason)])
            if "properties" in given:
                await _require_assets(connection, properties)
                await _require_effects_fit(connection, row.id, properties)
            changed = await SQL["update_workflow"].row(
                connection,
                WorkflowRow,
                id=row.id,
                comfyui_workflow_path=path,
                required=_stored(required),
                models=loaded_by(graph, properties),
                **values,
            )
            assert changed is not None
            await SQL["keep_version"].run(connection, id=row.id, actor=actor)
            version = await SQL["version_of_workflow"].value(connection, id=row.id)
            if _stored(required) != row.required:
                await judge(connection, row.id, required)
            details = {"fields": sorted(given), "graph": path, "is_active": values["is_active"]}
            await record(connection, actor, "workflow.update", "workflow", row.slug, **details)
        return WorkflowDetail(**changed._asdict(), graph=graph, version=version)

    async def delete(self, slug: str, actor: str) -> None:
        """Deletes a workflow that is inactive and was never used: the history of jobs refers to workflows. Its graph
        stays in storage under a key made of its content, so a workflow of the same slug and graph finds it again."""
        row = await self._row(slug)
        if slug.startswith("actor:"):
            raise WrongState(
                "This workflow belongs to an actor, and the next start creates it again. Deactivate it instead."
            )
        try:
            async with self._databases.central.transaction() as connection:
                if not await SQL["delete_workflow"].run(connection, id=row.id):
                    raise WrongState(f"Workflow {slug} is active. Deactivate it first.")
                await record(connection, actor, "workflow.delete", "workflow", slug)
        except asyncpg.ForeignKeyViolationError as violation:
            if violation.table_name == "effects":
                raise InUse(f"Workflow {slug} has effects. Delete them first, or leave it deactivated.") from None
            raise InUse(f"Workflow {slug} has jobs. Leave it deactivated instead.") from None

    async def get(self, slug: str) -> WorkflowDetail:
        row = await self._row(slug)
        async with self._databases.central.connection() as connection:
            version = await SQL["version_of_workflow"].value(connection, id=row.id)
        path = row.comfyui_workflow_path
        graph = await self._graphs.read(path) if path is not None else None
        return WorkflowDetail(**row._asdict(), graph=graph, version=version)

    async def list(
        self, is_active: bool | None, before: int | None, limit: int, *, with_actors: bool = False
    ) -> Page[WorkflowSummary]:
        """The workflows, newest first. Workflows of actors, which no engine runs, are listed only `with_actors`."""
        async with self._databases.central.ordinary() as connection:
            workflows = await SQL["list_workflows"].rows(
                connection,
                WorkflowSummary,
                is_active=is_active,
                before=before,
                limit=limit + 1,
                with_actors=with_actors,
            )
        items = workflows[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(workflows) > limit else None)

    async def _row(self, slug: str) -> WorkflowRow:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_workflow"].row(connection, WorkflowRow, slug=slug)
        if row is None:
            raise NotFound(f"There is no workflow {slug!r}.")
        return row


def _stored(required: Required | None) -> dict[str, Any] | None:
    return None if required is None else required.model_dump(mode="json")


def checked(graph: Graph | None, properties: Sequence[Property], values: dict[str, Any]) -> dict[str, Any] | None:
    """The graph in its stored form. Raises a refusal that names every problem."""
    if graph is None:
        if properties:
            raise InvalidRequest.field(
                "properties",
                "Properties need a graph, and this workflow has none. Add a graph, or omit the properties.",
            )
        return None
    problems = check_graph(graph)
    if not problems:
        graph = normalized(graph)
        output = values["output_node_id"], values["output_extension"], values["output_mime_type"]
        problems = [*check_properties(properties, graph), *check_output(graph, *output)]
        problems += check_reach(graph, values["output_node_id"])
        if len(encoded(graph)) > MAX_GRAPH_BYTES:
            problems.append(FieldProblem("graph", f"The graph must have at most {MAX_GRAPH_BYTES} bytes as JSON."))
    refuse(problems)
    return dict(graph)


def refuse(problems: Sequence[FieldProblem]) -> None:
    """Raises InvalidRequest if there are problems."""
    if problems:
        raise InvalidRequest.of(problems[:MAX_PROBLEMS])


async def _require_assets(connection: Connection, properties: Sequence[Property]) -> None:
    named = {
        f"properties.{number}.default": (each, str(each.default))
        for number, each in enumerate(properties)
        if each.type in FILES and each.default is not None
    }
    refuse(await check_assets(connection, named))


async def _require_effects_fit(connection: Connection, workflow_id: int, properties: Sequence[Property]) -> None:
    problems: list[FieldProblem] = []
    lowest: dict[str, int] = {}
    for effect in await SQL["effects_of_workflow"].rows(connection, EffectOverrides, workflow_id=workflow_id):
        wrong: list[object] = list(check_overrides(properties, effect.overrides))
        if effect.price_formula and not wrong:
            try:
                lowest[effect.slug] = lowest_price(effect.price_formula, properties, effect.overrides)
            except FormulaProblem as problem:
                wrong.append(f"Its price_formula: {problem}")
        reasons = (f"The effect {effect.slug!r} would no longer fit. {each}" for each in wrong)
        problems.extend(FieldProblem("properties", reason) for reason in reasons)
    refuse(problems)
    for slug, tokens in lowest.items():
        await SQL["set_lowest_price"].run(connection, workflow_id=workflow_id, slug=slug, credits_cost=tokens)
