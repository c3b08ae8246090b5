"""Credits by admins and operators: the tokens in the pool, then the line in the audit log of central."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wallet.ledger import credit
from callsheet.wire.wallet import CreditResponse


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
    await hit(Failpoint.CREDIT_BEFORE_AUDIT)
    details: dict[str, object] = {"amount": amount}
    if reason is not None:
        details["reason"] = reason
    if replayed:
        details["replayed"] = True
    identity = {"provider_transaction_id": payment}
    await audit.add_if_missing(actor, "wallet.credit", "user", user_id, tenant_id, identity, **details)
    return CreditResponse(balance=balance, replayed=replayed)
