"""Batches changed twice at once: each item changes once, and the batch counts it once."""

from __future__ import annotations

import asyncio

from callsheet.plumbing.failpoints import Failpoint
from tests.support.deliveries import delivering
from tests.support.jobs.batches import cancel_batch, counts, jobs_of_batch, retry_batch, submit_batch
from tests.support.jobs.race import CONSUMED, REFUNDED, RESERVE, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

LOCK_WALLET = "SELECT wallet_lock($1, $2)"
LOCK_BATCH = "SELECT 1 FROM batches WHERE id = $1 FOR UPDATE"


async def test_a_cancel_of_the_rest_that_waits_while_an_item_completes_keeps_its_result(race: Race) -> None:
    batch_id = await submit_batch(race.one, race.ann)
    started = await race.one.start()
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [canceling] = await start_blocked(race.pool, cancel_batch(race.one, race.ann, batch_id))
        assert (await race.two.complete(started)).status == "completed"
    await canceling
    assert await counts(race.one, race.ann, batch_id) == {"completed": 1, "canceled": 2}
    jobs = await jobs_of_batch(race.one, race.ann, batch_id)
    ledgers = [await race.one.ledger(race.ann, job["id"]) for job in jobs]
    assert ledgers == [CONSUMED, REFUNDED, REFUNDED]
    await race.one.check_drained()


async def test_an_item_that_completes_after_the_rest_was_canceled_stays_canceled(race: Race) -> None:
    batch_id = await submit_batch(race.one, race.ann)
    started = await race.one.start()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        await cancel_batch(race.two, race.ann, batch_id)
    assert (await completing).status == "canceled"
    assert await counts(race.one, race.ann, batch_id) == {"canceled": 3}
    assert await race.one.balance(race.ann) == 1000
    await race.one.check_drained()


async def test_two_cancels_of_the_rest_refund_each_item_once(race: Race) -> None:
    batch_id = await submit_batch(race.one, race.ann)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [cancel_batch(core, race.ann, batch_id) for core in (race.one, race.two)]
        tasks = await start_blocked(race.pool, *works)
    await asyncio.gather(*tasks)
    assert await counts(race.one, race.ann, batch_id) == {"canceled": 3}
    assert await race.one.balance(race.ann) == 1000
    await race.one.check_drained()


async def test_two_retries_of_the_failed_items_hold_the_tokens_of_each_once(race: Race) -> None:
    batch_id = await submit_batch(race.one, race.ann)
    for _ in range(3):
        await race.one.fail(await race.one.start())
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [retry_batch(core, race.ann, batch_id) for core in (race.one, race.two)]
        tasks = await start_blocked(race.pool, *works)
    await asyncio.gather(*tasks)
    assert await counts(race.one, race.ann, batch_id) == {"active": 3}
    for job in await jobs_of_batch(race.one, race.ann, batch_id):
        assert await race.one.ledger(race.ann, job["id"]) == [*REFUNDED, (2, *RESERVE[1:])]
    assert await race.one.balance(race.ann) == 970
    await race.one.check()
    await race.one.drain()
    await race.one.check_drained()


async def test_g5_two_retries_of_a_batch_with_one_key_hold_the_tokens_once_even_if_items_fail_in_between(
    race: Race,
) -> None:
    batch_id = await submit_batch(race.one, race.ann)
    for _ in range(3):
        await race.one.fail(await race.one.start())
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [retry_batch(core, race.ann, batch_id, "once") for core in (race.one, race.two)]
        tasks = await start_blocked(race.pool, *works)
    assert await asyncio.gather(*tasks) == [False, True]
    await race.one.fail(await race.one.start())
    assert await retry_batch(race.two, race.ann, batch_id, "once")
    assert await counts(race.one, race.ann, batch_id) == {"active": 2, "failed": 1}
    assert await race.one.balance(race.ann) == 980
    assert not await retry_batch(race.two, race.ann, batch_id, "twice")
    assert await counts(race.one, race.ann, batch_id) == {"active": 3}
    await race.one.drain()
    await race.one.check_drained()


async def test_a_batch_whose_last_two_items_end_at_once_finishes_once(race: Race) -> None:
    async with delivering(race.one) as deliveries:
        await deliveries.endpoint(race.ann, "https://shop.example.com/hook", events=["batch.finished"])
        batch_id = await submit_batch(race.one, race.ann, number=2)
    started = [await race.one.start(f"worker-{number}") for number in range(2)]
    async with open_transaction(race.pool, LOCK_BATCH, batch_id):
        works = [race.one.complete(started[0]), race.two.fail(started[1])]
        tasks = await start_blocked(race.pool, *works)
        assert await counts(race.one, race.ann, batch_id) == {"active": 2}
    await asyncio.gather(*tasks)
    assert await counts(race.one, race.ann, batch_id) == {"completed": 1, "failed": 1}
    [announced] = await deliveries.rows(race.ann)
    assert (announced["event"], announced["subject_id"]) == ("batch.finished", batch_id)
    await race.one.check_drained()


async def test_two_batches_that_wait_for_one_wallet_are_held_one_after_the_other(race: Race) -> None:
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [submit_batch(core, race.ann, number=3, cost=200) for core in (race.one, race.two)]
        tasks = await start_blocked(race.pool, *works)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each).__name__ for each in done] == ["UUID", "InsufficientTokens"]
    assert await race.one.balance(race.ann) == 400
    await race.one.check()
