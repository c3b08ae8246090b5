"""Lists the pools and whether this control plane can reach them."""

from __future__ import annotations

from typing import NamedTuple

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.operate.administration import PoolPlace

SQL = statements("callsheet.operate.installation", "central_statements.sql")


class PoolRow(NamedTuple):
    name: str
    tenants: int


async def read_pools(databases: Databases) -> list[PoolPlace]:
    async with databases.central.ordinary() as connection:
        rows = await SQL["list_pools"].rows(connection, PoolRow)
    away = databases.unavailable
    return [PoolPlace(name=row.name, tenants=row.tenants, is_available=row.name not in away) for row in rows]
