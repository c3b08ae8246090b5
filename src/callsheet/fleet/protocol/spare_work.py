"""Finds out whether more jobs are queued than live workers can start. Only then may a worker prefetch."""

from __future__ import annotations

from typing import NamedTuple

from callsheet.dispatch.facts import Criteria
from callsheet.fleet.fleets.capacity import FleetCapacity
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements

SQL = statements("callsheet.fleet.protocol")

# Maximum number of jobs that are counted per lane. A fleet with more free slots than this does not need to prefetch.
MAX_COUNTED = 1000


class RouteQueue(NamedTuple):
    workflow_id: int
    provider: str
    queued: int


class SpareWork:
    def __init__(self, databases: Databases, capacity: FleetCapacity):
        self._databases = databases
        self._capacity = capacity

    async def exists(self, criteria: Criteria) -> bool:
        """Whether a route of these criteria has more queued jobs than free slots."""
        async with self._databases.central.connection() as connection:
            rows = await SQL["queued_by_route"].rows(
                connection,
                RouteQueue,
                workflow_ids=list(criteria.workflow_ids),
                stage=criteria.stage,
                providers=list(criteria.providers),
                max_rows=MAX_COUNTED,
            )
        queued = {(row.workflow_id, criteria.stage, row.provider): row.queued for row in rows if row.queued}
        crews = await self._capacity.of(list(queued))
        return any(count > max(0, crews[route].slots - crews[route].busy) for route, count in queued.items())
