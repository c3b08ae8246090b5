"""The client of the commands for budgets of a tenant."""

from __future__ import annotations

from urllib.parse import quote, urlencode
from uuid import UUID

from callsheet.cli.shared.operations_client import OperationsClient
from callsheet.client.requests import given
from callsheet.wire.money.budgets import Budget, ChangeBudget, CreateBudget, TenantSpending


class BudgetClient(OperationsClient):
    async def budgets(self, tenant: str | None) -> list[Budget]:
        return await self.all_of(Budget, await self._budgets(tenant))

    async def create_budget(self, tenant: str | None, wanted: CreateBudget) -> Budget:
        return await self.post(Budget, await self._budgets(tenant), wanted.model_dump(mode="json"))

    async def change_budget(self, tenant: str | None, budget: UUID, wanted: ChangeBudget) -> Budget:
        body = wanted.model_dump(mode="json", exclude_none=True)
        return await self.ask(Budget, "PATCH", f"{await self._budgets(tenant)}/{budget}", body, repeat=True)

    async def delete_budget(self, tenant: str | None, budget: UUID) -> None:
        await self.request("DELETE", f"{await self._budgets(tenant)}/{budget}")

    async def spending(self, tenant: str | None, **filters: str | None) -> TenantSpending:
        query = urlencode(given(filters), quote_via=quote)
        return await self.ask(TenantSpending, "GET", f"{await self._of_tenant(tenant)}/spending?{query}")

    async def _budgets(self, tenant: str | None) -> str:
        return f"{await self._of_tenant(tenant)}/budgets"

    async def _of_tenant(self, tenant: str | None) -> str:
        tenant_id = (await self.me()).tenant_id if tenant is None else await self._tenant_id(tenant)
        return f"/api/admin/tenants/{tenant_id}"
