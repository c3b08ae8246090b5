"""Tenants and users share the workers: whose job is next, how many may run at once, and what responses show."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from callsheet.dispatch.facts import DispatchEnd, Lease
from callsheet.dispatch.lease.leasing import Round
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.queue_notifications import CHANNEL
from callsheet.plumbing.database.databases import Databases
from callsheet.wire.operate.tenant_weights import ChangeTenantWeight
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.race_control import open_transaction, start_blocked

FLOOD = 30


@pytest.fixture
async def core(shared_databases: Databases) -> Core:
    return await open_core(shared_databases, active_per_user=1000).prepare()


async def flooded(core: Core, jobs: int = FLOOD) -> Member:
    member = await core.member(tokens=100_000)
    for _ in range(jobs):
        await core.submit(member)
    return member


async def leased(core: Core, count: int = 1) -> list[Lease]:
    return await core.queue.lease_many(core.criteria(), [f"w{number}" for number in range(count)])


async def whose(core: Core, count: int) -> list[UUID]:
    """The tenants of the next jobs, asked for one by one."""
    return [(await leased(core))[0].tenant_id for _ in range(count)]


async def ahead(core: Core, member: Member, job_id: UUID) -> int | None:
    key = (member.tenant_id, job_id, 1)
    return (await core.room.dispatch.positions.of_jobs([key]))[key].ahead


async def test_the_first_job_of_a_new_tenant_is_next_however_many_jobs_wait(core: Core) -> None:
    flood = await flooded(core)
    await leased(core, 4)
    newcomer = await core.member()
    job = await core.submit(newcomer)
    assert await ahead(core, newcomer, job.id) == 0
    assert await whose(core, 3) == [newcomer.tenant_id, flood.tenant_id, flood.tenant_id]


async def test_workers_that_poll_together_get_jobs_by_shares(core: Core) -> None:
    members = [await flooded(core, 20) for _ in range(3)]
    given = Counter(lease.tenant_id for lease in await leased(core, 12))
    assert given == {member.tenant_id: 4 for member in members}


async def test_a_lease_skips_rows_that_another_statement_of_this_process_takes(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flooded(core, 40)
    await leased(core)
    leasing = core.queue.leasing
    view = leasing.turns.view(core.criteria())
    [(seat, _)] = view.draw(1)
    view.undo(seat, 1)
    statements = 0
    round_of = leasing._round

    async def count(*values: Any) -> Round | None:
        nonlocal statements
        statements += 1
        return await round_of(*values)

    monkeypatch.setattr(leasing, "_round", count)
    first = "SELECT FROM ai_job_dispatches WHERE status = 'queued' ORDER BY dispatch_id LIMIT 20 FOR UPDATE"
    async with open_transaction(core.databases.central, first):
        seat.taking = 20
        assert len(await leased(core, 15)) == 15
    assert statements == 1
    assert seat.taking == 20


async def test_a_tenant_with_little_work_leaves_the_rest_to_others(core: Core) -> None:
    flood, little = await flooded(core), await flooded(core, 2)
    given = Counter(lease.tenant_id for lease in await leased(core, 20))
    assert given == {flood.tenant_id: 18, little.tenant_id: 2}


async def test_a_poll_that_got_a_lease_does_not_wait_for_polls_that_got_none(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await core.queue.lease(core.criteria(), "first to ask") is None
    job = await core.submit(await core.member())
    original = core.queue.leasing._read_lanes
    was_responded: list[bool] = []

    async def read_lanes(view: QueueView) -> None:
        was_responded.append(one.done())
        await original(view)

    monkeypatch.setattr(core.queue.leasing, "_read_lanes", read_lanes)
    one, two = (asyncio.create_task(core.queue.lease(core.criteria(), worker)) for worker in ("one", "two"))
    lease, nothing = await asyncio.gather(one, two)
    assert lease is not None
    assert (lease.job_id, nothing, was_responded) == (job.id, None, [True])


async def test_users_of_a_tenant_share_what_their_tenant_gets(core: Core) -> None:
    first = await flooded(core, 10)
    second = await core.member(tenant=first, tokens=100_000)
    for _ in range(10):
        await core.submit(second)
    other = await flooded(core, 10)
    leases = await leased(core, 8)
    assert Counter(lease.tenant_id for lease in leases) == {first.tenant_id: 4, other.tenant_id: 4}
    users = "SELECT user_id FROM ai_job_dispatches WHERE status = 'leased' AND tenant_id = $1"
    found = Counter(row["user_id"] for row in await core.rows(core.databases.central, users, first.tenant_id))
    assert found == {first.user_id: 2, second.user_id: 2}


async def test_tenants_get_shares_by_their_weights(core: Core) -> None:
    heavy, light = await flooded(core), await flooded(core)
    await core.room.dispatch.tenant_weights.change("operator", heavy.tenant_id, ChangeTenantWeight(weight=3))
    given = Counter(lease.tenant_id for lease in await leased(core, 16))
    assert given == {heavy.tenant_id: 12, light.tenant_id: 4}
    found = await core.room.dispatch.tenant_weights.get(heavy.tenant_id)
    assert (found.weight, found.running, found.max_running) == (3, 12, None)


async def test_a_finished_job_makes_room_for_its_tenant_again(core: Core) -> None:
    one, two = await flooded(core, 10), await flooded(core, 10)
    first = await leased(core, 6)
    for lease in first:
        if lease.tenant_id == one.tenant_id:
            await core.queue.close(DispatchEnd(lease.dispatch_id, "completed", lease.lease_token))
    assert await whose(core, 3) == [one.tenant_id] * 3
    assert Counter(await whose(core, 4)) == {one.tenant_id: 2, two.tenant_id: 2}


async def test_a_priority_goes_before_every_share(core: Core) -> None:
    flood = await flooded(core, 3)
    newcomer = await core.member()
    await core.submit(newcomer)
    for _ in range(2):
        await core.submit(flood, priority=1)
    assert await whose(core, 3) == [flood.tenant_id, flood.tenant_id, newcomer.tenant_id]


async def test_jobs_are_leased_in_order_of_arrival_if_the_setting_says_so(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=1000, order="first_in_first_out").prepare()
    flood = await flooded(core, 5)
    newcomer = await core.member()
    job = await core.submit(newcomer)
    assert await ahead(core, newcomer, job.id) == 5
    assert await whose(core, 6) == [flood.tenant_id] * 5 + [newcomer.tenant_id]


async def test_another_control_plane_is_notified_of_a_new_tenant(shared_databases: Databases) -> None:
    far = open_core(shared_databases, active_per_user=1000)
    notified: list[tuple[str, str]] = []
    core = await open_core(shared_databases, lambda *message: notified.append(message), active_per_user=1000).prepare()
    far.workflow = core.workflow
    await flooded(core)
    await leased(far, 2)
    newcomer = await core.member()
    notified.clear()
    await core.submit(newcomer)
    for channel, payload in notified:
        if channel == CHANNEL:
            far.queue.received(payload)
    assert await whose(far, 1) == [newcomer.tenant_id]


async def test_a_control_plane_that_missed_the_notification_finds_the_new_tenant_at_its_next_read(
    shared_databases: Databases,
) -> None:
    core = await open_core(shared_databases, active_per_user=1000).prepare()
    far = open_core(shared_databases, active_per_user=1000)
    far.workflow = core.workflow
    await flooded(core, 3)
    await leased(far)
    newcomers = [await core.member() for _ in range(2)]
    for newcomer in newcomers:
        await core.submit(newcomer)
    far.queue.received(None)
    assert (await leased(far))[0].tenant_id == newcomers[0].tenant_id
    assert len(await leased(far, 9)) == 3


@pytest.mark.few_forms
@pytest.mark.parametrize("seed", range(6))
async def test_queue_positions_match_the_order_of_leases(core: Core, seed: int) -> None:
    choose = random.Random(seed)
    members = [await core.member(tokens=100_000) for _ in range(3)]
    members += [await core.member(tenant=members[0], tokens=100_000), await core.member(tenant=members[1])]
    jobs = {}
    for _ in range(24):
        member = choose.choice(members)
        job = await core.submit(member)
        jobs[job.id] = member
    keys = [(member.tenant_id, job_id, 1) for job_id, member in jobs.items()]
    expected = {key[1]: standing.ahead for key, standing in (await core.room.dispatch.positions.of_jobs(keys)).items()}
    order = [lease.job_id for _ in keys for lease in await leased(core)]
    # Exact except for jobs that are level after one user has run out of work.
    assert all(abs((expected[job_id] or 0) - place) <= 1 for place, job_id in enumerate(order))


async def test_a_tenant_runs_no_more_jobs_at_once_than_its_limit(core: Core) -> None:
    flood, other = await flooded(core), await flooded(core, 3)
    await core.room.dispatch.tenant_weights.change("operator", flood.tenant_id, ChangeTenantWeight(max_running=2))
    leases = await leased(core, 20)
    assert Counter(lease.tenant_id for lease in leases) == {flood.tenant_id: 2, other.tenant_id: 3}
    assert await leased(core) == []
    [mine, _] = [lease for lease in leases if lease.tenant_id == flood.tenant_id]
    await core.queue.close(DispatchEnd(mine.dispatch_id, "completed", mine.lease_token))
    assert [lease.tenant_id for lease in await leased(core, 3)] == [flood.tenant_id]
    await core.room.dispatch.tenant_weights.change("operator", flood.tenant_id, ChangeTenantWeight(max_running=None))
    assert len(await leased(core, 5)) == 5


async def test_a_user_runs_no_more_jobs_at_once_than_the_setting(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=1000, running_per_user=2, running_per_tenant=3).prepare()
    one = await flooded(core, 5)
    assert len(await leased(core, 9)) == 2
    two = await core.member(tenant=one)
    waits = [await core.submit(two) for _ in range(2)][1]
    assert len(await leased(core, 9)) == 1
    key = (two.tenant_id, waits.id, 1)
    standing = (await core.room.dispatch.positions.of_jobs([key]))[key]
    assert (standing.max_running, standing.tenant_running) == (3, 3)
    assert (standing.max_running_per_user, standing.user_running) == (2, 1)


async def test_two_control_planes_that_lease_at_once_keep_a_tenant_within_its_limit(
    shared_databases: Databases,
) -> None:
    cores = [open_core(shared_databases, active_per_user=1000, running_per_tenant=3) for _ in range(2)]
    workflow = (await cores[0].prepare()).workflow
    cores[1].workflow = workflow
    flood = await flooded(cores[0], 8)
    lock = "SELECT 1 FROM tenants WHERE id = $1 FOR UPDATE"
    async with open_transaction(shared_databases.central, lock, flood.tenant_id):
        tasks = await start_blocked(shared_databases.central, *(leased(core, 2) for core in cores))
    assert sorted(map(len, await asyncio.gather(*tasks))) == [1, 2]
    assert [await leased(core, 2) for core in cores] == [[], []]


@pytest.mark.thorough
async def test_lanes_without_work_are_removed(core: Core) -> None:
    """One user submits with every priority there is, and cancels: what is left costs other users nothing."""
    member = await core.member(tokens=100_000)
    for priority in range(-50, 0):
        job = await core.submit(member, priority=priority)
        await core.room.cancellation.cancel(member.tenant_id, job.id, actor="user")
    kept = await core.submit(member, priority=-60)
    count = (
        "SELECT count(*) AS lanes, count(*) FILTER (WHERE has_work) AS busy FROM dispatch_lanes WHERE workflow_id = $1"
    )
    [before] = await core.rows(core.databases.central, count, core.workflow)
    assert before["lanes"] == 51
    # Not those that were opened a moment ago: their job is on its way.
    assert await core.queue.leasing.marks.sweep(3600) == 0
    await core.queue.leasing.marks.sweep(-1)
    [after] = await core.rows(core.databases.central, count, core.workflow)
    # The first lane of the workflow stays, and the one that has work.
    assert (after["lanes"], after["busy"]) == (2, 1)
    assert [lease.job_id for lease in await leased(core, 3)] == [kept.id]
    await core.queue.leasing.marks.sweep(-1)
    # What is in flight may come back to its lane.
    [held] = await core.rows(core.databases.central, count, core.workflow)
    assert (held["lanes"], held["busy"]) == (2, 0)
    await core.check()


async def test_a_lane_that_is_removed_while_a_job_comes_is_opened_again(core: Core) -> None:
    member = await core.member(tokens=100_000)
    for priority in (-1, 0):
        job = await core.submit(member, priority=priority)
        await core.room.cancellation.cancel(member.tenant_id, job.id, actor="user")
    removed = "DELETE FROM dispatch_lanes WHERE workflow_id = $1 AND priority = 0 RETURNING lane_id"
    async with open_transaction(core.databases.central, removed, core.workflow):
        [submitting] = await start_blocked(core.databases.central, core.submit(member))
    job = await submitting
    assert [lease.job_id for lease in await leased(core)] == [job.id]
    await core.check()


async def test_a_lane_that_is_found_empty_while_a_job_comes_has_work(core: Core) -> None:
    """The mark says `no work` while a job waits to get in: afterwards it has some, and is found."""
    member = await core.member(tokens=100_000)
    job = await core.submit(member)
    await core.room.cancellation.cancel(member.tenant_id, job.id, actor="user")
    empty = "UPDATE dispatch_lanes SET has_work = false WHERE workflow_id = $1 RETURNING lane_id"
    async with open_transaction(
        core.databases.central, "SELECT 1 FROM dispatch_lanes WHERE workflow_id = $1 FOR UPDATE", core.workflow
    ) as connection:
        [submitting] = await start_blocked(core.databases.central, core.submit(member))
        await connection.execute(empty, core.workflow)
    job = await submitting
    fresh = open_core(core.databases)
    fresh.workflow = core.workflow
    assert [lease.job_id for lease in await leased(fresh)] == [job.id]
    await core.check()
