"""`callsheet wallet`: adds tokens, and audits that no token was charged twice or kept for undelivered work."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import typer

from callsheet.cli.accounts.accounts import AS_JSON, known_tenant, known_user
from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import checked, out, print_json, print_table
from callsheet.cli.shared.rooms import with_rooms
from callsheet.wire.money.wallet import ChangeTenantWallet, Credit, CreditResponse, Transaction, Wallet
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.app.rooms import Rooms
    from callsheet.wallet.credits import OwnedWallet
    from callsheet.wallet.ledger import Holdings
    from callsheet.wallet.ledger_check import LedgerFinding

# Findings that the audit prints. A damaged table can have as many as it has rows.
FIRST: Final = 20

OWNER = typer.Argument(help="E-mail address of the user, or with --tenant the short name of the tenant.")
OF_TENANT = typer.Option(False, "--tenant", help="The wallet of a tenant.")

app = typer.Typer(help="Wallets and the ledger.", no_args_is_help=True)


@app.command("credit")
def credit_user(
    owner: str = OWNER,
    amount: int = typer.Argument(help="Number of tokens to add."),
    reference: str | None = typer.Option(
        None, help="Id of the payment. Two credits with the same id count once. Default: a random id."
    ),
    of_tenant: bool = OF_TENANT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Add tokens to the wallet of a user or of a tenant."""
    payment = reference or f"operator-{uuid.uuid4()}"
    request = checked(Credit, amount=amount, provider_transaction_id=payment)
    credited = with_rooms(lambda rooms: _credit(rooms, owner, request, of_tenant=of_tenant))
    if as_json:
        print_json(credited)
        return
    known = "This payment was already credited. " if credited.replayed else ""
    out.print(f"{known}{owner} has {counted(credited.balance, 'token')}.")


async def _credit(rooms: Rooms, owner: str, request: Credit, *, of_tenant: bool) -> CreditResponse:
    from callsheet.identity.audit_log import OPERATOR
    from callsheet.wallet.credits import Payments

    wallet = await _wallet_of(rooms, owner, of_tenant=of_tenant)
    return await Payments(rooms.accounts.audit).credit(OPERATOR, wallet, request)


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
    owner: str = OWNER,
    limit: int = typer.Option(10, min=0, max=1000, help="Number of transactions to show, newest first."),
    of_tenant: bool = OF_TENANT,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show the wallet of a user or of a tenant: the balance, the tokens that active jobs hold, and the last
    transactions.
    """
    holdings, lines = with_rooms(lambda rooms: _shown(rooms, owner, limit, of_tenant=of_tenant))
    if as_json:
        name = {"tenant": owner} if of_tenant else {"email": owner.strip().lower()}
        print_json({**name, **asdict(holdings), "transactions": lines})
        return
    out.print(f"{owner} has {counted(holdings.balance, 'token')}. Active jobs hold {holdings.held} more.")
    if holdings.paid_by_tenant != of_tenant:
        payer = "the wallet of the tenant" if holdings.paid_by_tenant else "wallets of the users"
        out.print(f"New jobs are paid from {payer}.")
    if lines:
        rows = [
            (f"{line.created_at:%Y-%m-%d %H:%M}", f"{line.amount:+d}", _kind(line), line.reference) for line in lines
        ]
        print_table(("time (UTC)", "tokens", "type", "job or payment"), rows)


def _kind(line: Transaction) -> str:
    return f"{line.type}, {line.kept} kept" if line.kept else line.type


async def _shown(rooms: Rooms, owner: str, limit: int, *, of_tenant: bool) -> tuple[Holdings, list[Transaction]]:
    from callsheet.wallet.ledger import holdings_of, transactions_of

    wallet = await _wallet_of(rooms, owner, of_tenant=of_tenant)
    holdings = await holdings_of(wallet.pool, wallet.tenant_id, wallet.owner_id)
    page = await transactions_of(wallet.pool, wallet.tenant_id, wallet.owner_id, None, limit) if limit else None
    return holdings, page.items if page else []


async def _wallet_of(rooms: Rooms, owner: str, *, of_tenant: bool) -> OwnedWallet:
    from callsheet.wallet.credits import OwnedWallet

    if of_tenant:
        tenant_id = owner_id = (await known_tenant(rooms, owner)).id
    else:
        user = await known_user(rooms, owner.strip().lower())
        tenant_id, owner_id = user.tenant_id, user.id
    return OwnedWallet(await rooms.accounts.routing.pool_of_tenant(tenant_id), tenant_id, owner_id)


def tenant_wallet(
    slug: str = typer.Argument(help="Short name of the tenant."),
    paid_by: str | None = typer.Option(
        None,
        help="Whose wallet new jobs and retries are paid from: `user`, or `tenant` for one wallet of all its users. No "
        "tokens move.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Show the wallet of a tenant, or set whether its users pay from it."""
    request = None if paid_by is None else checked(ChangeTenantWallet, paid_by=paid_by)
    wallet = with_rooms(lambda rooms: _changed_payer(rooms, slug, request))
    if as_json:
        print_json(wallet)
        return
    payer = "this wallet" if wallet.paid_by == "tenant" else "wallets of their own"
    out.print(
        f"The wallet of {slug} has {counted(wallet.balance, 'token')}. Active jobs hold {wallet.held} more. New jobs "
        f"of its users are paid from {payer}."
    )


async def _changed_payer(rooms: Rooms, slug: str, request: ChangeTenantWallet | None) -> Wallet:
    from callsheet.identity.audit_log import OPERATOR
    from callsheet.wallet.credits import Payments
    from callsheet.wallet.ledger import holdings_of
    from callsheet.wallet.routes import wallet_view

    wallet = await _wallet_of(rooms, slug, of_tenant=True)
    if request is not None:
        payments = Payments(rooms.accounts.audit)
        await payments.change_payer(OPERATOR, wallet.pool, wallet.tenant_id, request.paid_by)
    return wallet_view(await holdings_of(wallet.pool, wallet.tenant_id, wallet.owner_id))


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
    wallets = {(finding.pool, finding.row["tenant_id"], _owner(finding)) for finding in findings}
    of_rules = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
    yield f"{counted(len(findings), 'finding')} in {counted(len(wallets), 'wallet')}: {of_rules}."
    for finding in findings[:max_findings]:
        row = " ".join(f"{name}={value}" for name, value in finding.row.items())
        yield f"{finding.pool}: {finding.rule}: {row}"
    if len(findings) > max_findings:
        hidden = len(findings) - max_findings
        yield f"{hidden} more are not shown. To see every finding, run: callsheet wallet audit --all"


def _owner(finding: LedgerFinding) -> object:
    """The owner of the wallet, or the user whose job is wrong."""
    return finding.row.get("owner_id", finding.row.get("user_id"))


async def _audit(rooms: Rooms) -> tuple[list[str], list[LedgerFinding]]:
    from callsheet.wallet.ledger_check import audit as audit_pool

    findings = [finding for pool in rooms.databases.require_all() for finding in await audit_pool(pool)]
    return [pool.name for pool in rooms.databases.pools], findings
