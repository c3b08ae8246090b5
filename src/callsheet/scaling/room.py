"""The parts that scale fleets, and their routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.registry import Collector

from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.scaling.autoscaler import Autoscaler
from callsheet.scaling.driver import Driver
from callsheet.scaling.drivers import open_drivers
from callsheet.scaling.drivers.process import RegistrationTokens
from callsheet.scaling.metric import FleetMetrics
from callsheet.scaling.metric_routes import metric_router
from callsheet.scaling.metrics import ScalingNumbers
from callsheet.scaling.routes import scaling_driver_router, scaling_router
from callsheet.scaling.rules import ScalingRules
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class ScalingRoom(Room):
    drivers: Mapping[str, Driver]
    rules: ScalingRules
    numbers: ScalingNumbers
    # None if the settings switch the autoscaler off.
    autoscaler: Autoscaler | None

    @property
    def loops(self) -> tuple[Loop, ...]:
        return () if self.autoscaler is None else (self.autoscaler,)

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return (self.numbers,)


def open_scaling(databases: Databases, settings: Settings, tokens: RegistrationTokens) -> ScalingRoom:
    drivers = open_drivers(settings, tokens)
    numbers = ScalingNumbers()
    autoscaler = Autoscaler(databases, drivers, settings.scaling, numbers, max_workers=settings.fleet.max_workers)
    return ScalingRoom(
        drivers, ScalingRules(databases, drivers), numbers, autoscaler if settings.scaling.autoscaler else None
    )


def scaling_routers(databases: Databases, scaling: ScalingRoom, authentication: Authentication) -> list[Router]:
    return [
        metric_router(FleetMetrics(databases), authentication),
        scaling_router(scaling.rules, authentication),
        scaling_driver_router(scaling.rules, authentication),
    ]
