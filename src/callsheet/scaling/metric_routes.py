"""`/api/admin/fleets/{fleet_id}/scaling/metric`, for external autoscalers."""

from __future__ import annotations

from fastapi import Query

from callsheet.fleet.operate.admin_routes import FleetId
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.plumbing.http.routing import Router
from callsheet.scaling.metric import FleetMetrics
from callsheet.scaling.policy import MAX_SECONDS
from callsheet.wire.fleet import FleetMetric


def metric_router(metrics: FleetMetrics, authentication: Authentication) -> Router:
    router = Router(
        prefix="/api/admin/fleets/{fleet_id}/scaling",
        tags=["admin"],
        dependencies=[authentication.may(Permission.SEE_FLEET_SIZE)],
    )

    @router.get("/metric")
    async def get_fleet_metric(
        fleet_id: FleetId,
        target_seconds: float = Query(
            120.0, ge=1, le=MAX_SECONDS, description="Seconds of queued work that each slot of a worker may have."
        ),
    ) -> FleetMetric:
        """How many workers the work of a fleet needs now, for an autoscaler such as KEDA."""
        return await metrics.get(fleet_id, target_seconds)

    return router
