"""Figures of tenants from central and from their pools: users, tokens, active jobs and storage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from callsheet.media.usage import WHOLE_TENANT
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import statements
from callsheet.wire.operate.administration import TenantFigures

CENTRAL_SQL = statements("callsheet.operate.installation", "central_statements.sql")
POOL_SQL = statements("callsheet.operate.installation", "pool_statements.sql")


class TenantRow(NamedTuple):
    id: UUID
    pool: str
    users: int


class FiguresRow(NamedTuple):
    tenant_id: UUID
    balance: Decimal
    held: Decimal
    active_jobs: int
    storage_bytes: int
    storage_files: int


class TenantFigureReader:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def read(self, tenant_ids: Sequence[UUID], only: UUID | None = None) -> list[TenantFigures]:
        """Figures in the given order, without tenants that do not exist. `only`: no other tenant is read."""
        async with self._databases.central.ordinary() as connection:
            rows = await CENTRAL_SQL["find_tenants"].rows(connection, TenantRow, tenant_ids=list(tenant_ids), only=only)
        by_pool = defaultdict[str, list[UUID]](list)
        for row in rows:
            by_pool[row.pool].append(row.id)
        figures = [each for pool, ids in by_pool.items() for each in await self._of_pool(pool, ids)]
        known = {each.tenant_id: each for each in figures}
        views = {row.id: _view(row, known.get(row.id)) for row in rows}
        return [views[each] for each in dict.fromkeys(tenant_ids) if each in views]

    async def _of_pool(self, pool: str, tenant_ids: list[UUID]) -> list[FiguresRow]:
        """The figures of one pool; empty while the pool is not available."""
        values = {"tenant_ids": tenant_ids, "whole_tenant": WHOLE_TENANT}
        try:
            async with (await self._databases.pool(pool)).ordinary() as connection:
                return await POOL_SQL["figures_of_tenants"].rows(connection, FiguresRow, **values)
        except DATABASE_AWAY:
            return []


def _view(row: TenantRow, figures: FiguresRow | None) -> TenantFigures:
    if figures is None:
        return TenantFigures(tenant_id=row.id, users=row.users)
    return TenantFigures(
        tenant_id=row.id,
        users=row.users,
        balance=int(figures.balance),
        held=int(figures.held),
        active_jobs=figures.active_jobs,
        storage_bytes=figures.storage_bytes,
        storage_files=figures.storage_files,
    )
