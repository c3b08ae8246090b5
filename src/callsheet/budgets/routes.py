"""`/api/budgets` of users, `/api/admin/tenants/{tenant_id}/budgets` and `…/spending` of administrators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Depends, Query, Response

from callsheet.budgets.budgets import Budgets
from callsheet.budgets.spending import MAX_DAYS, SpendingReport, as_csv
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Moment, Page
from callsheet.wire.money.budgets import (
    ZONE_PATTERN,
    Budget,
    BudgetPeriod,
    ChangeBudget,
    CreateBudget,
    OwnBudgets,
    PastPeriods,
    SpendingBy,
    TenantSpending,
)

NO_TENANT = "There is no such tenant."
BY = Query(SpendingBy.EFFECT, description="What the tokens are summed by.")
PERIOD = Query(BudgetPeriod.DAY, description="The length of a period. A week begins on Monday.")
TIME_ZONE = Query(
    "UTC", pattern=ZONE_PATTERN, description="Periods begin at midnight there, for example `Europe/Berlin`."
)
CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
SINCE = Query(None, description=f"Only jobs that were submitted at this time or later, {MAX_DAYS} days at most.")
UNTIL = Query(None, description="Only jobs that were submitted before this time. Default: now.")


def own_budget_router(budgets: Budgets, authentication: Authentication) -> Router:
    router = Router(prefix="/api/budgets", tags=["budgets"])

    @router.get("")
    async def list_own_budgets(principal: Principal = Depends(authentication.user)) -> OwnBudgets:
        """The budgets that limit your jobs: yours, those of your API keys, and those of your whole tenant. A budget
        that counts jobs of other users, too, has no numbers here.
        """
        return OwnBudgets(budgets=await budgets.of_user(principal))

    return router


def budget_router(budgets: Budgets, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_WALLETS)
    manage = authentication.may_in_tenant(Permission.MANAGE_BUDGETS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}/budgets", tags=["budgets"])

    @router.post("", status_code=201, once=True)
    async def create_budget(tenant_id: UUID, body: CreateBudget, principal: Principal = manage) -> Budget:
        """Creates a limit of the tokens that jobs take in a day, a week or a month. It counts from now on."""
        principal.reach(Permission.MANAGE_BUDGETS, tenant_id, NO_TENANT)
        return await budgets.create(actor_of(principal), tenant_id, body)

    @router.get("")
    async def list_budgets(
        tenant_id: UUID, cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[Budget]:
        """The budgets of a tenant with what is left of them, newest first."""
        principal.reach(Permission.SEE_WALLETS, tenant_id, NO_TENANT)
        return await budgets.page(tenant_id, cursor, limit)

    @router.get("/{budget_id}")
    async def get_budget(tenant_id: UUID, budget_id: UUID, principal: Principal = see) -> Budget:
        """A budget: what is left of it, and when it resets."""
        principal.reach(Permission.SEE_WALLETS, tenant_id, NO_TENANT)
        return await budgets.get(tenant_id, budget_id)

    @router.get("/{budget_id}/periods")
    async def list_budget_periods(tenant_id: UUID, budget_id: UUID, principal: Principal = see) -> PastPeriods:
        """What was taken of a budget in each period."""
        principal.reach(Permission.SEE_WALLETS, tenant_id, NO_TENANT)
        return PastPeriods(periods=await budgets.periods(tenant_id, budget_id))

    @router.patch("/{budget_id}")
    async def change_budget(
        tenant_id: UUID, budget_id: UUID, body: ChangeBudget, principal: Principal = manage
    ) -> Budget:
        """Changes the name or the limit. To count other jobs or another period, create another budget."""
        principal.reach(Permission.MANAGE_BUDGETS, tenant_id, NO_TENANT)
        return await budgets.change(actor_of(principal), tenant_id, budget_id, body)

    @router.delete("/{budget_id}", status_code=204)
    async def delete_budget(tenant_id: UUID, budget_id: UUID, principal: Principal = manage) -> None:
        """Deletes a budget and its periods. It limits no job any more."""
        principal.reach(Permission.MANAGE_BUDGETS, tenant_id, NO_TENANT)
        await budgets.delete(actor_of(principal), tenant_id, budget_id)

    return router


def spending_router(report: SpendingReport, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_WALLETS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}", tags=["budgets"])

    async def read(
        tenant_id: UUID,
        by: SpendingBy = BY,
        period: BudgetPeriod = PERIOD,
        time_zone: str = TIME_ZONE,
        since: Moment | None = SINCE,
        until: Moment | None = UNTIL,
        principal: Principal = see,
    ) -> TenantSpending:
        principal.reach(Permission.SEE_WALLETS, tenant_id, NO_TENANT)
        return await report.read(tenant_id, by, period, time_zone, since, until)

    spending = Depends(read)

    @router.get("/spending")
    async def get_tenant_spending(spending: TenantSpending = spending) -> TenantSpending:
        """The tokens of jobs by key, effect, provider or user, by the time of their submission. Refunds are left out:
        a job that failed spent nothing. Default: the last 30 days.
        """
        return spending

    @router.get("/spending.csv", response_class=Response, responses=CSV)
    async def get_tenant_spending_as_csv(spending: TenantSpending = spending) -> Response:
        """The same as CSV."""
        headers = {"Content-Disposition": 'attachment; filename="spending.csv"'}
        return Response(as_csv(spending), media_type="text/csv; charset=utf-8", headers=headers)

    return router
