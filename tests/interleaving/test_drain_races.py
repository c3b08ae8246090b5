"""A drain and a lease at the same moment: after a drain is committed, no lease to its worker follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from callsheet.dispatch.queue import Queue
from callsheet.fleet.room import FleetRoom
from tests.support.database.room_statements import statements_of_room
from tests.support.http.fleet_api import bearer, join, registry
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, start_blocked

FLEET = statements_of_room("fleet")

WORKER = "gpu-1"


@pytest.fixture
async def room(race: Race) -> FleetRoom:
    """The second control plane's, where a worker has registered."""
    room = registry(race.two.databases, race.two.room.leases)
    await join(room, WORKER, await slug(race))
    return room


async def slug(race: Race) -> str:
    [row] = await race.one.rows(race.central, "SELECT slug FROM workflows WHERE id = $1", race.one.workflow)
    return str(row["slug"])


@asynccontextmanager
async def draining(race: Race, worker_id: str = WORKER) -> AsyncIterator[None]:
    """A drain whose transaction is still open."""
    async with race.central.transaction() as connection:
        await FLEET["lock_drains"].run(connection)
        await FLEET["drain_worker"].run(connection, worker_id=worker_id, drained_by="operator", reason=None)
        yield


async def dispatches(race: Race) -> list[tuple[str, str | None, int, int]]:
    rows = await race.one.rows(
        race.central,
        """SELECT status, worker_id, attempts, lease_seq FROM ai_job_dispatches
           WHERE workflow_id = $1 ORDER BY dispatch_id""",
        race.one.workflow,
    )
    return [(row["status"], row["worker_id"], row["attempts"], row["lease_seq"]) for row in rows]


async def test_a_lease_that_started_before_the_drain_was_committed_returns_no_job(race: Race) -> None:
    """Its statement has looked at the queue as it was before; the drain is committed before it leases."""
    await race.submit()
    async with draining(race):
        [leasing] = await start_blocked(race.central, race.one.queue.lease(race.one.criteria(), WORKER))
    assert await leasing is None
    assert await dispatches(race) == [("queued", None, 0, 0)], "never handed out, so there is nothing to requeue"
    other = await race.one.queue.lease(race.one.criteria(), "gpu-2")
    assert other is not None


async def test_a_drain_waits_for_a_lease_in_progress_and_the_worker_keeps_it(race: Race, room: FleetRoom) -> None:
    await race.submit()
    [dispatch_id] = [
        row["dispatch_id"]
        for row in await race.one.rows(
            race.central, "SELECT dispatch_id FROM ai_job_dispatches WHERE workflow_id = $1", race.one.workflow
        )
    ]
    async with race.one.databases.central.transaction() as connection:
        # A lease that has asked whether its worker is drained, and is not committed yet.
        assert await connection.fetchval("SELECT drained_workers(ARRAY[$1])", WORKER) == []
        [drain] = await start_blocked(race.central, room.workers.drain(WORKER, "operator"))
        await connection.execute(
            """UPDATE ai_job_dispatches SET status = 'leased', worker_id = $1, lease_token = gen_random_uuid(),
                   lease_seq = 1, attempts = 1, leased_at = now(), last_leased_at = now(),
                   lease_expires_at = now() + interval '1 h' WHERE dispatch_id = $2""",
            WORKER,
            dispatch_id,
        )
    drained = await drain
    assert (drained.is_draining, drained.current_load) == (True, 1), "who drains it sees what it still has"
    assert await dispatches(race) == [("leased", WORKER, 1, 1)]


async def test_only_the_drained_worker_of_polls_in_one_statement_gets_no_job(race: Race) -> None:
    for _ in range(3):
        await race.submit()
    async with draining(race):
        pass
    queue: Queue = race.one.queue
    names = ["a", WORKER, "b", WORKER, "c"]
    leases = await asyncio.gather(*[queue.lease(race.one.criteria(), name) for name in names])
    assert [lease and lease.worker_id for lease in leases] == ["a", None, "b", None, "c"]


async def test_a_drained_worker_among_locked_heads_does_not_stop_the_search(race: Race) -> None:
    for _ in range(12):
        await race.submit()
    rows = await race.one.rows(
        race.central, "SELECT dispatch_id FROM ai_job_dispatches WHERE workflow_id = $1 ORDER BY 1", race.one.workflow
    )
    async with draining(race):
        pass
    first = [row["dispatch_id"] for row in rows[:11]]
    lock = "SELECT 1 FROM ai_job_dispatches WHERE dispatch_id = ANY ($1::bigint[]) FOR UPDATE"
    async with open_transaction(race.central, lock, first):
        leases = await race.one.queue.lease_many(race.one.criteria(), [WORKER, "a"])
    assert [(lease.worker_id, lease.dispatch_id) for lease in leases] == [("a", rows[11]["dispatch_id"])]


@pytest.mark.parametrize("identifier", ["", "studio"])
async def test_a_synchronous_job_for_a_drained_worker_must_be_queued(race: Race, identifier: str) -> None:
    job = await race.submit()
    entry = await race.entry(job, charge_cycle=2, concurrency_identifier=identifier)
    async with draining(race):
        [placing] = await start_blocked(race.central, race.one.queue.enqueue_leased(entry, WORKER))
    assert await placing is None
    assert await race.one.queue.enqueue([entry]) == 1


async def test_a_worker_that_registers_while_it_is_drained_is_drained(race: Race, room: FleetRoom) -> None:
    first = registry(race.one.databases, race.one.room.leases)
    async with draining(race, "gpu-2"):
        registered = await join(first, "gpu-2", await slug(race))
        assert not (await first.authentication.of(bearer(registered.token))).is_draining
    assert (await first.authentication.of(bearer(registered.token))).is_draining


async def test_two_concurrent_drains_both_succeed_and_the_first_is_recorded(race: Race, room: FleetRoom) -> None:
    lock = "SELECT pg_advisory_xact_lock_shared(hashtextextended('callsheet drains', 0))"
    other = registry(race.one.databases, race.one.room.leases)
    async with open_transaction(race.central, lock):
        first, second = await start_blocked(
            race.central, room.workers.drain(WORKER, "ann", "new disk"), other.workers.drain(WORKER, "bob")
        )
    for drained in await asyncio.gather(first, second):
        assert (drained.is_draining, drained.drained_by, drained.drain_reason) == (True, "ann", "new disk")
