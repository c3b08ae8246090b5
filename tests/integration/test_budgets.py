"""Budgets: what they count, when they reset, and that they are never exceeded (G14)."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.budgets.budgets import Budgets
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.audit_log import AuditLog
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import BudgetReached, Conflict
from callsheet.wire.money.budgets import BudgetPeriod, CreateBudget
from tests.support.jobs.budgets import add_budget, taken
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at


async def refused(core: Core, member: Member, **changes: Any) -> BudgetReached:
    with pytest.raises(BudgetReached) as refusal:
        await core.submit(member, **changes)
    return refusal.value


async def test_g14_a_job_beyond_the_budget_is_refused_and_writes_nothing(core: Core) -> None:
    ann = await core.member()
    budget = await add_budget(ann, limit=25)
    for _ in range(2):
        await core.submit(ann, cost=10)
    refusal = await refused(core, ann, cost=10)
    assert (await taken(ann, budget), await core.balance(ann)) == (20, 980)
    assert refusal.data["budget_id"] == str(budget)
    assert refusal.data["required_tokens"] == 10
    resets_at = datetime.fromisoformat(refusal.data["resets_at"])
    midnight = (datetime.now(UTC) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert resets_at == midnight
    assert refusal.retry_after_seconds is not None
    assert abs(refusal.retry_after_seconds - (midnight - datetime.now(UTC)).total_seconds()) < 60
    await core.submit(ann, cost=5)
    assert await taken(ann, budget) == 25
    await core.check()


async def test_a_job_that_costs_more_than_the_limit_has_no_time_to_wait_for(core: Core) -> None:
    ann = await core.member()
    await add_budget(ann, limit=5)
    refusal = await refused(core, ann, cost=10)
    assert refusal.retry_after_seconds is None
    assert "allows fewer tokens in a whole period" in str(refusal)


async def test_free_jobs_pass_a_budget_that_is_used_up(core: Core) -> None:
    ann = await core.member()
    await add_budget(ann, limit=0)
    await core.submit(ann, cost=0)
    await core.check()


async def test_a_budget_counts_only_the_jobs_that_match_all_of_its_fields(core: Core) -> None:
    ann = await core.member()
    eve, bob = await core.member(tenant=ann), await core.member()
    key = uuid4()
    of_ann = await add_budget(ann, limit=100, user_id=ann.user_id)
    of_key = await add_budget(ann, limit=100, key_id=key)
    of_cloud = await add_budget(ann, limit=100, provider="cloud")
    of_both = await add_budget(ann, limit=100, user_id=ann.user_id, key_id=key)
    of_all = await add_budget(ann, limit=100)
    await core.submit(ann, cost=1, key_id=key)
    await core.submit(ann, cost=2)
    await core.submit(eve, cost=4, key_id=key)
    await core.submit(eve, cost=8, provider="cloud")
    await core.submit(bob, cost=16, key_id=key)
    found = [await taken(ann, each) for each in (of_ann, of_key, of_cloud, of_both, of_all)]
    assert found == [3, 5, 8, 1, 15]
    await core.check()


@pytest.mark.parametrize("end", ["fail", "cancel"])
async def test_a_refund_gives_the_tokens_back_to_the_period_they_were_taken_from(core: Core, end: str) -> None:
    ann = await core.member()
    budget = await add_budget(ann, limit=10)
    job = await core.submit(ann, cost=10)
    async with ann.pool.connection() as connection:
        # The job was submitted a month ago.
        await connection.execute("UPDATE budget_periods SET first_day = first_day - 30")
    later = await core.submit(ann, cost=7)
    if end == "fail":
        started = await core.start()
        while started.lease.job_id != job.id:
            started = await core.start()
        await core.fail(started)
    else:
        await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user")
    rows = await core.rows(ann.pool, "SELECT taken FROM budget_periods WHERE budget_id = $1 ORDER BY first_day", budget)
    assert [row["taken"] for row in rows] == [0, 7]
    assert later.id != job.id
    await core.check()


async def test_g14_a_retry_takes_from_the_budget_again_and_is_refused_beyond_it(core: Core) -> None:
    ann = await core.member()
    budget = await add_budget(ann, limit=10)
    job = await core.submit(ann, cost=10)
    await core.fail(await core.start())
    assert await taken(ann, budget) == 0
    await core.submit(ann, cost=4)
    with pytest.raises(BudgetReached) as refusal:
        await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    assert refusal.value.data["budget_id"] == str(budget)
    assert (await core.status(ann, job.id), await taken(ann, budget)) == ("failed", 4)
    await core.check()


async def test_a_job_from_before_the_budget_gives_nothing_back_to_it(core: Core) -> None:
    ann = await core.member()
    await core.submit(ann, cost=10)
    budget = await add_budget(ann, limit=10)
    await core.submit(ann, cost=6)
    await core.fail(await core.start())
    await core.fail(await core.start())
    assert await taken(ann, budget) == 0
    await core.check()


async def test_jobs_of_a_deleted_budget_end_as_usual(core: Core) -> None:
    ann = await core.member()
    await add_budget(ann, limit=10)
    await core.submit(ann, cost=10)
    async with ann.pool.connection() as connection:
        await connection.execute("DELETE FROM budgets")
    await core.fail(await core.start())
    assert await core.balance(ann) == 1000
    await core.check()


async def test_g14_two_hundred_submits_of_many_users_take_exactly_the_budget(core: Core) -> None:
    ann = await core.member()
    users = [ann, *[await core.member(tenant=ann) for _ in range(19)]]
    budget = await add_budget(ann, limit=333)
    works = [core.submitted(users[number % 20], cost=10) for number in range(200)]
    responses = await asyncio.gather(*works, return_exceptions=True)
    assert sum(isinstance(each, SubmittedJob) for each in responses) == 33
    assert sum(isinstance(each, BudgetReached) for each in responses) == 167
    assert await taken(ann, budget) == 330
    await core.check()


async def test_a_budget_notes_when_it_was_nearly_and_when_it_was_wholly_taken(core: Core) -> None:
    ann = await core.member()
    await add_budget(ann, limit=10)
    seen = []
    for cost in (7, 1, 5):
        if cost == 5:
            await refused(core, ann, cost=cost)
        else:
            await core.submit(ann, cost=cost)
        [row] = await core.rows(ann.pool, "SELECT warned_at, reached_at FROM budget_periods")
        seen.append((row["warned_at"] is not None, row["reached_at"] is not None))
    assert seen == [(False, False), (True, False), (True, True)]


ZONES = ("Europe/Berlin", "America/New_York", "America/Havana", "Africa/Cairo", "Australia/Lord_Howe", "Asia/Kathmandu")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    moment=st.integers(1_704_067_200, 1_830_297_600),
    zone=st.sampled_from(ZONES),
    period=st.sampled_from(["day", "week", "month"]),
)
async def test_a_period_has_the_days_of_the_calendar_of_its_time_zone(
    core: Core, moment: int, zone: str, period: str
) -> None:
    pool = await core.databases.pool("pool_1")
    now = datetime.fromtimestamp(moment, UTC)
    async with pool.connection() as connection:
        row = await connection.fetchrow(
            """SELECT d AS day, day_begins(d, $2) AS starts_at, budget_resets($1, $2, d) AS resets_at,
                   budget_day($1, $2, budget_resets($1, $2, d)) AS next_day,
                   budget_day($1, $2, budget_resets($1, $2, d) - interval '1 second') AS last_day
               FROM budget_day($1, $2, $3) d""",
            *(period, zone, now),
        )
    today = now.astimezone(ZoneInfo(zone)).date()
    first = {"day": today, "week": today - timedelta(days=today.weekday()), "month": today.replace(day=1)}[period]
    assert row["day"] == first
    assert row["starts_at"] <= now < row["resets_at"]
    assert row["last_day"] == first
    assert row["next_day"] > first


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/Havana", date(2026, 11, 1), 25),
        ("Africa/Cairo", date(2026, 4, 24), 23),
    ],
)
async def test_a_day_with_a_change_of_the_clock_has_its_own_length(
    core: Core, zone: str, day: date, hours: int
) -> None:
    pool = await core.databases.pool("pool_1")
    async with pool.connection() as connection:
        starts_at, resets_at = await connection.fetchrow(
            "SELECT day_begins($1, $2), budget_resets('day', $2, $1)", day, zone
        )
    assert resets_at - starts_at == timedelta(hours=hours)


async def test_a_repeated_creation_writes_the_audit_line_that_a_crash_prevented(core: Core) -> None:
    ann = await core.member()
    budgets = Budgets(core.databases, TenantRouting(core.databases), AuditLog(core.databases))

    async def create(name: str = "all", limit: int = 40) -> UUID:
        wanted = CreateBudget(name=name, period=BudgetPeriod.DAY, limit=limit)
        return (await budgets.create("operator", ann.tenant_id, wanted)).id

    async def lines() -> list[str]:
        query = "SELECT subject_id FROM audit_logs WHERE action = 'budget.create' AND tenant_id = $1 ORDER BY id"
        return [row["subject_id"] for row in await core.rows(core.databases.central, query, ann.tenant_id)]

    assert await crashed_at(Failpoint.BUDGET_BEFORE_AUDIT, create())
    assert await lines() == []
    with pytest.raises(Conflict):
        await create(limit=41)
    # Several repeats at once: one of them gets the budget, and it has one line.
    repeats = await asyncio.gather(*(create() for _ in range(4)), return_exceptions=True)
    [made] = [each for each in repeats if isinstance(each, UUID)]
    assert [type(each) for each in repeats if each != made] == [Conflict] * 3
    with pytest.raises(Conflict):
        await create()
    other = await create("other")
    assert await lines() == [str(made), str(other)]
