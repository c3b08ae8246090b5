"""The figures of each provider are right at any time of counting, and cheap to count and to read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import asyncpg
import pytest

from callsheet.jobs.lease.progress import ProgressReport
from callsheet.operate.statistics.keeper import CountingProgress
from callsheet.operate.statistics.spend import ProviderCallsRow, ProviderTokensRow, Spend, spending
from callsheet.operate.statistics.spend_keeper import (
    CALLS,
    CENTRAL_SQL,
    DAYS,
    POOL_SQL,
    STEP_SECONDS,
    TOKENS,
    SpendKeeper,
    first_step,
)
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wire.operate.providers import SpendWindow
from tests.support.database.full_databases import TENANT, fill_pool, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import explain_once
from tests.support.jobs.core import Core, Member

NOW = datetime(2026, 11, 17, 12, 34, 56, tzinfo=UTC)
BIG = {"dispatch_history", "ai_jobs", "token_transactions"}


async def count(core: Core) -> None:
    keeper = SpendKeeper(core.databases)
    while await keeper.tick(NOW):
        pass


async def windows(core: Core, provider: str) -> tuple[SpendWindow, SpendWindow]:
    spent = await Spend(core.databases, {}, "USD").read()
    found = {each.provider: (each.last_24h, each.last_30d) for each in spent.providers}
    return found[provider]


async def run_job(core: Core, member: Member, provider: str, cost: int, *, fails: bool = False) -> None:
    await core.submit(member, cost=cost, provider=provider)
    started = await core.start(criteria=core.criteria(providers=(provider,)))
    await (core.fail(started) if fails else core.complete(started))


async def test_charged_tokens_and_calls_are_counted_once_per_provider(core: Core) -> None:
    member, other = await core.member(), await core.member("pool_2")
    for cost in (5, 7):
        await run_job(core, member, "replicate", cost)
    await run_job(core, other, "replicate", 100)
    await run_job(core, member, "replicate", 900, fails=True)
    await run_job(core, member, "speech", 3)
    for _ in range(3):
        await count(core)
    day, month = await windows(core, "replicate")
    assert (day.calls, day.completed, day.failed, day.tokens) == (4, 3, 1, 112)
    assert day == month
    assert (await windows(core, "speech"))[0].tokens == 3


async def test_a_canceled_job_counts_with_the_tokens_that_it_had_spent(core: Core) -> None:
    member = await core.member()
    job = await core.submit(member, cost=100, provider="replicate", refund_on_cancel="unspent")
    started = await core.start(criteria=core.criteria(providers=("replicate",)))
    lease = started.lease
    progress = ProgressReport(percent=40)
    await core.room.progress.record(lease.cycle, lease.lease_seq, progress)
    await core.room.cancellation.cancel(member.tenant_id, job.id, actor="user:ann")
    [refund] = await core.rows(member.pool, "SELECT kept FROM token_transactions WHERE type = 'JOB_REFUND'")
    await count(core)
    assert refund["kept"] > 0
    assert (await windows(core, "replicate"))[0].tokens == refund["kept"]


async def test_a_retried_job_is_charged_once(core: Core) -> None:
    member = await core.member()
    job = await core.submit(member, cost=9, provider="replicate")
    criteria = core.criteria(providers=("replicate",))
    await core.fail(await core.start(criteria=criteria))
    await count(core)
    assert (await windows(core, "replicate"))[0].tokens == 0
    await core.room.retries.retry(member.tenant_id, job.id, actor="user:ann")
    await core.complete(await core.start(criteria=criteria))
    await count(core)
    day, _ = await windows(core, "replicate")
    assert (day.calls, day.completed, day.failed, day.tokens) == (2, 1, 1, 9)


async def test_jobs_that_ended_while_no_control_plane_ran_are_counted_later(core: Core) -> None:
    member = await core.member()
    await run_job(core, member, "replicate", 5)
    await count(core)
    for database, table in (
        (core.databases.central, "calls_by_provider"),
        *((pool, "tokens_by_provider") for pool in core.databases.pools),
    ):
        await core.rows(database, f"TRUNCATE {table}")
        await core.rows(database, f"UPDATE {table}_progress SET counted_until = clock_timestamp() - interval '5 hours'")
    await count(core)
    day, _ = await windows(core, "replicate")
    assert (day.calls, day.tokens) == (1, 5)


async def test_steps_older_than_the_longest_window_are_deleted_and_not_read(core: Core) -> None:
    old = "INSERT INTO tokens_by_provider VALUES (now() - interval '{} days', 'old', 1)"
    pool = await core.databases.pool("pool_1")
    for days in (29, 30, 32):
        await core.rows(pool, old.format(days))
    assert (await windows(core, "old"))[1].tokens == 1
    await count(core)
    [left] = await core.rows(pool, "SELECT count(*) AS steps FROM tokens_by_provider")
    assert left["steps"] == 2


async def test_one_process_counts_a_database_at_a_time_and_the_others_do_not_wait(core: Core) -> None:
    await run_job(core, await core.member(), "replicate", 5)
    other = await asyncpg.connect(core.databases.central.dsn)
    try:
        async with other.transaction():
            assert await other.fetchval(CALLS.try_lock.text)
            await count(core)
            day, _ = await windows(core, "replicate")
            # The pool is not locked, so it is counted.
            assert (day.calls, day.tokens) == (0, 5)
    finally:
        await other.close()
    await count(core)
    assert (await windows(core, "replicate"))[0].calls == 1


def test_a_step_that_was_counted_in_part_is_counted_as_a_whole() -> None:
    counted = datetime(2026, 11, 17, 12, 32, 10, tzinfo=UTC)
    assert first_step(CountingProgress(NOW, counted, None)) == datetime(2026, 11, 17, 12, 20, tzinfo=UTC)
    assert first_step(CountingProgress(NOW, NOW, None)) == datetime(2026, 11, 17, 12, 30, tzinfo=UTC)


def test_money_is_estimated_only_where_the_price_of_a_call_is_known() -> None:
    calls = [ProviderCallsRow("replicate", 30, 28, 2, 10, 9, 1), ProviderCallsRow("speech", 5, 5, 0, 0, 0, 0)]
    tokens = [ProviderTokensRow("replicate", Decimal(7), Decimal(7))]
    replicate, speech = spending(calls, tokens, {"replicate": 0.04, "unused": 1.0})
    assert (replicate.last_24h.estimated_money, replicate.last_30d.estimated_money) == (0.4, 1.2)
    assert (replicate.last_24h.tokens, speech.last_30d.tokens) == (7, 0)
    assert speech.last_30d.estimated_money is None


JOBS, PROVIDERS = 30_000, 8
FILL_HISTORY = f"""
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq, past_lease_tokens, created_at,
    finished_at)
