"""`/api/admin/metrics` and `/api/admin/alerts`."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.fleet.overview import FleetOverview
from callsheet.identity.authentication import Authentication
from callsheet.identity.permissions import Permission
from callsheet.plumbing.routing import Router
from callsheet.wire.operations import Alerts, Metrics


def overview_router(overview: FleetOverview, authentication: Authentication) -> APIRouter:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_QUEUE)])

    @router.get("/metrics")
    async def get_metrics() -> Metrics:
        """Queues, workers and what finished in the last hour. Prometheus reads /metrics."""
        return await overview.metrics()

    @router.get("/alerts")
    async def get_alerts() -> Alerts:
        """The alerts, critical ones first. An empty list means that no action is needed."""
        return await overview.alerts()

    return router
