"""`/api/admin/tenants/{tenant_id}/share`: the weight and the limits of a tenant in the queue."""

from __future__ import annotations

from uuid import UUID

from callsheet.dispatch.operate.tenant_weights import TenantWeights
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.http.routing import Router
from callsheet.wire.operate.tenant_weights import ChangeTenantWeight, TenantWeight


def tenant_weight_router(weights: TenantWeights, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_TENANTS)
    manage = authentication.may(Permission.MANAGE_TENANTS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}/share", tags=["admin"])

    @router.get("")
    async def get_tenant_weight(tenant_id: UUID, principal: Principal = see) -> TenantWeight:
        """Weight and limits of a tenant, and how many of its jobs run now."""
        principal.reach(Permission.SEE_TENANTS, tenant_id, "There is no such tenant.")
        return await weights.get(tenant_id)

    @router.patch("")
    async def change_tenant_weight(
        tenant_id: UUID, body: ChangeTenantWeight, principal: Principal = manage
    ) -> TenantWeight:
        """Changes weight and limits of a tenant. They apply from the next lease; running jobs continue."""
        return await weights.change(actor_of(principal), tenant_id, body)

    return router