SELECT n, '{TENANT}', gen_random_uuid(), 1, 1, 'production', 'provider-' || n % {PROVIDERS}, '', 0, 'task',
    'completed', 1, 0, 1, '{{}}', now(), now() - make_interval(mins => {JOBS} - n)
FROM generate_series(1, {JOBS}) n ORDER BY n;
INSERT INTO calls_by_provider
SELECT at, 'provider-' || n, 10, 9, 1
FROM generate_series(now() - interval '31 days', now(), interval '10 minutes') at, generate_series(1, {PROVIDERS}) n;
"""
FILL_TOKENS = f"""
UPDATE ai_jobs SET completed_at = now() - make_interval(mins => {JOBS} - ('x' || right(id::text, 8))::bit(32)::integer)
WHERE completed_at IS NOT NULL;
INSERT INTO tokens_by_provider
SELECT at, 'provider-' || n, 10
FROM generate_series(now() - interval '31 days', now(), interval '10 minutes') at, generate_series(1, {PROVIDERS}) n;
"""


@pytest.fixture(scope="module")
async def full(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Databases]:
    """Jobs that ended one per minute: an hour has 60 of them, however many there are."""
    async with opened(postgres, templates_in_both_orders, tmp_path_factory.mktemp("spend")) as databases:
        pool = await databases.pool("pool_1")
        await without_autovacuum(databases.central, "dispatch_history", "calls_by_provider")
        await without_autovacuum(pool, "ai_jobs", "tokens_by_provider")
        await fill_pool(pool, JOBS)
        for database, fill in ((databases.central, FILL_HISTORY), (pool, FILL_TOKENS)):
            async with database.transaction() as filling:
                await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL enable_seqscan = on")
                await filling.execute(fill, timeout=600)
            async with database.connection() as connection:
                await connection.execute("VACUUM ANALYZE")
        yield databases


@pytest.mark.thorough
async def test_g11_counting_reads_only_recently_ended_jobs(full: Databases) -> None:
    now = datetime.now(UTC)
    values = {"since": now - timedelta(hours=1), "until": now, "step_seconds": STEP_SECONDS}
    # The index of the history names ranges of 32 pages; the whole history has 900 pages here.
    for database, steps, max_buffers in ((full.central, CALLS, 400), (await full.pool("pool_1"), TOKENS, 500)):
        seen = await explain_once(database, steps.count_steps, values)
        assert not seen.scanned & BIG
        assert seen.buffers <= max_buffers
        progress = await explain_once(database, steps.read_progress, {})
        assert progress.buffers <= 20
        old = await explain_once(database, steps.delete_old_steps, {"before": now - timedelta(days=31)})
        assert old.buffers <= 100


@pytest.mark.thorough
async def test_g11_reading_a_month_reads_only_its_own_rows(full: Databases) -> None:
    # 4,320 steps of each provider; neither jobs nor dispatches.
    max_buffers = 4320 * PROVIDERS // 60
    for database, sql, name in (
        (full.central, CENTRAL_SQL, "read_calls"),
        (await full.pool("pool_1"), POOL_SQL, "read_tokens"),
    ):
        seen = await explain_once(database, sql[name], {"days": DAYS})
        assert seen.rows == PROVIDERS
        assert not seen.scanned & BIG
        assert seen.buffers <= max_buffers
