"""Reads the autoscaler's input: the scaled fleets, their workers and their queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.catalog.engines.requirements import missing_in
from callsheet.fleet.fleets.retiring import AUTOSCALER
from callsheet.fleet.registry.registry import ALIVE_SECONDS, OWN_PREFIX
from callsheet.plumbing.database.ownership import UNKNOWN_SYSTEM, Central
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.scaling.driver import ScaledFleet
from callsheet.scaling.memory import Memory, RegisteredWorker
from callsheet.scaling.policy import Policy
from callsheet.scaling.queue_split import FleetQueue, ServingFleet, WaitingRoute, split_places, split_queue
from callsheet.wire.worker.environment import Lack

SQL = statements("callsheet.scaling")
# More jobs of one route are not counted: this many are minutes of work for a thousand workers.
MAX_COUNTED = 20_000
# A fleet whose driver failed this often in a row gets no share of a queue that another fleet serves too.
FAILS = 3
# A fleet without workers, whose last workers could not run the jobs that wait, tries one worker after this time.
TRIAL_SECONDS = 6 * 3600.0
Lacks = Mapping[int, Sequence[Lack]]


@dataclass(frozen=True, slots=True)
class ScalingPlace:
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
class FleetState:
    """A scaled fleet as read from the database."""

    fleet: ScaledFleet
    is_active: bool
    updated_at: datetime
    place: ScalingPlace
    now: float
    memory: Memory
    workers: Sequence[RegisteredWorker]
    # Environments of its workers; if it has no worker, those of its last ones. Empty if they are not all known.
    environments: Sequence[str]
    queue: FleetQueue
    # How many more workers of the fleet may register; None: enough.
    places: int | None
    # The last decision: wanted, on-demand, cause.
    last: tuple[int | None, int | None, str | None]
    is_failing: bool


class RuleColumns(NamedTuple):
    """The scaling rules of a fleet."""

    driver: str
    options: Any
    providers: list[str]
    minimum: int
    maximum: int
    target_seconds: float
    warm_up_seconds: float
    scale_out_cooldown_seconds: float
    scale_in_cooldown_seconds: float
    idle_seconds: float
    on_demand_minimum: int
    spot_share: float

    @property
    def policy(self) -> Policy:
        return Policy(**{field.name: getattr(self, field.name) for field in fields(Policy)})


class ScaledFleetRow(NamedTuple):
    fleet_id: int
    slug: str
    stage: str
    is_active: bool
    now: float
    rules: RuleColumns
    installation_id: UUID
    central_system: int
    central_database: int
    updated_at: datetime
    memory: Any
    wanted: int | None
    on_demand: int | None
    cause: str | None
    driver_failures: int
    workflow_ids: list[int]
    environments: list[str]
    is_trial_due: bool

    @property
    def policy(self) -> Policy:
        policy = self.rules.policy
        # Workers of an inactive fleet get no jobs.
        return policy if self.is_active else replace(policy, minimum=0, on_demand_minimum=0)


class ScaledWorkerRow(NamedTuple):
    fleet_id: int
    id: str
    slots: int
    providers: list[str]
    is_spot: bool
    registered_at: float
    busy: int
    is_usable: bool
    is_drained: bool
    is_retired: bool
    is_ending: bool
    environment: str | None
    ended_leases: int
    ended_seconds: float

    @property
    def registered(self) -> RegisteredWorker:
        names: tuple[str, ...] = RegisteredWorker.__slots__
        return RegisteredWorker(**{name: getattr(self, name) for name in names})


class CountedRoute(NamedTuple):
    workflow_id: int
    stage: str
    provider: str
    jobs: int
    average_seconds: float | None


class FreeSlots(NamedTuple):
    workflow_id: int
    stage: str
    provider: str
    slots: int


class EnvironmentLacksRow(NamedTuple):
    environment: str
    workflow_id: int
    lacks: Any


async def read_fleets(connection: Connection, max_workers: int) -> list[FleetState]:
    """`max_workers`: limit of registered workers in total (fleet.max_workers)."""
    rows = await SQL["list_scaled"].rows(connection, ScaledFleetRow, trial_seconds=TRIAL_SECONDS)
    if not rows:
        return []
    found = await SQL["workers_of_scaled"].rows(
        connection, ScaledWorkerRow, alive_seconds=ALIVE_SECONDS, autoscaler=AUTOSCALER
    )
    fleets = [_Fleet.of(row, [worker for worker in found if worker.fleet_id == row.fleet_id]) for row in rows]
    lacks = await _lacks(connection, {each for fleet in fleets for each in fleet.environments})
    routes = await _waiting_routes(connection)
    queues = split_queue(routes, [_serving(fleet, lacks) for fleet in fleets])
    registered = await SQL["count_registered"].value(connection, own_prefix=OWN_PREFIX)
    coming = sum(len(fleet.memory.orders) for fleet in fleets)
    needs = {fleet.row.fleet_id: _need(fleet, queues[fleet.row.fleet_id]) for fleet in fleets}
    places = split_places(max_workers - registered - coming, needs)
    return [_state(fleet, queues[fleet.row.fleet_id], places[fleet.row.fleet_id]) for fleet in fleets]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """A fleet, its workers, and the autoscaler's memory of them."""

    row: ScaledFleetRow
    memory: Memory
    workers: Sequence[RegisteredWorker]
    providers: frozenset[str]
    environments: tuple[str, ...]

    @classmethod
    def of(cls, row: ScaledFleetRow, workers: Sequence[ScaledWorkerRow]) -> _Fleet:
        return cls(
            row=row,
            memory=Memory.from_json(row.memory if isinstance(row.memory, dict) else {}),
            workers=[worker.registered for worker in workers],
            providers=frozenset((*row.rules.providers, *(name for worker in workers for name in worker.providers))),
            environments=_environments(row.environments, [worker.environment for worker in workers]),
        )


