"""Finds the pool of a tenant, and changes what its row there says."""

from __future__ import annotations

from uuid import UUID

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import NotFound

SQL = statements("callsheet.identity.accounts")
POOL_SQL = statements("callsheet.identity.accounts", "pool_statements.sql")


class TenantRouting:
    """The pools of tenants. A tenant never moves to another pool, so a pool that was read once is cached forever."""

    def __init__(self, databases: Databases):
        self._databases = databases
        self._pools: dict[UUID, str] = {}

    async def pool_of_tenant(self, tenant_id: UUID) -> Database:
        name = self._pools.get(tenant_id)
        if name is None:
            async with self._databases.central.connection() as connection:
                name = await SQL["pool_of_tenant"].value(connection, tenant_id=tenant_id)
            if name is None:
                raise NotFound("There is no such tenant.")
            self._pools[tenant_id] = name
        return await self._databases.pool(name)


async def set_payer(pool: Database, tenant_id: UUID, *, is_tenant: bool) -> bool:
    """Sets whether the tenant pays for new jobs and retries of its users. Returns whether that is a change.

    Jobs that are active keep the wallet that they were paid from: it gets their refunds.
    """
    async with pool.transaction() as connection:
        changed = await POOL_SQL["set_pays_for_users"].value(connection, tenant_id=tenant_id, pays_for_users=is_tenant)
    return changed is not None
