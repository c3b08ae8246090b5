"""The ledger: credits in, and what a wallet holds. Reserving and settling happen inside a job's own transaction,
through the functions wallet_lock and wallet_move, which are the only code that writes money."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

import asyncpg

from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import statements
from callsheet.wire.errors import Conflict, FieldProblem, InvalidRequest

SQL = statements("callsheet.wallet")
RULES = MappingProxyType(
    {
        "balances": SQL["audit_balances"],
        "settlements": SQL["audit_settlements"],
        "strays": SQL["audit_strays"],
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the audit found wrong, with the row it is about."""

    rule: str
    pool: str
    row: dict[str, object]


async def credit(
    pool: Database, tenant_id: UUID, user_id: UUID, amount: int, provider_transaction_id: str
) -> tuple[int, bool]:
    """Adds tokens; answers the balance and whether this payment was known already."""
    try:
        async with pool.transaction() as connection:
            balance = await SQL["credit"].value(
                connection,
                tenant_id=tenant_id,
                user_id=user_id,
                amount=amount,
                provider_transaction_id=provider_transaction_id,
            )
            return balance, False
    except asyncpg.UniqueViolationError:
        pass
    except asyncpg.NumericValueOutOfRangeError:
        raise InvalidRequest.field("amount", "is more than the wallet can still take") from None
    async with pool.connection() as connection:
        known = await SQL["find_payment"].row(
            connection, tenant_id=tenant_id, provider_transaction_id=provider_transaction_id
        )
        if known is None or (known["user_id"], known["amount"]) != (user_id, amount):
            raise Conflict(
                "This payment was credited with another user or amount.",
                errors=[FieldProblem("provider_transaction_id", "was used already")],
            )
    return await balance_of(pool, tenant_id, user_id), True


async def balance_of(pool: Database, tenant_id: UUID, user_id: UUID) -> int:
    async with pool.connection() as connection:
        return int(await SQL["balance"].value(connection, tenant_id=tenant_id, user_id=user_id))


async def audit(pool: Database) -> list[Finding]:
    """Proves G2 over every wallet of a pool, in one snapshot; an empty answer means it holds."""
    findings: list[Finding] = []
    async with pool.connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        # It reads whole tables: the planner's freedom, which single-row work is better without, is needed here.
        await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL enable_hashjoin = on")
        await connection.execute("SET LOCAL enable_mergejoin = on; SET LOCAL enable_seqscan = on")
        for rule, statement in RULES.items():
            findings.extend(Finding(rule, pool.name, dict(row)) for row in await statement.rows(connection))
    return findings
