"""Every dispatch is in a lane of its route, and no lane is removed while one is in it: the database sees to both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from callsheet.dispatch.facts import Requeue
from tests.support.jobs.core import Core
from tests.support.jobs.race_control import open_transaction, start_blocked

REMOVE = "DELETE FROM dispatch_lanes WHERE workflow_id = $1 RETURNING lane_id"


async def queued(core: Core) -> None:
    await core.submit(await core.member(tokens=100))


async def leased(core: Core) -> None:
    await queued(core)
    assert len(await core.queue.lease_many(core.criteria(), ["w"])) == 1


async def delayed(core: Core) -> None:
    await queued(core)
    [lease] = await core.queue.lease_many(core.criteria(), ["w"])
    back = Requeue(lease.dispatch_id, lease.lease_token, attempt_counts=True, delay_seconds=3600)
    assert len(await core.queue.requeue([back])) == 1


async def waiting_for_a_provider(core: Core) -> None:
    await queued(core)
    [lease] = await core.queue.lease_many(core.criteria(), ["w"])
    until = lease.lease_expires_at
    assert await core.queue.wait_for_callback(lease.dispatch_id, lease.lease_token, "p", until) is not None


STATES = [queued, leased, delayed, waiting_for_a_provider]


@pytest.mark.parametrize("state", STATES, ids=[state.__name__ for state in STATES])
async def test_a_lane_with_a_dispatch_is_neither_swept_nor_deleted(
    core: Core, state: Callable[[Core], Awaitable[None]]
) -> None:
    # The first lane of a workflow is never removed: it is not the one that is looked at.
    member = await core.member(tokens=100)
    job = await core.submit(member, priority=-5)
    await core.room.cancellation.cancel(member.tenant_id, job.id, actor="user")
    await state(core)
    central = core.databases.central
    before = await core.rows(central, "SELECT DISTINCT lane_id FROM ai_job_dispatches")
    async with central.connection() as connection:
        with pytest.raises(asyncpg.ForeignKeyViolationError, match="cannot be removed: dispatches are in it"):
            await connection.execute("DELETE FROM dispatch_lanes WHERE lane_id = $1", before[0]["lane_id"])
    await core.queue.leasing.marks.sweep(-1)
    still = "SELECT lane_id FROM dispatch_lanes JOIN ai_job_dispatches USING (lane_id)"
    assert await core.rows(central, still) == before


async def test_a_lane_is_not_removed_while_a_job_is_being_added(core: Core) -> None:
    await queued(core)
    again = """
        INSERT INTO ai_job_dispatches (tenant_id, user_id, tenant_job_id, charge_cycle, lane_id, workflow_id, stage,
            provider, priority, kind, deadline_at)
        SELECT tenant_id, user_id, gen_random_uuid(), 1, lane_id, workflow_id, stage, provider, priority, kind,
            deadline_at
        FROM ai_job_dispatches WHERE workflow_id = $1
    """
    central = core.databases.central

    async def remove() -> None:
        async with central.connection() as connection:
            await connection.execute(REMOVE, core.workflow)

    first = "DELETE FROM ai_job_dispatches WHERE dispatch_id = (SELECT min(dispatch_id) FROM ai_job_dispatches)"
    async with open_transaction(central, again, core.workflow) as connection:
        await connection.execute(first)
        [removing] = await start_blocked(central, remove())
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="cannot be removed: dispatches are in it"):
        await removing


@pytest.mark.parametrize("change", ["lane_id = lane_id + 1000", "priority = priority + 1", "stage = 'elsewhere'"])
async def test_a_dispatch_is_in_a_lane_of_its_route(core: Core, change: str) -> None:
    await queued(core)
    async with core.databases.central.connection() as connection:
        with pytest.raises(asyncpg.ForeignKeyViolationError, match="does not exist or has another route"):
            await connection.execute(f"UPDATE ai_job_dispatches SET {change}")
        await connection.execute("UPDATE ai_job_dispatches SET lane_id = lane_id, priority = priority")


async def test_a_lane_keeps_its_route(core: Core) -> None:
    await queued(core)
    async with core.databases.central.connection() as connection:
        with pytest.raises(asyncpg.ForeignKeyViolationError, match="keeps its route"):
            await connection.execute("UPDATE dispatch_lanes SET priority = priority + 1")
        await connection.execute("UPDATE dispatch_lanes SET has_work = true")
