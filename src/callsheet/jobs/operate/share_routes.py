"""`/api/admin/tenants/{tenant_id}/share`: the share of the workers that a tenant gets."""

from __future__ import annotations

from uuid import UUID

from callsheet.dispatch.tenant_weights import TenantShares
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.http.routing import Router
from callsheet.wire.operate.tenant_weights import ChangeShare, TenantShare


def share_router(shares: TenantShares, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_TENANTS)
    manage = authentication.may(Permission.MANAGE_TENANTS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}/share", tags=["admin"])

    @router.get("")
    async def get_share(tenant_id: UUID, principal: Principal = see) -> TenantShare:
        """Weight and limits of a tenant, and how many of its jobs run now."""
        principal.reach(Permission.SEE_TENANTS, tenant_id, "There is no such tenant.")
        return await shares.get(tenant_id)

    @router.patch("")
    async def change_share(tenant_id: UUID, body: ChangeShare, principal: Principal = manage) -> TenantShare:
        """Changes weight and limits of a tenant. They apply from the next lease; running jobs continue."""
        return await shares.change(actor_of(principal), tenant_id, body)

    return router
