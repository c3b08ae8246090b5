"""Money: the ledger, the rows that the database refuses, and an audit that finds every error (G2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import hypothesis
import pytest
from hypothesis import strategies

import callsheet
from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wallet.credits import OwnedWallet, Payments
from callsheet.wallet.ledger import Holdings, balance_of, credit, holdings_of, pays_for_users
from callsheet.wallet.ledger_check import LedgerFinding, audit, audit_pool
from callsheet.wire.errors import Conflict, InsufficientTokens, InvalidRequest
from callsheet.wire.money.wallet import MAX_TOKENS, Credit
from tests.chaos.state_machines import MachineEnvironment
from tests.support.database.installation import empty, installation, isolate, place_variables
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.crashes import crashed_at
from tests.support.programs.commands import Callsheet

SOURCE = Path(callsheet.__file__).parent


async def test_the_same_payment_twice_is_one_credit(core: Core) -> None:
    ann = await core.member("pool_1", tokens=0)
    payments = [credit(ann.pool, ann.tenant_id, ann.user_id, 40, "payment-a") for _ in range(10)]
    responses = await asyncio.gather(*payments)
    assert [balance for balance, _ in responses] == [40] * 10
    assert sorted(replayed for _, replayed in responses) == [False] + [True] * 9
    assert await balance_of(ann.pool, ann.tenant_id, ann.user_id) == 40
    await core.check()


async def test_a_repeated_credit_writes_the_audit_line_that_a_crash_prevented(core: Core) -> None:
    ann = await core.member("pool_1", tokens=0)

    async def give(payment: str) -> bool:
        payments = Payments(AuditLog(core.databases))
        wallet = OwnedWallet(ann.pool, ann.tenant_id, ann.user_id)
        given = await payments.credit("operator", wallet, Credit(amount=40, provider_transaction_id=payment))
        return given.replayed

    async def lines() -> list[dict[str, Any]]:
        query = "SELECT details FROM audit_logs WHERE action = 'wallet.credit' AND subject_id = $1 ORDER BY id"
        return [row["details"] for row in await core.rows(core.databases.central, query, str(ann.user_id))]

    assert await crashed_at(Failpoint.CREDIT_BEFORE_AUDIT, give("payment-a"))
    assert (await core.balance(ann), await lines()) == (40, [])
    assert await asyncio.gather(*(give("payment-a") for _ in range(5))) == [True] * 5
    repaired = {"amount": 40, "provider_transaction_id": "payment-a", "replayed": True}
    assert (await core.balance(ann), await lines()) == (40, [repaired])
    assert [await give("payment-b"), await give("payment-b")] == [False, True]
    assert await lines() == [repaired, {"amount": 40, "provider_transaction_id": "payment-b"}]
    await core.check()


async def test_a_repeated_change_of_the_payer_writes_the_audit_line_that_a_crash_prevented(core: Core) -> None:
    ann = await core.member("pool_1", tokens=0)
    payments = Payments(AuditLog(core.databases))

    async def lines() -> list[dict[str, Any]]:
        query = "SELECT details FROM audit_logs WHERE action = 'tenant.wallet' AND subject_id = $1"
        return [row["details"] for row in await core.rows(core.databases.central, query, str(ann.tenant_id))]

    def change() -> Coroutine[Any, Any, None]:
        return payments.change_payer("operator", ann.pool, ann.tenant_id, "tenant")

    assert await crashed_at(Failpoint.CREDIT_BEFORE_AUDIT, change())
    assert (await pays_for_users(ann.pool, ann.tenant_id), await lines()) == (True, [])
    await change()
    assert await lines() == [{"paid_by": "tenant"}]


async def test_a_payment_cannot_be_credited_again_with_another_amount_or_to_another_user(core: Core) -> None:
    ann = await core.member("pool_1", tokens=0)
    bob = await core.member(tenant=ann, tokens=0)
    await core.credit(ann, 40, "payment-a")
    for member, amount in ((ann, 41), (bob, 40)):
        with pytest.raises(Conflict) as refused:
            await core.credit(member, amount, "payment-a")
        assert [error.field for error in refused.value.errors] == ["provider_transaction_id"]
    assert (await core.balance(ann), await core.balance(bob)) == (40, 0)


async def test_two_tenants_may_have_payments_of_the_same_name(core: Core) -> None:
    members = [await core.member(pool, tokens=0) for pool in ("pool_1", "pool_1", "pool_2")]
    assert [await core.credit(member, 5, "payment-a") for member in members] == [5, 5, 5]


async def test_a_full_wallet_refuses_a_credit_and_names_the_largest_possible_amount(core: Core) -> None:
    ann = await core.member("pool_1", tokens=MAX_TOKENS - 5)
    with pytest.raises(InvalidRequest) as refused:
        await core.credit(ann, 6, "one-too-many")
    assert [error.field for error in refused.value.errors] == ["amount"]
    assert "can take 5 more tokens" in refused.value.errors[0].reason
    assert await core.credit(ann, 5, "the rest") == MAX_TOKENS
    # A payment that was credited before gets the same response as before, though the wallet is full.
    assert await credit(ann.pool, ann.tenant_id, ann.user_id, 5, "the rest") == (MAX_TOKENS, True)
    await core.check()


@pytest.mark.parametrize("end", ["cancel", "fail", "deadline"])
async def test_a_credit_leaves_room_for_what_active_jobs_hold(core: Core, end: str) -> None:
    ann = await core.member("pool_1", tokens=MAX_TOKENS)
    job = await core.submit(ann, cost=1000)
    with pytest.raises(InvalidRequest) as refused:
        await core.credit(ann, 1, "fills what was reserved")
    assert "active jobs hold 1000" in refused.value.errors[0].reason
    match end:
        case "cancel":
            await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user:ann")
        case "fail":
            await core.fail(await core.start())
        case _:
            await core.enforce_deadlines(datetime.now(UTC) + timedelta(days=400))
    assert (await core.balance(ann), await core.ledger(ann, job.id)) == (
        MAX_TOKENS,
        [(1, "JOB_RESERVE", -1000), (1, "JOB_REFUND", 1000)],
    )
    await core.check_drained()


async def test_tokens_that_a_completed_job_spent_can_be_credited_again(core: Core) -> None:
    ann = await core.member("pool_1", tokens=MAX_TOKENS)
    await core.submit(ann, cost=1000)
    await core.complete(await core.start())
    assert await holdings_of(ann.pool, ann.tenant_id, ann.user_id) == Holdings(MAX_TOKENS - 1000, 0)
    assert await core.credit(ann, 1000, "again") == MAX_TOKENS


async def test_a_wallet_filled_before_the_limit_keeps_its_tokens_and_settles(core: Core) -> None:
    ann = await core.member("pool_1", tokens=1)
    much = 2**62
    await core.rows(
        ann.pool,
        "INSERT INTO token_transactions (tenant_id, user_id, type, amount, provider_transaction_id)"
        " VALUES ($1, $2, 'PAYMENT_CREDIT', $3, 'from before')",
        ann.tenant_id,
        ann.user_id,
        much,
    )
    await core.rows(ann.pool, "UPDATE token_wallets SET balance = $2 WHERE owner_id = $1", ann.user_id, much + 1)
    job = await core.submit(ann, cost=MAX_TOKENS)
    with pytest.raises(InvalidRequest) as refused:
        await core.credit(ann, 1, "now")
    assert "can take 0 more tokens" in refused.value.errors[0].reason
    await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user:ann")
    assert await core.balance(ann) == much + 1
    await core.check_drained()


MOVES = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(["credit", "submit", "cancel", "complete", "fail", "retry"]),
        # Of what there is room for, or of the balance; above 1 it is too much.
        strategies.sampled_from([0.0, 0.001, 0.5, 1.0, 1.001]),
    ),
    min_size=3,
    max_size=12,
)


def test_g2_every_order_of_credits_and_jobs_can_be_settled(shared_settings: Settings) -> None:
    machine_environment = MachineEnvironment(shared_settings)

    @hypothesis.settings(max_examples=10, deadline=None, database=None, derandomize=True)
    @hypothesis.given(moves=MOVES)
    def play(moves: list[tuple[str, float]]) -> None:
        machine_environment.runner.run(_play(machine_environment.databases, moves))

    try:
        play()
    finally:
        machine_environment.close()


async def _play(databases: Databases, moves: list[tuple[str, float]]) -> None:
    await empty(databases)
    core = await open_core(databases, active_per_user=1000).prepare()
    ann = await core.member("pool_1", tokens=MAX_TOKENS - 1)
    own = ann.tenant_id, ann.user_id
    jobs: dict[str, list[UUID]] = {"active": [], "failed": []}
    for number, (move, part) in enumerate(moves):
        wallet = await holdings_of(ann.pool, *own)
        active, failed = jobs["active"], jobs["failed"]
        match move:
            case "credit":
                amount = max(1, int((MAX_TOKENS - wallet.balance - wallet.held) * part))
                fits = wallet.balance + wallet.held + amount <= MAX_TOKENS
                with nullcontext() if fits else pytest.raises(InvalidRequest):
                    await core.credit(ann, amount, f"payment {number}")
            case "submit":
                cost = int(wallet.balance * part)
                with nullcontext() if cost <= wallet.balance else pytest.raises(InsufficientTokens):
                    active.append((await core.submit(ann, cost=cost)).id)
            case "cancel" if active:
                await core.room.cancellation.cancel(ann.tenant_id, active.pop(), actor="user:ann")
            case "complete" | "fail" if active:
                started = await core.start()
                active.remove(started.lease.job_id)
                if move == "fail":
                    failed.append(started.lease.job_id)
                await (core.fail if move == "fail" else core.complete)(started)
            case "retry" if failed:
                with suppress(InsufficientTokens):
                    await core.room.retries.retry(ann.tenant_id, failed[-1], actor="user:ann")
                    active.append(failed.pop())
        wallet = await holdings_of(ann.pool, *own)
        assert wallet.balance + wallet.held <= MAX_TOKENS
    for job_id in jobs["active"]:
        await core.room.cancellation.cancel(ann.tenant_id, job_id, actor="user:ann")
    await core.check()


async def test_a_job_is_reserved_and_then_consumed_or_refunded(core: Core) -> None:
    for pool in ("pool_1", "pool_2"):
        ann = await core.member(pool, tokens=100)
        delivered, broken = await core.submit(ann, cost=30), await core.submit(ann, cost=20)
        assert await core.balance(ann) == 50
        await core.complete(await core.start())
        await core.fail(await core.start())
        assert await core.ledger(ann, delivered.id) == [(1, "JOB_RESERVE", -30), (1, "JOB_CONSUME", 0)]
        assert await core.ledger(ann, broken.id) == [(1, "JOB_RESERVE", -20), (1, "JOB_REFUND", 20)]
        assert await core.balance(ann) == 70
    await core.check_drained()


async def test_a_free_job_is_in_the_ledger(core: Core) -> None:
    ann = await core.member("pool_2", tokens=0)
    free, canceled = await core.submit(ann, cost=0), await core.submit(ann, cost=0)
    await core.complete(await core.start())
    await core.room.cancellation.cancel(ann.tenant_id, canceled.id, actor="user:ann")
    assert await core.ledger(ann, free.id) == [(1, "JOB_RESERVE", 0), (1, "JOB_CONSUME", 0)]
    assert await core.ledger(ann, canceled.id) == [(1, "JOB_RESERVE", 0), (1, "JOB_REFUND", 0)]
    await core.check_drained()


@pytest.mark.parametrize("tokens", [0, 9])
async def test_a_submit_without_enough_tokens_writes_nothing(core: Core, tokens: int) -> None:
    ann = await core.member("pool_1", tokens=tokens)
    with pytest.raises(InsufficientTokens) as refused:
        await core.submit(ann, cost=10, idempotency_key="key")
    assert refused.value.data == {"required_tokens": 10, "balance": tokens, "paid_by": "user"}
    for table in ("ai_jobs", "job_events", "outbox", "user_streams"):
        assert await core.rows(ann.pool, f"SELECT * FROM {table}") == []
    assert await core.balance(ann) == tokens
    # The key was not used up.
    await core.credit(ann, 10)
    assert (await core.submit(ann, cost=10, idempotency_key="key")).status == "queued"
    await core.check()


async def test_a_wallet_is_never_overdrawn_by_submits_at_the_same_time(core: Core) -> None:
    ann = await core.member("pool_1", tokens=35)
    responses = await asyncio.gather(*(core.submit(ann, cost=10) for _ in range(5)), return_exceptions=True)
    assert [type(response) for response in responses].count(InsufficientTokens) == 2
    assert await core.balance(ann) == 5
    await core.check()


@dataclass(frozen=True, slots=True)
class LedgerJobs:
    """A delivered job, a refunded one, one that was retried and one under way, of one user in each pool."""

    member: Member
    delivered: UUID
    refunded: UUID
    retried: UUID
    live: UUID

    @property
    def jobs(self) -> dict[str, UUID]:
        return {name: getattr(self, name) for name in ("delivered", "refunded", "retried", "live")}


@pytest.fixture
async def ledger_jobs(core: Core) -> LedgerJobs:
    """A job of each kind, with its rows in the ledger."""
    await keep_books(core, "pool_1")
    return await keep_books(core, "pool_2")


async def keep_books(core: Core, pool: str) -> LedgerJobs:
    ann = await core.member(pool, tokens=100)
    delivered = await core.submit(ann, cost=10)
    await core.complete(await core.start())
    refunded, retried = await core.submit(ann, cost=10), await core.submit(ann, cost=10)
    await core.fail(await core.start())
    await core.fail(await core.start())
    await core.room.retries.retry(ann.tenant_id, retried.id, actor="user:ann")
    await core.complete(await core.start())
    # The job has a workflow of its own, so that no worker takes it.
    live = await core.submit(ann, cost=10, workflow_id=await core.add_workflow())
    return LedgerJobs(ann, delivered.id, refunded.id, retried.id, live.id)


LINE = (
    "INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, provider_transaction_id)"
)
# Each would be a wrong row; $1 tenant, $2 user, $3 a job of theirs that is under way, $4 one that was delivered.
WRONG_ROWS = {
    "a second reserve": f"{LINE} VALUES ($1, $2, 'JOB_RESERVE', -10, $3, 1, NULL)",
    "a second settlement": f"{LINE} VALUES ($1, $2, 'JOB_CONSUME', 0, $4, 1, NULL)",
    "consumed and refunded": f"{LINE} VALUES ($1, $2, 'JOB_REFUND', 10, $4, 1, NULL)",
    "a reserve that gives": f"{LINE} VALUES ($1, $2, 'JOB_RESERVE', 10, $3, 2, NULL)",
    "a refund that takes": f"{LINE} VALUES ($1, $2, 'JOB_REFUND', -10, $3, 1, NULL)",
    "a consume that costs": f"{LINE} VALUES ($1, $2, 'JOB_CONSUME', -1, $3, 1, NULL)",
    "a credit that takes": f"{LINE} VALUES ($1, $2, 'PAYMENT_CREDIT', -5, NULL, NULL, 'p')",
    "a credit of nothing": f"{LINE} VALUES ($1, $2, 'PAYMENT_CREDIT', 0, NULL, NULL, 'p')",
    "a credit without its payment": f"{LINE} VALUES ($1, $2, 'PAYMENT_CREDIT', 5, NULL, NULL, NULL)",
    "a credit for a job": f"{LINE} VALUES ($1, $2, 'PAYMENT_CREDIT', 5, $3, 1, 'p')",
    "a refund without a job": f"{LINE} VALUES ($1, $2, 'JOB_REFUND', 5, NULL, NULL, NULL)",
    "a refund without a cycle": f"{LINE} VALUES ($1, $2, 'JOB_REFUND', 5, $3, NULL, NULL)",
    "a refund with a payment": f"{LINE} VALUES ($1, $2, 'JOB_REFUND', 5, $3, 1, 'p')",
    "a refund of no job": f"{LINE} VALUES ($1, $2, 'JOB_REFUND', 5, gen_random_uuid(), 1, NULL)",
    "a line of another kind": f"{LINE} VALUES ($1, $2, 'GIFT', 5, $3, 1, NULL)",
    "a line of no wallet": f"{LINE} VALUES ($1, gen_random_uuid(), 'PAYMENT_CREDIT', 5, NULL, NULL, 'p')",
    "a known payment": f"{LINE} SELECT $1, $2, 'PAYMENT_CREDIT', 5, NULL, NULL, provider_transaction_id"
    " FROM token_transactions WHERE tenant_id = $1 AND provider_transaction_id IS NOT NULL",
    "a reserve that keeps something": (
        "INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, kept)"
        " VALUES ($1, $2, 'JOB_RESERVE', -5, $3, 2, 5)"
    ),
    "a refund that keeps less than nothing": (
        "INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, kept)"
        " VALUES ($1, $2, 'JOB_REFUND', 15, $3, 1, -5)"
    ),
    "a payment of the tenant that names a user": (
        "INSERT INTO token_transactions (tenant_id, user_id, type, amount, provider_transaction_id, of_tenant)"
        " VALUES ($1, $2, 'PAYMENT_CREDIT', 5, 'p', true)"
    ),
    "a reserve of the tenant without a user": (
        "INSERT INTO token_transactions (tenant_id, user_id, type, amount, job_id, charge_cycle, of_tenant)"
        " SELECT $1, $1, 'JOB_RESERVE', -5, $3, 2, true FROM wallet_lock($1, $1)"
    ),
    "an overdraft of the tenant by the function": (
        "SELECT wallet_move($1, $2, 'JOB_RESERVE', -1, $3, 2, NULL, from_tenant => true) FROM wallet_lock($1, $1)"
    ),
    "money for a tenant without a wallet": (
        "SELECT wallet_move($1, $1, 'PAYMENT_CREDIT', 5, NULL, NULL, 'p', from_tenant => true)"
    ),
    "an overdraft": "UPDATE token_wallets SET balance = -1 WHERE tenant_id = $1",
    "an overdraft by the function": "SELECT wallet_move($1, $2, 'JOB_RESERVE', -1000, $3, 2, NULL)",
    "a second settlement by the function": (
        "SELECT wallet_consume(ARRAY[$1]::uuid[], ARRAY[$2]::uuid[], ARRAY[false], ARRAY[$4]::uuid[], ARRAY[1])"
    ),
    "one of two settlements by the function": (
        "SELECT wallet_consume("
        "ARRAY[$1, $1]::uuid[], ARRAY[$2, $2]::uuid[], ARRAY[false, false], ARRAY[$3, $4]::uuid[], ARRAY[1, 1])"
    ),
    "money for no wallet": "SELECT wallet_move($1, gen_random_uuid(), 'PAYMENT_CREDIT', 5, NULL, NULL, 'p')",
    "a wallet of no tenant": "INSERT INTO token_wallets VALUES (gen_random_uuid(), gen_random_uuid(), 0)",
    "a second wallet": "INSERT INTO token_wallets VALUES ($1, $2, 0)",
    "a wallet that vanishes": "DELETE FROM token_wallets WHERE tenant_id = $1",
    "a job that vanishes": "DELETE FROM ai_jobs WHERE tenant_id = $1 AND id = $3",
    "a job of a negative cost": "UPDATE ai_jobs SET cost = -1 WHERE tenant_id = $1 AND id = $3",
    "a job of no wallet": "UPDATE ai_jobs SET user_id = gen_random_uuid() WHERE tenant_id = $1 AND id = $3",
    "an ended job without its time": "UPDATE ai_jobs SET status = 'failed' WHERE tenant_id = $1 AND id = $3",
    "a job that runs without a lease": "UPDATE ai_jobs SET status = 'processing' WHERE tenant_id = $1 AND id = $3",
}


async def test_the_database_refuses_every_wrong_row(core: Core, ledger_jobs: LedgerJobs) -> None:
    ann = ledger_jobs.member
    values = (ann.tenant_id, ann.user_id, ledger_jobs.live, ledger_jobs.delivered)
    accepted = []
    for what, statement in WRONG_ROWS.items():
        text = re.sub(r"\$(\d)", lambda number: f"'{values[int(number[1]) - 1]}'", statement)
        try:
            await core.rows(ann.pool, text)
            accepted.append(what)
        except (asyncpg.IntegrityConstraintViolationError, asyncpg.NoDataFoundError):
            pass
    assert accepted == []
    await core.check()


# What is done to the books (constraints that would refuse it go first), and the rule and job that must be named.
BROKEN = {
    "a balance that is not the sum": (
        "UPDATE token_wallets SET balance = balance + 1 WHERE {tenant}",
        {("balances", None)},
    ),
    "a line that no balance knows": (
        LINE + " VALUES ('{tenant_id}', '{user_id}', 'PAYMENT_CREDIT', 5, NULL, NULL, 'p')",
        {("balances", None)},
    ),
    "lines without a wallet": (
        "ALTER TABLE token_transactions DROP CONSTRAINT wallet_exists;"
        + LINE
        + " VALUES ('{tenant_id}', gen_random_uuid(), 'PAYMENT_CREDIT', 5, NULL, NULL, 'p')",
        {("balances", None)},
    ),
    "a negative balance": (
        "ALTER TABLE token_wallets DROP CONSTRAINT wallet_is_never_negative;"
        "ALTER TABLE token_transactions DROP CONSTRAINT IF EXISTS amount_fits_its_type;"
        + LINE
        + " VALUES ('{tenant_id}', '{user_id}', 'PAYMENT_CREDIT', -1000, NULL, NULL, 'p');"
        "UPDATE token_wallets SET balance = balance - 1000 WHERE {tenant}",
        {("balances", None)},
    ),
    "a job without its reserve": (
        "DELETE FROM token_transactions WHERE {tenant} AND job_id = '{live}';"
        "UPDATE token_wallets SET balance = balance + 10 WHERE {tenant}",
        {("settlements", "live")},
    ),
    "a job reserved twice": (
        "ALTER TABLE token_transactions DROP CONSTRAINT one_line_per_cycle_and_type;"
        "SELECT wallet_move('{tenant_id}', '{user_id}', 'JOB_RESERVE', -10, '{live}', 1, NULL)",
        {("settlements", "live")},
    ),
    "a reserve that is not the cost": (
        "UPDATE token_transactions SET amount = -11 WHERE {tenant} AND job_id = '{live}';"
        "UPDATE token_wallets SET balance = balance - 1 WHERE {tenant}",
        {("settlements", "live")},
    ),
    "a delivered job that was not consumed": (
        "DELETE FROM token_transactions WHERE {tenant} AND job_id = '{delivered}' AND type = 'JOB_CONSUME'",
        {("settlements", "delivered")},
    ),
    "a failed job that was not refunded": (
        "DELETE FROM token_transactions WHERE {tenant} AND job_id = '{refunded}' AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 10 WHERE {tenant}",
        {("settlements", "refunded")},
    ),
    "a retried cycle that was not refunded": (
        "DELETE FROM token_transactions WHERE {tenant} AND job_id = '{retried}' AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 10 WHERE {tenant}",
        {("settlements", "retried")},
    ),
    "a live job that was consumed": (
        "SELECT wallet_move('{tenant_id}', '{user_id}', 'JOB_CONSUME', 0, '{live}', 1, NULL)",
        {("settlements", "live")},
    ),
    "a live job that was refunded": (
        "SELECT wallet_move('{tenant_id}', '{user_id}', 'JOB_REFUND', 10, '{live}', 1, NULL)",
        {("settlements", "live")},
    ),
    "a failed job that was consumed": (
        "UPDATE token_transactions SET type = 'JOB_CONSUME', amount = 0"
        " WHERE {tenant} AND job_id = '{refunded}' AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 10 WHERE {tenant}",
        {("settlements", "refunded")},
    ),
    "a delivered job that was also refunded": (
        "DROP INDEX one_settlement_per_cycle;"
        "SELECT wallet_move('{tenant_id}', '{user_id}', 'JOB_REFUND', 10, '{delivered}', 1, NULL)",
        {("settlements", "delivered")},
    ),
    "a refund of another amount": (
        "UPDATE token_transactions SET amount = 9 WHERE {tenant} AND job_id = '{refunded}' AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 1 WHERE {tenant}",
        {("settlements", "refunded")},
    ),
    "a failed job that kept something": (
        "UPDATE token_transactions SET amount = 7, kept = 3"
        " WHERE {tenant} AND job_id = '{refunded}' AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 3 WHERE {tenant}",
        {("settlements", "refunded")},
    ),
    "a job paid by somebody else": (
        "SELECT wallet_lock('{tenant_id}', '{stranger}');"
        "UPDATE token_transactions SET user_id = '{stranger}'"
        " WHERE {tenant} AND job_id = '{delivered}' AND type = 'JOB_CONSUME'",
        {("settlements", "delivered")},
    ),
    "a refund to a wallet that did not pay": (
        "SELECT wallet_lock('{tenant_id}', '{tenant_id}');"
        "UPDATE token_transactions SET of_tenant = true"
        " WHERE {tenant} AND job_id = '{refunded}' AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 10 WHERE {tenant} AND owner_id = '{user_id}';"
        "UPDATE token_wallets SET balance = balance + 10 WHERE {tenant} AND owner_id = '{tenant_id}'",
        {("settlements", "refunded")},
    ),
    "a refund of an earlier cycle to a wallet that did not pay": (
        "SELECT wallet_lock('{tenant_id}', '{tenant_id}');"
        "UPDATE token_transactions SET of_tenant = true"
        " WHERE {tenant} AND job_id = '{retried}' AND charge_cycle = 1 AND type = 'JOB_REFUND';"
        "UPDATE token_wallets SET balance = balance - 10 WHERE {tenant} AND owner_id = '{user_id}';"
        "UPDATE token_wallets SET balance = balance + 10 WHERE {tenant} AND owner_id = '{tenant_id}'",
        {("settlements", "retried")},
    ),
    "a job that names a wallet that did not pay": (
        "UPDATE ai_jobs SET paid_by_tenant = true WHERE {tenant} AND id = '{live}'",
        {("settlements", "live")},
    ),
    "a line of the tenant that its balance does not know": (
        "SELECT wallet_lock('{tenant_id}', '{tenant_id}');"
        "INSERT INTO token_transactions (tenant_id, user_id, type, amount, provider_transaction_id, of_tenant)"
        " VALUES ('{tenant_id}', '{tenant_id}', 'PAYMENT_CREDIT', 5, 'p', true)",
        {("balances", None)},
    ),
    "more than a refund can give back": (
        "ALTER TABLE token_transactions DROP CONSTRAINT IF EXISTS amount_fits_its_type;"
        + LINE
        + " VALUES ('{tenant_id}', '{user_id}', 'PAYMENT_CREDIT', 9223372036854775807 - 75, NULL, NULL, 'p');"
        "UPDATE token_wallets SET balance = balance + (9223372036854775807 - 75) WHERE {tenant}",
        {("room", None)},
    ),
    "lines that no number holds": (
        LINE + " VALUES ('{tenant_id}', '{user_id}', 'PAYMENT_CREDIT', 9223372036854775807, NULL, NULL, 'p'),"
        " ('{tenant_id}', '{user_id}', 'PAYMENT_CREDIT', 9223372036854775807, NULL, NULL, 'q')",
        {("balances", None)},
    ),
    "a line of a cycle that never was": (
        "SELECT wallet_move('{tenant_id}', '{user_id}', 'JOB_RESERVE', -10, '{delivered}', 7, NULL)",
        {("strays", "delivered")},
    ),
    "a line of a job that never was": (
        "ALTER TABLE token_transactions DROP CONSTRAINT job_exists;"
        "SELECT wallet_move('{tenant_id}', '{user_id}', 'JOB_RESERVE', -10, '{stranger}', 1, NULL)",
        {("strays", "stranger")},
    ),
    "a budget that counts tokens of no job": (
        "INSERT INTO budgets (tenant_id, id, name, period, time_zone, token_limit)"
        " VALUES ('{tenant_id}', gen_random_uuid(), 'A day', 'day', 'UTC', 10);"
        "INSERT INTO budget_periods (tenant_id, budget_id, first_day, taken, most)"
        " SELECT tenant_id, id, current_date, 5, 10 FROM budgets WHERE {tenant}",
        {("budgets", None)},
    ),
}


def command_of(settings: Settings, directory: Path) -> Callsheet:
    return Callsheet(directory, HOME=str(settings.home), **place_variables(settings))


@pytest.fixture
def command(shared_settings: Settings, tmp_path: Path) -> Callsheet:
    return command_of(shared_settings, tmp_path)


async def test_the_audit_of_a_correct_ledger_exits_with_0(ledger_jobs: LedgerJobs, command: Callsheet) -> None:
    printed = await asyncio.to_thread(command.run, "wallet", "audit")
    assert (printed.code, printed.out) == (0, "Every wallet in pool_1, pool_2 balances.\n")
    as_json = await asyncio.to_thread(command.call, "wallet", "audit", "--json")
    assert (as_json.code, as_json.json) == (0, {"pools": ["pool_1", "pool_2"], "findings": []})


@pytest.mark.thorough
async def test_the_audit_of_one_finding_exits_with_1(ledger_jobs: LedgerJobs, command: Callsheet) -> None:
    ann = ledger_jobs.member
    async with ann.pool.connection() as connection:
        await connection.execute("UPDATE token_wallets SET balance = balance + 1 WHERE tenant_id = $1", ann.tenant_id)
    printed = await asyncio.to_thread(command.call, "wallet", "audit")
    assert (printed.code, printed.out.splitlines()[0]) == (1, "1 finding in 1 wallet: balances 1.")
    as_json = await asyncio.to_thread(command.call, "wallet", "audit", "--json")
    assert (as_json.code, len(as_json.json["findings"])) == (1, 1)


@dataclass(frozen=True, slots=True)
class Broken:
    """Books that are wrong in one way, and what the audit says of them."""

    tenant_id: UUID
    jobs: dict[str, UUID]
    before: list[LedgerFinding]
    findings: list[dict[str, Any]]
    lines: list[str]


@pytest.fixture(scope="module")
async def broken(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Broken]:
    """One installation, whose schema is broken, with clean books in one pool and all the wrong ones in the other."""
    directory = tmp_path_factory.mktemp("audit")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with installation(postgres, templates, directory / "home") as settings:
            databases = await open_databases(settings)
            try:
                return await break_books(databases, command_of(settings, directory))
            finally:
                await databases.close()


async def break_books(databases: Databases, command: Callsheet) -> dict[str, Broken]:
    core = await open_core(databases).prepare()
    await keep_books(core, "pool_1")
    kept = {what: await keep_books(core, "pool_2") for what in BROKEN}
    pool = await databases.pool("pool_2")
    before = await audit(pool)
    stranger = uuid7()
    async with pool.connection() as connection:
        for what, ledger_jobs in kept.items():
            ann = ledger_jobs.member
            ids = {"tenant_id": ann.tenant_id, "user_id": ann.user_id, "tenant": f"tenant_id = '{ann.tenant_id}'"}
            await connection.execute(BROKEN[what][0].format(**ids, **ledger_jobs.jobs, stranger=stranger))
    printed = await asyncio.to_thread(command.call, "wallet", "audit", "--all")
    as_json = await asyncio.to_thread(command.call, "wallet", "audit", "--json")
    assert (printed.code, as_json.code) == (1, 1)
    summary, *lines = printed.out.splitlines()
    findings = as_json.json["findings"]
    assert summary.startswith(f"{len(findings)} findings in ")
    of_tenant = {what: str(ledger_jobs.member.tenant_id) for what, ledger_jobs in kept.items()}
    assert {found["row"]["tenant_id"] for found in findings} <= set(of_tenant.values())
    return {
        what: Broken(
            ledger_jobs.member.tenant_id,
            {**ledger_jobs.jobs, "stranger": stranger},
            [found for found in before if str(found.row["tenant_id"]) == of_tenant[what]],
            [found for found in findings if found["row"]["tenant_id"] == of_tenant[what]],
            [line for line in lines if f" tenant_id={of_tenant[what]} " in line],
        )
        for what, ledger_jobs in kept.items()
    }


@pytest.mark.few_forms
@pytest.mark.parametrize("what", BROKEN)
def test_the_audit_finds_what_is_wrong_and_names_the_row(broken: dict[str, Broken], what: str) -> None:
    _, expected = BROKEN[what]
    ledger_jobs = broken[what]
    assert ledger_jobs.before == []
    by_id = {str(value): name for name, value in ledger_jobs.jobs.items()}
    assert {(found["rule"], by_id.get(found["row"].get("job_id"))) for found in ledger_jobs.findings} == expected
    assert {found["pool"] for found in ledger_jobs.findings} == {"pool_2"}
    for line, found in zip(ledger_jobs.lines, ledger_jobs.findings, strict=True):
        assert line.startswith(f"pool_2: {found['rule']}: tenant_id={ledger_jobs.tenant_id} ")
        name = "owner_id" if found["rule"] in ("balances", "room") else "user_id"
        assert f"{name}={found['row'][name]}" in line


@pytest.mark.thorough
async def test_the_audit_of_many_findings_prints_a_summary_and_the_first(
    ledger_jobs: LedgerJobs, command: Callsheet
) -> None:
    ann = ledger_jobs.member
    async with ann.pool.connection() as connection:
        await connection.execute(
            "INSERT INTO token_wallets (tenant_id, owner_id, balance)"
            " SELECT $1, gen_random_uuid(), 7 FROM generate_series(1, 30)",
            ann.tenant_id,
        )
    printed = await asyncio.to_thread(command.call, "wallet", "audit")
    first, *lines, last = printed.out.splitlines()
    assert (printed.code, first, len(lines)) == (1, "30 findings in 30 wallets: balances 30.", 20)
    assert last == "10 more are not shown. To see every finding, run: callsheet wallet audit --all"
    everything = await asyncio.to_thread(command.call, "wallet", "audit", "--all")
    assert (everything.code, len(everything.out.splitlines())) == (1, 31)


WRITES = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE|COPY)\s+(?:ONLY\s+)?(token_\w+)", re.I
)
FUNCTION = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)\(.*?\$\$.*?\$\$;", re.DOTALL)


def test_only_the_functions_of_the_wallet_write_money() -> None:
    writers: dict[str, set[str]] = {}
    for file in sorted([*SOURCE.rglob("*.sql"), *SOURCE.rglob("*.py")]):
        text = file.read_text("utf-8")
        for function in FUNCTION.finditer(text):
            writers.setdefault(function[1], set()).update(WRITES.findall(function[0]))
        rest = FUNCTION.sub("", text)
        assert WRITES.findall(rest) == [], f"{file} writes money"
    assert {name: tables for name, tables in writers.items() if tables} == {
        "wallet_consume": {"token_transactions"},
        "wallet_lock": {"token_wallets"},
        "wallet_move": {"token_wallets", "token_transactions"},
        "wallet_refund": {"token_wallets", "token_transactions"},
        "wallet_reserve": {"token_wallets", "token_transactions"},
    }


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE token_wallets SET balance = 1",
        "insert into token_transactions values (1)",
        "DELETE\nFROM token_transactions",
        "UPDATE ONLY token_wallets SET balance = 1",
    ],
)
def test_a_statement_that_writes_money_would_be_noticed(statement: str) -> None:
    assert WRITES.search(statement)


def test_balances_change_only_with_a_credit_a_submit_or_a_transition_of_a_job() -> None:
    names = ("wallet_move(", "wallet_reserve(", "wallet_refund(", "wallet_consume(")
    callers = {
        (str(file.relative_to(SOURCE)), block.split()[0])
        for file in SOURCE.rglob("*.sql")
        if "migrations" not in file.parts
        for block in file.read_text("utf-8").split("-- name:")[1:]
        if any(name in block for name in names)
    }
    assert callers == {
        ("wallet/statements.sql", "credit"),
        ("wallet/statements.sql", "debit"),
        ("jobs/submit/statements.sql", "submit"),
        ("jobs/submit/statements.sql", "submit_batch"),
        ("jobs/machine/transition_statements.sql", "complete_jobs"),
        ("jobs/machine/transition_statements.sql", "end_jobs"),
        ("jobs/machine/transition_statements.sql", "retry_job"),
    }
    assert not [file for file in SOURCE.rglob("*.py") if any(name in file.read_text("utf-8") for name in names)]


async def test_an_audit_reads_sums_that_postgresql_returns_with_an_exponent(core: Core) -> None:
    """PostgreSQL returns a sum as a decimal, and ten thousand as 1E+4."""
    member = await core.member(tokens=10_000)
    totals = (await audit_pool(member.pool)).totals
    assert (totals.wallets, totals.balance, totals.credited, totals.spent) == (1, 10_000, 10_000, 0)
