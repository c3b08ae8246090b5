"""`callsheet wallet audit`: proves that no token was charged twice or kept for work not delivered."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from callsheet.cli.console import out, print_json
from callsheet.settings import Settings, load_settings

if TYPE_CHECKING:
    from callsheet.wallet.ledger import Finding

app = typer.Typer(help="Wallets and the ledger.", no_args_is_help=True)


@app.callback()
def wallet() -> None:
    """Keeps `audit` a sub-command while it is the only one."""


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
