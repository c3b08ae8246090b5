"""Finds out which workflows the environments of workers cannot run. This is decided when an environment is new or a
workflow changes, so that a poll only reads the decision. Workers of one machine image share one environment.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from callsheet.catalog.engines.requirements import MAX_MISSING, ReportedInventory, lacks
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.worker.environment import Environment, Lack, Required

SQL = statements("callsheet.catalog.engines")
# An environment without workers is kept for this time, because machines come and go.
KEPT_SECONDS = 600.0
# The key of the workflows that an engine refused, in the stored environment of its worker.
REFUSED = "refused"


class RequiredRow(NamedTuple):
    id: int
    required: Any


class EnvironmentRow(NamedTuple):
    digest: bytes
    inventory: Any


class StoredEnvironment(NamedTuple):
    """The environment that a worker reported last. All fields are None if it reported none."""

    digest: bytes | None
    inventory: Any
    node_forms: bytes | None


async def enter(connection: Connection, environment: Environment) -> bytes:
    """Stores an environment, if it is new, and returns its digest. Run in the transaction that writes the worker."""
    return await _store(connection, _document(environment), _decoded(environment.node_forms))


async def enter_refusing(
    connection: Connection, known: StoredEnvironment, workflow_id: int, missing: Sequence[Lack]
) -> bytes:
    """Stores the environment of a worker whose engine refused a workflow although the environment has everything that
    the workflow requires. A change of the workflow ends the refusal, and so does the next report of the worker.
    """
    lacking = [lack.model_dump() for lack in missing[:MAX_MISSING]]
    inventory: Mapping[str, Any] = known.inventory or {}
    refused = {**inventory.get(REFUSED, {}), str(workflow_id): lacking}
    digest = await _store(connection, {**inventory, REFUSED: refused}, known.node_forms)
    # If the environment is older than the last change of the workflow, that change deleted this.
    await _write(connection, [digest], [workflow_id], [missing[:MAX_MISSING]])
    return digest


async def _store(connection: Connection, document: Mapping[str, Any], node_forms: bytes | None) -> bytes:
    forms = None if node_forms is None else hashlib.sha256(node_forms).hexdigest()
    text = json.dumps([document, forms], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    if await SQL["use_environment"].value(connection, digest=digest) is not None:
        return digest
    # If a workflow is written at the same time, the second of the two transactions compares both.
    await SQL["lock_environments"].run(connection)
    await SQL["create_environment"].run(connection, digest=digest, inventory=document, node_forms=node_forms)
    inventory = ReportedInventory.of(Environment.model_validate(document))
    workflows = await SQL["required_of_workflows"].rows(connection, RequiredRow)
    found = {row.id: lacks(Required.model_validate(row.required), inventory) for row in workflows}
    for workflow_id, lacking in document.get(REFUSED, {}).items():
        if int(workflow_id) in found:
            found[int(workflow_id)] = [Lack.model_validate(lack) for lack in lacking]
    missing = {workflow_id: each for workflow_id, each in found.items() if each}
    await _write(connection, [digest] * len(missing), list(missing), missing.values())
    return digest


async def judge(connection: Connection, workflow_id: int, required: Required | None) -> None:
    """Compares a workflow with all environments. Run in the transaction that changes the requirements. Workers that can
    run the workflow now, or no longer can, are notified at the commit."""
    await SQL["lock_environments"].run(connection)
    rows = await SQL["environments"].rows(connection, EnvironmentRow) if required is not None else []
    found: dict[bytes, list[Lack]] = {}
    for row in rows:
        assert required is not None
        missing = lacks(required, ReportedInventory.of(Environment.model_validate(row.inventory)))
        if missing:
            found[row.digest] = missing
    before = await SQL["forget_lacks"].column(connection, workflow_id=workflow_id)
    await _write(connection, list(found), [workflow_id] * len(found), found.values())
    changed = set(before) ^ set(found)
    if changed:
        await SQL["notify_workers_of_environments"].run(connection, digests=list(changed))


async def forget_unused(connection: Connection, seconds: float = KEPT_SECONDS) -> int:
    return await SQL["forget_unused_environments"].run(connection, seconds=seconds)


async def _write(
    connection: Connection, digests: Sequence[bytes], workflow_ids: Sequence[int], missing: Iterable[Sequence[Lack]]
) -> None:
    if digests:
        documents = [json.dumps([lack.model_dump() for lack in each]) for each in missing]
        await SQL["write_lacks"].run(
            connection, digests=list(digests), workflow_ids=list(workflow_ids), lacks=documents
        )


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _document(environment: Environment) -> Mapping[str, Any]:
    """The environment in a fixed order, so that the order in a worker's report does not matter."""
    classes, models, versions = environment.node_classes, environment.models, environment.engine_versions
    named = None if models is None else sorted({model.name: model for model in models}.items())
    return {
        "node_classes": None if classes is None else sorted(set(classes)),
        "models": None if named is None else [model.model_dump(exclude_none=True) for _, model in named],
        "engine_versions": None if versions is None else sorted(set(versions)),
    }
