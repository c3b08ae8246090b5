"""Reads the autoscaler's input: the scaled fleets, their workers and their queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from callsheet.fleet.registry import ALIVE_SECONDS, OWN_PREFIX
from callsheet.fleet.retiring import AUTOSCALER
from callsheet.plumbing.ownership import UNKNOWN_SYSTEM, Central
from callsheet.plumbing.sql import Connection, Row, statements
from callsheet.scaling.driver import ScaledFleet
from callsheet.scaling.memory import Memory, Registered, environments_of
from callsheet.scaling.policy import Policy
from callsheet.scaling.sharing import Queue, Server, WaitingRoute, share_out, share_places

SQL = statements("callsheet.scaling")
# More jobs of one route are not counted: this many are minutes of work for a thousand workers.
MOST_COUNTED = 20_000
# A fleet whose driver failed this often in a row gets no share of a queue that another fleet serves too.
FAILS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """The database in which an operator set up the scaling of a fleet (decision 0023 defines a place)."""

    installation_id: UUID
    system: int
    database: int

    def is_of(self, central: Central) -> bool:
        systems = (self.system, central.system)
        return (
            self.installation_id == central.installation_id
            and self.database == central.database
            and (systems[0] == systems[1] or UNKNOWN_SYSTEM in systems)
        )


@dataclass(frozen=True, slots=True)
class Scaled:
    """A scaled fleet as read from the database."""

    fleet: ScaledFleet
    is_active: bool
    updated_at: datetime
    place: Place
    now: float
    memory: Memory
    workers: Sequence[Registered]
    queue: Queue
    # How many more workers of the fleet may register; None: enough.
    places: int | None
    # The last decision: wanted, on-demand, cause.
    last: tuple[int | None, int | None, str | None]
    is_failing: bool


def policy_of(row: Row) -> Policy:
    return Policy(**{field.name: row[field.name] for field in fields(Policy)})


async def read_scaled(connection: Connection, most_workers: int) -> list[Scaled]:
    """`most_workers`: limit of registered workers in total (fleet.max_workers)."""
    rows = await SQL["list_scaled"].rows(connection)
    if not rows:
        return []
    found = await SQL["workers_of_scaled"].rows(connection, alive_seconds=ALIVE_SECONDS, autoscaler=AUTOSCALER)
    crews = {
        row["fleet_id"]: _Crew.of(row, [each for each in found if each["fleet_id"] == row["fleet_id"]]) for row in rows
    }
    lacks = await _lacks(connection, crews.values())
    routes = await SQL["waiting_routes"].rows(connection, most=MOST_COUNTED, alive_seconds=ALIVE_SECONDS)
    queues = share_out(
        [WaitingRoute(**route) for route in routes], [_server(row, crews[row["fleet_id"]], lacks) for row in rows]
    )
    registered = await SQL["count_registered"].value(connection, own_prefix=OWN_PREFIX)
    coming = sum(len(crew.memory.orders) for crew in crews.values())
    needs = {row["fleet_id"]: _need(row, crews[row["fleet_id"]], queues[row["fleet_id"]]) for row in rows}
    places = share_places(most_workers - registered - coming, needs)
    return [_scaled(row, crews[row["fleet_id"]], queues, places) for row in rows]


@dataclass(frozen=True, slots=True)
class _Crew:
    """The workers of a fleet, and the autoscaler's memory of them."""

    memory: Memory
    workers: Sequence[Registered]
    providers: frozenset[str]

    @classmethod
    def of(cls, row: Row, workers: Sequence[Row]) -> _Crew:
        names: tuple[str, ...] = Registered.__slots__
        return cls(
            memory=Memory.from_json(_json(row["memory"])),
            workers=[Registered(**{name: worker[name] for name in names}) for worker in workers],
            providers=frozenset((*row["providers"], *(name for worker in workers for name in worker["providers"]))),
        )

    @property
    def environments(self) -> tuple[str, ...]:
        return environments_of(self.memory, self.workers)


async def _lacks(connection: Connection, crews: Iterable[_Crew]) -> Mapping[str, frozenset[int]]:
    """The workflows that each environment cannot run.

    An environment that no worker has had for a while is deleted; a worker that then starts for such jobs reports it.
    """
    environments = sorted({each for crew in crews for each in crew.environments})
    if not environments:
        return {}
    rows = await SQL["lacks_of_environments"].rows(connection, environments=environments)
    return {each: frozenset(row["workflow_id"] for row in rows if row["environment"] == each) for each in environments}


def _server(row: Row, crew: _Crew, lacks: Mapping[str, frozenset[int]]) -> Server:
    lacked = [lacks[each] for each in crew.environments]
    return Server(
        fleet_id=row["fleet_id"],
        stage=row["stage"],
        workflow_ids=frozenset(row["workflow_ids"]),
        providers=crew.providers,
        weight=0.0 if row["driver_failures"] >= FAILS else float(row["maximum"]),
        lacked=frozenset.intersection(*lacked) if lacked else frozenset(),
    )


def _need(row: Row, crew: _Crew, queue: Queue) -> int:
    """Workers that the fleet may still order, if it has jobs or is below its minimum."""
    have = sum(worker.is_usable for worker in crew.workers) + len(crew.memory.orders)
    return max(0, row["maximum"] - have) if queue.jobs or have < row["minimum"] else 0


def _scaled(row: Row, crew: _Crew, queues: Mapping[int, Queue], places: Mapping[int, int | None]) -> Scaled:
    policy = policy_of(row)
    if not row["is_active"]:
        # Workers of an inactive fleet get no jobs.
        policy = replace(policy, minimum=0, on_demand_minimum=0)
    return Scaled(
        fleet=ScaledFleet(
            id=row["fleet_id"],
            slug=row["slug"],
            stage=row["stage"],
            policy=policy,
            driver=row["driver"],
            options=row["options"],
        ),
        is_active=row["is_active"],
        updated_at=row["updated_at"],
        place=Place(row["installation_id"], row["central_system"], row["central_database"]),
        now=row["now"],
        memory=crew.memory,
        workers=crew.workers,
        queue=queues[row["fleet_id"]],
        places=places[row["fleet_id"]],
        last=(row["wanted"], row["on_demand"], row["cause"]),
        is_failing=row["driver_failures"] > 0,
    )


def _json(kept: Any) -> Mapping[str, Any]:
    return kept if isinstance(kept, dict) else {}
