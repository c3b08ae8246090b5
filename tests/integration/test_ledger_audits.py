"""Audits of the ledger that operators request: each runs once, on any control plane, after any crash."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from callsheet.plumbing.failpoints import Failpoint
from callsheet.wallet.requested_checks import KEPT_AUDITS, SQL, ClaimedPool, LedgerAuditor, LedgerAudits
from callsheet.wire.errors import NotFound
from tests.support.jobs.core import Core
from tests.support.jobs.crashes import crashed_at

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACTOR = "operator"


async def finish(auditor: LedgerAuditor) -> None:
    while await auditor.tick(NOW):
        pass


@pytest.fixture
def auditor(core: Core) -> LedgerAuditor:
    return LedgerAuditor(core.databases)


@pytest.fixture
def audits(core: Core, auditor: LedgerAuditor) -> LedgerAudits:
    return LedgerAudits(core.databases, auditor.wake)


async def test_an_audit_of_all_pools_says_that_every_wallet_balances(
    core: Core, audits: LedgerAudits, auditor: LedgerAuditor
) -> None:
    for pool in ("pool_1", "pool_2"):
        member = await core.member(pool, tokens=40)
        await core.submit(member, cost=7)
    requested = await audits.request(ACTOR)
    assert (requested.state, [pool.pool for pool in requested.pools]) == ("running", ["pool_1", "pool_2"])
    assert await auditor.tick(NOW)
    half = await audits.get(requested.id)
    assert (half.state, [pool.finished_at is not None for pool in half.pools]) == ("running", [True, False])
    await finish(auditor)
    done = await audits.get(requested.id)
    assert (done.state, done.requested_by) == ("balanced", ACTOR)
    for pool in done.pools:
        assert (pool.balance, pool.held, pool.credited, pool.spent, pool.findings) == (33, 7, 40, 0, 0)
        assert (pool.wallets, pool.transactions) == (1, 2)
    # It is done: nothing is left to claim.
    assert not await auditor.tick(NOW)


async def test_one_audit_runs_at_a_time(core: Core, audits: LedgerAudits, auditor: LedgerAuditor) -> None:
    first, *others = await asyncio.gather(*(audits.request(ACTOR) for _ in range(5)))
    assert {other.id for other in others} == {first.id}
    await finish(auditor)
    assert (await audits.request(ACTOR)).id != first.id
    lines = "SELECT count(*) FROM audit_logs WHERE action = 'wallet.audit'"
    async with core.databases.central.connection() as connection:
        assert await connection.fetchval(lines) == 2


async def test_wrong_rows_are_counted_and_shown(core: Core, audits: LedgerAudits, auditor: LedgerAuditor) -> None:
    member = await core.member("pool_1", tokens=40)
    async with member.pool.connection() as connection:
        await connection.execute("UPDATE token_wallets SET balance = 41 WHERE owner_id = $1", member.user_id)
    requested = await audits.request(ACTOR)
    await finish(auditor)
    found = await audits.get(requested.id)
    assert (found.state, [pool.findings for pool in found.pools]) == ("findings", [1, 0])
    [finding] = found.pools[0].first_findings or []
    assert (finding.rule, finding.row["balance"], finding.row["total"]) == ("balances", 41, 40)
    assert finding.row["owner_id"] == str(member.user_id)
    # A list has no findings.
    [listed] = (await audits.list(None, 10)).items
    assert (listed.state, listed.pools[0].first_findings) == ("findings", None)


async def test_a_crash_before_the_result_is_repeated_by_another_process(
    core: Core, audits: LedgerAudits, auditor: LedgerAuditor
) -> None:
    requested = await audits.request(ACTOR)
    assert await crashed_at(Failpoint.LEDGER_AUDIT_BEFORE_RESULT, auditor.tick(NOW))
    other = LedgerAuditor(core.databases)
    # The pool of the dead process is not free yet.
    await finish(other)
    assert (await audits.get(requested.id)).state == "running"
    async with core.databases.central.connection() as connection:
        expire = "UPDATE ledger_audit_pools SET claimed_until = now() - interval '1 s' WHERE claim IS NOT NULL"
        await connection.execute(expire)
    await finish(other)
    assert (await audits.get(requested.id)).state == "balanced"


async def test_a_process_that_was_overtaken_writes_nothing(
    core: Core, audits: LedgerAudits, auditor: LedgerAuditor
) -> None:
    requested = await audits.request(ACTOR)
    async with core.databases.central.connection() as connection:
        slow = await SQL["claim_pool"].row(connection, ClaimedPool, claim=uuid4(), seconds=0.0)
        assert slow is not None
        await finish(auditor)
        totals = dict.fromkeys(("wallets", "transactions", "balance", "held", "credited", "spent"))
        late = {**totals, "error": "late", "findings": 9, "first_findings": [], "claim": uuid4()}
        assert await SQL["finish_pool"].run(connection, **slow._asdict(), **late) == 0
    assert (await audits.get(requested.id)).state == "balanced"


async def test_an_unavailable_pool_leaves_the_audit_incomplete(
    core: Core, audits: LedgerAudits, auditor: LedgerAuditor
) -> None:
    requested = await audits.request(ACTOR)
    async with core.databases.central.connection() as connection:
        await connection.execute("UPDATE ledger_audit_pools SET pool = 'pool_9' WHERE pool = 'pool_2'")
    await finish(auditor)
    audit = await audits.get(requested.id)
    assert (audit.state, audit.pools[1].findings) == ("incomplete", None)
    assert "was not available" in (audit.pools[1].error or "")


async def test_the_last_audits_are_kept_and_listed_by_pages(core: Core, audits: LedgerAudits) -> None:
    many = "INSERT INTO ledger_audits (requested_by, finished_at) SELECT 'operator', now() FROM generate_series(1, $1)"
    async with core.databases.central.connection() as connection:
        await connection.execute(many, KEPT_AUDITS + 10)
    newest = await audits.request(ACTOR)
    ids: list[int] = []
    cursor: int | None = None
    while True:
        page = await audits.list(cursor, 20)
        ids += [audit.id for audit in page.items]
        if page.next_cursor is None:
            break
        cursor = int(page.next_cursor)
    assert (len(ids), ids[0], ids == sorted(ids, reverse=True)) == (KEPT_AUDITS + 1, newest.id, True)
    with pytest.raises(NotFound):
        await audits.get(ids[-1] - 1)
