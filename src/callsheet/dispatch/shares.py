"""Weights and limits of tenants that operators set."""

from __future__ import annotations

from uuid import UUID

from callsheet.dispatch.queue import Queue
from callsheet.identity.audit import record
from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import statements
from callsheet.wire.errors import NotFound
from callsheet.wire.shares import ChangeShare, TenantShare

SQL = statements("callsheet.dispatch", "share_statements.sql")


class TenantShares:
    def __init__(self, central: Database, queue: Queue):
        self._central = central
        self._queue = queue

    async def get(self, tenant_id: UUID) -> TenantShare:
        default = self._queue.leasing.default_terms
        async with self._central.ordinary() as connection:
            row = await SQL["share_of_tenant"].row(
                connection,
                tenant_id=tenant_id,
                max_running=default.max_running,
                max_running_per_user=default.max_running_per_user,
            )
        if row is None:
            raise NotFound("There is no such tenant.")
        return TenantShare(**row)

    async def change(self, actor: str, tenant_id: UUID, request: ChangeShare) -> TenantShare:
        """The change applies at once on this control plane, and within a second on the others."""
        changes = request.model_dump(exclude_unset=True)
        async with self._central.transaction() as connection:
            row = await SQL["hold_share"].row(connection, tenant_id=tenant_id)
            if row is None:
                raise NotFound("There is no such tenant.")
            after = {**row, **changes}
            await SQL["set_share"].run(connection, tenant_id=tenant_id, **{**after, "weight": after["weight"] or 1.0})
            if changes:
                await record(connection, actor, "tenant.share", "tenant", tenant_id, tenant_id, **changes)
        await self._queue.leasing.read_terms()
        return await self.get(tenant_id)
