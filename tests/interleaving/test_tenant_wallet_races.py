"""G2 with a wallet that all users of a tenant share: two control planes at once, and changes of the setting."""

from __future__ import annotations

import asyncio

import pytest

from callsheet.identity.accounts.tenant_pools import set_payer
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import InsufficientTokens
from tests.support.jobs.batches import retry_batch, submit_batch
from tests.support.jobs.budgets import add_budget, taken
from tests.support.jobs.race import CONSUMED, REFUNDED, RESERVE, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

LOCK_WALLET = "SELECT wallet_lock($1, $2)"


async def tenant_pays(race: Race, tokens: int) -> None:
    await race.one.credit(race.ann.tenant, tokens)
    await set_payer(race.pool, race.ann.tenant_id, is_tenant=True)


async def balances(race: Race) -> tuple[int, int]:
    """Tokens of ann, and of her tenant."""
    return await race.one.balance(race.ann), await race.one.balance(race.ann.tenant)


async def paid_by(race: Race) -> list[bool]:
    query = "SELECT of_tenant FROM token_transactions WHERE tenant_id = $1 AND job_id IS NOT NULL ORDER BY id"
    return [row["of_tenant"] for row in await race.one.rows(race.pool, query, race.ann.tenant_id)]


async def test_g2_two_users_submit_for_the_last_tokens_of_their_tenant_and_one_is_refused(race: Race) -> None:
    await tenant_pays(race, 15)
    eve = await race.one.member(tenant=race.ann)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.tenant_id):
        tasks = await start_blocked(race.pool, race.one.submitted(race.ann), race.two.submitted(eve))
    submitted, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(submitted, SubmittedJob)
    assert isinstance(refused, InsufficientTokens)
    assert str(refused) == (
        "The job costs 10 tokens, and the wallet of the tenant, from which all its users pay, has 5."
    )
    assert refused.data == {"required_tokens": 10, "balance": 5, "paid_by": "tenant"}
    assert await balances(race) == (1000, 5)
    assert await race.one.balance(eve) == 1000
    await race.one.check()


async def test_g2_many_users_of_two_control_planes_take_exactly_the_wallet_of_their_tenant(race: Race) -> None:
    await tenant_pays(race, 175)
    budget = await add_budget(race.ann, limit=10_000)
    users = [await race.one.member(tenant=race.ann, tokens=0) for _ in range(20)]
    works = [core.submitted(each) for _ in range(5) for each in users for core in (race.one, race.two)]
    responses = await asyncio.gather(*works, return_exceptions=True)
    assert len(responses) == 200
    assert sum(isinstance(response, SubmittedJob) for response in responses) == 17
    assert {type(response) for response in responses} == {SubmittedJob, InsufficientTokens}
    assert (await race.one.balance(race.ann.tenant), await taken(race.ann, budget)) == (5, 170)
    await race.one.check()


async def test_jobs_end_and_are_retried_while_the_payer_changes_and_no_order_is_a_deadlock(race: Race) -> None:
    """Every transaction locks users, then the wallet of the tenant, then budgets, then jobs."""
    await race.one.credit(race.ann.tenant, 10_000)
    await add_budget(race.ann, limit=100_000)
    users = [await race.one.member(tenant=race.ann) for _ in range(6)]
    jobs = []
    for number in range(4):
        await set_payer(race.pool, race.ann.tenant_id, is_tenant=number % 2 == 0)
        jobs += [(each, await race.one.submit(each)) for each in users]
    failed = [await race.one.start(f"worker-{number}") for number in range(6)]
    for started in failed:
        await race.one.fail(started)
    ended = {started.lease.job_id for started in failed}
    cores = (race.one, race.two)
    works = [
        core.room.retries.retry(each.tenant_id, job.id, actor="user")
        if job.id in ended
        else core.room.cancellation.cancel(each.tenant_id, job.id, actor="user")
        for (each, job), core in zip(jobs, cores * 12, strict=True)
    ]
    works += [core.submitted(each) for each in users for core in cores for _ in range(2)]
    works += [set_payer(race.pool, race.ann.tenant_id, is_tenant=number % 2 == 0) for number in range(6)]
    works += [core.credit(race.ann.tenant, 1) for core in cores for _ in range(5)]
    responses = await asyncio.gather(*works, return_exceptions=True)
    assert [response for response in responses if isinstance(response, BaseException)] == []
    await race.one.check()


