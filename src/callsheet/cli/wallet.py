"""`callsheet wallet`: tokens for a user, and the proof that none was charged twice or kept for work not delivered."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from callsheet.cli.console import checked, out, print_json
from callsheet.settings import Settings, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.wallet import Credit, Credited

if TYPE_CHECKING:
    from callsheet.wallet.ledger import Finding

app = typer.Typer(help="Wallets and the ledger.", no_args_is_help=True)


@app.command("credit")
def credit_user(
    email: str = typer.Argument(help="E-mail address of the user."),
    amount: int = typer.Argument(help="How many tokens they get."),
    reference: str | None = typer.Option(
        None, help="The payment's own id: the same one twice is one credit. Default: made up."
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
    known = "That payment was credited before. " if credited.replayed else ""
    out.print(f"{known}{email} has {credited.balance} tokens.")


async def _credit(settings: Settings, email: str, request: Credit) -> Credited:
    from callsheet.identity.accounts import Accounts
    from callsheet.identity.audit import OPERATOR, AuditLog
    from callsheet.identity.passwords import Passwords
    from callsheet.identity.routing import TenantRouting
    from callsheet.plumbing.databases import open_databases
    from callsheet.wallet.ledger import credit

    payment = request.provider_transaction_id
    databases = await open_databases(settings)
    try:
        accounts = Accounts(databases, Passwords())
        user = await accounts.find_user(email)
        owner = await accounts.owner_of(user.id) if user is not None else None
        if user is None or owner is None:
            raise OperatorError(f"There is no user {email!r}. List them: callsheet users list")
        pool = await TenantRouting(databases).pool_of(owner.tenant_id)
        balance, replayed = await credit(pool, owner.tenant_id, user.id, request.amount, payment)
        if not replayed:
            said = {"amount": request.amount, "provider_transaction_id": payment}
            await AuditLog(databases).add(OPERATOR, "wallet.credit", "user", user.id, owner.tenant_id, **said)
        return Credited(balance=balance, replayed=replayed)
    finally:
        await databases.close()


@app.command()
def audit(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Check every wallet of every pool. Exits 1 and names the rows where something is wrong."""
    pools, findings = asyncio.run(_audit(load_settings()))
    if as_json:
        print_json({"pools": pools, "findings": [asdict(finding) for finding in findings]})
    elif not findings:
        out.print(f"Every wallet in {', '.join(pools)} balances.")
    else:
        for finding in findings:
            row = " ".join(f"{name}={value}" for name, value in finding.row.items())
            out.print(f"{finding.pool}: {finding.rule}: {row}", markup=False)
    if findings:
        raise typer.Exit(1)


async def _audit(settings: Settings) -> tuple[list[str], list[Finding]]:
    from callsheet.plumbing.databases import open_databases
    from callsheet.wallet.ledger import audit as audit_pool

    databases = await open_databases(settings)
    try:
        findings = [finding for pool in databases.pools for finding in await audit_pool(pool)]
        return [pool.name for pool in databases.pools], findings
    finally:
        await databases.close()
