"""`/api/admin/metrics`: metrics as JSON."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.fleet.overview import FleetOverview
from callsheet.identity.authentication import Authentication
from callsheet.identity.permissions import Permission
from callsheet.plumbing.routing import Router
from callsheet.wire.operations import Metrics


def overview_router(overview: FleetOverview, authentication: Authentication) -> APIRouter:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_QUEUE)])

    @router.get("/metrics")
    async def get_metrics() -> Metrics:
        """Queues, workers, and the jobs that finished in the last hour. For Prometheus, use /metrics."""
        return await overview.metrics()

    return router
