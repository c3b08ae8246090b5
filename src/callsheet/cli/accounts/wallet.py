"""`callsheet wallet`: adds tokens, and audits that no token was charged twice or kept for undelivered work."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final
from uuid import UUID

import typer

from callsheet.cli.accounts.accounts import known_user, no_such_user
from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import checked, out, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.wire.money.wallet import Credit, CreditResponse, Transaction
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms
    from callsheet.plumbing.database.database import Database
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
    credited = with_rooms(lambda rooms: _credit(rooms, email.strip().lower(), request))
    if as_json:
        print_json(credited)
        return
    known = "This payment was already credited. " if credited.replayed else ""
    out.print(f"{known}{email} has {counted(credited.balance, 'token')}.")


async def _credit(rooms: Rooms, email: str, request: Credit) -> CreditResponse:
    from callsheet.identity.audit_log import OPERATOR
    from callsheet.wallet.credits import give_credit

    payment = request.provider_transaction_id
    assert payment is not None, "the command always names one"
    pool, tenant_id, user_id = await _wallet_owner(rooms, email)
    return await give_credit(pool, rooms.accounts.audit, OPERATOR, tenant_id, user_id, request.amount, payment)


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
    holdings, lines = with_rooms(lambda rooms: _shown(rooms, email.strip().lower(), limit))
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


async def _shown(rooms: Rooms, email: str, limit: int) -> tuple[Holdings, list[Transaction]]:
    from callsheet.wallet.ledger import holdings_of, transactions_of

    pool, tenant_id, user_id = await _wallet_owner(rooms, email)
    holdings = await holdings_of(pool, tenant_id, user_id)
    page = await transactions_of(pool, tenant_id, user_id, None, limit) if limit else None
    return holdings, page.items if page else []


async def _wallet_owner(rooms: Rooms, email: str) -> tuple[Database, UUID, UUID]:
    user = await known_user(rooms, email)
    owner = await rooms.accounts.accounts.owner_of(user.id)
    if owner is None:
        raise no_such_user(email)
    return await rooms.accounts.routing.pool_of_tenant(owner.tenant_id), owner.tenant_id, user.id


@app.command()
def audit(
    everything: bool = typer.Option(False, "--all", help=f"Print every finding, not only the first {FIRST}."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with every finding."),
) -> None:
    """Check every wallet of every pool. If something is wrong, print the rows and exit with code 1."""
    pools, findings = with_rooms(_audit)
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


async def _audit(rooms: Rooms) -> tuple[list[str], list[LedgerFinding]]:
    from callsheet.wallet.ledger_check import audit as audit_pool

    findings = [finding for pool in rooms.databases.require_all() for finding in await audit_pool(pool)]
    return [pool.name for pool in rooms.databases.pools], findings
