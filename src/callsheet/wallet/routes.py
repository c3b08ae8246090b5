"""`/api/wallet`: a user's wallet and its transactions. For admins: the wallet of every user, credits and debits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import AuditLog, actor_of
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey
from callsheet.plumbing.http.routing import Router
from callsheet.wallet.credits import give_credit, take_back
from callsheet.wallet.ledger import Holdings, holdings_of, holds_of, transactions_of
from callsheet.wallet.requested_checks import LedgerAudits
from callsheet.wire.base import Page
from callsheet.wire.errors import Forbidden, InvalidRequest, NotFound
from callsheet.wire.money.wallet import (
    Credit,
    CreditResponse,
    Debit,
    DebitResponse,
    Hold,
    LedgerAudit,
    Transaction,
    Wallet,
)

NO_USER = "There is no such user."
TRANSACTION_CURSOR = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before.")


def wallet_router(databases: Databases, authentication: Authentication) -> Router:
    router = Router(prefix="/api/wallet", tags=["wallet"])

    @router.get("")
    async def get_wallet(principal: Principal = Depends(authentication.user)) -> Wallet:
        """Your balance, and the tokens that active jobs hold."""
        pool = await databases.pool(principal.pool)
        return _wallet(await holdings_of(pool, principal.tenant_id, principal.user_id))

    @router.get("/holds")
    async def list_holds(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = Depends(authentication.user)
    ) -> Page[Hold]:
        """The tokens that your active jobs hold, newest first."""
        pool = await databases.pool(principal.pool)
        return await holds_of(pool, principal.tenant_id, principal.user_id, cursor, limit)

    @router.get("/transactions")
    async def list_transactions(
        cursor: int | None = TRANSACTION_CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Transaction]:
        """Your wallet's transactions, newest first."""
        pool = await databases.pool(principal.pool)
        return await transactions_of(pool, principal.tenant_id, principal.user_id, cursor, limit)

    return router


WalletOf = Callable[[UUID, Principal, Permission], Awaitable[tuple[UUID, Database]]]


def wallets_of_users(routing: TenantRouting, accounts: Accounts) -> WalletOf:
    """Returns the tenant and the pool of a user that a permission of the caller reaches."""

    async def wallet_of(user_id: UUID, principal: Principal, permission: Permission) -> tuple[UUID, Database]:
        owner = await accounts.owner_of(user_id)
        if owner is None:
            raise NotFound(NO_USER)
        principal.reach(permission, owner.tenant_id, NO_USER)
        return owner.tenant_id, await routing.pool_of_tenant(owner.tenant_id)

    return wallet_of


def admin_wallet_router(wallet_of: WalletOf, authentication: Authentication) -> Router:
    """The wallets of users, for admins."""
    see = authentication.may_in_tenant(Permission.SEE_WALLETS)
    router = Router(prefix="/api/admin/users", tags=["admin"])

    @router.get("/{user_id}/wallet")
    async def get_wallet_of_user(user_id: UUID, principal: Principal = see) -> Wallet:
        """A user's balance, and the tokens that active jobs hold."""
        tenant_id, pool = await wallet_of(user_id, principal, Permission.SEE_WALLETS)
        return _wallet(await holdings_of(pool, tenant_id, user_id))

    @router.get("/{user_id}/wallet/transactions")
    async def list_transactions_of_user(
        user_id: UUID,
        cursor: int | None = TRANSACTION_CURSOR,
        limit: int = LIMIT,
        principal: Principal = see,
    ) -> Page[Transaction]:
        """The wallet's transactions, newest first."""
        tenant_id, pool = await wallet_of(user_id, principal, Permission.SEE_WALLETS)
        return await transactions_of(pool, tenant_id, user_id, cursor, limit)

    return router


