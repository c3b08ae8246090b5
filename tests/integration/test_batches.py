"""The jobs of a batch: accepted together or not at all, then ordinary jobs that the batch counts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import InsufficientTokens, TooManyActiveJobs
from tests.support.deliveries import delivering
from tests.support.jobs.batches import (
    batch_row,
    cancel_batch,
    counts,
    jobs_of_batch,
    retry_batch,
    submit_batch,
)
from tests.support.jobs.core import AFTER_EVERY_DEADLINE, Core, open_core
from tests.support.jobs.crashes import crashed_at

RESERVED = [(1, "JOB_RESERVE", -7)]


async def test_g2_all_items_of_a_batch_are_held_at_once_and_each_has_its_own_line(core: Core) -> None:
    ann = await core.member(tokens=2000)
    batch_id = await submit_batch(core, ann, number=205, cost=7)
    jobs = await jobs_of_batch(core, ann, batch_id)
    assert [job["batch_item"] for job in jobs] == list(range(1, 206))
    assert [job["id"] for job in jobs] == sorted(job["id"] for job in jobs)
    assert {job["status"] for job in jobs} == {"queued"}
    assert await core.balance(ann) == 2000 - 205 * 7
    assert await core.ledger(ann, jobs[204]["id"]) == RESERVED
    assert await core.steps(ann, jobs[100]["id"]) == [">pending", "pending>queued"]
    await core.check()
    await core.drain()
    assert await counts(core, ann, batch_id) == {"completed": 205}
    assert (await batch_row(core, ann, batch_id))["finished_at"] is not None
    await core.check_drained()


async def test_g2_a_batch_that_costs_more_than_the_wallet_has_writes_nothing(core: Core) -> None:
    ann = await core.member(tokens=20)
    with pytest.raises(InsufficientTokens) as refused:
        await submit_batch(core, ann, number=3, cost=7)
    assert str(refused.value) == "The batch costs 21 tokens, and the wallet of the user has 20."
    assert await core.rows(ann.pool, "SELECT id FROM ai_jobs UNION SELECT id FROM batches") == []
    assert await core.balance(ann) == 20
    await core.check_drained()


async def test_active_items_of_batches_have_a_limit_of_their_own(core: Core) -> None:
    few = open_core(core.databases, batch_jobs_per_user=5, active_per_user=1)
    few.workflow = core.workflow
    ann = await few.member()
    first = await submit_batch(few, ann, number=3, cost=1)
    await few.submit(ann, cost=1)
    with pytest.raises(TooManyActiveJobs) as refused:
        await submit_batch(few, ann, number=3, cost=1)
    assert "You have 3 active jobs of batches, and the limit is 5" in str(refused.value)
    assert "This request would add 3." in str(refused.value)
    await cancel_batch(few, ann, first)
    await submit_batch(few, ann, number=5, cost=1)
    await few.check()


async def test_a_batch_does_not_delay_the_first_job_of_another_user(core: Core) -> None:
    ann, bob = await core.member(), await core.member()
    await submit_batch(core, ann, number=50, cost=1)
    mine = await core.submit(bob, cost=1)
    leased = [(await core.start(f"worker-{number}")).lease.job_id for number in range(3)]
    assert mine.id in leased


async def test_a_batch_does_not_count_as_jobs_that_a_user_submits_in_a_minute(core: Core) -> None:
    slow = open_core(core.databases, submits_per_minute=3)
    slow.workflow = core.workflow
    ann = await slow.member()
    await submit_batch(slow, ann, number=5, cost=1)
    assert (await slow.submit(ann, cost=1)).status == "queued"


async def test_cancel_of_the_rest_keeps_what_has_ended_and_refunds_the_others(core: Core) -> None:
    ann = await core.member(tokens=100)
    batch_id = await submit_batch(core, ann, number=5, cost=7)
    await core.complete(await core.start())
    await core.fail(await core.start())
    running = await core.start()
    await cancel_batch(core, ann, batch_id)
    assert await counts(core, ann, batch_id) == {"completed": 1, "failed": 1, "canceled": 3}
    assert await core.status(ann, running.lease.job_id) == "canceled"
    assert await core.balance(ann) == 93
    await cancel_batch(core, ann, batch_id)
    assert await counts(core, ann, batch_id) == {"completed": 1, "failed": 1, "canceled": 3}
    await core.drain()
    await core.check_drained()


async def test_a_retry_runs_the_failed_and_expired_items_again_and_the_batch_finishes_again(core: Core) -> None:
    ann = await core.member(tokens=100)
    batch_id = await submit_batch(core, ann, number=3, cost=7)
    await core.complete(await core.start())
    await core.fail(await core.start())
    await core.start()
    await core.enforce_deadlines(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
    assert await counts(core, ann, batch_id) == {"completed": 1, "failed": 1, "expired": 1}
    await retry_batch(core, ann, batch_id)
    assert await counts(core, ann, batch_id) == {"active": 2, "completed": 1}
    row = await batch_row(core, ann, batch_id)
    assert row["finished_at"] is None
    assert await core.balance(ann) == 100 - 21
    await core.check()
    await core.drain()
    assert await counts(core, ann, batch_id) == {"completed": 3}
    await core.check_drained()


async def test_a_retry_that_costs_more_than_the_wallet_has_retries_no_item(core: Core) -> None:
    ann = await core.member(tokens=20)
    batch_id = await submit_batch(core, ann, number=2, cost=10)
    for _ in range(2):
        await core.fail(await core.start())
    await core.submit(ann, cost=5)
    with pytest.raises(InsufficientTokens, match=r"The retry costs 20 tokens, and the wallet of the user has 15\."):
        await retry_batch(core, ann, batch_id)
    assert await counts(core, ann, batch_id) == {"failed": 2}
    assert await core.balance(ann) == 15
    await core.check()


async def test_an_ordinary_retry_of_an_item_is_counted_by_its_batch(core: Core) -> None:
    ann = await core.member()
    batch_id = await submit_batch(core, ann, number=1)
    started = await core.start()
    await core.fail(started)
    assert await counts(core, ann, batch_id) == {"failed": 1}
    await core.room.retries.retry(ann.tenant_id, started.lease.job_id, actor="user")
    assert await counts(core, ann, batch_id) == {"active": 1}


async def test_g12_a_crash_before_the_relay_of_a_batch_loses_no_item(core: Core) -> None:
    ann = await core.member()
    await crashed_at(Failpoint.BATCH_BEFORE_RELAY, submit_batch(core, ann, number=3, cost=7))
    [row] = await core.rows(ann.pool, "SELECT id, active FROM batches")
    assert row["active"] == 3
    await core.check()
    await core.drain()
    assert await counts(core, ann, row["id"]) == {"completed": 3}
    await core.check_drained()


async def test_g12_a_crash_before_the_relay_of_a_cancel_leaves_nothing_in_the_queue(core: Core) -> None:
    ann = await core.member(tokens=30)
    batch_id = await submit_batch(core, ann, number=3, cost=10)
    await crashed_at(Failpoint.BATCH_CANCEL_BEFORE_RELAY, cancel_batch(core, ann, batch_id))
    assert await counts(core, ann, batch_id) == {"canceled": 3}
    assert await core.balance(ann) == 30
    await core.drain()
    await core.check_drained()


async def test_g12_a_crash_before_the_relay_of_a_retry_loses_no_item(core: Core) -> None:
    ann = await core.member()
    batch_id = await submit_batch(core, ann, number=2)
    for _ in range(2):
        await core.fail(await core.start())
    await crashed_at(Failpoint.BATCH_RETRY_BEFORE_RELAY, retry_batch(core, ann, batch_id))
    assert await counts(core, ann, batch_id) == {"active": 2}
    await core.drain()
    assert await counts(core, ann, batch_id) == {"completed": 2}
    await core.check_drained()


async def test_g13_a_batch_announces_each_time_that_its_last_item_ends(core: Core) -> None:
    ann = await core.member()
    async with delivering(core) as deliveries:
        await deliveries.endpoint(ann, "https://shop.example.com/hook", events=["batch.finished"])
        batch_id = await submit_batch(core, ann, number=2, cost=7)
        await core.complete(await core.start())
        assert await deliveries.rows(ann) == []
        await core.fail(await core.start())
        await retry_batch(core, ann, batch_id)
        await core.drain()
        bodies = [row["body"]["data"] for row in await deliveries.rows(ann)]
    outcomes = [{name: number for name, number in body["counts"].items() if number} for body in bodies]
    assert outcomes == [{"completed": 1, "failed": 1}, {"completed": 2}]
    assert [(body["id"], body["items"], body["cost"], body["title"]) for body in bodies] == [
        (str(batch_id), 2, 14, "Noir")
    ] * 2
