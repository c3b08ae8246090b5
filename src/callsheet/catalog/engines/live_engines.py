"""The abilities of the engines of online workers: how they declare the inputs of nodes, and what they lack."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.catalog.engines.requirements import ReportedInventory, all_lacks, importance, named
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.providers.comfy.node_forms import NodeForms, agreed, unpacked
from callsheet.wire.worker.environment import MAX_SHOWN, Environment, Lack, Required

SQL = statements("callsheet.catalog.engines")

# A worker counts as online for this time after its last request.
ALIVE_SECONDS = 90
# The provider of own engines. Workers of other providers do not report what they have.
PROVIDER = "self_hosted"
WAITING = "Its jobs wait until a worker can run it."
# Workers of one image share an environment, so few installations have more.
MAX_ENVIRONMENTS = 20


class EnvironmentRow(NamedTuple):
    workers: int
    inventory: Any
    node_forms: bytes | None


@dataclass(frozen=True, slots=True)
class LiveEngines:
    """None of an inventory: the workers do not report what they have, and get every job."""

    forms: NodeForms = field(default_factory=dict)
    workers: int = 0
    inventories: tuple[ReportedInventory | None, ...] = ()

    def warnings(self, required: Required | None) -> list[str]:
        """Says what the workflow requires and no engine has, for the operator who writes the workflow."""
        if required is None or not self.inventories:
            return []
        found: list[list[Lack]] = []
        for inventory in self.inventories:
            if inventory is None or not (lacks := list(all_lacks(required, inventory))):
                return []
            found.append(lacks)
        everywhere = [lack for lack in found[0] if all(lack in each for each in found)]
        if everywhere:
            return [f"No worker has {_listed(everywhere)}. {WAITING}"]
        # Each of the missing things exists at some engine.
        return [
            f"No worker has everything that this workflow requires. One lacks {_listed(min(found, key=len))}. {WAITING}"
        ]


def _listed(lacks: Sequence[Lack]) -> str:
    shown = [named(lack) for lack in sorted(lacks, key=importance)[:MAX_SHOWN]]
    if len(lacks) > MAX_SHOWN:
        shown.append(f"{len(lacks) - MAX_SHOWN} more")
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


class EngineRegister:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def read(self, classes: Iterable[str]) -> LiveEngines:
        """The known forms of these node classes, and the contents of the engines."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["live_environments"].rows(
                connection, EnvironmentRow, provider=PROVIDER, alive_seconds=ALIVE_SECONDS, limit=MAX_ENVIRONMENTS
            )
        # Decompressing and parsing megabytes would delay other requests.
        return await asyncio.to_thread(_known, rows, sorted(set(classes)))


def _known(rows: Sequence[EnvironmentRow], classes: Sequence[str]) -> LiveEngines:
    inventories = tuple(
        None if row.inventory is None else ReportedInventory.of(Environment.model_validate(row.inventory))
        for row in rows
    )
    forms = agreed(unpacked(row.node_forms, classes) for row in rows if row.node_forms is not None and classes)
    return LiveEngines(forms, sum(row.workers for row in rows), inventories)
