"""Audits that operators request. Central stores them, and control planes run them pool by pool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY, is_outage
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wallet.ledger_check import PoolResult, audit_pool
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.money.wallet import LedgerAudit, LedgerFinding, PoolAudit

SQL = statements("callsheet.wallet", "audit_statements.sql")
log = get_logger(__name__)

KEPT_AUDITS = 50
KEPT_FINDINGS = 100
CLAIM_SECONDS = 60.0
RENEWAL_SECONDS = 15.0


class AuditRow(NamedTuple):
    id: int
    requested_by: str
    requested_by_email: str | None
    requested_at: datetime
    finished_at: datetime | None


class AuditPoolRow(NamedTuple):
    audit_id: int
    pool: str
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    wallets: int | None
    transactions: int | None
    balance: Decimal | None
    held: Decimal | None
    credited: Decimal | None
    spent: Decimal | None
    findings: int | None
    first_findings: list[dict[str, Any]] | None


class ClaimedPool(NamedTuple):
    audit_id: int
    pool: str


class LedgerAudits:
    def __init__(self, databases: Databases, wake: Callable[[], None]):
        self._databases = databases
        # Starts the audit in this process at once. Other control planes look for audits from time to time.
        self._wake = wake

    async def request(self, actor: str) -> LedgerAudit:
        """Starts an audit of all pools, or returns the one that runs."""
        async with self._databases.central.transaction() as connection:
            audit_id = await SQL["request_audit"].value(connection, requested_by=actor)
            if audit_id is not None:
                await SQL["add_pools"].run(connection, audit_id=audit_id)
                await SQL["delete_old_audits"].run(connection, kept=KEPT_AUDITS)
                await record(connection, actor, "wallet.audit", "ledger_audit", audit_id)
            else:
                audit_id = await SQL["running_audit"].value(connection)
        self._wake()
        if audit_id is None:
            # The audit that ran has finished at this moment.
            page = await self.list(None, 1)
            return await self.get(page.items[0].id)
        return await self.get(audit_id)

    async def list(self, before: int | None, limit: int) -> Page[LedgerAudit]:
        """The audits, newest first, without findings."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_audits"].rows(connection, AuditRow, before=before, limit=limit + 1)
            items = await _views(connection, rows[:limit], with_findings=False)
        return Page(items=items, next_cursor=str(items[-1].id) if len(rows) > limit else None)

    async def get(self, audit_id: int) -> LedgerAudit:
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_audits"].rows(connection, AuditRow, before=audit_id + 1, limit=1)
            views = await _views(connection, rows, with_findings=True)
        if not views or views[0].id != audit_id:
            raise NotFound("There is no such audit.")
        return views[0]


class LedgerAuditor(Loop):
    """Runs requested audits, one pool at a time. If a process dies, its claim expires, and another process repeats
    the pool: an audit only reads.
    """

    name = "ledger_auditor"
    interval_seconds = 30.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases

    async def tick(self, now: datetime) -> bool:
        """Audits one pool. Returns whether there may be another pool to audit."""
        claim = uuid4()
        async with self._databases.central.transaction() as connection:
            claimed = await SQL["claim_pool"].row(connection, ClaimedPool, claim=claim, seconds=CLAIM_SECONDS)
        if claimed is None:
            return False
        await hit(Failpoint.LEDGER_AUDIT_BEFORE_RESULT)
        result, error = await self._audit(claimed, claim)
        await self._finish(claimed, claim, result, error)
        return True

    async def _audit(self, claimed: ClaimedPool, claim: UUID) -> tuple[PoolResult | None, str | None]:
        renewal = asyncio.create_task(self._renew(claimed, claim))
        try:
            return await audit_pool(await self._databases.pool(claimed.pool), KEPT_FINDINGS), None
        except Exception as error:
            if is_outage(error):
                log.warning("ledger_audit.pool_away", pool=claimed.pool, error=repr(error))
                return None, "The pool was not available. Run the audit again when the pool is available."
            log.exception("ledger_audit.failed", pool=claimed.pool)
            return None, f"The audit failed with {type(error).__name__}. The log has the details: ledger_audit.failed."
        finally:
            renewal.cancel()

    async def _renew(self, claimed: ClaimedPool, claim: UUID) -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            with suppress(*DATABASE_AWAY):
                async with self._databases.central.connection() as connection:
                    values = {**claimed._asdict(), "claim": claim, "seconds": CLAIM_SECONDS}
                    await SQL["renew_claim"].run(connection, **values)

    async def _finish(self, claimed: ClaimedPool, claim: UUID, result: PoolResult | None, error: str | None) -> None:
        totals = asdict(result.totals) if result else dict.fromkeys(_TOTALS)
        first = [{"rule": each.rule, "row": each.row} for each in result.first] if result else []
        values = {"error": error, "findings": result and result.count, **totals}
        async with self._databases.central.transaction() as connection:
            await SQL["lock_audit"].run(connection, audit_id=claimed.audit_id)
            await SQL["finish_pool"].run(
                connection,
                **claimed._asdict(),
                **values,
                claim=claim,
                # Ids and times are shown as text.
                first_findings=json.loads(json.dumps(first, default=str)),
            )
            await SQL["finish_audit"].run(connection, audit_id=claimed.audit_id)
        if result is not None and result.count:
            log.error("ledger_audit.findings", pool=claimed.pool, findings=result.count)


_TOTALS = ("wallets", "transactions", "balance", "held", "credited", "spent")


async def _views(connection: Connection, rows: Sequence[AuditRow], *, with_findings: bool) -> list[LedgerAudit]:
    pools = await SQL["pools_of_audits"].rows(
        connection, AuditPoolRow, audit_ids=[row.id for row in rows], with_findings=with_findings
    )
    return [_view(row, [_pool(each) for each in pools if each.audit_id == row.id]) for row in rows]


def _view(row: AuditRow, pools: list[PoolAudit]) -> LedgerAudit:
    return LedgerAudit(**row._asdict(), state=_state(row, pools), pools=pools)


def _state(row: AuditRow, pools: Sequence[PoolAudit]) -> str:
    if row.finished_at is None:
        return "running"
    if any(pool.findings for pool in pools):
        return "findings"
    return "incomplete" if any(pool.error for pool in pools) else "balanced"


def _pool(row: AuditPoolRow) -> PoolAudit:
    found = row.first_findings
    first = None if found is None else [LedgerFinding(**each) for each in found]
    values = {name: None if value is None else int(value) for name in _TOTALS for value in [getattr(row, name)]}
    return PoolAudit(
        pool=row.pool,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        findings=row.findings,
        first_findings=first,
        **values,
    )
