"""Decides what happens to a job whose graph an engine refused because the engine lacks a node class or a choice.

A refusal of an input of the workflow itself is a fact about the worker: the worker gets no further job of the workflow
until it reports its environment again. A refusal of a value of the job is a fact about this job only. Otherwise one
user could keep all workers away from a workflow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from callsheet.catalog.engines.environments import StoredEnvironment, enter_refusing
from callsheet.catalog.graph_store import GraphStore
from callsheet.dispatch.facts import DispatchState
from callsheet.fleet.protocol.authentication import WorkerPrincipal
from callsheet.fleet.registry.registry import ALIVE_SECONDS
from callsheet.fleet.registry.worker_log import Event, write
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.providers.comfy.models import is_model_file
from callsheet.wire.worker.environment import MAX_NAME_LENGTH, Lack
from callsheet.wire.worker.protocol import RefusedInput

FLEETS_CAPACITY_SQL = statements("callsheet.fleet.fleets", "capacity_statements.sql")
REGISTRY_REGISTRATION_SQL = statements("callsheet.fleet.registry", "registration_statements.sql")


class GraphOfWorkflow(NamedTuple):
    comfyui_workflow_path: str | None
    properties: Any


class RefusalVerdict(NamedTuple):
    # Whether another worker may run the job, now or after a missing file was installed.
    is_requeued: bool
    # Whether the worker gets no further job of the workflow.
    is_excluded: bool = False


class EngineRefusals:
    def __init__(self, databases: Databases, graphs: GraphStore):
        self._databases = databases
        self._graphs = graphs

    async def verdict(
        self, worker: WorkerPrincipal, dispatch: DispatchState, inputs: Sequence[RefusedInput]
    ) -> RefusalVerdict:
        """Excludes the worker from the workflow if its graph names something that the worker's engine refuses."""
        missing = await self._missing_for_workflow(dispatch.workflow_id, inputs)
        # A file or a package can be installed, and the job waits for that. Any other choice that no worker has is an
        # error in the graph.
        may_wait = any(lack.kind != "choice" for lack in missing)
        async with self._databases.central.transaction() as connection:
            is_elsewhere = await FLEETS_CAPACITY_SQL["is_runnable_elsewhere"].value(
                connection,
                dispatch_id=dispatch.dispatch_id,
                refused_by=[*dispatch.refused_by, worker.worker_id],
                alive_seconds=ALIVE_SECONDS,
            )
            if not missing or not (may_wait or is_elsewhere):
                return RefusalVerdict(bool(is_elsewhere))
            session = {"worker_id": worker.worker_id, "session_id": worker.session_id}
            known = await REGISTRY_REGISTRATION_SQL["environment_of_worker"].row(
                connection, StoredEnvironment, **session
            )
            if known is None:
                return RefusalVerdict(True)
            digest = await enter_refusing(connection, known, dispatch.workflow_id, missing)
            changed = await REGISTRY_REGISTRATION_SQL["exchange_environment"].value(
                connection, environment=digest, expected=known.digest, **session
            )
            if changed is not None:
                await REGISTRY_REGISTRATION_SQL["notify_worker_reassigned"].run(connection, worker_id=worker.worker_id)
                details = {"lacks": [lack.model_dump() for lack in missing]}
                event = Event(
                    worker.worker_id,
                    worker.session_id,
                    "workflow_excluded",
                    worker.actor,
                    dispatch.dispatch_id,
                    details,
                )
                await write(connection, [event])
        return RefusalVerdict(True, is_excluded=True)

    async def _missing_for_workflow(self, workflow_id: int, inputs: Sequence[RefusedInput]) -> list[Lack]:
        async with self._databases.central.connection() as connection:
            row = await FLEETS_CAPACITY_SQL["graph_of_workflow"].row(
                connection, GraphOfWorkflow, workflow_id=workflow_id
            )
        if row is None or row.comfyui_workflow_path is None:
            return []
        graph = await self._graphs.find(row.comfyui_workflow_path)
        placeholders = [str(each.get("placeholder")) for each in row.properties]
        return [] if graph is None else list(missing_for(graph, placeholders, inputs))


def missing_for(
    graph: Mapping[str, Any], placeholders: Sequence[str], inputs: Sequence[RefusedInput]
) -> Iterator[Lack]:
    """The refused inputs that the graph itself names. The values of placeholders come from jobs."""
    classes = {node["class_type"] for node in graph.values()}
    for refused in inputs:
        if refused.input_name is None:
            if refused.node_class in classes and len(refused.node_class) <= MAX_NAME_LENGTH:
                yield Lack(kind="node_class", name=refused.node_class)
            continue
        named = graph.get(refused.node_id, {}).get("inputs", {}).get(refused.input_name)
        if isinstance(named, list | dict) or named is None or str(named) != refused.value:
            continue
        if any(placeholder in refused.value for placeholder in placeholders):
            continue
        if is_model_file(refused.value):
            yield Lack(kind="model", name=refused.value[:MAX_NAME_LENGTH])
        else:
            choice = f"{refused.value} of {refused.node_class}.{refused.input_name}"
            yield Lack(kind="choice", name=choice[:MAX_NAME_LENGTH])
