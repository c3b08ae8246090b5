"""Two control planes work on one bulk action, and an operator stops it while a batch runs."""

from __future__ import annotations

import asyncio

import pytest

from callsheet.operate.all_jobs.bulk_actions import frozen
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from callsheet.wire.operate.all_jobs import StartBulkAction
from tests.support.jobs.bulk_actions import OPERATOR, BulkHarness, counts
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import paused_at, start_blocked


@pytest.fixture
def one(race: Race) -> BulkHarness:
    return BulkHarness.of(race.one)


@pytest.fixture
def two(race: Race) -> BulkHarness:
    return BulkHarness.of(race.two)


async def test_two_control_planes_share_the_work_and_do_nothing_twice(
    race: Race, one: BulkHarness, two: BulkHarness
) -> None:
    ids = await one.failed(race.ann, 6)
    action = await one.start("retry", tenant_id=str(race.ann.tenant_id))
    await asyncio.gather(one.finish(), two.finish())
    await one.finish()
    assert counts(await two.get(action)) == ("completed", 6, 6, 0, 0)
    for job_id in ids:
        assert await one.changes(race.ann, job_id, action) == ["job.transition"]
    await race.one.check()


@pytest.mark.parametrize("action", ["retry", "cancel"])
async def test_a_control_plane_that_lost_its_lease_changes_no_job_again(
    race: Race, one: BulkHarness, two: BulkHarness, action: str
) -> None:
    ids = await one.failed(race.ann, 2) if action == "retry" else [(await race.one.submit(race.ann)).id for _ in "ab"]
    started = await one.start(action, tenant_id=str(race.ann.tenant_id))
    point = Failpoint.RETRY_BEFORE_RELAY if action == "retry" else Failpoint.CANCEL_BEFORE_RELAY
    # The first one has changed its jobs and not written it down when another one takes over.
    async with paused_at(point, one.tick()) as stalled:
        await two.expire_lease(started)
        await two.finish()
        assert counts(await two.get(started)) == ("completed", 2, 2, 0, 0)
        while (lease := await race.two.lease()) is not None:
            await race.two.fail(lease)
    await stalled
    await two.finish()
    assert counts(await two.get(started)) == ("completed", 2, 2, 0, 0)
    for job_id in ids:
        assert await one.changes(race.ann, job_id, started) == ["job.transition"]
        assert (await race.one.job(race.ann, job_id))["charge_cycle"] == (2 if action == "retry" else 1)
    await race.one.check()


async def test_a_control_plane_that_read_a_job_before_another_one_retried_it_leaves_it_alone(
    race: Race, one: BulkHarness, two: BulkHarness
) -> None:
    [job_id] = await one.failed(race.ann)
    action = await one.start("retry", tenant_id=str(race.ann.tenant_id))
    async with paused_at(Failpoint.BULK_READ_BEFORE_ACT, one.tick()) as stalled:
        await two.expire_lease(action)
        await two.finish()
        # The retried job fails again, as it was when the first one read it.
        await race.two.fail(await race.two.start())
    await stalled
    await two.finish()
    assert (await race.one.job(race.ann, job_id))["charge_cycle"] == 2
    assert await one.changes(race.ann, job_id, action) == ["job.transition"]
    assert counts(await one.get(action)) == ("completed", 1, 1, 0, 0)
    await race.one.check()


async def test_stopping_while_a_batch_runs_counts_every_job_that_was_changed(
    race: Race, one: BulkHarness, two: BulkHarness
) -> None:
    ids = await one.failed(race.ann, 30)
    action = await one.start("retry", tenant_id=str(race.ann.tenant_id))
    async with paused_at(Failpoint.RETRY_BEFORE_RELAY, one.tick()) as working:
        stopped = await two.stop(action)
        assert stopped.state.value == "stopped"
        # Another control plane does not take the action from the one that works on it.
        await two.finish()
    await working
    await one.finish()
    ended = await two.get(action)
    assert ended.state.value == "stopped"
    statuses = [await race.one.status(race.ann, job_id) for job_id in ids]
    assert (ended.done, ended.untouched) == (statuses.count("queued"), statuses.count("failed"))
    # The batch that was under way is finished, and no other is started.
    assert (ended.total, ended.done) == (30, 20)
    await race.one.check()


async def test_one_of_two_concurrent_stops_is_recorded(race: Race, one: BulkHarness, two: BulkHarness) -> None:
    action = await one.start("retry", tenant_id=str(race.ann.tenant_id))
    await asyncio.gather(one.stop(action), two.stop(action))
    lines = await race.one.rows(
        race.central,
        "SELECT action FROM audit_logs WHERE subject_type = 'bulk_action' AND subject_id = $1 ORDER BY id",
        str(action.id),
    )
    assert [line["action"] for line in lines] == ["bulk_action.start", "bulk_action.stop"]
    await one.finish()


async def test_two_requests_with_one_key_start_one_bulk_action(race: Race, one: BulkHarness, two: BulkHarness) -> None:
    body = StartBulkAction.model_validate({"action": "retry", "filter": {"tenant_id": str(race.ann.tenant_id)}})
    central = race.one.databases.central
    async with central.transaction() as connection:
        # The first one is not committed when the second one arrives.
        query = (
            "INSERT INTO bulk_actions (id, action, filter, created_by, idempotency_key) "
            "VALUES ($1, 'retry', $2::jsonb, $3, 'key')"
        )
        action_id = uuid7()
        stored = frozen(body).model_dump(mode="json", exclude_defaults=True)
        await connection.execute(query, action_id, stored, OPERATOR.user_id)
        [waiting] = await start_blocked(race.two.databases.central, two.room.bulk_actions.start(OPERATOR, body, "key"))
    started = await waiting
    assert (started.shown.id, started.replayed) == (action_id, True)
