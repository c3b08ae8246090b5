"""`/api/admin/tenants/{tenant_id}/quotas`: the quotas of a tenant and their use."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.audit_log import actor_of
from callsheet.media.usage import WHOLE_TENANT, StorageUsage
from callsheet.plumbing.http.routing import Router
from callsheet.wire.identity import Tenant
from callsheet.wire.operate.quotas import ChangeQuotas, TenantQuotas

NO_TENANT = "There is no such tenant."


def quota_router(usage: StorageUsage, accounts: Accounts, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_TENANTS)
    manage = authentication.may(Permission.MANAGE_TENANTS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}/quotas", tags=["admin"])

    @router.get("")
    async def get_quotas(tenant_id: UUID, principal: Principal = see) -> TenantQuotas:
        """The limits of a tenant and its users, and the storage that its files use."""
        principal.reach(Permission.SEE_TENANTS, tenant_id, NO_TENANT)
        tenant = await accounts.get_tenant(tenant_id)
        return await quotas_view(usage, tenant, await usage.quotas.changed(tenant_id))

    @router.patch("")
    async def change_quotas(tenant_id: UUID, body: ChangeQuotas, principal: Principal = manage) -> TenantQuotas:
        """Sets limits of a tenant. They apply from now on. Nothing is deleted."""
        tenant = await accounts.get_tenant(tenant_id)
        return await quotas_view(usage, tenant, await usage.quotas.change(actor_of(principal), tenant_id, body))

    return router


async def quotas_view(usage: StorageUsage, tenant: Tenant, changed: Mapping[str, int]) -> TenantQuotas:
    storage = await usage.of(tenant.id, WHOLE_TENANT, tenant.pool)
    return TenantQuotas(
        tenant=tenant.slug,
        limits=usage.quotas.limits(changed),
        changed=dict(changed),
        database_bytes=storage and storage.database.bytes,
        storage=storage and storage.tenant,
    )
