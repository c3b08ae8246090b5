"""The reconciler and concurrent work: the later one finds the change of the other, and both are right."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from callsheet.jobs.repair.reconciler import Reconciler
from callsheet.plumbing.failpoints import Failpoint
from tests.support.jobs.core import Core, report
from tests.support.jobs.race import COMPLETED, CONSUMED, QUEUED, REFUNDED, RESERVE, STARTED, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked


def hasty(core: Core) -> Reconciler:
    """As fast as can be: nothing has to settle, and the second look follows with the next tick."""
    core.room.reconciler.settle_seconds = 0
    core.room.reconciler.confirm_seconds = 0
    return core.room.reconciler


async def reconcile(core: Core, ticks: int = 2) -> int:
    reconciler = hasty(core)
    before = sum(reconciler.healed.values())
    for _ in range(ticks):
        await reconciler.tick(datetime.now(UTC))
    return sum(reconciler.healed.values()) - before


async def lose_dispatch(race: Race, job_id: object) -> None:
    query = "DELETE FROM ai_job_dispatches WHERE tenant_job_id = $1 AND tenant_id = $2"
    await race.one.rows(race.central, query, job_id, race.ann.tenant_id)


async def test_the_reconciler_leaves_a_submit_stalled_before_its_relay_to_the_relay(race: Race) -> None:
    async with paused_at(Failpoint.SUBMIT_BEFORE_RELAY, race.one.submit(race.ann)) as submitting:
        assert await reconcile(race.two, 3) == 0
    job = await submitting
    assert await reconcile(race.two, 3) == 0
    assert await race.one.steps(race.ann, job.id) == QUEUED
    await race.one.check()


async def test_the_reconciler_leaves_a_relay_stalled_between_central_and_pool_to_the_relay(race: Race) -> None:
    async with paused_at(Failpoint.RELAY_BEFORE_QUEUED, race.one.submit(race.ann)) as submitting:
        assert await reconcile(race.two, 3) == 0
    job = await submitting
    assert await race.one.steps(race.ann, job.id) == QUEUED
    await race.one.check()


async def test_a_completion_that_stalls_before_its_close_still_closes(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_CLOSE, race.one.complete(started)) as completing:
        # A reconciler without a delay marks the worker's lease as canceled; the default waits a minute first.
        assert await reconcile(race.two, 3) == 1
    assert (await completing).status == "completed"
    assert await race.finished(job.id) == [(1, "completed")]
    await race.check_job(job.id, COMPLETED, CONSUMED)


async def test_a_completion_that_stalls_before_its_pool_does_not_count_as_lost(race: Race) -> None:
    job, started = await race.started()
    async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as completing:
        assert await reconcile(race.two, 3) == 0
    assert (await completing).status == "completed"
    await race.check_job(job.id, COMPLETED, CONSUMED)


async def test_a_cancel_that_stalls_before_its_relay_and_the_reconciler_close_it_once(race: Race) -> None:
    job = await race.submit()
    cancel = race.one.room.cancellation.cancel(race.ann.tenant_id, job.id, actor="user")
    async with paused_at(Failpoint.CANCEL_BEFORE_RELAY, cancel) as canceling:
        assert await reconcile(race.two, 3) == 1
    assert (await canceling).status == "canceled"
    assert await race.finished(job.id) == [(1, "canceled")]
    await race.check_job(job.id, [*QUEUED, "queued>canceled"], REFUNDED)


async def test_a_requeue_that_stalls_before_its_pool_and_the_reconciler_requeue_the_job_once(race: Race) -> None:
    job, started = await race.started()
    work = race.one.room.leases.requeue(report(started), "spot")
    async with paused_at(Failpoint.REQUEUE_BEFORE_POOL, work) as requeuing:
        assert await reconcile(race.two, 3) == 1
    assert (await requeuing).status == "queued"
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")


async def test_a_lease_that_stalls_before_its_start_is_left_alone(race: Race) -> None:
    job = await race.submit()
    async with paused_at(Failpoint.LEASE_BEFORE_START, race.one.lease()) as leasing:
        assert await reconcile(race.two, 3) == 0
    assert (await leasing) is not None
    await race.check_job(job.id, STARTED, [RESERVE], dispatch="leased")


async def test_a_job_canceled_while_its_dispatch_is_recreated_has_no_dispatch(race: Race) -> None:
    job = await race.submit()
    await lose_dispatch(race, job.id)
    await hasty(race.two).tick(datetime.now(UTC))
    async with paused_at(Failpoint.RECONCILE_BEFORE_POOL, hasty(race.two).tick(datetime.now(UTC))) as healing:
        await race.one.room.cancellation.cancel(race.ann.tenant_id, job.id, actor="user")
    await healing
    assert await race.finished(job.id) == [(1, "canceled")]
    await race.check_job(job.id, [*QUEUED, "queued>canceled"], REFUNDED)


async def test_a_job_canceled_before_its_dispatch_is_recreated_has_no_dispatch(race: Race) -> None:
    """The cancel found no dispatch to close; the one that comes after it must not stay."""
    job = await race.submit()
    await lose_dispatch(race, job.id)
    reconciler = hasty(race.two)
    await reconciler.tick(datetime.now(UTC))
    async with open_transaction(race.central, "SELECT 1 FROM dispatch_lanes FOR UPDATE"):
        [healing] = await start_blocked(race.central, reconciler.tick(datetime.now(UTC)))
        await race.one.room.cancellation.cancel(race.ann.tenant_id, job.id, actor="user")
    await healing
    assert await race.one.steps(race.ann, job.id) == [*QUEUED, "queued>canceled"]
    assert await race.one.ledger(race.ann, job.id) == REFUNDED
    rows = await race.one.rows(race.central, "SELECT 1 FROM ai_job_dispatches WHERE tenant_id = $1", race.ann.tenant_id)
    assert rows == []
    await race.one.check()


async def test_a_recreated_dispatch_that_is_leased_at_once_runs(race: Race) -> None:
    job, started = await race.started()
    await lose_dispatch(race, job.id)
    await hasty(race.two).tick(datetime.now(UTC))
    async with paused_at(Failpoint.RECONCILE_BEFORE_POOL, hasty(race.two).tick(datetime.now(UTC))) as healing:
        again = await race.one.start("worker-2")
    await healing
    assert again.lease.lease_seq == started.lease.lease_seq + 1
    await race.one.complete(again)
    await race.check_job(job.id, [*STARTED, "processing>queued", "queued>processing", "processing>completed"], CONSUMED)


async def test_two_reconcilers_make_one_dispatch(race: Race) -> None:
    jobs = [await race.submit() for _ in range(5)]
    for job in jobs:
        await lose_dispatch(race, job.id)
    for _ in range(2):
        await asyncio.gather(*(hasty(core).tick(datetime.now(UTC)) for core in (race.one, race.two)))
    healed = [core.room.reconciler.healed["missing_dispatch"] for core in (race.one, race.two)]
    assert sum(healed) == 5
    rows = await race.one.rows(race.central, "SELECT 1 FROM ai_job_dispatches WHERE tenant_id = $1", race.ann.tenant_id)
    assert len(rows) == 5
    await race.one.check()
