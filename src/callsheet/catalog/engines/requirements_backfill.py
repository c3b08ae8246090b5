"""Reads the requirements of workflows that were written before requirements existed. This is done once per workflow."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from callsheet.catalog.engines.environments import judge
from callsheet.catalog.engines.requirements import loaded_by, required_of
from callsheet.catalog.graph_store import GraphStore
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.catalog import Property
from callsheet.wire.worker.environment import Requirements

log = get_logger(__name__)
SQL = statements("callsheet.catalog")


class UncheckedWorkflow(NamedTuple):
    id: int
    slug: str
    comfyui_workflow_path: str
    properties: Any
    requirements: Any
    updated_at: datetime


class UncheckedWorkflows(Loop):
    """Checks old workflows. Safe on any number of control planes. A workflow whose graph is missing does not change:
    every worker gets its jobs.
    """

    name = "unchecked_workflows"
    interval_seconds = 600.0
    batch = 20

    def __init__(self, databases: Databases, graphs: GraphStore):
        super().__init__()
        self._databases = databases
        self._graphs = graphs
        self._after = 0

    async def tick(self, now: datetime) -> bool:
        """Checks workflows. Returns whether there may be more."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["unchecked_workflows"].rows(
                connection, UncheckedWorkflow, after=self._after, limit=self.batch
            )
        for row in rows:
            self._after = row.id
            await self._check(row)
        if len(rows) < self.batch:
            self._after = 0
        return len(rows) == self.batch

    async def _check(self, row: UncheckedWorkflow) -> None:
        graph = await self._graphs.find(row.comfyui_workflow_path)
        if graph is None:
            log.warning("catalog.graph_missing", workflow=row.slug)
            return
        properties = [Property.model_validate(each) for each in row.properties]
        required = required_of(graph, properties, Requirements.model_validate(row.requirements))
        assert required is not None, "the workflow has a graph"
        async with self._databases.central.transaction() as connection:
            # A workflow that was changed meanwhile was checked at that change.
            if await SQL["lock_workflow"].value(connection, id=row.id) != row.updated_at:
                return
            await SQL["write_required"].run(
                connection, id=row.id, required=required.model_dump(mode="json"), models=loaded_by(graph, properties)
            )
            await judge(connection, row.id, required)
