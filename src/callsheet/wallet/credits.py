"""Credits and debits by operators and service keys: the tokens in the pool, then the line in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wallet.ledger import credit, debit
from callsheet.wire.money.wallet import CreditResponse, DebitResponse


async def give_credit(
    pool: Database,
    audit: AuditLog,
    actor: str,
    tenant_id: UUID,
    user_id: UUID,
    amount: int,
    payment: str,
    *,
    reason: str | None = None,
    changed: Callable[[UUID, UUID], None] | None = None,
) -> CreditResponse:
    """Adds tokens once per payment. `changed`: called with tenant and user after the commit of the tokens.

    A process may crash between the two commits. The client then got no response and repeats the request, which writes
    the missing line. Such a line has `replayed` in its details, because the tokens were credited before.
    """
    balance, replayed = await credit(pool, tenant_id, user_id, amount, payment)
    if changed is not None and not replayed:
        changed(tenant_id, user_id)
    await _record(audit, actor, "wallet.credit", tenant_id, user_id, amount, payment, reason, replayed=replayed)
    return CreditResponse(balance=balance, replayed=replayed)


async def take_back(
    pool: Database,
    audit: AuditLog,
    actor: str,
    tenant_id: UUID,
    user_id: UUID,
    amount: int,
    payment: str,
    *,
    reason: str,
    changed: Callable[[UUID, UUID], None],
) -> DebitResponse:
    """Takes tokens back once per debit, if the balance has them. The rest is as with a credit."""
    balance, replayed = await debit(pool, tenant_id, user_id, amount, payment, reason)
    if not replayed:
        changed(tenant_id, user_id)
    await _record(audit, actor, "wallet.debit", tenant_id, user_id, amount, payment, reason, replayed=replayed)
    return DebitResponse(balance=balance, replayed=replayed)


async def _record(
    audit: AuditLog,
    actor: str,
    action: str,
    tenant_id: UUID,
    user_id: UUID,
    amount: int,
    payment: str,
    reason: str | None,
    *,
    replayed: bool,
) -> None:
    await hit(Failpoint.CREDIT_BEFORE_AUDIT)
    details: dict[str, object] = {"amount": amount}
    if reason is not None:
        details["reason"] = reason
    if replayed:
        details["replayed"] = True
    identity = {"provider_transaction_id": payment}
    await audit.add_if_missing(actor, action, "user", user_id, tenant_id, identity, **details)
