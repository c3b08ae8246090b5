"""Counts the workers that could take the jobs of a route now: for estimates, to explain why a job waits, and to decide
whether a worker may prefetch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from callsheet.catalog.engines.requirements import missing_in, missing_text
from callsheet.dispatch.facts import Criteria
from callsheet.fleet.registry.registry import ALIVE_SECONDS
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.worker.environment import Lack, LackKind

SQL = statements("callsheet.fleet.fleets", "capacity_statements.sql")


class Route(NamedTuple):
    workflow_id: int
    stage: str
    provider: str


@dataclass(frozen=True, slots=True)
class RouteCapacity:
    # Approved, not draining, and seen in the last 90 seconds or busy with a valid lease.
    live_workers: int
    # Jobs that these workers can run at once, and how many of the slots are taken (by jobs of any route).
    slots: int
    busy: int
    # Workers that are alive but take no more jobs.
    draining: int
    # One of the route's fleets has fewer workers than wanted.
    scaling_up: bool
    # Live workers whose engines lack something that the workflow requires. `missing` names it if no worker can run the
    # workflow.
    unable: int = 0
    missing: str = ""
    # When the next starting worker is expected, from measured start times; None without a measurement.
    starts_in_seconds: float | None = None


class CapacityRow(NamedTuple):
    # Position of the route in the request, from 1.
    place: int
    live_workers: int
    slots: int
    busy: int
    draining: int
    scaling_up: bool
    unable: int
    starts_in_seconds: float | None

    def capacity(self) -> RouteCapacity:
        return RouteCapacity(
            live_workers=self.live_workers,
            slots=self.slots,
            busy=self.busy,
            draining=self.draining,
            scaling_up=self.scaling_up,
            unable=self.unable,
            starts_in_seconds=self.starts_in_seconds,
        )


class RouteLackRow(NamedTuple):
    place: int
    kind: LackKind
    name: str
    workers: int


class AbsentLackRow(NamedTuple):
    place: int
    lacks: Any


class FleetCapacity:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def of(self, routes: Sequence[tuple[int, str, str]]) -> Mapping[tuple[int, str, str], RouteCapacity]:
        """The capacity of each given route (workflow_id, stage, provider), in one statement."""
        wanted = [Route(*route) for route in dict.fromkeys(routes)]
        if not wanted:
            return {}
        async with self._databases.central.connection() as connection:
            rows = await SQL["capacity"].rows(
                connection,
                CapacityRow,
                workflow_ids=[route.workflow_id for route in wanted],
                stages=[route.stage for route in wanted],
                providers=[route.provider for route in wanted],
                alive_seconds=ALIVE_SECONDS,
            )
            found: dict[tuple[int, str, str], RouteCapacity] = {wanted[row.place - 1]: row.capacity() for row in rows}
            without = [route for route in wanted if not found[route].live_workers]
            lacking = [route for route in without if found[route].unable]
            absent = [route for route in without if not found[route].unable]
            if lacking:
                found |= await _with_missing(connection, lacking, found)
            if absent:
                found |= await _with_missing_of_absent(connection, absent, found)
            return found


async def _with_missing(
    connection: Connection, routes: Sequence[Route], crews: Mapping[tuple[int, str, str], RouteCapacity]
) -> dict[tuple[int, str, str], RouteCapacity]:
    rows = await SQL["lacks_of_routes"].rows(
        connection,
        RouteLackRow,
        workflow_ids=[route.workflow_id for route in routes],
        stages=[route.stage for route in routes],
        providers=[route.provider for route in routes],
        alive_seconds=ALIVE_SECONDS,
    )
    counts: dict[Route, list[tuple[Lack, int]]] = {route: [] for route in routes}
    for row in rows:
        counts[routes[row.place - 1]].append((Lack(kind=row.kind, name=row.name), row.workers))
    return {
        route: replace(crews[route], missing=missing_text(found, crews[route].unable))
        for route, found in counts.items()
    }


async def _with_missing_of_absent(
    connection: Connection, routes: Sequence[Route], crews: Mapping[tuple[int, str, str], RouteCapacity]
) -> dict[tuple[int, str, str], RouteCapacity]:
    """Adds the routes whose scaled fleets start no worker, because their last workers lacked something."""
    rows = await SQL["lacks_of_absent_workers"].rows(
        connection,
        AbsentLackRow,
        workflow_ids=[route.workflow_id for route in routes],
        stages=[route.stage for route in routes],
        providers=[route.provider for route in routes],
    )
    found: dict[Route, list[list[Lack]]] = {}
    for row in rows:
        found.setdefault(routes[row.place - 1], []).append([Lack.model_validate(lack) for lack in row.lacks])
    return {route: replace(crews[route], missing=missing_in(lacking)) for route, lacking in found.items()}


# Maximum number of jobs that are counted per lane. A fleet with more free slots than this does not need to prefetch.
MAX_COUNTED = 1000


class RouteQueue(NamedTuple):
    workflow_id: int
    provider: str
    queued: int


class SpareWork:
    """Whether more jobs are queued than live workers can start. Only then may a worker prefetch."""

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
