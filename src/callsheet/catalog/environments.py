"""Which workflows the environments of workers cannot run: decided when an environment is new or a workflow changes, so
that a poll reads what was decided. Workers of one machine image share one environment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from callsheet.catalog.requirements import Inventory, lacks
from callsheet.plumbing.sql import Connection, statements
from callsheet.wire.environment import Environment, Lack, Required

SQL = statements("callsheet.catalog", "environment_statements.sql")
# One that no worker has is kept for this long: machines come and go.
KEPT_SECONDS = 600.0


async def enter(connection: Connection, environment: Environment) -> bytes:
    """In a transaction: what it is known by from now on. The transaction makes a worker have it."""
    document = _document(environment)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).digest()
    if await SQL["use_environment"].value(connection, digest=digest) is not None:
        return digest
    # A workflow that is written at the same moment is judged by the transaction that comes second.
    await SQL["lock_environments"].run(connection)
    await SQL["create_environment"].run(connection, digest=digest, inventory=document)
    inventory = Inventory.of(environment)
    rows = await SQL["required_of_workflows"].rows(connection)
    found = {row["id"]: lacks(Required.model_validate(row["required"]), inventory) for row in rows}
    missing = {workflow_id: each for workflow_id, each in found.items() if each}
    await _write(connection, [digest] * len(missing), list(missing), missing.values())
    return digest


async def judge(connection: Connection, workflow_id: int, required: Required | None) -> None:
    """In the transaction that changes what the workflow requires. Workers that can run it from now on, or cannot any
    more, are notified at the commit."""
    await SQL["lock_environments"].run(connection)
    rows = await SQL["environments"].rows(connection) if required is not None else []
    found: dict[bytes, list[Lack]] = {}
    for row in rows:
        assert required is not None
        missing = lacks(required, Inventory.of(Environment.model_validate(row["inventory"])))
        if missing:
            found[row["digest"]] = missing
    before = await SQL["forget_lacks"].rows(connection, workflow_id=workflow_id)
    await _write(connection, list(found), [workflow_id] * len(found), found.values())
    changed = {row["digest"] for row in before} ^ set(found)
    if changed:
        await SQL["tell_workers_of_environments"].run(connection, digests=list(changed))


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


def _document(environment: Environment) -> Mapping[str, Any]:
    """The same for the same environment, in whatever order a worker lists it."""
    classes, models, versions = environment.node_classes, environment.models, environment.engine_versions
    named = None if models is None else sorted({model.name: model for model in models}.items())
    return {
        "node_classes": None if classes is None else sorted(set(classes)),
        "models": None if named is None else [model.model_dump(exclude_none=True) for _, model in named],
        "engine_versions": None if versions is None else sorted(set(versions)),
    }
