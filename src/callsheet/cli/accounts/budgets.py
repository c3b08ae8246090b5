"""`callsheet budgets`: limits of what jobs of a tenant cost, and what they cost. HTTP only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import typer

from callsheet.cli.accounts.webhooks import TIMES, URL
from callsheet.cli.shared.console import checked, moment, out, print_json, print_table, require_consent
from callsheet.wire.money.budgets import Budget, BudgetPeriod, ChangeBudget, CreateBudget, SpendingBy
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.cli.shared.budget_client import BudgetClient

budgets = typer.Typer(
    help="Budgets of a tenant that you administer: limits of the tokens that jobs take in a period.",
    no_args_is_help=True,
)

TENANT = typer.Option(
    None, "--tenant", help="Short name or id of a tenant that you administer. Default: your own tenant."
)
AS_JSON = typer.Option(False, "--json", help="Print JSON.")
BUDGET = typer.Argument(help="Id of the budget.")


@budgets.command("list")
def list_budgets(tenant: str | None = TENANT, url: str | None = URL, as_json: bool = AS_JSON) -> None:
    """List the budgets with what is left of them, newest first."""

    async def work(client: BudgetClient) -> None:
        found = await client.budgets(tenant)
        if as_json:
            print_json(found)
            return
        print_table(
            ("id", "name", "counts", "period", "limit", "taken", "left", "resets"),
            [
                (
                    *(each.id, each.name, _counts(each), f"{each.period} ({each.time_zone})"),
                    *(each.limit, each.taken, each.left, moment(each.resets_at)),
                )
                for each in found
            ],
        )

    _with_client(url, work)


@budgets.command("create")
def create_budget(
    name: str = typer.Argument(help="Name of the budget, which a refused request shows."),
    limit: int = typer.Option(..., help="Most tokens that jobs take in one period."),
    period: BudgetPeriod = typer.Option(BudgetPeriod.MONTH, help="Length of a period. A week begins on Monday."),
    time_zone: str = typer.Option("UTC", help="Periods begin at midnight there, for example Europe/Berlin."),
    user: UUID | None = typer.Option(None, help="Only jobs of the user with this id."),
    key: UUID | None = typer.Option(None, help="Only jobs that the API key with this id submits."),
    provider: str | None = typer.Option(None, help="Only jobs that this provider executes, for example replicate."),
    tenant: str | None = TENANT,
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Create a budget. It counts jobs from now on."""
    wanted = checked(
        CreateBudget,
        name=name,
        limit=limit,
        period=period,
        time_zone=time_zone,
        user_id=user,
        key_id=key,
        provider=provider,
    )

    async def work(client: BudgetClient) -> None:
        _show(await client.create_budget(tenant, wanted), as_json)

    _with_client(url, work)


@budgets.command("change")
def change_budget(
    budget: UUID = BUDGET,
    name: str | None = typer.Option(None, help="New name."),
    limit: int | None = typer.Option(None, help="New limit. It applies from now on, also in the current period."),
    tenant: str | None = TENANT,
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Change the name or the limit of a budget."""
    wanted = checked(ChangeBudget, name=name, limit=limit)

    async def work(client: BudgetClient) -> None:
        _show(await client.change_budget(tenant, budget, wanted), as_json)

    _with_client(url, work)


@budgets.command("delete")
def delete_budget(
    budget: UUID = BUDGET,
    yes: bool = typer.Option(False, "--yes", "-y", help="Delete it without confirmation."),
    tenant: str | None = TENANT,
    url: str | None = URL,
) -> None:
    """Delete a budget. It limits no job any more."""
    require_consent(f"Delete budget {budget}?", "deleted", yes, "delete it")

    async def work(client: BudgetClient) -> None:
        await client.delete_budget(tenant, budget)
        out.print(f"Budget {budget} was deleted.")

    _with_client(url, work)


@budgets.command("spending")
def show_spending(
    by: SpendingBy = typer.Option(SpendingBy.EFFECT, help="What the tokens are summed by."),
    period: BudgetPeriod = typer.Option(BudgetPeriod.DAY, help="Length of a period. A week begins on Monday."),
    time_zone: str = typer.Option("UTC", help="Periods begin at midnight there, for example Europe/Berlin."),
    since: datetime | None = typer.Option(
        None, formats=TIMES, help="Jobs submitted at this time (UTC) or later. Default: 30 days ago."
    ),
    until: datetime | None = typer.Option(
        None, formats=TIMES, help="Jobs submitted before this time (UTC). Default: now."
    ),
    tenant: str | None = TENANT,
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Show what jobs cost by effect, key, provider or user. Refunds are left out."""

    async def work(client: BudgetClient) -> None:
        found = await client.spending(
            tenant, by=by, period=period, time_zone=time_zone, since=_utc(since), until=_utc(until)
        )
        if as_json:
            print_json(found)
            return
        print_table(
            ("first day", by.value, "jobs", "tokens"),
            [(each.first_day, each.name or each.subject, each.jobs, each.tokens) for each in found.rows],
        )
        out.print(f"{counted(found.tokens, 'token')} in total.")
        if not found.is_complete:
            out.print("There are more rows. Choose a shorter time with --since and --until.")

    _with_client(url, work)


def _show(budget: Budget, as_json: bool) -> None:
    if as_json:
        print_json(budget)
    else:
        left = f"{counted(budget.left, 'token')} of {budget.limit} left until {moment(budget.resets_at)}"
        out.print(f"Budget {budget.id} ({budget.name}): {left}.")


def _counts(budget: Budget) -> str:
    """Which jobs the budget counts."""
    user = budget.user or budget.user_id
    key = budget.key or budget.key_id
    subjects = {"user": user, "key": key, "provider": budget.provider}
    return ", ".join(f"{kind} {value}" for kind, value in subjects.items() if value is not None) or "all jobs"


def _utc(value: datetime | None) -> str | None:
    return None if value is None else f"{value:%Y-%m-%dT%H:%M:%S}Z"


def _with_client(url: str | None, work: Callable[[BudgetClient], Awaitable[None]]) -> None:
    from callsheet.cli.shared.budget_client import BudgetClient
    from callsheet.cli.shared.login import login_for

    async def run() -> None:
        login = login_for(url)
        async with BudgetClient(login.url, login.api_key) as client:
            await work(client)

    asyncio.run(run())
