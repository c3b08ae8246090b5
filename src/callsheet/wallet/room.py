"""Builds the parts of the wallet room that exist as long as the process."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.plumbing.database.databases import Databases
from callsheet.toolbox.loops import Loop
from callsheet.wallet.requested_checks import LedgerAuditor, LedgerAudits


@dataclass(frozen=True, slots=True)
class WalletRoom:
    auditor: LedgerAuditor
    audits: LedgerAudits

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.auditor,)


def open_wallet(databases: Databases) -> WalletRoom:
    auditor = LedgerAuditor(databases)
    return WalletRoom(auditor, LedgerAudits(databases, auditor.wake))
