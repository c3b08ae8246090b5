"""Credits and debits by operators and service keys: the tokens in the pool, then the line in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from callsheet.identity.accounts.tenant_pools import set_payer
from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wallet.ledger import credit, debit
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.money.wallet import Credit, CreditResponse, Debit, DebitResponse, Payer


@dataclass(frozen=True, slots=True)
class OwnedWallet:
    """The wallet of a user, or of a tenant: then the owner has the id of the tenant."""

    pool: Database
    tenant_id: UUID
    owner_id: UUID


class Payments:
    """Moves tokens once per payment. `changed`: called with tenant and owner after the commit of the tokens, so that
    streams show the new balance.

    A process may crash between the two commits. The client then got no response and repeats the request, which writes
    the missing line. Such a line has `replayed` in its details, because the tokens were moved before.
    """

    def __init__(self, audit: AuditLog, changed: Callable[[UUID, UUID], None] | None = None):
        self._audit = audit
        self._changed = changed or (lambda tenant_id, owner_id: None)

    async def credit(self, actor: str, wallet: OwnedWallet, body: Credit, key: str | None = None) -> CreditResponse:
        """Adds tokens. `key`: the Idempotency-Key of the request."""
        payment = payment_of(body, key)
        balance, replayed = await credit(wallet.pool, wallet.tenant_id, wallet.owner_id, body.amount, payment)
        await self._record(actor, "wallet.credit", wallet, body, payment, replayed=replayed)
        return CreditResponse(balance=balance, replayed=replayed)

    async def debit(self, actor: str, wallet: OwnedWallet, body: Debit, key: str | None = None) -> DebitResponse:
        """Takes tokens back, if the balance has them. The rest is as with a credit."""
        payment = payment_of(body, key)
        balance, replayed = await debit(
            wallet.pool, wallet.tenant_id, wallet.owner_id, body.amount, payment, body.reason
        )
        await self._record(actor, "wallet.debit", wallet, body, payment, replayed=replayed)
        return DebitResponse(balance=balance, replayed=replayed)

    async def change_payer(self, actor: str, pool: Database, tenant_id: UUID, paid_by: Payer) -> None:
        """Sets whose wallet new jobs of the tenant are paid from. A repeated request writes another line, so that none
        is missing after a crash.
        """
        await set_payer(pool, tenant_id, is_tenant=paid_by == "tenant")
        self._changed(tenant_id, tenant_id)
        await hit(Failpoint.CREDIT_BEFORE_AUDIT)
        await self._audit.add(actor, "tenant.wallet", "tenant", tenant_id, tenant_id, paid_by=paid_by)

    async def _record(
        self, actor: str, action: str, wallet: OwnedWallet, body: Credit | Debit, payment: str, *, replayed: bool
    ) -> None:
        if not replayed:
            self._changed(wallet.tenant_id, wallet.owner_id)
        await hit(Failpoint.CREDIT_BEFORE_AUDIT)
        details: dict[str, object] = {"amount": body.amount}
        if body.reason is not None:
            details["reason"] = body.reason
        if replayed:
            details["replayed"] = True
        subject = "tenant" if wallet.owner_id == wallet.tenant_id else "user"
        identity = {"provider_transaction_id": payment}
        await self._audit.add_if_missing(actor, action, subject, wallet.owner_id, wallet.tenant_id, identity, **details)


def payment_of(body: Credit | Debit, idempotency_key: str | None) -> str:
    """The id by which a repeated credit or debit is recognized."""
    if body.provider_transaction_id is not None:
        return body.provider_transaction_id
    if idempotency_key is None:
        reason = "Send provider_transaction_id or the header Idempotency-Key, so that a repeated request counts once."
        raise InvalidRequest.field("provider_transaction_id", reason)
    return f"{'credit' if isinstance(body, Credit) else 'debit'}-{idempotency_key}"
