"""Weights and limits of tenants that operators set."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.queue import Queue
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import NotFound
from callsheet.wire.operate.tenant_weights import ChangeTenantWeight, TenantWeight

SQL = statements("callsheet.dispatch.operate")


class StoredWeight(NamedTuple):
    """The terms that an operator set for a tenant. None means that the default applies."""

    weight: float
    max_running: int | None
    max_running_per_user: int | None


class TenantWeights:
    def __init__(self, central: Database, queue: Queue):
        self._central = central
        self._queue = queue

    async def get(self, tenant_id: UUID) -> TenantWeight:
        default = self._queue.leasing.slots.default_terms
        async with self._central.ordinary() as connection:
            weight = await SQL["weight_of_tenant"].row(
                connection,
                TenantWeight,
                tenant_id=tenant_id,
                max_running=default.max_running,
                max_running_per_user=default.max_running_per_user,
            )
        if weight is None:
            raise NotFound("There is no such tenant.")
        return weight

    async def change(self, actor: str, tenant_id: UUID, request: ChangeTenantWeight) -> TenantWeight:
        """Changes weight and limits. The change applies at once on this control plane, and within a second on the
        others.
        """
        changes = request.model_dump(exclude_unset=True)
        async with self._central.transaction() as connection:
            before = await SQL["lock_weight"].row(connection, StoredWeight, tenant_id=tenant_id)
            if before is None:
                raise NotFound("There is no such tenant.")
            after = before._asdict() | changes
            await SQL["set_weight"].run(connection, tenant_id=tenant_id, **{**after, "weight": after["weight"] or 1.0})
            if changes:
                await record(connection, actor, "tenant.share", "tenant", tenant_id, tenant_id, **changes)
        await self._queue.leasing.read_terms()
        return await self.get(tenant_id)
