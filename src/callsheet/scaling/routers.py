"""All routes of the scaling room."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.scaling.metric import FleetMetrics
from callsheet.scaling.metric_routes import metric_router
from callsheet.scaling.room import ScalingRoom
from callsheet.scaling.routes import scaling_driver_router, scaling_router


def scaling_routers(databases: Databases, scaling: ScalingRoom, authentication: Authentication) -> list[Router]:
    return [
        metric_router(FleetMetrics(databases), authentication),
        scaling_router(scaling.rules, authentication),
        scaling_driver_router(scaling.rules, authentication),
    ]
