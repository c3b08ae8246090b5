"""The wallet room: the parts that exist as long as the process, and its routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from callsheet.identity.room import IdentityRoom
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.toolbox.loops import Loop
from callsheet.wallet.admin_routes import (
    ReachedWallets,
    ledger_audit_router,
    tenant_wallet_router,
    user_wallet_router,
)
from callsheet.wallet.credits import Payments
from callsheet.wallet.requested_checks import LedgerAuditor, LedgerAudits
from callsheet.wallet.routes import service_wallet_router, wallet_router


@dataclass(frozen=True, slots=True)
class WalletRoom(Room):
    auditor: LedgerAuditor
    audits: LedgerAudits

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.auditor,)


def open_wallet(databases: Databases) -> WalletRoom:
    auditor = LedgerAuditor(databases)
    return WalletRoom(auditor, LedgerAudits(databases, auditor.wake))


def wallet_routers(
    databases: Databases, wallet: WalletRoom, identity: IdentityRoom, changed: Callable[[UUID, UUID], None]
) -> list[Router]:
    """All routes of the wallet room. `changed`: called with tenant and owner after a commit, so that streams show the
    new balance.
    """
    authentication = identity.authentication
    wallets = ReachedWallets(identity.routing, identity.accounts)
    payments = Payments(identity.audit, changed)
    return [
        wallet_router(databases, authentication),
        service_wallet_router(databases, payments, authentication),
        user_wallet_router(wallets, payments, authentication),
        tenant_wallet_router(wallets, payments, authentication),
        ledger_audit_router(wallet.audits, authentication),
    ]
