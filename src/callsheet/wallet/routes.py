"""`/api/wallet`: the wallet that a user pays from, and its transactions. For service keys: credits and debits."""

from __future__ import annotations

from uuid import UUID

from fastapi import Depends, Query

from callsheet.identity.access.authentication import Authentication, require
from callsheet.identity.access.on_behalf import FORMS, HEADER
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey
from callsheet.plumbing.http.routing import Router
from callsheet.wallet.credits import OwnedWallet, Payments, payment_of
from callsheet.wallet.ledger import (
    Holdings,
    has_payment,
    holdings_of,
    holds_of,
    payer_of,
    pays_for_users,
    transactions_of,
)
from callsheet.wire.base import Page
from callsheet.wire.errors import Forbidden, InvalidRequest
from callsheet.wire.money.wallet import (
    Credit,
    CreditResponse,
    Debit,
    DebitResponse,
    Hold,
    Transaction,
    Wallet,
    payer,
)

TRANSACTION_CURSOR = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before.")


def wallet_router(databases: Databases, authentication: Authentication) -> Router:
    router = Router(prefix="/api/wallet", tags=["wallet"])

    async def reader(principal: Principal = Depends(authentication.caller)) -> OwnedWallet:
        require(principal, Permission.READ_OWN)
        wallet = await _wallet_of(databases, principal)
        if principal.is_tenant:
            await _require_paying(wallet)
        return wallet

    @router.get("")
    async def get_wallet(wallet: OwnedWallet = Depends(reader)) -> Wallet:
        """The balance that you can spend, and the tokens that your active jobs hold. If the tenant pays for its users,
        the balance is that of the tenant. A service key that acts for no user sees the wallet of the tenant.
        """
        read = holdings_of if wallet.owner_id == wallet.tenant_id else payer_of
        return wallet_view(await read(wallet.pool, wallet.tenant_id, wallet.owner_id))

    @router.get("/holds")
    async def list_holds(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = Depends(authentication.user)
    ) -> Page[Hold]:
        """The tokens that your active jobs hold, newest first."""
        pool = await databases.pool(principal.pool)
        return await holds_of(pool, principal.tenant_id, principal.user_id, cursor, limit)

    @router.get("/transactions")
    async def list_transactions(
        cursor: int | None = TRANSACTION_CURSOR, limit: int = LIMIT, wallet: OwnedWallet = Depends(reader)
    ) -> Page[Transaction]:
        """Your payments, and the tokens of your jobs, newest first. Jobs of other users are not in the list, also if
        all pay from the wallet of the tenant. A service key that acts for no user sees all lines of that wallet.
        """
        return await transactions_of(wallet.pool, wallet.tenant_id, wallet.owner_id, cursor, limit)

    return router


def service_wallet_router(databases: Databases, payments: Payments, authentication: Authentication) -> Router:
    """The routes with which a service key gives tokens to the user that it acts for, or to its tenant."""
    give = authentication.may_in_tenant(Permission.GIVE_CREDITS)
    router = Router(prefix="/api/wallet", tags=["wallet"])

    def server(principal: Principal = give) -> Principal:
        if principal.service_scopes is None:
            raise Forbidden("Only a service key may call this route. Operators use /api/admin/users/{user_id}.")
        return principal

    async def wallet_of(principal: Principal, body: Credit | Debit, key: str | None) -> OwnedWallet:
        wallet = await _wallet_of(databases, principal)
        # A request that is sent again gets its first response, whatever was set since then.
        if principal.is_tenant and not await has_payment(wallet.pool, wallet.tenant_id, body, payment_of(body, key)):
            await _require_paying(wallet)
        return wallet

    @router.post("/credits")
    async def credit_user(
        body: Credit, idempotency_key: IdempotencyKey = None, principal: Principal = Depends(server)
    ) -> CreditResponse:
        """Adds tokens to the wallet of the user that a service key acts for, or without a user to the wallet of the
        tenant if it pays for its users. A payment that is sent twice, by its id or by the Idempotency-Key, is credited
        once.
        """
        wallet = await wallet_of(principal, body, idempotency_key)
        return await payments.credit(actor_of(principal), wallet, body, idempotency_key)

    @router.post("/debits")
    async def debit_user(
        body: Debit, idempotency_key: IdempotencyKey = None, principal: Principal = Depends(server)
    ) -> DebitResponse:
        """Takes tokens back from the wallet of the user that a service key acts for, or of the tenant: all of the
        amount, or none if the balance is smaller. A debit that is sent twice is carried out once.
        """
        wallet = await wallet_of(principal, body, idempotency_key)
        return await payments.debit(actor_of(principal), wallet, body, idempotency_key)

    return router


async def _wallet_of(databases: Databases, principal: Principal) -> OwnedWallet:
    """The wallet of the caller. A service key that acts for no user has the id of the tenant."""
    return OwnedWallet(await databases.pool(principal.pool), principal.tenant_id, principal.user_id)


async def _require_paying(wallet: OwnedWallet) -> None:
    """Refuses a server that forgot to name the user, where each user has a wallet."""
    if not await pays_for_users(wallet.pool, wallet.tenant_id):
        reason = f"Each user of this tenant has a wallet, so a service key needs this header here: {FORMS}."
        raise InvalidRequest.field(HEADER, reason)


def wallet_view(holdings: Holdings) -> Wallet:
    return Wallet(balance=holdings.balance, held=holdings.held, paid_by=payer(is_tenant=holdings.paid_by_tenant))
