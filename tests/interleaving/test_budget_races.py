"""G14 between two control planes: each is held at a defined point while the other goes on."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.wire.errors import BudgetReached
from tests.support.jobs.budgets import add_budget, taken
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, start_blocked

LOCK_BUDGETS = "SELECT budgets_lock($1)"


async def test_g14_two_users_submit_the_last_job_of_a_budget_and_one_is_refused(race: Race) -> None:
    eve = await race.one.member(tenant=race.ann)
    budget = await add_budget(race.ann, limit=15)
    async with open_transaction(race.pool, LOCK_BUDGETS, race.ann.tenant_id):
        tasks = await start_blocked(race.pool, race.one.submitted(race.ann), race.two.submitted(eve))
    first, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, SubmittedJob)
    assert isinstance(second, BudgetReached)
    assert (await taken(race.ann, budget), await race.one.balance(eve)) == (10, 1000)
    await race.one.check()


async def test_g14_a_retry_and_a_submit_for_the_last_tokens_of_a_budget_take_them_once(race: Race) -> None:
    eve = await race.one.member(tenant=race.ann)
    budget = await add_budget(race.ann, limit=10)
    job = await race.one.submit(race.ann)
    await race.one.fail(await race.one.start())
    async with open_transaction(race.pool, LOCK_BUDGETS, race.ann.tenant_id):
        retrying = race.two.room.retries.retry(race.ann.tenant_id, job.id, actor="user")
        tasks = await start_blocked(race.pool, race.one.submitted(eve), retrying)
    submitted, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(submitted, SubmittedJob)
    assert isinstance(refused, BudgetReached)
    assert await race.one.status(race.ann, job.id) == "failed"
    assert await taken(race.ann, budget) == 10
    await race.one.check()


async def test_g14_many_users_of_two_control_planes_take_exactly_the_budget(race: Race) -> None:
    users = [await race.one.member(tenant=race.ann) for _ in range(8)]
    whole = await add_budget(race.ann, limit=170)
    own = [await add_budget(each, limit=35, user_id=each.user_id) for each in users]
    works = [core.submitted(each) for _ in range(4) for each in users for core in (race.one, race.two)]
    responses = await asyncio.gather(*works, return_exceptions=True)
    assert sum(isinstance(response, SubmittedJob) for response in responses) == 17
    assert {type(response) for response in responses} == {SubmittedJob, BudgetReached}
    assert await taken(race.ann, whole) == 170
    assert all([await taken(race.ann, each) <= 35 for each in own])
    await race.one.check()


async def test_jobs_end_while_others_of_the_same_budget_are_submitted(race: Race) -> None:
    """Submits lock wallets, budgets, jobs and streams in this order; so do refunds, and no order is a deadlock."""
    users = [await race.one.member(tenant=race.ann) for _ in range(6)]
    budget = await add_budget(race.ann, limit=1000)
    jobs = [(each, await race.one.submit(each)) for each in users for _ in range(4)]
    cancels = [
        core.room.cancellation.cancel(each.tenant_id, job.id, actor="user")
        for (each, job), core in zip(jobs, (race.one, race.two) * 12, strict=True)
    ]
    submits = [core.submitted(each) for each in users for core in (race.one, race.two) for _ in range(2)]
    responses = await asyncio.gather(*cancels, *submits, return_exceptions=True)
    assert [response for response in responses if isinstance(response, BaseException)] == []
    assert await taken(race.ann, budget) == 240
    await race.one.check()


async def test_g14_the_database_refuses_a_period_beyond_its_limit(race: Race) -> None:
    await add_budget(race.ann, limit=10)
    await race.one.submit(race.ann)
    with pytest.raises(asyncpg.CheckViolationError, match="budget_is_never_exceeded"):
        await race.one.rows(race.pool, "UPDATE budget_periods SET taken = 11")
