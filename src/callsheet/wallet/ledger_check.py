"""The audit of the ledger: proves G2 and G14 over every wallet of a pool, in one snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, Row, Statement
from callsheet.wallet.ledger import SQL

RULES = MappingProxyType(
    {
        "balances": SQL["audit_balances"],
        "settlements": SQL["audit_settlements"],
        "strays": SQL["audit_strays"],
        "room": SQL["audit_room"],
        "budgets": SQL["audit_budgets"],
    }
)
# The audit reads whole tables. The timeout of the connection is for statements of requests.
MAX_SECONDS = 24 * 3600.0
ROWS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class LedgerFinding:
    """A violation that the audit found, with its row. Each rule has its own columns, which are only printed."""

    rule: str
    pool: str
    row: dict[str, object]


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens of a pool: in wallets, held by active jobs, ever credited and ever spent."""

    wallets: int = 0
    transactions: int = 0
    balance: int = 0
    held: int = 0
    credited: int = 0
    spent: int = 0


@dataclass(frozen=True, slots=True)
class PoolResult:
    """The audit of one pool. `first`: the first of `count` findings; a damaged table can have as many findings as
    rows.
    """

    totals: Totals
    count: int
    first: tuple[LedgerFinding, ...]


async def audit(pool: Database) -> list[LedgerFinding]:
    """All findings of the pool. An empty list means that G2 and G14 hold."""
    return list((await audit_pool(pool)).first)


async def audit_pool(pool: Database, max_findings: int | None = None) -> PoolResult:
    """Audits a pool. `max_findings`: how many findings are kept. Default: all."""
    count, first = 0, list[LedgerFinding]()
    async with pool.ordinary() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute("SET LOCAL statement_timeout = 0")
        totals = await _totals(connection)
        for rule, statement in RULES.items():
            async for row in _stream(connection, statement):
                count += 1
                if max_findings is None or len(first) < max_findings:
                    first.append(LedgerFinding(rule, pool.name, _whole(row)))
    return PoolResult(totals, count, tuple(first))


async def _totals(connection: Connection) -> Totals:
    """The totals as whole numbers: sums are decimals, which a string may show as 1E+4."""
    [totals] = [
        Totals(**{name: int(value) for name, value in row.items()})
        async for row in _stream(connection, SQL["ledger_totals"])
    ]
    return totals


async def _stream(connection: Connection, statement: Statement) -> AsyncIterator[Row]:
    """Yields the rows one by one, so that a damaged ledger does not fill the memory of the process."""
    async for row in connection.cursor(statement.text, prefetch=ROWS_AT_ONCE, timeout=MAX_SECONDS):
        yield row


def _whole(row: Row) -> dict[str, object]:
    """The row as a dictionary. Sums of a damaged ledger may be larger than a bigint, but are whole numbers."""
    return {name: int(value) if isinstance(value, Decimal) else value for name, value in row.items()}
