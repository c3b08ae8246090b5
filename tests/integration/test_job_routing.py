"""Routing of jobs: workflows, stages, providers, order, limits and tenants; and the lines in the log."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callsheet.dispatch.facts import Criteria
from callsheet.dispatch.queue_notifications import Arrival
from callsheet.jobs.lease.outcomes import LeaseReport, StartedLease
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import NotFound
from tests.support.jobs.core import Core, Member, job_ids, open_core, report
from tests.support.jobs.job_states import (
    job_log_lines,
    running_job,
)
from tests.support.waiting import PATIENCE_SECONDS


async def test_a_worker_gets_only_its_workflows_its_stage_and_its_providers(core: Core, ann: Member) -> None:
    other = await core.add_workflow()
    jobs = {
        "mine": await core.submit(ann),
        "workflow": await core.submit(ann, workflow_id=other),
        "stage": await core.submit(ann, stage="staging"),
        "provider": await core.submit(ann, provider="cloud"),
    }
    ids = {job.id: name for name, job in jobs.items()}

    async def all_of(**changes: Any) -> set[str]:
        """What this worker would be given; everything goes back."""
        workflows = changes.pop("workflows", (core.workflow,))
        criteria = core.criteria(*workflows, **changes)
        given = [started async for started in leases(core, criteria)]
        for started in given:
            await core.room.leases.requeue(report(started), "only looking")
        return {ids[started.lease.job_id] for started in given}

    assert await all_of() == {"mine"}
    assert await all_of(workflows=(other,)) == {"workflow"}
    assert await all_of(workflows=(other, core.workflow)) == {"mine", "workflow"}
    assert await all_of(stage="staging") == {"stage"}
    assert await all_of(providers=("cloud",)) == {"provider"}
    assert await all_of(providers=("cloud", "self_hosted")) == {"mine", "provider"}
    assert await all_of(workflows=(other,), stage="staging") == set()
    assert await all_of(workflows=(other + 1000,)) == set()
    assert await all_of(providers=()) == set()
    await core.check()


async def leases(core: Core, criteria: Criteria) -> AsyncIterator[StartedLease]:
    while (started := await core.lease("worker-1", criteria)) is not None:
        yield started


async def test_a_worker_without_workflows_never_gets_a_job(core: Core, ann: Member) -> None:
    await core.submit(ann)
    assert await core.lease("worker-1", Criteria(())) is None
    assert await core.queue.lease_many(Criteria(()), ["worker-1"]) == []


async def test_the_highest_priority_comes_first_and_then_the_oldest(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=100).prepare()
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    other = await core.add_workflow()
    wanted = []
    for number, priority in enumerate([0, 5, -1, 5, 0, 7, -1, 0]):
        member, workflow = ((ann, core.workflow), (bob, other))[number % 2]
        job = await core.submit(member, priority=priority, workflow_id=workflow)
        wanted.append((-priority, number, job.id))
    criteria = core.criteria(core.workflow, other)
    assert [started.lease.job_id async for started in leases(core, criteria)] == [job for *_, job in sorted(wanted)]


async def test_a_requeued_job_keeps_its_place(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=100).prepare()
    ann = await core.member("pool_1")
    jobs = [await core.submit(ann) for _ in range(6)]
    held = [await core.start() for _ in range(4)]
    await core.queue.raise_low_water()
    await core.room.leases.requeue(report(held[1]), "spot")
    await core.queue.raise_low_water()
    await core.fail(held[0], retryable=True)
    await core.queue.raise_low_water()
    await core.queue.promote(datetime.now(UTC) + timedelta(hours=1))
    order = [started.lease.job_id async for started in leases(core, core.criteria())]
    assert order == [jobs[0].id, jobs[1].id, jobs[4].id, jobs[5].id]


@pytest.fixture
async def planes(shared_settings: Settings, shared_databases: Databases) -> AsyncIterator[tuple[Core, Core]]:
    """Two control planes over the same databases, each with connections and batches of its own."""
    others = await open_databases(shared_settings)
    first, second = (open_core(databases, active_per_user=1000) for databases in (shared_databases, others))
    await first.prepare()
    second.workflow = first.workflow
    yield first, second
    await others.close()


async def test_a_raised_limit_wakes_workers_that_wait_for_it(core: Core, ann: Member) -> None:
    await core.room.dispatch.limits.set("model-z", 0, "test")
    await core.submit(ann, concurrency_identifier="model-z")
    assert await core.lease() is None
    core.notifications.clear()
    await core.room.dispatch.limits.set("model-z", 1, "test")
    assert ("dispatch", Arrival(core.workflow, "production", "self_hosted").write()) in core.notifications
    assert await core.lease() is not None


async def test_a_queue_forgets_criteria_that_are_not_used_any_more(core: Core) -> None:
    for number in range(1, 50):
        assert await core.queue.lease(Criteria((number,)), "worker-1") is None
    assert core.queue._polls == core.queue._second_polls == {}


LIVE = "SELECT count(*) FROM ai_job_dispatches WHERE concurrency_identifier = 'model-x' AND status <> 'queued'"


async def test_a_concurrency_limit_is_never_exceeded_and_never_left_unused(planes: tuple[Core, Core]) -> None:
    core, _ = planes
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    await core.room.dispatch.limits.set("model-x", 3, "test")
    for number in range(20):
        # Two pools, two priorities, two identifiers: the limit is over all lanes of one.
        identifier = "" if number % 5 == 4 else "model-x"
        await core.submit((ann, bob)[number % 2], priority=number % 3, concurrency_identifier=identifier, cost=1)
    held, peak, done = 0, 0, 0

    async def work(plane: Core, worker: str) -> None:
        nonlocal held, peak, done
        while done < 20:
            started = await plane.lease(worker)
            if started is None:
                await asyncio.sleep(0.005)
                continue
            row = (await plane.rows(plane.databases.central, LIVE))[0]
            held += 1
            peak = max(peak, row["count"])
            await plane.complete(started)
            done += 1

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(work(planes[number % 2], f"worker-{number}") for number in range(20)))
    assert (held, peak) == (20, 3)
    await core.check_drained()


async def test_a_limit_counts_leased_and_waiting_jobs_and_each_slot_is_freed_once(planes: tuple[Core, Core]) -> None:
    core, other = planes
    ann = await core.member("pool_1")
    await core.room.dispatch.limits.set("model-x", 2, "test")
    for _ in range(8):
        await core.submit(ann, concurrency_identifier="model-x")
    first, second = await core.start(), await other.start()
    assert (await core.lease(), await other.lease()) == (None, None)
    later = datetime.now(UTC) + timedelta(hours=1)
    await core.room.leases.defer(report(first), "p-1", later)
    assert await core.lease() is None
    # A report that is repeated frees no second slot.
    for _ in range(3):
        await core.complete(second)
    third = await core.start()
    assert (await core.lease(), await other.lease()) == (None, None)
    await core.room.leases.complete_callback(first.lease.dispatch_id, first.lease.cycle, {}, "provider:x")
    fourth = await other.start()
    assert await core.lease() is None
    await core.expire_lease(third.lease.dispatch_id)
    await core.reap()
    await core.start()
    assert await core.lease() is None
    # Raised, lowered, shut: it holds from the next lease on.
    await core.room.dispatch.limits.set("model-x", 3, "test")
    await core.start()
    await core.room.dispatch.limits.set("model-x", 1, "test")
    await core.complete(fourth)
    assert await core.lease() is None
    await core.room.dispatch.limits.set("model-x", 0, "test")
    assert await core.lease() is None
    # Another identifier, or none, does not wait for it.
    free = await core.submit(ann, concurrency_identifier="model-y", priority=-5)
    assert (await core.start()).lease.job_id == free.id
    await core.check()


async def test_many_leases_at_once_hand_out_each_job_once(planes: tuple[Core, Core]) -> None:
    core, other = planes
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    jobs = {(await core.submit((ann, bob)[number % 2], cost=1)).id for number in range(30)}
    given = await asyncio.gather(*((core, other)[number % 2].lease(f"worker-{number}") for number in range(40)))
    started = [lease for lease in given if lease is not None]
    assert len(started) == 30
    assert {lease.lease.job_id for lease in started} == jobs
    assert len({lease.lease.worker_id for lease in started}) == 30
    await asyncio.gather(*((other, core)[number % 2].complete(lease) for number, lease in enumerate(started)))
    await core.check_drained()


async def test_the_same_job_id_of_three_tenants_in_two_pools_never_crosses(core: Core) -> None:
    members = [await core.member("pool_1"), await core.member("pool_1"), await core.member("pool_2")]
    shared = uuid7()
    with job_ids(shared, shared, shared):
        jobs = [
            await core.submit(member, cost=10, payload={"of": number}, idempotency_key="key")
            for number, member in enumerate(members)
        ]
    assert {job.id for job in jobs} == {shared}
    leased = [await core.start() for _ in members]
    assert [(one.lease.tenant_id, one.payload) for one in leased] == [
        (member.tenant_id, {"of": number}) for number, member in enumerate(members)
    ]
    mixed = LeaseReport(leased[0].lease.dispatch_id, leased[2].lease.lease_token, "worker-1")
    with pytest.raises(NotFound):
        await core.room.leases.complete(mixed, {"output": "stolen"})
    await core.complete(leased[0], {"output": "a"})
    await core.fail(leased[1])
    assert [await core.status(member, shared) for member in members] == ["completed", "failed", "processing"]
    await core.room.retries.retry(members[1].tenant_id, shared, actor="user:x")
    await core.room.cancellation.cancel(members[2].tenant_id, shared, actor="user:x")
    assert [await core.status(member, shared) for member in members] == ["completed", "queued", "canceled"]
    assert [await core.balance(member) for member in members] == [990, 990, 1000]
    assert [(await core.job(member, shared))["result"] for member in members] == [{"output": "a"}, None, None]
    await core.drain()
    assert [await core.status(member, shared) for member in members] == ["completed", "completed", "canceled"]
    await core.check_drained()


async def test_every_event_is_one_line_in_the_log(core: Core, ann: Member, logged: io.StringIO) -> None:
    job, started = await running_job(core, ann)
    await core.room.leases.requeue(report(started), "spot")
    await core.complete(await core.start(), {"output": "o.mp4", "metadata": {"frames": 3}})
    broken, failing = await running_job(core, ann)
    await core.fail(failing)

    def line(event: str, **fields: object) -> dict[str, object]:
        return {"event": event, "job_id": str(job.id), **fields}

    def step(from_status: str, to_status: str) -> dict[str, object]:
        return line("job.transition", from_status=from_status, to_status=to_status)

    lines = job_log_lines(logged)
    made = {"count": 1, "types": ["video/mp4"], "sizes": [7], "bytes": 7}
    assert [found for found in lines if found["job_id"] == str(job.id)] == [
        line("job.created", type="effect", credits_cost=10),
        step("pending", "queued"),
        step("queued", "processing"),
        step("processing", "queued"),
        step("queued", "processing"),
        step("processing", "completed"),
        line("job.completed", output={"frames": 3}, outputs=made),
    ]
    failed = [found for found in lines if found["job_id"] == str(broken.id)][-1]
    assert (failed["event"], failed["refund"], failed["error"]["type"]) == ("job.failed", 10, "engine_error")
    # As many transitions as the history has.
    for found in (job, broken):
        events = [event["event"] for event in await core.events(ann, found.id)]
        logged_events = [entry["event"] for entry in lines if entry["job_id"] == str(found.id)]
        assert [name for name in logged_events if name in ("job.created", "job.transition")] == events
