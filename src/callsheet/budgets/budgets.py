"""The budgets of tenants: create, list, change and delete. What jobs take of them is decided by the functions beside
their tables, in the statements that hold tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Owner
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, FieldProblem, InvalidRequest, NotFound, QuotaExceeded
from callsheet.wire.money.budgets import Budget, BudgetPeriod, ChangeBudget, CreateBudget, OwnBudget, PastPeriod
from callsheet.wire.plurals import counted

SQL = statements("callsheet.budgets")
NAMES_SQL = statements("callsheet.budgets", "names_statements.sql")
# Each job of the tenant is compared with all of them.
MAX_BUDGETS = 200
MAX_PERIODS = 100
NO_BUDGET = "There is no such budget."


class BudgetRow(NamedTuple):
    id: UUID
    name: str
    user_id: UUID | None
    key_id: UUID | None
    provider: str | None
    period: str
    time_zone: str
    token_limit: int
    taken: int
    starts_at: datetime
    resets_at: datetime
    warned_at: datetime | None
    reached_at: datetime | None
    created_at: datetime


class NameRow(NamedTuple):
    id: UUID
    name: str


class Budgets:
    def __init__(self, databases: Databases, routing: TenantRouting, audit: AuditLog):
        self._databases = databases
        self._routing = routing
        self._audit = audit

    async def create(self, actor: str, tenant_id: UUID, wanted: CreateBudget) -> Budget:
        """Creates a budget, and then its line in the audit log.

        A process may crash between the two commits. The client then got no response and repeats the request, which
        finds the budget without its line, and writes the line.
        """
        pool = await self._routing.pool_of_tenant(tenant_id)
        await self._check_subjects(tenant_id, wanted)
        values = {"tenant_id": tenant_id, "token_limit": wanted.limit, **wanted.model_dump(exclude={"limit"})}
        async with pool.transaction() as connection:
            await SQL["lock_budgets"].run(connection, tenant_id=tenant_id)
            if not await SQL["has_time_zone"].value(connection, time_zone=wanted.time_zone):
                raise InvalidRequest.field(
                    "time_zone", "There is no such time zone. Use a name like Europe/Berlin or UTC."
                )
            number = await SQL["count_budgets"].value(connection, tenant_id=tenant_id)
            created = await SQL["create_budget"].value(connection, id=uuid7(), **values)
            if created is not None and number >= MAX_BUDGETS:
                detail = f"The tenant has {counted(number, 'budget')}, and the limit is {MAX_BUDGETS}. Delete one."
                raise QuotaExceeded("budgets", number, MAX_BUDGETS, detail)
            budget_id = created or await SQL["find_new_budget"].value(connection, **values)
        if budget_id is None:
            raise _name_is_taken(wanted.name)
        await hit(Failpoint.BUDGET_BEFORE_AUDIT)
        was_missing = await self._audit.add_if_missing(
            actor, "budget.create", "budget", budget_id, tenant_id, {}, **wanted.model_dump(mode="json")
        )
        if created is None and not was_missing:
            raise _name_is_taken(wanted.name)
        return await self.get(tenant_id, budget_id)

    async def page(self, tenant_id: UUID, cursor: UUID | None, limit: int) -> Page[Budget]:
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.ordinary() as connection:
            rows = await SQL["list_budgets"].rows(
                connection, BudgetRow, tenant_id=tenant_id, before=cursor, limit=limit + 1
            )
        shown = await self._views(tenant_id, rows[:limit])
        return Page(items=shown, next_cursor=str(shown[-1].id) if len(rows) > limit else None)

    async def get(self, tenant_id: UUID, budget_id: UUID) -> Budget:
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.ordinary() as connection:
            row = await SQL["get_budget"].row(connection, BudgetRow, tenant_id=tenant_id, id=budget_id)
        if row is None:
            raise NotFound(NO_BUDGET)
        [view] = await self._views(tenant_id, [row])
        return view

    async def periods(self, tenant_id: UUID, budget_id: UUID) -> list[PastPeriod]:
        pool = await self._routing.pool_of_tenant(tenant_id)
        await self._require(pool, tenant_id, budget_id)
        async with pool.ordinary() as connection:
            return await SQL["list_periods"].rows(
                connection, PastPeriod, tenant_id=tenant_id, id=budget_id, limit=MAX_PERIODS
            )

    async def change(self, actor: str, tenant_id: UUID, budget_id: UUID, wanted: ChangeBudget) -> Budget:
        pool = await self._routing.pool_of_tenant(tenant_id)
        changes = wanted.model_dump(exclude_none=True)
        async with pool.transaction() as connection:
            await SQL["lock_budgets"].run(connection, tenant_id=tenant_id)
            if wanted.name is not None and await SQL["name_is_taken"].value(
                connection, tenant_id=tenant_id, id=budget_id, name=wanted.name
            ):
                raise _name_is_taken(wanted.name)
            changed = await SQL["change_budget"].value(
                connection, tenant_id=tenant_id, id=budget_id, name=wanted.name, token_limit=wanted.limit
            )
        if changed is None:
            raise NotFound(NO_BUDGET)
        await self._audit.add(actor, "budget.change", "budget", budget_id, tenant_id, **changes)
        return await self.get(tenant_id, budget_id)

    async def delete(self, actor: str, tenant_id: UUID, budget_id: UUID) -> None:
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.transaction() as connection:
            await SQL["lock_budgets"].run(connection, tenant_id=tenant_id)
            name = await SQL["delete_budget"].value(connection, tenant_id=tenant_id, id=budget_id)
        if name is None:
            raise NotFound(NO_BUDGET)
        await self._audit.add(actor, "budget.delete", "budget", budget_id, tenant_id, name=name)

    async def of_user(self, owner: Owner) -> list[OwnBudget]:
        """The budgets that count jobs of a user. What other users took is for administrators only."""
        pool = await self._databases.pool(owner.pool)
        mine = {"tenant_id": owner.tenant_id, "user_id": owner.user_id}
        async with pool.ordinary() as connection:
            rows = await SQL["list_budgets_of_user"].rows(connection, BudgetRow, **mine, limit=MAX_BUDGETS)
        wanted = [row.key_id for row in rows if row.key_id is not None]
        keys: Mapping[UUID, str] = {}
        if wanted:
            async with self._databases.central.ordinary() as connection:
                found = await NAMES_SQL["keys_of_user"].rows(connection, NameRow, **mine, ids=wanted)
            keys = {row.id: row.name for row in found}
        return [_own_view(row, keys) for row in rows if row.key_id is None or row.key_id in keys]

    async def names(self, tenant_id: UUID, ids: Sequence[UUID]) -> Mapping[UUID, str]:
        """What people call these users, keys and effects. What was deleted is left out."""
        if not ids:
            return {}
        async with self._databases.central.ordinary() as connection:
            rows = await NAMES_SQL["names"].rows(connection, NameRow, tenant_id=tenant_id, ids=list(ids))
        return {row.id: row.name for row in rows}

    async def _check_subjects(self, tenant_id: UUID, wanted: CreateBudget) -> None:
        async with self._databases.central.connection() as connection:
            if wanted.user_id is not None and not await NAMES_SQL["user_of_tenant"].value(
                connection, tenant_id=tenant_id, user_id=wanted.user_id
            ):
                raise InvalidRequest.field("user_id", "The tenant has no such user.")
            if wanted.key_id is not None and not await NAMES_SQL["key_of_tenant"].value(
                connection, tenant_id=tenant_id, key_id=wanted.key_id
            ):
                raise InvalidRequest.field("key_id", "The tenant has no such API key, or it was revoked.")

    async def _require(self, pool: Database, tenant_id: UUID, budget_id: UUID) -> None:
        async with pool.ordinary() as connection:
            if await SQL["get_budget"].row(connection, BudgetRow, tenant_id=tenant_id, id=budget_id) is None:
                raise NotFound(NO_BUDGET)

    async def _views(self, tenant_id: UUID, rows: Sequence[BudgetRow]) -> list[Budget]:
        subjects = {each for row in rows for each in (row.user_id, row.key_id) if each is not None}
        names = await self.names(tenant_id, list(subjects))
        return [_view(row, names) for row in rows]


def _view(row: BudgetRow, names: Mapping[UUID, str]) -> Budget:
    return Budget(
        id=row.id,
        name=row.name,
        user_id=row.user_id,
        user=None if row.user_id is None else names.get(row.user_id),
        key_id=row.key_id,
        key=None if row.key_id is None else names.get(row.key_id),
        provider=row.provider,
        period=BudgetPeriod(row.period),
        time_zone=row.time_zone,
        limit=row.token_limit,
        taken=row.taken,
        left=max(0, row.token_limit - row.taken),
        starts_at=row.starts_at,
        resets_at=row.resets_at,
        warned_at=row.warned_at,
        reached_at=row.reached_at,
        created_at=row.created_at,
    )


def _own_view(row: BudgetRow, keys: Mapping[UUID, str]) -> OwnBudget:
    is_shared = row.user_id is None and row.key_id is None
    return OwnBudget(
        id=row.id,
        name=row.name,
        key_id=row.key_id,
        key=None if row.key_id is None else keys[row.key_id],
        provider=row.provider,
        is_shared=is_shared,
        period=BudgetPeriod(row.period),
        time_zone=row.time_zone,
        limit=None if is_shared else row.token_limit,
        taken=None if is_shared else row.taken,
        left=None if is_shared else max(0, row.token_limit - row.taken),
        resets_at=row.resets_at,
        is_warned=row.warned_at is not None,
        is_reached=row.reached_at is not None,
    )


def _name_is_taken(name: str) -> Conflict:
    reason = f"Another budget of the tenant has the name {name!r}. Choose another name."
    return Conflict(reason, errors=[FieldProblem("name", reason)])
