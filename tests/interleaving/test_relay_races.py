"""The relay: for any event between its read and its write, an active job has one dispatch and an ended job has none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from callsheet.dispatch.facts import JobCycle
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import apply_transition, retry_job
from callsheet.jobs.show.reader import require_job
from callsheet.jobs.show.views import job_view
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.wire.jobs import Job
from tests.support.jobs.core import report
from tests.support.jobs.race import COMPLETED, CONSUMED, QUEUED, REFUNDED, RESERVE, STARTED, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

LOCK_LANES = "SELECT 1 FROM dispatch_lanes FOR UPDATE"
CANCELED = [">pending", "pending>canceled"]
AFTER_EVERY_DEADLINE = timedelta(days=400)


async def cancel(race: Race, job_id: object) -> None:
    await race.two.room.cancellation.cancel(race.ann.tenant_id, job_id, actor="user")  # type: ignore[arg-type]


async def unrelayed(race: Race, point: Failpoint = Failpoint.SUBMIT_BEFORE_RELAY) -> Job:
    """A job whose process died before (or, by `point`, while) it was relayed; its lane exists."""
    await race.one.complete((await race.started())[1])
    before = {row["id"] for row in await race.one.rows(race.pool, "SELECT id FROM ai_jobs")}
    with armed({point: crash}), pytest.raises(Crashed):
        await race.one.submit(race.ann)
    rows = await race.one.rows(race.pool, "SELECT * FROM ai_jobs")
    [row] = [row for row in rows if row["id"] not in before]
    return job_view(await require_job(race.pool, race.ann.tenant_id, row["id"]))


async def relayed(race: Race) -> None:
    await race.one.room.relay.relay_pool(race.ann.pool)


async def nothing_is_left(race: Race, job: Job, steps: list[str], ledger: list[tuple[int, str, int]]) -> None:
    assert await race.one.steps(race.ann, job.id) == steps
    assert await race.one.ledger(race.ann, job.id) == ledger
    assert await race.one.dispatch(job.id) is None
    assert await race.one.outbox(race.pool) == []
    await race.one.check()


async def test_a_start_before_the_relay_marked_the_job_queued_records_both_steps(race: Race) -> None:
    async with paused_at(Failpoint.RELAY_BEFORE_QUEUED, race.one.submit(race.ann)) as submitting:
        started = await race.two.start()
        # The dispatch exists, so the start has done the rest of what the relay had to do.
        assert await race.one.outbox(race.pool) == []
    assert (await submitting).status == "processing"
    assert await race.one.steps(race.ann, started.lease.job_id) == STARTED
    assert await race.one.outbox(race.pool) == []
    await race.two.complete(started)
    await nothing_is_left(race, await submitting, COMPLETED, CONSUMED)


async def test_a_complete_before_the_relay_marked_the_job_queued_stays(race: Race) -> None:
    async with paused_at(Failpoint.RELAY_BEFORE_QUEUED, race.one.submit(race.ann)) as submitting:
        await race.two.complete(await race.two.start())
    assert (await submitting).status == "completed"
    await nothing_is_left(race, await submitting, COMPLETED, CONSUMED)


async def test_a_requeue_before_the_relay_marked_the_job_queued_keeps_one_dispatch(race: Race) -> None:
    async with paused_at(Failpoint.RELAY_BEFORE_QUEUED, race.one.submit(race.ann)) as submitting:
        started = await race.two.start()
        await race.two.room.leases.requeue(report(started), "spot")
    job = await submitting
    assert await race.one.steps(race.ann, job.id) == [*STARTED, "processing>queued"]
    await race.one.complete(await race.one.start())
    steps = [*STARTED, "processing>queued", "queued>processing", "processing>completed"]
    await nothing_is_left(race, job, steps, CONSUMED)


async def test_a_cancel_before_the_relay_leaves_no_dispatch(race: Race) -> None:
    async with paused_at(Failpoint.SUBMIT_BEFORE_RELAY, race.one.submit(race.ann)) as submitting:
        [row] = await race.one.rows(race.pool, "SELECT id FROM ai_jobs")
        await cancel(race, row["id"])
    assert (await submitting).status == "canceled"
    await nothing_is_left(race, await submitting, CANCELED, REFUNDED)


async def test_a_cancel_between_the_two_halves_of_the_relay_leaves_no_dispatch(race: Race) -> None:
    async with paused_at(Failpoint.RELAY_BEFORE_QUEUED, race.one.submit(race.ann)) as submitting:
        [row] = await race.one.rows(race.pool, "SELECT id FROM ai_jobs")
        await cancel(race, row["id"])
        assert await race.one.dispatch(row["id"]) is None
    assert (await submitting).status == "canceled"
    await nothing_is_left(race, await submitting, CANCELED, REFUNDED)


async def test_a_relay_that_read_the_row_before_the_cancel_and_inserts_after_its_close_cleans_up(race: Race) -> None:
    job = await unrelayed(race)
    async with open_transaction(race.central, LOCK_LANES):
        [relaying] = await start_blocked(race.central, relayed(race))
        await cancel(race, job.id)
        await nothing_is_left(race, job, CANCELED, REFUNDED)
    await relaying
    await nothing_is_left(race, job, CANCELED, REFUNDED)
    assert await race.finished(job.id) == [(1, "canceled")]


async def left_behind(race: Race) -> Job:
    """As above, and the relay dies right after its insert: a dispatch of an ended job, and nothing in the outbox."""
    job = await unrelayed(race)
    async with open_transaction(race.central, LOCK_LANES):
        with armed({Failpoint.RELAY_BEFORE_QUEUED: crash}):
            [relaying] = await start_blocked(race.central, relayed(race))
        await cancel(race, job.id)
    with pytest.raises(Crashed):
        await relaying
    assert (await race.one.dispatch(job.id) or {})["status"] == "queued"
    assert await race.one.outbox(race.pool) == []
    return job


async def test_a_dispatch_left_behind_by_a_crash_is_closed_by_the_worker_that_leases_it(race: Race) -> None:
    job = await left_behind(race)
    assert await race.two.lease() is None
    await nothing_is_left(race, job, CANCELED, REFUNDED)


async def test_a_dispatch_left_behind_by_a_crash_is_closed_past_its_deadline_without_any_worker(race: Race) -> None:
    job = await left_behind(race)
    await race.two.room.reaper.reap()
    assert await race.one.dispatch(job.id) is not None
    await race.two.room.reaper.reap(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
    await nothing_is_left(race, job, CANCELED, REFUNDED)


async def test_the_reaper_leaves_an_overdue_dispatch_of_a_live_job_to_the_deadlines(race: Race) -> None:
    job = await race.submit()
    await race.two.room.reaper.reap(datetime.now(UTC) + AFTER_EVERY_DEADLINE)
    await race.check_job(job.id, QUEUED, [RESERVE], dispatch="queued")


async def test_two_relays_of_the_same_row_make_one_dispatch(race: Race) -> None:
    job = await unrelayed(race)
    async with open_transaction(race.central, LOCK_LANES):
        other = race.two.room.relay.relay_pool(race.pool)
        tasks = await start_blocked(race.central, relayed(race), other)
    await asyncio.gather(*tasks)
    assert await race.one.steps(race.ann, job.id) == QUEUED
    await race.one.complete(await race.one.start())
    assert await race.one.lease() is None
    await nothing_is_left(race, job, COMPLETED, CONSUMED)
    assert await race.finished(job.id) == [(1, "completed")]


async def test_a_relay_that_waits_while_the_dispatch_is_made_run_and_closed_does_not_run_it_again(race: Race) -> None:
    job = await unrelayed(race, Failpoint.RELAY_BEFORE_QUEUED)
    async with open_transaction(race.central, LOCK_LANES):
        [relaying] = await start_blocked(race.central, relayed(race))
        await race.two.complete(await race.two.start())
        assert await race.finished(job.id) == [(1, "completed")]
    await relaying
    await nothing_is_left(race, job, COMPLETED, CONSUMED)
    assert await race.finished(job.id) == [(1, "completed")]


async def test_a_relay_that_read_the_row_before_a_retry_does_not_disturb_the_new_cycle(race: Race) -> None:
    job = await unrelayed(race)
    async with open_transaction(race.central, LOCK_LANES):
        [relaying] = await start_blocked(race.central, relayed(race))
        async with race.pool.transaction() as connection:
            move = TransitionRequest(
                JobCycle(race.ann.tenant_id, job.id, 1), "test", reason="too late", error={"type": "x", "message": "y"}
            )
            await apply_transition(connection, Transition.FAIL, [move], close_dispatch=True)
            await retry_job(connection, move, has_budgets=False, paid_by_tenant=False)
    await relaying
    await race.two.relay()
    assert await race.finished(job.id) == [(1, "failed")]
    started = await race.one.start()
    assert (started.lease.job_id, started.lease.charge_cycle) == (job.id, 2)
    await race.one.complete(started)
    steps = [">pending", "pending>failed", "failed>pending", *COMPLETED[1:]]
    await nothing_is_left(race, job, steps, [*REFUNDED, (2, "JOB_RESERVE", -10), (2, "JOB_CONSUME", 0)])


async def test_a_close_relayed_twice_closes_once(race: Race) -> None:
    job = await race.submit()
    with armed({Failpoint.CANCEL_BEFORE_RELAY: crash}), pytest.raises(Crashed):
        await cancel(race, job.id)
    await asyncio.gather(relayed(race), race.two.room.relay.relay_pool(race.pool))
    await race.check_job(job.id, [*QUEUED, "queued>canceled"], REFUNDED)
    assert await race.one.outbox(race.pool) == []
    assert await race.finished(job.id) == [(1, "canceled")]


async def test_a_close_of_the_earlier_cycle_relayed_after_a_retry_leaves_the_new_dispatch(race: Race) -> None:
    job = await race.submit()
    async with race.pool.transaction() as connection:
        move = TransitionRequest(JobCycle(race.ann.tenant_id, job.id, 1), "test", error={"type": "x", "message": "y"})
        await apply_transition(connection, Transition.FAIL, [move], close_dispatch=True)
    await race.two.room.retries.retry(race.ann.tenant_id, job.id, actor="user")
    await race.one.relay()
    assert await race.finished(job.id) == [(1, "failed")]
    steps = [*QUEUED, "queued>failed", "failed>pending", "pending>queued"]
    await race.check_job(job.id, steps, [*REFUNDED, (2, "JOB_RESERVE", -10)], dispatch="queued")
