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
from callsheet.wallet.requested_checks import LedgerAuditor, LedgerAudits
from callsheet.wallet.routes import (
    admin_credit_router,
    admin_wallet_router,
    ledger_audit_router,
    service_wallet_router,
    wallet_router,
    wallets_of_users,
)


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
    """All routes of the wallet room. `changed`: called with tenant and user after a commit, so that streams show the
    new balance.
    """
    authentication = identity.authentication
    wallet_of = wallets_of_users(identity.routing, identity.accounts)
    return [
        wallet_router(databases, authentication),
        service_wallet_router(databases, identity.audit, authentication, changed),
        admin_wallet_router(wallet_of, authentication),
        admin_credit_router(wallet_of, identity.audit, authentication, changed),
        ledger_audit_router(wallet.audits, authentication),
    ]
