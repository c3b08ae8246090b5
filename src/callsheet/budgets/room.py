"""The budgets room: its parts, and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.budgets.budgets import Budgets
from callsheet.budgets.routes import budget_router, own_budget_router, spending_router
from callsheet.budgets.spending import SpendingReport
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.room import IdentityRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room


@dataclass(frozen=True, slots=True)
class BudgetsRoom(Room):
    budgets: Budgets
    spending: SpendingReport


def open_budgets(databases: Databases, identity: IdentityRoom) -> BudgetsRoom:
    budgets = Budgets(databases, identity.routing, identity.audit)
    return BudgetsRoom(budgets, SpendingReport(identity.routing, budgets))


def budget_routers(room: BudgetsRoom, authentication: Authentication) -> list[Router]:
    return [
        own_budget_router(room.budgets, authentication),
        budget_router(room.budgets, authentication),
        spending_router(room.spending, authentication),
    ]
