"""All routes of the fleet room: the worker protocol, and the routes for admins."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from callsheet.fleet.operate.admin_routes import (
    admin_fleet_router,
    admin_worker_router,
    fleet_token_router,
    worker_log_router,
)
from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.fleet.operate.metrics_routes import WhyQueued, overview_router
from callsheet.fleet.protocol.envelope import Envelope
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
from callsheet.fleet.registry.credentials import Credentials
from callsheet.fleet.registry.registration_routes import registration_router
from callsheet.fleet.room import FleetRoom
from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.http.edge import CallerCheck
from callsheet.settings import FleetSettings

WORKERS = "/api/worker/"


def fleet_routers(
    fleet: FleetRoom,
    protocol: WorkerProtocol,
    credentials: Credentials,
    overview: FleetOverview,
    why_queued: WhyQueued,
    authentication: Authentication,
    settings: FleetSettings,
) -> list[APIRouter]:
    envelope = Envelope(settings.answer_envelope)
    return [
        registration_router(fleet.registry, credentials, fleet.authentication, authentication, envelope),
        protocol.router,
        overview_router(overview, why_queued, authentication),
        admin_worker_router(fleet.workers, authentication),
        worker_log_router(fleet.workers, authentication),
        admin_fleet_router(fleet.fleets, authentication),
        fleet_token_router(fleet.fleet_tokens, authentication),
    ]


def check_of_workers(fleet: FleetRoom, credentials: Credentials, authentication: Authentication) -> CallerCheck:
    """Decides whose large bodies are read: those of workers, and of registrations with valid credentials."""

    async def check_caller(request: Request) -> None:
        if request.scope["path"] == f"{WORKERS}register":
            given = request.headers.get("x-fleet-secret")
            await credentials.of(given, request, authentication.client_address(request))
        else:
            await fleet.authentication.worker(request)

    return check_caller
