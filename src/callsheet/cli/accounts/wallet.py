"""`callsheet wallet`: adds tokens, and audits that no token was charged twice or kept for undelivered work."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final
from uuid import UUID

import typer

from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import checked, out, print_json, print_table
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted
from callsheet.wire.wallet import Credit, CreditResponse, Transaction

if TYPE_CHECKING:
    from callsheet.plumbing.database.database import Database
    from callsheet.plumbing.database.databases import Databases
    from callsheet.wallet.ledger import Holdings
    from callsheet.wallet.ledger_check import LedgerFinding

# Findings that the audit prints. A damaged table can have as many as it has rows.
FIRST: Final = 20

app = typer.Typer(help="Wallets and the ledger.", no_args_is_help=True)


@app.command("credit")
def credit_user(
    email: str = typer.Argument(help="E-mail address of the user."),
    amount: int = typer.Argument(help="Number of tokens to add."),
    reference: str | None = typer.Option(
        None, help="Id of the payment. Two credits with the same id count once. Default: a random id."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Add tokens to a user's wallet."""
    payment = reference or f"operator-{uuid.uuid4()}"
    request = checked(Credit, amount=amount, provider_transaction_id=payment)
    credited = asyncio.run(_credit(load_settings(), email.strip().lower(), request))
    if as_json:
        print_json(credited)
        return
    known = "This payment was already credited. " if credited.replayed else ""
    out.print(f"{known}{email} has {counted(credited.balance, 'token')}.")


async def _credit(settings: Settings, email: str, request: Credit) -> CreditResponse:
    from callsheet.identity.audit_log import OPERATOR, AuditLog
    from callsheet.wallet.credits import give_credit

    payment = request.provider_transaction_id
    assert payment is not None, "the command always names one"
    async with _wallet_owner(settings, email) as (databases, pool, tenant_id, user_id):
        audit_log = AuditLog(databases)
        return await give_credit(pool, audit_log, OPERATOR, tenant_id, user_id, request.amount, payment)


@app.command()
def balance(url: str | None = URL, as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Show your own balance, as you are logged in."""
    from callsheet.cli.shared.operations_client import with_operations

    wallet = with_operations(url, lambda client: client.wallet())
    if as_json:
        print_json(wallet)
    else:
        out.print(f"You have {counted(wallet.balance, 'token')}. Active jobs hold {wallet.held} more.")


@app.command()
def show(
    email: str = typer.Argument(help="E-mail address of the user."),
    limit: int = typer.Option(10, min=0, max=1000, help="Number of transactions to show, newest first."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show a user's wallet: the balance, the tokens that active jobs hold, and the last transactions."""
    holdings, lines = asyncio.run(_shown(load_settings(), email.strip().lower(), limit))
    if as_json:
        print_json({"email": email.strip().lower(), **asdict(holdings), "transactions": lines})
        return
    out.print(f"{email} has {counted(holdings.balance, 'token')}. Active jobs hold {holdings.held} more.")
    if lines:
        rows = [
            (f"{line.created_at:%Y-%m-%d %H:%M}", f"{line.amount:+d}", _kind(line), line.reference) for line in lines
        ]
        print_table(("time (UTC)", "tokens", "type", "job or payment"), rows)


def _kind(line: Transaction) -> str:
    return f"{line.type}, {line.kept} kept" if line.kept else line.type


async def _shown(settings: Settings, email: str, limit: int) -> tuple[Holdings, list[Transaction]]:
    from callsheet.wallet.ledger import holdings_of, transactions_of

    async with _wallet_owner(settings, email) as (_, pool, tenant_id, user_id):
        holdings = await holdings_of(pool, tenant_id, user_id)
        page = await transactions_of(pool, tenant_id, user_id, None, limit) if limit else None
        return holdings, page.items if page else []


@asynccontextmanager
async def _wallet_owner(settings: Settings, email: str) -> AsyncIterator[tuple[Databases, Database, UUID, UUID]]:
    from callsheet.identity.access.passwords import Passwords
    from callsheet.identity.accounts.accounts import Accounts
    from callsheet.identity.accounts.tenant_pools import TenantRouting
    from callsheet.plumbing.database.databases import open_installation

    databases = await open_installation(settings)
    try:
        accounts = Accounts(databases, Passwords())
        user = await accounts.find_user(email)
        owner = await accounts.owner_of(user.id) if user is not None else None
        if user is None or owner is None:
            raise OperatorError(f"There is no user {email!r}. List them: callsheet users list")
        yield databases, await TenantRouting(databases).pool_of_tenant(owner.tenant_id), owner.tenant_id, user.id
    finally:
        await databases.close()


@app.command()
def audit(
    everything: bool = typer.Option(False, "--all", help=f"Print every finding, not only the first {FIRST}."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with every finding."),
) -> None:
    """Check every wallet of every pool. If something is wrong, print the rows and exit with code 1."""
    pools, findings = asyncio.run(_audit(load_settings()))
    if as_json:
        print_json({"pools": pools, "findings": [asdict(finding) for finding in findings]})
    elif not findings:
        out.print(f"Every wallet in {', '.join(pools)} balances.")
    else:
        for line in audit_report(findings, len(findings) if everything else FIRST):
            out.print(line)
    if findings:
        raise typer.Exit(1)


def audit_report(findings: Sequence[LedgerFinding], max_findings: int) -> Iterator[str]:
    """The number of findings and wallets for each rule, then the first findings."""
    rules = Counter(finding.rule for finding in findings)
    wallets = {(finding.pool, finding.row["tenant_id"], finding.row["user_id"]) for finding in findings}
    of_rules = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
    yield f"{counted(len(findings), 'finding')} in {counted(len(wallets), 'wallet')}: {of_rules}."
    for finding in findings[:max_findings]:
        row = " ".join(f"{name}={value}" for name, value in finding.row.items())
        yield f"{finding.pool}: {finding.rule}: {row}"
    if len(findings) > max_findings:
        hidden = len(findings) - max_findings
        yield f"{hidden} more are not shown. To see every finding, run: callsheet wallet audit --all"


async def _audit(settings: Settings) -> tuple[list[str], list[LedgerFinding]]:
    from callsheet.plumbing.database.databases import open_installation
    from callsheet.wallet.ledger_check import audit as audit_pool

    databases = await open_installation(settings)
    try:
        findings = [finding for pool in databases.require_all() for finding in await audit_pool(pool)]
        return [pool.name for pool in databases.pools], findings
    finally:
        await databases.close()
