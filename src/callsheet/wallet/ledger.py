"""The ledger: credits and balances. `audit.py` checks it.

A job's own transaction reserves and settles tokens through the functions wallet_lock and wallet_move, which are the
only code that writes money.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

import asyncpg

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wallet.reasons import TransactionRow, reason_of, title_of
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, FieldProblem, InvalidRequest
from callsheet.wire.money.wallet import MAX_TOKENS, Credit, Debit, Hold, Transaction, payer
from callsheet.wire.plurals import counted

SQL = statements("callsheet.wallet")


@dataclass(frozen=True, slots=True)
class Holdings:
    """A wallet. `held` tokens are reserved for active jobs: they are spent when a job completes, and refunded when
    it ends otherwise. `paid_by_tenant`: whether the tenant pays for new jobs of its users.
    """

    balance: int = 0
    held: int = 0
    paid_by_tenant: bool = False


class HoldingsRow(NamedTuple):
    balance: int
    held: Decimal
    paid_by_tenant: bool


class PaymentRow(NamedTuple):
    owner_id: UUID
    amount: int


class DebitRow(NamedTuple):
    balance_before: int
    # None: the wallet has not enough tokens.
    balance: int | None


async def credit(
    pool: Database, tenant_id: UUID, owner_id: UUID, amount: int, provider_transaction_id: str
) -> tuple[int, bool]:
    """Adds tokens to the wallet of a user or of the tenant. Returns the balance, and whether this payment was credited
    before.
    """
    has_room = True
    try:
        async with pool.transaction() as connection:
            balance = await SQL["credit"].value(
                connection,
                tenant_id=tenant_id,
                owner_id=owner_id,
                amount=amount,
                provider_transaction_id=provider_transaction_id,
            )
            return balance, False
    except asyncpg.UniqueViolationError:
        pass
    except asyncpg.NumericValueOutOfRangeError:
        has_room = False
    payment = await _payment(pool, tenant_id, "PAYMENT_CREDIT", provider_transaction_id)
    if payment is None and not has_room:
        raise no_room(await holdings_of(pool, tenant_id, owner_id))
    if payment != (owner_id, amount):
        raise Conflict(
            "This payment was already credited to another wallet or with another amount.",
            errors=[FieldProblem("provider_transaction_id", "This payment was already credited.")],
        )
    return await balance_of(pool, tenant_id, owner_id), True


async def debit(
    pool: Database, tenant_id: UUID, owner_id: UUID, amount: int, provider_transaction_id: str, note: str
) -> tuple[int, bool]:
    """Takes tokens back, all of them or none. Returns the balance, and whether they were taken back before."""
    row = DebitRow(0, None)
    try:
        async with pool.transaction() as connection:
            found = await SQL["debit"].row(
                connection,
                DebitRow,
                tenant_id=tenant_id,
                owner_id=owner_id,
                amount=amount,
                provider_transaction_id=provider_transaction_id,
                note=note,
            )
        assert found is not None, "the statement locks one wallet"
        row = found
    except asyncpg.UniqueViolationError:
        pass
    if row.balance is not None:
        return row.balance, False
    # The same debit may have emptied the wallet before.
    earlier = await _payment(pool, tenant_id, "PAYMENT_DEBIT", provider_transaction_id)
    if earlier is None:
        balance = counted(row.balance_before, "token")
        reason = f"The wallet has only {balance}. A debit takes all of its amount or nothing: send a smaller amount."
        raise InvalidRequest.field("amount", reason)
    if earlier != (owner_id, -amount):
        sentence = "A debit with this id took another amount back, or from another wallet."
        raise Conflict(sentence, errors=[FieldProblem("provider_transaction_id", sentence)])
    return await balance_of(pool, tenant_id, owner_id), True


async def has_payment(pool: Database, tenant_id: UUID, body: Credit | Debit, provider_transaction_id: str) -> bool:
    """Whether this credit or debit was carried out before."""
    kind = "PAYMENT_CREDIT" if isinstance(body, Credit) else "PAYMENT_DEBIT"
    return await _payment(pool, tenant_id, kind, provider_transaction_id) is not None


async def _payment(pool: Database, tenant_id: UUID, kind: str, provider_transaction_id: str) -> PaymentRow | None:
    names = {"tenant_id": tenant_id, "type": kind, "provider_transaction_id": provider_transaction_id}
    async with pool.connection() as connection:
        return await SQL["find_payment"].row(connection, PaymentRow, **names)


def no_room(wallet: Holdings) -> InvalidRequest:
    room = max(0, MAX_TOKENS - wallet.balance - wallet.held)
    reason = (
        f"The amount is too large: this wallet can take {counted(room, 'more token')}. It has {wallet.balance}, "
        f"active jobs hold {wallet.held}, and both together may be at most {MAX_TOKENS}."
    )
    return InvalidRequest.field("amount", reason)


async def balance_of(pool: Database, tenant_id: UUID, owner_id: UUID) -> int:
    async with pool.connection() as connection:
        return int(await SQL["balance"].value(connection, tenant_id=tenant_id, owner_id=owner_id))


async def holdings_of(pool: Database, tenant_id: UUID, owner_id: UUID) -> Holdings:
    """The wallet of a user, or of the tenant."""
    async with pool.ordinary() as connection:
        row = await SQL["get_wallet"].row(connection, HoldingsRow, tenant_id=tenant_id, owner_id=owner_id)
    return _holdings(row)


async def payer_of(pool: Database, tenant_id: UUID, user_id: UUID) -> Holdings:
    """The wallet that pays for new jobs of a user. Held: what the active jobs of this user hold, from either
    wallet.
    """
    async with pool.ordinary() as connection:
        row = await SQL["get_payer"].row(connection, HoldingsRow, tenant_id=tenant_id, user_id=user_id)
    return _holdings(row)


async def pays_for_users(pool: Database, tenant_id: UUID) -> bool:
    async with pool.connection() as connection:
        return bool(await SQL["pays_for_users"].value(connection, tenant_id=tenant_id))


async def transactions_of(
    pool: Database, tenant_id: UUID, user_id: UUID, cursor: int | None, limit: int
) -> Page[Transaction]:
    """The payments and jobs of a user, newest first. If the id is that of the tenant, all lines of its wallet."""
    names = {"tenant_id": tenant_id, "before": cursor, "limit": limit + 1}
    async with pool.ordinary() as connection:
        if user_id == tenant_id:
            rows = await SQL["list_transactions_of_tenant"].rows(connection, TransactionRow, **names)
        else:
            rows = await SQL["list_transactions"].rows(connection, TransactionRow, user_id=user_id, **names)
    items = [_transaction(row) for row in rows[:limit]]
    return Page(items=items, next_cursor=str(items[-1].id) if len(rows) > limit else None)


async def transactions_of_job(connection: Connection, tenant_id: UUID, job_id: UUID, limit: int) -> list[Transaction]:
    """The newest transactions of one job, oldest first."""
    rows = await SQL["transactions_of_job"].rows(
        connection, TransactionRow, tenant_id=tenant_id, job_id=job_id, limit=limit
    )
    return [_transaction(row) for row in reversed(rows)]


async def holds_of(pool: Database, tenant_id: UUID, user_id: UUID, cursor: UUID | None, limit: int) -> Page[Hold]:
    """The tokens that active jobs hold, newest first."""
    async with pool.ordinary() as connection:
        holds = await SQL["list_holds"].rows(
            connection, Hold, tenant_id=tenant_id, user_id=user_id, before=cursor, limit=limit + 1
        )
    items = holds[:limit]
    return Page(items=items, next_cursor=str(items[-1].job_id) if len(holds) > limit else None)


def _holdings(row: HoldingsRow | None) -> Holdings:
    return Holdings(row.balance, int(row.held), row.paid_by_tenant) if row else Holdings()


def _transaction(row: TransactionRow) -> Transaction:
    return Transaction(
        id=row.id,
        user_id=None if row.job_id is None and row.of_tenant else row.user_id,
        paid_by=payer(is_tenant=row.of_tenant),
        type=row.type,
        amount=row.amount,
        kept=row.kept,
        job_id=row.job_id,
        charge_cycle=row.charge_cycle,
        provider_transaction_id=row.provider_transaction_id,
        created_at=row.created_at,
        title=title_of(row),
        reason=reason_of(row),
    )
