"""A fault stays in one place: an unavailable pool, a row that cannot be relayed, a wait for a dead job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from callsheet.dispatch.queue_notifications import CHANNEL, Arrival
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.jobs import JobStatus
from tests.support.database.outages import away
from tests.support.jobs.core import Core, report
from tests.support.jobs.crashes import crashed_at

NO_WORKFLOW = 999_999


def soon(**time: float) -> datetime:
    return datetime.now(UTC) + timedelta(**time)


async def test_an_unavailable_pool_does_not_delay_the_relay_of_other_pools(core: Core) -> None:
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    for member in (ann, bob):
        assert await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, core.submit(member))

    async with away(ann.pool):
        with pytest.raises(ConnectionRefusedError):
            await core.room.relay.tick(soon(seconds=10))

    [row] = await core.rows(bob.pool, "SELECT status FROM ai_jobs")
    assert row["status"] == "queued"


async def test_g1_an_unavailable_pool_does_not_delay_deadlines_of_other_pools(core: Core) -> None:
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    job = await core.submit(bob)
    await core.rows(bob.pool, "UPDATE ai_jobs SET deadline_at = clock_timestamp()")

    async with away(ann.pool):
        with pytest.raises(ConnectionRefusedError):
            await core.room.deadlines.tick(soon())

    assert await core.status(bob, job.id) == "failed"


async def test_an_unavailable_pool_does_not_prevent_reaping_leases_of_other_pools(core: Core) -> None:
    ann, bob = await core.member("pool_1"), await core.member("pool_2")
    for member in (ann, bob):
        await core.submit(member, max_attempts=1)
        await core.expire_lease((await core.start()).lease.dispatch_id)

    async with away(ann.pool):
        with pytest.raises(ConnectionRefusedError):
            await core.room.reaper.tick(soon())

    [row] = await core.rows(bob.pool, "SELECT status FROM ai_jobs")
    assert row["status"] == "failed"


async def test_g1_a_row_that_central_refuses_holds_up_no_other(core: Core) -> None:
    ann = await core.member()
    # Accepted, for its pool has committed; central knows no such workflow.
    poisoned = await core.submit(ann, workflow_id=NO_WORKFLOW)
    assert poisoned.status is JobStatus.PENDING
    assert await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, core.submit(ann))

    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await core.room.relay.tick(soon(seconds=10))

    rows = await core.rows(ann.pool, "SELECT status FROM ai_jobs ORDER BY id")
    assert [row["status"] for row in rows] == ["pending", "queued"]

    # Nor does it live for ever or keep its tokens.
    await core.enforce_deadlines(soon(days=2))
    assert await core.status(ann, poisoned.id) == "failed"
    assert await core.balance(ann) == 1000
    assert await core.outbox(ann.pool) == []


async def test_a_wait_for_the_callback_of_a_canceled_job_ends_with_the_next_reap(core: Core) -> None:
    ann = await core.member()
    job = await core.submit(ann)
    started = await core.start()
    await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user")
    # Its worker had not heard of it yet.
    await core.room.leases.defer(report(started), "prediction-1", soon(hours=20))

    await core.reap()

    assert await core.dispatch(job.id) is None
    await core.check_drained()


async def test_a_delayed_row_frees_its_slot_and_wakes_a_poller(core: Core) -> None:
    ann = await core.member()
    await core.room.dispatch.limits.set("gpu", 1, "test")
    for _ in range(2):
        await core.submit(ann, concurrency_identifier="gpu")
    started = await core.start()
    assert await core.lease() is None
    core.notifications.clear()

    await core.fail(started, retryable=True)

    assert (CHANNEL, Arrival(core.workflow, "production", "self_hosted").write()) in core.notifications
    assert await core.lease() is not None


async def test_a_lease_closes_what_has_ended_and_goes_on_to_the_next_row(core: Core) -> None:
    ann = await core.member()
    canceled, next_in_line = await core.submit(ann), await core.submit(ann)
    cancel = core.room.cancellation.cancel(ann.tenant_id, canceled.id, actor="user")
    assert await crashed_at(Failpoint.CANCEL_BEFORE_RELAY, cancel)

    started = await core.start()

    assert started.lease.job_id == next_in_line.id
    assert await core.dispatch(canceled.id) is None
    finished = await core.dispatch(canceled.id, "dispatch_history")
    assert finished is not None
    assert finished["status"] == "canceled"
