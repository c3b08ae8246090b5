"""Synchronous jobs and concurrency limits, raced over two control planes on real PostgreSQL."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.show.reader import require_job
from callsheet.plumbing.failpoints import Failpoint
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import TaskSettings
from callsheet.tasks.actors import Actors
from tests.support.http.actor_harness import scripted_actors
from tests.support.jobs.core import Core
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race import CONSUMED, RESERVE, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

LIMIT = 3
LOOPS = 20
TASKS = 60
AT_ONCE = [">pending", "pending>processing"]
LOCK_LIMIT = "SELECT 1 FROM concurrency_limits WHERE identifier = 'gpu' FOR UPDATE"


def planes(race: Race) -> list[Core]:
    """Whose turn it is: half of the loops each."""
    return [race.one, race.two] * (LOOPS // 2)


async def submit_at_once(core: Core, race: Race, **changes: Any) -> StartedLease | None:
    new = core.new_job(race.ann, kind="copy", cost=1, lease_seconds=30, **changes)
    return (await core.room.synchronous.submit(new, "plane"))[1]


async def test_twenty_loops_that_poll_together_fill_a_limit_exactly(race: Race) -> None:
    """Never over, never stuck below, whatever ended the tasks before."""
    await race.one.room.dispatch.limits.declare("gpu", LIMIT)
    for _ in range(30):
        await race.one.submit(race.ann, concurrency_identifier="gpu", cost=1, max_attempts=9)
    random, left = Random(6), 30
    while left:
        leased = await asyncio.gather(*(core.lease(f"loop-{n}") for n, core in enumerate(planes(race))))
        started = [each for each in leased if each is not None]
        assert len(started) == min(LIMIT, left)
        for each in started:
            end = random.choice(["complete", "complete", "fail", "expire"])
            core = random.choice([race.one, race.two])
            if end == "expire":
                await core.expire_lease(each.lease.dispatch_id)
                await core.reap()
            else:
                await (core.complete(each) if end == "complete" else core.fail(each))
                left -= 1
    await race.one.check()


async def test_twenty_loops_never_exceed_the_limit_and_finish_every_job(race: Race) -> None:
    """Free running: queued tasks, synchronous ones born beside them, leases that are lost on the way."""
    await race.one.room.dispatch.limits.declare("gpu", LIMIT)
    for _ in range(TASKS):
        await race.one.submit(race.ann, concurrency_identifier="gpu", cost=1, max_attempts=99)
    random, out, peak, done = Random(6), 0, 0, 0

    async def run(core: Core, started: StartedLease) -> None:
        nonlocal out, peak, done
        out += 1
        peak = max(peak, out)
        await asyncio.sleep(0)
        out -= 1
        if random.random() < 0.1:
            await core.expire_lease(started.lease.dispatch_id)
            await core.reap()
        else:
            await core.complete(started)
            done += 1

    async def loop(number: int, core: Core) -> None:
        while done < TASKS + 10:
            if number == 0 and done + 10 > TASKS - 20 and len(born) < 10:
                started = await submit_at_once(core, race, concurrency_identifier="gpu", max_attempts=99)
                born.append(started)
            else:
                started = await core.lease(f"loop-{number}")
            if started is not None:
                await run(core, started)

    born: list[StartedLease | None] = []
    async with asyncio.timeout(120):
        await asyncio.gather(*(loop(number, core) for number, core in enumerate(planes(race))))
    assert (done, len(born)) == (TASKS + 10, 10)
    assert 1 <= peak <= LIMIT
    await race.one.check_drained()


async def test_a_synchronous_job_waits_for_the_limit_it_counts_in_and_is_queued_where_it_is_reached(race: Race) -> None:
    await race.one.room.dispatch.limits.declare("gpu", 2)
    async with open_transaction(race.central, LOCK_LIMIT):
        births = [submit_at_once(core, race, concurrency_identifier="gpu") for core in (race.one, race.two, race.one)]
        tasks = await start_blocked(race.central, *births)
    started = [await task for task in tasks]
    assert sum(each is not None for each in started) == 2
    queued = await race.one.rows(race.central, "SELECT * FROM ai_job_dispatches WHERE status = 'queued'")
    assert [row["concurrency_identifier"] for row in queued] == ["gpu"]
    await race.one.check()


async def test_the_relay_that_is_faster_than_the_start_of_a_synchronous_job_changes_nothing(race: Race) -> None:
    async with paused_at(Failpoint.LEASE_BEFORE_START, submit_at_once(race.one, race)) as birth:
        await race.two.relay()
    started = await birth
    assert started is not None
    steps = await race.one.steps(race.ann, started.lease.job_id)
    assert steps == [">pending", "pending>queued", "queued>processing"]
    await race.one.complete(started)
    await race.one.drain()
    await race.one.check_drained()


async def test_a_synchronous_job_that_the_relay_queued_first_is_leased_once(race: Race) -> None:
    async with paused_at(Failpoint.SUBMIT_BEFORE_RELAY, submit_at_once(race.one, race)) as birth:
        await race.two.relay()
        leased = await race.two.start("somebody")
    assert await birth is None
    assert await race.one.ledger(race.ann, leased.lease.job_id) == [(1, "JOB_RESERVE", -1)]
    await race.two.complete(leased)
    await race.one.check_drained()


async def test_two_control_planes_that_start_the_same_synchronous_job_start_it_once(race: Race) -> None:
    assert await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, submit_at_once(race.one, race))
    [row] = await race.one.outbox(race.ann.pool)
    entry = (await require_job(race.ann.pool, race.ann.tenant_id, row["job_id"])).row.entry
    births = await asyncio.gather(
        *(core.room.starter.start_synchronous(entry, core_name) for core, core_name in _both(race))
    )
    [started] = [each for each in births if each is not None]
    assert await race.one.steps(race.ann, row["job_id"]) == AT_ONCE
    await race.one.complete(started)
    await race.one.check_drained()


def _both(race: Race) -> list[tuple[Core, str]]:
    return [(race.one, "one"), (race.two, "two")]


async def test_a_synchronous_job_canceled_before_its_start_is_not_run(race: Race) -> None:
    async with paused_at(Failpoint.LEASE_BEFORE_START, submit_at_once(race.one, race)) as birth:
        [row] = await race.one.rows(race.pool, "SELECT id FROM ai_jobs WHERE kind = 'copy'")
        await race.two.room.cancellation.cancel(race.ann.tenant_id, row["id"], actor="user")
    assert await birth is None
    assert await race.one.steps(race.ann, row["id"]) == [">pending", "pending>canceled"]
    await race.one.relay()
    await race.one.check_drained()


async def test_a_provider_has_its_declared_limit_until_an_admin_sets_another(race: Race) -> None:
    limits = race.one.room.dispatch.limits

    async def limit() -> int | None:
        rows = await race.one.rows(race.central, "SELECT max_concurrent FROM concurrency_limits")
        return rows[0]["max_concurrent"] if rows else None

    await limits.declare("gpu", 2)
    await race.two.room.dispatch.limits.declare("gpu", 5)
    assert await limit() == 5
    await limits.set("gpu", 1, "admin")
    await race.two.room.dispatch.limits.declare("gpu", 5)
    assert await limit() == 1
    # An admin who takes it away gives it back to the provider.
    await limits.set("gpu", None, "admin")
    await limits.declare("gpu", 4)
    assert await limit() == 4
    # A declared one and an admin's at the same moment: the admin's stays.
    async with open_transaction(race.central, "UPDATE concurrency_limits SET max_concurrent = 9, is_declared = false"):
        [declaring] = await start_blocked(race.two.databases.central, limits.declare("gpu", 7))
    await declaring
    assert await limit() == 9


async def test_control_planes_that_start_together_make_each_actors_workflows_once(race: Race) -> None:
    registry = ActorRegistry(scripted_actors(), {})
    settings = TaskSettings(queues=("fast", "slow"))
    rooms = [
        Actors(core.databases, registry.actors, registry.media, settings)
        for core in (race.one, race.two)
        for _ in range(4)
    ]
    await asyncio.gather(*(actors.keep() for actors in rooms))
    query = "SELECT slug FROM workflows WHERE slug LIKE 'actor:%'"
    slugs = {row["slug"] for row in await race.one.rows(race.central, query)}
    assert len(slugs) == 3 * len(registry.actors)
    assert {"actor:echo", "actor:echo:fast", "actor:echo:slow"} <= slugs
    # One that knows fewer actors switches nothing off: another control plane may still have them.
    await Actors(race.one.databases, {}, {}, settings).keep()
    query += " AND is_active"
    assert len(await race.one.rows(race.central, query)) == len(slugs)


async def test_a_synchronous_job_is_charged_once_and_only_in_its_own_pool(race: Race) -> None:
    job = await race.submit(kind="effect")
    new = race.one.new_job(race.ann, kind="copy")
    submitted, started = await race.one.room.synchronous.submit(new, "plane")
    assert started is not None
    await race.one.complete(started)
    assert await race.one.steps(race.ann, submitted.job.id) == [*AT_ONCE, "processing>completed"]
    assert await race.one.ledger(race.ann, submitted.job.id) == CONSUMED
    assert await race.one.ledger(race.bob, job.id) == [RESERVE]
    await race.one.check()
