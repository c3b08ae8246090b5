"""Who could take the jobs of a route now: for estimates, and to say why a job waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.fleet.registry import ALIVE_SECONDS
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import statements

SQL = statements("callsheet.fleet")


class Route(NamedTuple):
    workflow_id: int
    stage: str
    provider: str


@dataclass(frozen=True, slots=True)
class RouteCapacity:
    # Approved, not draining, and seen in the last 90 seconds or busy with a valid lease.
    live_workers: int
    # Jobs those can run at once, and jobs they have in hand (of any route).
    slots: int
    busy: int
    # Alive too, but they take no more jobs.
    draining: int
    # Whoever scales one of its fleets wants more workers than there are.
    scaling_up: bool


class Capacity:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def of(self, routes: Sequence[tuple[int, str, str]]) -> Mapping[tuple[int, str, str], RouteCapacity]:
        """Each route (workflow_id, stage, provider) that is asked for, in one statement."""
        wanted = [Route(*route) for route in dict.fromkeys(routes)]
        if not wanted:
            return {}
        async with self._databases.central.connection() as connection:
            rows = await SQL["capacity"].rows(
                connection,
                workflow_ids=[route.workflow_id for route in wanted],
                stages=[route.stage for route in wanted],
                providers=[route.provider for route in wanted],
                alive_seconds=ALIVE_SECONDS,
            )
        return {
            wanted[row["place"] - 1]: RouteCapacity(*(row[name] for name in RouteCapacity.__slots__)) for row in rows
        }
