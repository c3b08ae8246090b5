"""The products of a user, which scrapes found."""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.generation import Product

SQL = statements("callsheet.tasks", "pool_statements.sql")


class Products:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def find(self, principal: Principal, product_id: UUID) -> Product | None:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            return await SQL["get_product"].row(
                connection, Product, tenant_id=principal.tenant_id, user_id=principal.user_id, id=product_id
            )

    async def get(self, principal: Principal, product_id: UUID) -> Product:
        found = await self.find(principal, product_id)
        if found is None:
            raise NotFound("There is no such product.")
        return found

    async def list(self, principal: Principal, before: UUID | None, limit: int) -> Page[Product]:
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            found = await SQL["list_products"].rows(
                connection,
                Product,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                before=before,
                limit=limit + 1,
            )
        return page_of(found, limit)

    async def delete(self, principal: Principal, product_id: UUID) -> None:
        pool = await self._databases.pool(principal.pool)
        async with pool.connection() as connection:
            gone = await SQL["delete_product"].run(
                connection, tenant_id=principal.tenant_id, user_id=principal.user_id, id=product_id
            )
        if not gone:
            raise NotFound("There is no such product.")
