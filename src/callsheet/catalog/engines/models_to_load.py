"""Computes what a worker would have to load for each workflow, from its report of loaded models."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.providers.comfy.models import short_hash

SQL = statements("callsheet.catalog.engines")

# The models of workflows are cached for this time.
KNOWN_SECONDS = 30.0


class WorkflowModels(NamedTuple):
    id: int
    models: Sequence[str]


class Warmth:
    def __init__(self, databases: Databases):
        self._databases = databases
        # The models of each workflow that has some, by their short hashes.
        self._models: Mapping[int, frozenset[str]] = {}
        self._due = 0.0

    async def cold(self, workflow_ids: Sequence[int], loaded: Collection[str]) -> Mapping[int, float]:
        """The share of models that are not loaded, by workflow. Empty if no model of any workflow is loaded."""
        if time.monotonic() >= self._due:
            await self._read()
        return cold_fractions(workflow_ids, self._models, frozenset(loaded))

    async def _read(self) -> None:
        # The time is set before the query, so that concurrent polls do not query too.
        self._due = time.monotonic() + KNOWN_SECONDS
        async with self._databases.central.connection() as connection:
            rows = await SQL["models_of_workflows"].rows(connection, WorkflowModels)
        self._models = {row.id: frozenset(map(short_hash, row.models)) for row in rows}


def cold_fractions(
    workflow_ids: Sequence[int], models: Mapping[int, frozenset[str]], loaded: frozenset[str]
) -> dict[int, float]:
    fractions = {
        workflow_id: len(models[workflow_id] - loaded) / len(models[workflow_id])
        for workflow_id in workflow_ids
        if workflow_id in models
    }
    return fractions if any(fraction < 1 for fraction in fractions.values()) else {}
