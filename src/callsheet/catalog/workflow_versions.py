"""The versions of a workflow. Each change creates one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from callsheet.catalog.graph_store import GraphStore
from callsheet.catalog.workflows import WorkflowRow
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.workflow_editing import WorkflowVersion, WorkflowVersionDetail

SQL = statements("callsheet.catalog")


class VersionRow(NamedTuple):
    version: int
    actor: str | None
    actor_email: str | None
    created_at: datetime
    name: str
    comfyui_workflow_path: str | None
    description: str
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


class WorkflowVersions:
    def __init__(self, databases: Databases, graphs: GraphStore):
        self._databases = databases
        self._graphs = graphs

    async def list(self, slug: str, before: int | None, limit: int) -> Page[WorkflowVersion]:
        """The versions, newest first. A workflow that has not changed since versions exist may have none."""
        async with self._databases.central.ordinary() as connection:
            versions = await SQL["list_versions"].rows(
                connection,
                WorkflowVersion,
                workflow_id=await _id_of(connection, slug),
                before=before,
                limit=limit + 1,
            )
        items = versions[:limit]
        return Page(items=items, next_cursor=str(items[-1].version) if len(versions) > limit else None)

    async def get(self, slug: str, version: int) -> WorkflowVersionDetail:
        async with self._databases.central.ordinary() as connection:
            row = await SQL["find_version"].row(
                connection, VersionRow, workflow_id=await _id_of(connection, slug), version=version
            )
        if row is None:
            raise NotFound(f"The workflow {slug!r} has no version {version}.")
        path = row.comfyui_workflow_path
        graph = await self._graphs.read(path) if path is not None else None
        return WorkflowVersionDetail(**row._asdict(), graph=graph)


async def _id_of(connection: Connection, slug: str) -> int:
    row = await SQL["find_workflow"].row(connection, WorkflowRow, slug=slug)
    if row is None:
        raise NotFound(f"There is no workflow {slug!r}.")
    return row.id