def admin_credit_router(
    wallet_of: WalletOf, audit: AuditLog, authentication: Authentication, changed: Callable[[UUID, UUID], None]
) -> Router:
    """Credits and debits by operators. `changed`: called with tenant and user after a commit, so that streams show the
    new balance.
    """
    give = authentication.may(Permission.GIVE_CREDITS)
    router = Router(prefix="/api/admin/users", tags=["admin"])

    @router.post("/{user_id}/credits")
    async def add_credits(
        user_id: UUID, body: Credit, idempotency_key: IdempotencyKey = None, principal: Principal = give
    ) -> CreditResponse:
        """Adds tokens to a user's wallet. A payment that is sent twice, by its id or by the Idempotency-Key, is
        credited once.
        """
        payment = payment_of(body, idempotency_key)
        tenant_id, pool = await wallet_of(user_id, principal, Permission.GIVE_CREDITS)
        return await give_credit(
            pool,
            audit,
            actor_of(principal),
            tenant_id,
            user_id,
            body.amount,
            payment,
            reason=body.reason,
            changed=changed,
        )

    @router.post("/{user_id}/debits")
    async def take_tokens_back(
        user_id: UUID, body: Debit, idempotency_key: IdempotencyKey = None, principal: Principal = give
    ) -> DebitResponse:
        """Takes tokens back from a user's wallet, for example after a chargeback: all of the amount, or none if the
        balance is smaller. A debit that is sent twice is carried out once.
        """
        payment = payment_of(body, idempotency_key)
        tenant_id, pool = await wallet_of(user_id, principal, Permission.GIVE_CREDITS)
        return await take_back(
            pool,
            audit,
            actor_of(principal),
            tenant_id,
            user_id,
            body.amount,
            payment,
            reason=body.reason,
            changed=changed,
        )

    return router


def service_wallet_router(
    databases: Databases, audit: AuditLog, authentication: Authentication, changed: Callable[[UUID, UUID], None]
) -> Router:
    """The routes with which a service key gives tokens to the user that it acts for."""
    give = authentication.may_in_tenant(Permission.GIVE_CREDITS)
    router = Router(prefix="/api/wallet", tags=["wallet"])

    def owner_of_wallet(principal: Principal = give) -> Principal:
        if principal.service_scopes is None:
            raise Forbidden("Only a service key may call this route. Operators use /api/admin/users/{user_id}.")
        return authentication.of_a_user(principal)

    @router.post("/credits")
    async def credit_user(
        body: Credit, idempotency_key: IdempotencyKey = None, principal: Principal = Depends(owner_of_wallet)
    ) -> CreditResponse:
        """Adds tokens to the wallet of the user that a service key acts for. A payment that is sent twice, by its id or
        by the Idempotency-Key, is credited once.
        """
        return await give_credit(
            await databases.pool(principal.pool),
            audit,
            actor_of(principal),
            principal.tenant_id,
            principal.user_id,
            body.amount,
            payment_of(body, idempotency_key),
            reason=body.reason,
            changed=changed,
        )

    @router.post("/debits")
    async def debit_user(
        body: Debit, idempotency_key: IdempotencyKey = None, principal: Principal = Depends(owner_of_wallet)
    ) -> DebitResponse:
        """Takes tokens back from the wallet of the user that a service key acts for: all of the amount, or none if the
        balance is smaller. A debit that is sent twice is carried out once.
        """
        return await take_back(
            await databases.pool(principal.pool),
            audit,
            actor_of(principal),
            principal.tenant_id,
            principal.user_id,
            body.amount,
            payment_of(body, idempotency_key),
            reason=body.reason,
            changed=changed,
        )

    return router


def payment_of(body: Credit | Debit, idempotency_key: str | None) -> str:
    """The id by which a repeated credit or debit is recognized."""
    if body.provider_transaction_id is not None:
        return body.provider_transaction_id
    if idempotency_key is None:
        reason = "Send provider_transaction_id or the header Idempotency-Key, so that a repeated request counts once."
        raise InvalidRequest.field("provider_transaction_id", reason)
    return f"{'credit' if isinstance(body, Credit) else 'debit'}-{idempotency_key}"


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


def _wallet(holdings: Holdings) -> Wallet:
    return Wallet(balance=holdings.balance, held=holdings.held)
