"""`/api/admin/fleets/{fleet_id}/scaling`, for admins."""

from __future__ import annotations

from callsheet.fleet.operate.admin_routes import NUMBER_CURSOR, FleetId
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.scaling.rules import ScalingRules
from callsheet.wire.base import Page
from callsheet.wire.operate.scaling import FleetScaling, ScalingDecision, ScalingDriver, ScalingRequest


def scaling_driver_router(rules: ScalingRules, authentication: Authentication) -> Router:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_FLEET)])

    @router.get("/scaling-drivers")
    async def list_scaling_drivers() -> list[ScalingDriver]:
        """The drivers that can scale fleets of this installation, and the options of each."""
        return rules.drivers()

    return router


def scaling_router(rules: ScalingRules, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_FLEET)
    router = Router(
        prefix="/api/admin/fleets/{fleet_id}/scaling",
        tags=["admin"],
        dependencies=[authentication.may(Permission.SEE_FLEET)],
    )

    @router.get("")
    async def get_fleet_scaling(fleet_id: FleetId) -> FleetScaling:
        """The scaling rules of a fleet and its current state."""
        return await rules.get(fleet_id)

    @router.put("")
    async def set_fleet_scaling(fleet_id: FleetId, body: ScalingRequest, admin: Principal = manage) -> FleetScaling:
        """Sets all scaling rules of a fleet."""
        return await rules.put(fleet_id, body, actor_of(admin))

    @router.delete("", status_code=204)
    async def remove_fleet_scaling(fleet_id: FleetId, admin: Principal = manage) -> None:
        """Stops scaling a fleet. Its workers do not change."""
        await rules.remove(fleet_id, actor_of(admin))

    @router.get("/decisions")
    async def list_scaling_decisions(
        fleet_id: FleetId, cursor: int | None = NUMBER_CURSOR, limit: int = LIMIT
    ) -> Page[ScalingDecision]:
        """Decisions of the autoscaler for a fleet with their reasons, newest first."""
        return await rules.decisions(fleet_id, cursor, limit)

    return router
