"""All routes of the fleet room: the worker protocol, and the routes for admins."""

from __future__ import annotations

from callsheet.fleet.operate.admin_routes import (
    admin_fleet_router,
    admin_worker_router,
    fleet_token_router,
    worker_log_router,
)
from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.fleet.operate.metrics_routes import WhyQueued, overview_router
from callsheet.fleet.room import FleetRoom
from callsheet.fleet.worker_api import WorkerApi
from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.http.routing import Router


def fleet_routers(
    fleet: FleetRoom,
    worker_api: WorkerApi,
    overview: FleetOverview,
    why_queued: WhyQueued,
    authentication: Authentication,
) -> list[Router]:
    return [
        worker_api.documented,
        overview_router(overview, why_queued, authentication),
        admin_worker_router(fleet.workers, authentication),
        worker_log_router(fleet.workers, authentication),
        admin_fleet_router(fleet.fleets, authentication),
        fleet_token_router(fleet.fleet_tokens, authentication),
    ]