async def test_a_user_who_holds_the_own_lock_for_long_holds_up_no_other_user_of_the_tenant(race: Race) -> None:
    await tenant_pays(race, 100)
    eve = await race.one.member(tenant=race.ann)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [waiting] = await start_blocked(race.pool, race.one.submitted(race.ann))
        await race.two.submit(eve)
    await waiting
    assert await balances(race) == (1000, 80)


async def test_g2_a_job_that_was_paid_by_its_user_ends_there_after_the_tenant_pays(race: Race) -> None:
    first, _ = await race.one.submit(race.ann), await race.one.submit(race.ann)
    await tenant_pays(race, 100)
    await race.one.complete(await race.one.start())
    await race.two.fail(await race.two.start())
    assert (await balances(race), await paid_by(race)) == ((990, 100), [False] * 4)
    assert await race.one.ledger(race.ann, first.id) == CONSUMED
    await race.one.check_drained()


async def test_g2_a_job_that_was_paid_by_the_tenant_ends_there_after_users_pay_again(race: Race) -> None:
    await tenant_pays(race, 100)
    jobs = [await race.one.submit(race.ann) for _ in range(3)]
    await set_payer(race.pool, race.ann.tenant_id, is_tenant=False)
    await race.one.complete(await race.one.start())
    await race.two.fail(await race.two.start())
    await race.two.room.cancellation.cancel(race.ann.tenant_id, jobs[2].id, actor="user")
    assert (await balances(race), await paid_by(race)) == ((1000, 90), [True] * 6)
    await race.one.check_drained()


@pytest.mark.parametrize("is_tenant", [True, False], ids=["user to tenant", "tenant to user"])
async def test_g2_a_retry_is_paid_by_who_pays_now_and_the_refund_goes_to_who_paid_then(
    race: Race, is_tenant: bool
) -> None:
    await race.one.credit(race.ann.tenant, 1000)
    await set_payer(race.pool, race.ann.tenant_id, is_tenant=not is_tenant)
    job = await race.one.submit(race.ann)
    started = await race.one.start()
    await set_payer(race.pool, race.ann.tenant_id, is_tenant=is_tenant)
    await race.one.fail(started)
    assert await balances(race) == (1000, 1000)
    await race.two.room.retries.retry(race.ann.tenant_id, job.id, actor="user")
    assert await balances(race) == ((1000, 990) if is_tenant else (990, 1000))
    await set_payer(race.pool, race.ann.tenant_id, is_tenant=not is_tenant)
    await race.one.fail(await race.one.start())
    assert (await balances(race), await paid_by(race)) == ((1000, 1000), [not is_tenant] * 2 + [is_tenant] * 2)
    assert await race.one.ledger(race.ann, job.id) == [*REFUNDED, (2, *RESERVE[1:]), (2, "JOB_REFUND", 10)]
    await race.one.check_drained()


async def test_g2_a_submit_that_waits_while_the_payer_changes_takes_from_one_wallet_only(race: Race) -> None:
    await race.one.credit(race.ann.tenant, 100)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [waiting] = await start_blocked(race.pool, race.one.submitted(race.ann))
        await set_payer(race.pool, race.ann.tenant_id, is_tenant=True)
    await waiting
    assert sum(await balances(race)) == 1090
    await race.one.check()


async def test_g2_a_cancel_that_stalls_before_the_queue_knows_it_refunds_the_wallet_that_paid(race: Race) -> None:
    await tenant_pays(race, 10)
    job = await race.one.submit(race.ann)
    work = race.one.room.cancellation.cancel(race.ann.tenant_id, job.id, actor="user")
    async with paused_at(Failpoint.CANCEL_BEFORE_RELAY, work) as canceling:
        await set_payer(race.pool, race.ann.tenant_id, is_tenant=False)
        assert await balances(race) == (1000, 10)
    await canceling
    assert await race.one.ledger(race.ann, job.id) == REFUNDED
    await race.one.check()


async def test_g2_a_batch_and_its_retry_are_paid_by_the_tenant_or_not_at_all(race: Race) -> None:
    await tenant_pays(race, 35)
    batch_id = await submit_batch(race.one, race.ann)
    with pytest.raises(InsufficientTokens, match="wallet of the tenant") as refused:
        await submit_batch(race.two, race.ann)
    assert refused.value.data["paid_by"] == "tenant"
    for _ in range(3):
        await race.one.fail(await race.one.start())
    assert await balances(race) == (1000, 35)
    await retry_batch(race.two, race.ann, batch_id)
    assert await balances(race) == (1000, 5)
    await set_payer(race.pool, race.ann.tenant_id, is_tenant=False)
    await race.one.drain()
    assert await balances(race) == (1000, 5)
    await race.one.check_drained()
