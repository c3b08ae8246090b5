"""The wallets of users and tenants, for admins; credits and debits by operators; audits of the ledger."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.accounts import NO_TENANT, Accounts
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey
from callsheet.plumbing.http.routing import Router
from callsheet.wallet.credits import OwnedWallet, Payments
from callsheet.wallet.ledger import holdings_of, transactions_of
from callsheet.wallet.requested_checks import LedgerAudits
from callsheet.wallet.routes import TRANSACTION_CURSOR, wallet_view
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.money.wallet import (
    ChangeTenantWallet,
    Credit,
    CreditResponse,
    Debit,
    DebitResponse,
    LedgerAudit,
    Transaction,
    Wallet,
)

NO_USER = "There is no such user."


class ReachedWallets:
    """The wallets that a permission of the caller reaches."""

    def __init__(self, routing: TenantRouting, accounts: Accounts):
        self._routing = routing
        self._accounts = accounts

    async def of_user(self, user_id: UUID, principal: Principal, permission: Permission) -> OwnedWallet:
        owner = await self._accounts.owner_of(user_id)
        if owner is None:
            raise NotFound(NO_USER)
        principal.reach(permission, owner.tenant_id, NO_USER)
        return OwnedWallet(await self._routing.pool_of_tenant(owner.tenant_id), owner.tenant_id, user_id)

    async def of_tenant(self, tenant_id: UUID, principal: Principal, permission: Permission) -> OwnedWallet:
        principal.reach(permission, tenant_id, NO_TENANT)
        return OwnedWallet(await self._routing.pool_of_tenant(tenant_id), tenant_id, tenant_id)


def user_wallet_router(wallets: ReachedWallets, payments: Payments, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_WALLETS)
    give = authentication.may(Permission.GIVE_CREDITS)
    router = Router(prefix="/api/admin/users/{user_id}", tags=["admin"])

    @router.get("/wallet")
    async def get_wallet_of_user(user_id: UUID, principal: Principal = see) -> Wallet:
        """The user's own wallet: its balance, and the tokens of it that active jobs hold."""
        wallet = await wallets.of_user(user_id, principal, Permission.SEE_WALLETS)
        return wallet_view(await holdings_of(wallet.pool, wallet.tenant_id, user_id))

    @router.get("/wallet/transactions")
    async def list_transactions_of_user(
        user_id: UUID, cursor: int | None = TRANSACTION_CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[Transaction]:
        """The payments of a user, and the tokens of the user's jobs, newest first."""
        wallet = await wallets.of_user(user_id, principal, Permission.SEE_WALLETS)
        return await transactions_of(wallet.pool, wallet.tenant_id, user_id, cursor, limit)

    @router.post("/credits")
    async def add_credits(
        user_id: UUID, body: Credit, idempotency_key: IdempotencyKey = None, principal: Principal = give
    ) -> CreditResponse:
        """Adds tokens to a user's wallet. A payment that is sent twice, by its id or by the Idempotency-Key, is
        credited once.
        """
        wallet = await wallets.of_user(user_id, principal, Permission.GIVE_CREDITS)
        return await payments.credit(actor_of(principal), wallet, body, idempotency_key)

    @router.post("/debits")
    async def take_tokens_back(
        user_id: UUID, body: Debit, idempotency_key: IdempotencyKey = None, principal: Principal = give
    ) -> DebitResponse:
        """Takes tokens back from a user's wallet, for example after a chargeback: all of the amount, or none if the
        balance is smaller. A debit that is sent twice is carried out once.
        """
        wallet = await wallets.of_user(user_id, principal, Permission.GIVE_CREDITS)
        return await payments.debit(actor_of(principal), wallet, body, idempotency_key)

    return router


def tenant_wallet_router(wallets: ReachedWallets, payments: Payments, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_WALLETS)
    give = authentication.may(Permission.GIVE_CREDITS)
    manage = authentication.may(Permission.MANAGE_TENANTS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}/wallet", tags=["admin"])

    @router.get("")
    async def get_tenant_wallet(tenant_id: UUID, principal: Principal = see) -> Wallet:
        """The wallet of a tenant, and whether its users pay from it."""
        wallet = await wallets.of_tenant(tenant_id, principal, Permission.SEE_WALLETS)
        return wallet_view(await holdings_of(wallet.pool, tenant_id, tenant_id))

    @router.patch("")
    async def change_tenant_wallet(tenant_id: UUID, body: ChangeTenantWallet, principal: Principal = manage) -> Wallet:
        """Sets whose wallet new jobs and retries are paid from: each user's own, or the wallet of the tenant for all
        users. No tokens move. Active jobs keep the wallet that they were paid from, which gets their refunds.
        """
        wallet = await wallets.of_tenant(tenant_id, principal, Permission.MANAGE_TENANTS)
        await payments.change_payer(actor_of(principal), wallet.pool, tenant_id, body.paid_by)
        return wallet_view(await holdings_of(wallet.pool, tenant_id, tenant_id))

    @router.get("/transactions")
    async def list_transactions_of_tenant(
        tenant_id: UUID, cursor: int | None = TRANSACTION_CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[Transaction]:
        """The payments of the tenant, and the jobs of all users that were paid from its wallet, newest first."""
        wallet = await wallets.of_tenant(tenant_id, principal, Permission.SEE_WALLETS)
        return await transactions_of(wallet.pool, tenant_id, tenant_id, cursor, limit)

    @router.post("/credits")
    async def credit_tenant(
        tenant_id: UUID, body: Credit, idempotency_key: IdempotencyKey = None, principal: Principal = give
    ) -> CreditResponse:
        """Adds tokens to the wallet of a tenant. A payment that is sent twice, by its id or by the Idempotency-Key, is
        credited once.
        """
        wallet = await wallets.of_tenant(tenant_id, principal, Permission.GIVE_CREDITS)
        return await payments.credit(actor_of(principal), wallet, body, idempotency_key)

    @router.post("/debits")
    async def debit_tenant(
        tenant_id: UUID, body: Debit, idempotency_key: IdempotencyKey = None, principal: Principal = give
    ) -> DebitResponse:
        """Takes tokens back from the wallet of a tenant: all of the amount, or none if the balance is smaller. A debit
        that is sent twice is carried out once.
        """
        wallet = await wallets.of_tenant(tenant_id, principal, Permission.GIVE_CREDITS)
        return await payments.debit(actor_of(principal), wallet, body, idempotency_key)

    return router


def ledger_audit_router(audits: LedgerAudits, authentication: Authentication) -> Router:
    see = authentication.may(Permission.SEE_WALLETS)
    run = authentication.may(Permission.AUDIT_LEDGER)
    router = Router(prefix="/api/admin/ledger-audits", tags=["admin"], dependencies=[see])

    @router.get("")
    async def list_ledger_audits(cursor: int | None = TRANSACTION_CURSOR, limit: int = LIMIT) -> Page[LedgerAudit]:
        """The audits of the ledger, newest first, with the totals of each pool. The last 50 are kept."""
        return await audits.list(cursor, limit)

    @router.post("", status_code=202, once=True)
    async def request_ledger_audit(principal: Principal = run) -> LedgerAudit:
        """Starts an audit of every wallet of every pool, or returns the one that runs. It only reads."""
        return await audits.request(actor_of(principal))

    @router.get("/{audit_id}")
    async def get_ledger_audit(audit_id: Annotated[int, Path(ge=1, le=2**62)]) -> LedgerAudit:
        """An audit with its progress and its first findings."""
        return await audits.get(audit_id)

    return router