def _environments(kept: Iterable[str], reported: Iterable[str | None]) -> tuple[str, ...]:
    """The environments that the workers report. If there is no worker: those of the last workers, which new workers
    will have.
    """
    found = set(reported)
    if not found:
        return tuple(kept)
    return tuple(sorted(each for each in found if each is not None)) if None not in found else ()


async def _waiting_routes(connection: Connection) -> list[WaitingRoute]:
    counted = await SQL["waiting_routes"].rows(connection, CountedRoute, max_rows=MAX_COUNTED)
    free = await SQL["free_slots_elsewhere"].rows(
        connection,
        FreeSlots,
        workflow_ids=[route.workflow_id for route in counted],
        stages=[route.stage for route in counted],
        providers=[route.provider for route in counted],
        alive_seconds=ALIVE_SECONDS,
    )
    slots = {(row.workflow_id, row.stage, row.provider): row.slots for row in free}
    return [WaitingRoute(*route, free_elsewhere=slots[route[:3]]) for route in counted]


async def _lacks(connection: Connection, environments: Iterable[str]) -> Mapping[str, Lacks]:
    """The workflows that each environment cannot run, with what is missing."""
    found: dict[str, dict[int, Sequence[Lack]]] = {each: {} for each in environments}
    if found:
        for row in await SQL["lacks_of_environments"].rows(connection, EnvironmentLacksRow, environments=sorted(found)):
            found[row.environment][row.workflow_id] = [Lack.model_validate(lack) for lack in row.lacks]
    return found


def _serving(fleet: _Fleet, lacks: Mapping[str, Lacks]) -> ServingFleet:
    row = fleet.row
    of_each = [lacks[each] for each in fleet.environments]
    lacked = frozenset.intersection(*(frozenset(each) for each in of_each)) if of_each else frozenset()
    return ServingFleet(
        fleet_id=row.fleet_id,
        stage=row.stage,
        workflow_ids=frozenset(row.workflow_ids),
        providers=fleet.providers,
        weight=0.0 if row.driver_failures >= FAILS else float(row.rules.maximum),
        lacked={workflow: missing_in([each[workflow] for each in of_each]) for workflow in lacked},
        is_trial_due=row.is_trial_due and not fleet.workers,
    )


def _need(fleet: _Fleet, queue: FleetQueue) -> int:
    """Workers that the fleet may still order, if it has jobs or is below its minimum."""
    have = sum(worker.is_usable for worker in fleet.workers) + len(fleet.memory.orders)
    rules = fleet.row.rules
    return max(0, rules.maximum - have) if queue.jobs or have < rules.minimum else 0


def _state(fleet: _Fleet, queue: FleetQueue, places: int | None) -> FleetState:
    row = fleet.row
    return FleetState(
        fleet=ScaledFleet(
            id=row.fleet_id,
            slug=row.slug,
            stage=row.stage,
            policy=row.policy,
            driver=row.rules.driver,
            options=row.rules.options,
        ),
        is_active=row.is_active,
        updated_at=row.updated_at,
        place=ScalingPlace(row.installation_id, row.central_system, row.central_database),
        now=row.now,
        memory=fleet.memory,
        workers=fleet.workers,
        environments=fleet.environments,
        queue=queue,
        places=places,
        last=(row.wanted, row.on_demand, row.cause),
        is_failing=row.driver_failures > 0,
    )
