"""Scaling rules of fleets: admins set, read and remove them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

from callsheet.fleet.fleets.retiring import reinstate
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.ownership import read_central
from callsheet.plumbing.database.sql import Connection
from callsheet.scaling.driver import Driver, OptionError
from callsheet.scaling.fleet_states import SQL, RuleColumns
from callsheet.scaling.policy import Policy, PolicyError
from callsheet.wire.base import Page
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.operate.scaling import FleetScaling, ScalingDecision, ScalingDriver, ScalingRequest

SHOWN_DECISIONS = 3


class ScalingRow(NamedTuple):
    fleet_id: int
    fleet_slug: str
    stage: str
    rules: RuleColumns
    updated_by: str
    updated_at: datetime
    wanted: int | None
    actual: int | None
    coming: int | None
    draining: int | None
    existing: int | None
    queued_jobs: int | None
    queued_seconds: float | None
    cause: str | None
    reason: str | None
    checked_at: datetime | None
    driver_error: str | None
    driver_failing_since: datetime | None


class DecisionRow(NamedTuple):
    id: int
    fleet_id: int
    at: datetime
    cause: str
    reason: str
    wanted: int
    on_demand: int
    serving: int
    coming: int
    queued_jobs: int
    queued_seconds: float
    drained: list[str]
    undrained: list[str]
    ended: list[str]


class ScalingRules:
    def __init__(self, databases: Databases, drivers: Mapping[str, Driver]):
        self._databases = databases
        self._drivers = drivers

    def drivers(self) -> list[ScalingDriver]:
        """The drivers in alphabetical order."""
        return [
            ScalingDriver(name=name, about=driver.about, options=dict(driver.options_schema()))
            for name, driver in sorted(self._drivers.items())
        ]

    async def get(self, fleet_id: int) -> FleetScaling:
        async with self._databases.central.ordinary() as connection:
            return await _scaling(connection, fleet_id)

    async def put(self, fleet_id: int, request: ScalingRequest, actor: str) -> FleetScaling:
        """Sets the rules from the next look on. They are valid for this database, even if it is a copy."""
        policy = _policy(request)
        options = self._options(request)
        async with self._databases.central.transaction() as connection:
            await _lock(connection, fleet_id)
            central = await read_central(connection, self._databases.central.dsn)
            rules = {**asdict(policy), "driver": request.driver, "options": options, "providers": request.providers}
            await SQL["save_scaling"].run(
                connection,
                **rules,
                fleet_id=fleet_id,
                installation_id=central.installation_id,
                central_system=central.system,
                central_database=central.database,
                updated_by=actor,
            )
            # The next worker may have another image: the operator has perhaps just corrected it.
            await SQL["forget_environments"].run(connection, fleet_id=fleet_id, environments=[])
            await record(connection, actor, "fleet.scale", "fleet", fleet_id, None, **rules)
            return await _scaling(connection, fleet_id)

    async def remove(self, fleet_id: int, actor: str) -> None:
        """Removes the rules. The workers stay; those that the autoscaler drained and is not ending take jobs again."""
        async with self._databases.central.transaction() as connection:
            await _lock(connection, fleet_id)
            if await SQL["remove_scaling"].row(connection, fleet_id=fleet_id) is None:
                raise _not_scaled()
            await reinstate(connection, await SQL["workers_of_fleet"].value(connection, fleet_id=fleet_id))
            await SQL["announce"].run(connection, fleet_id=fleet_id, wanted=None, next_worker_at=None)
            await record(connection, actor, "fleet.stop_scaling", "fleet", fleet_id, None)

    async def decisions(self, fleet_id: int, before: int | None, limit: int) -> Page[ScalingDecision]:
        """The decisions, newest first."""
        async with self._databases.central.ordinary() as connection:
            items = await _decisions(connection, fleet_id, before, limit + 1)
        cursor = str(items[limit - 1].id) if len(items) > limit else None
        return Page(items=items[:limit], next_cursor=cursor)

    def _options(self, request: ScalingRequest) -> Mapping[str, object]:
        driver = self._drivers.get(request.driver)
        if driver is None:
            known = ", ".join(sorted(self._drivers))
            raise InvalidRequest.field("driver", f"There is no driver {request.driver!r}. Available: {known}.")
        try:
            return driver.checked(request.options)
        except OptionError as error:
            raise InvalidRequest.field(f"options.{error.option}", error.reason) from None


def _policy(request: ScalingRequest) -> Policy:
    try:
        return Policy(**request.model_dump(exclude={"driver", "options", "providers"}))
    except PolicyError as error:
        raise InvalidRequest.field(error.field, error.reason) from None


async def _scaling(connection: Connection, fleet_id: int) -> FleetScaling:
    row = await SQL["get_scaling"].row(connection, ScalingRow, fleet_id=fleet_id)
    if row is None:
        raise _not_scaled()
    decisions = await _decisions(connection, fleet_id, None, SHOWN_DECISIONS)
    columns = row._asdict()
    return FleetScaling(**columns.pop("rules")._asdict(), **columns, decisions=decisions)


async def _decisions(connection: Connection, fleet_id: int, before: int | None, limit: int) -> list[ScalingDecision]:
    rows = await SQL["list_decisions"].rows(connection, DecisionRow, fleet_id=fleet_id, before=before, limit=limit)
    return [ScalingDecision(**row._asdict()) for row in rows]


async def _lock(connection: Connection, fleet_id: int) -> None:
    if await SQL["lock_fleet"].row(connection, fleet_id=fleet_id) is None:
        raise NotFound("There is no such fleet.")


def _not_scaled() -> NotFound:
    return NotFound("The fleet is not scaled: it has no rules. Set them with PUT /api/admin/fleets/{fleet_id}/scaling.")
