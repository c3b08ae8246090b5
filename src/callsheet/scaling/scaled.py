"""What the autoscaler reads before it decides: the scaled fleets, their workers, and their queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from callsheet.fleet.registry import ALIVE_SECONDS
from callsheet.fleet.retiring import AUTOSCALER
from callsheet.plumbing.ownership import UNKNOWN_SYSTEM, Central
from callsheet.plumbing.sql import Connection, Row, statements
from callsheet.scaling.driver import ScaledFleet
from callsheet.scaling.memory import Memory, Registered
from callsheet.scaling.policy import Policy
from callsheet.scaling.sharing import Queue, Server, WaitingRoute, share_out

SQL = statements("callsheet.scaling")
# More jobs of one route are not counted: so many are work for a thousand workers for minutes.
MOST_COUNTED = 20_000
# A driver that has failed so often in a row gets no share of a queue that another fleet serves too.
FAILS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator said that a fleet is to be scaled (decision 0023 says what a place is)."""

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
    """A scaled fleet as it was read."""

    fleet: ScaledFleet
    is_active: bool
    updated_at: datetime
    place: Place
    now: float
    memory: Memory
    workers: Sequence[Registered]
    queue: Queue
    # What was decided last: wanted, on-demand, and why.
    last: tuple[int | None, int | None, str | None]
    is_failing: bool


def policy_of(row: Row) -> Policy:
    return Policy(**{field.name: row[field.name] for field in fields(Policy)})


async def read_scaled(connection: Connection) -> list[Scaled]:
    rows = await SQL["list_scaled"].rows(connection)
    if not rows:
        return []
    workers = await SQL["workers_of_scaled"].rows(connection, alive_seconds=ALIVE_SECONDS, autoscaler=AUTOSCALER)
    routes = await SQL["waiting_routes"].rows(connection, most=MOST_COUNTED, alive_seconds=ALIVE_SECONDS)
    queues = share_out([WaitingRoute(**route) for route in routes], [_server(row, workers) for row in rows])
    return [_scaled(row, workers, queues) for row in rows]


def _server(row: Row, workers: Sequence[Row]) -> Server:
    providers = [name for worker in workers if worker["fleet_id"] == row["fleet_id"] for name in worker["providers"]]
    return Server(
        fleet_id=row["fleet_id"],
        stage=row["stage"],
        workflow_ids=frozenset(row["workflow_ids"]),
        providers=frozenset((*row["providers"], *providers)),
        weight=0.0 if row["driver_failures"] >= FAILS else float(row["maximum"]),
    )


def _scaled(row: Row, workers: Sequence[Row], queues: Mapping[int, Queue]) -> Scaled:
    policy = policy_of(row)
    if not row["is_active"]:
        # Its workers get no jobs: none of them is needed.
        policy = replace(policy, minimum=0, on_demand_minimum=0)
    names: tuple[str, ...] = Registered.__slots__
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
        memory=Memory.from_json(_json(row["memory"])),
        workers=[
            Registered(**{name: worker[name] for name in names})
            for worker in workers
            if worker["fleet_id"] == row["fleet_id"]
        ],
        queue=queues[row["fleet_id"]],
        last=(row["wanted"], row["on_demand"], row["cause"]),
        is_failing=row["driver_failures"] > 0,
    )


def _json(kept: Any) -> Mapping[str, Any]:
    return kept if isinstance(kept, dict) else {}
