"""Charts are right for any time of counting: after late commits, outages, restarts and with two control planes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from callsheet.operate.statistics.keeper import SQL, StatisticsKeeper
from callsheet.operate.statistics.series import Series
from callsheet.plumbing.database.sql import Connection
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.operate.statistics import Statistics, TimeRange
from tests.support.jobs.core import Core

NOW = datetime.now(UTC)
FINISHED = """
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq, past_lease_tokens, created_at,
    finished_at, queue_wait_seconds, duration_seconds)
SELECT (SELECT coalesce(max(dispatch_id), 0) FROM dispatch_history) + n, $1, gen_random_uuid(), 1, $2, 'production',
    'self_hosted', '', 0, 'effect', $3, 1, 0, 1, '{}', now(), clock_timestamp() - $4::interval, $5, $6
FROM generate_series(1, $7::integer) AS n
"""


async def add_finished(
    connection: Connection,
    workflow_id: int,
    *,
    ago: timedelta = timedelta(),
    status: str = "completed",
    wait: float = 2.0,
    run: float = 8.0,
    count: int = 1,
    tenant_id: UUID | None = None,
) -> None:
    await connection.execute(FINISHED, tenant_id or uuid4(), workflow_id, status, ago, wait, run, count)


def keeper(core: Core) -> StatisticsKeeper:
    return StatisticsKeeper(core.databases, days=400)


async def read(core: Core, time_range: TimeRange = "1h", workflow: str | None = None) -> Statistics:
    return await Series(core.databases).read(time_range, workflow)


def completed(found: Statistics) -> int:
    return sum(point.completed for point in found.points)


async def test_finished_jobs_are_counted_once_however_often_they_are_counted(core: Core) -> None:
    member = await core.member()
    for _ in range(3):
        await core.submit(member, cost=1)
        await core.complete(await core.start())
    first, second = keeper(core), keeper(core)
    for each in (first, second, first, keeper(core)):
        while await each.tick(NOW):
            pass
    for time_range in ("1h", "24h", "30d"):
        assert completed(await read(core, time_range)) == 3


async def test_a_job_end_that_is_committed_late_is_counted(core: Core) -> None:
    async with core.databases.central.connection() as late:
        transaction = late.transaction()
        await transaction.start()
        await add_finished(late, core.workflow)
        await keeper(core).tick(NOW)
        assert completed(await read(core)) == 0
        await transaction.commit()
    await keeper(core).tick(NOW)
    assert completed(await read(core)) == 1
    assert completed(await read(core, "30d")) == 1


async def test_jobs_that_finished_while_no_control_plane_ran_are_counted_hour_by_hour(core: Core) -> None:
    async with core.databases.central.connection() as connection:
        await keeper(core).tick(NOW)
        await connection.execute("UPDATE statistics_progress SET counted_until = clock_timestamp() - interval '5 h'")
        for hours in (1, 2, 3, 4):
            await add_finished(connection, core.workflow, ago=timedelta(hours=hours, minutes=-1), count=hours)
    again = keeper(core)
    ticks = 1
    while await again.tick(NOW):
        ticks += 1
    assert ticks == 6
    assert completed(await read(core, "24h")) == 10
    assert completed(await read(core, "30d")) == 10


async def test_a_chart_has_outcomes_times_and_workflows(core: Core) -> None:
    [row] = await core.rows(core.databases.central, "SELECT slug FROM workflows WHERE id = $1", core.workflow)
    workflow, slug = core.workflow, row["slug"]
    async with core.databases.central.connection() as connection:
        other = await connection.fetchval("INSERT INTO workflows (slug, name) VALUES ('other', 'Other') RETURNING id")
        await add_finished(connection, workflow, count=90, wait=2, run=10)
        await add_finished(connection, workflow, count=10, wait=60, run=100)
        await add_finished(connection, other, count=5, status="failed")
        await add_finished(connection, other, count=2, status="canceled")
        await add_finished(connection, other, status="expired")
    await keeper(core).tick(NOW)
    everything, own = await read(core), await read(core, workflow=slug)
    [point] = [point for point in everything.points if point.failed]
    assert (point.completed, point.failed, point.canceled, point.expired) == (100, 5, 2, 1)
    [point] = [point for point in own.points if point.completed]
    assert (point.completed, point.failed) == (100, 0)
    assert point.wait_p50_seconds == pytest.approx(2, rel=0.25)
    assert point.wait_p95_seconds == pytest.approx(60, rel=0.25)
    assert point.run_p50_seconds == pytest.approx(10, rel=0.25)
    assert point.run_p95_seconds == pytest.approx(100, rel=0.25)
    assert [(each.workflow, each.completed, each.failed) for each in everything.workflows] == [
        (slug, 100, 0),
        ("other", 0, 5),
    ]
    with pytest.raises(InvalidRequest):
        await read(core, workflow="none")


async def test_queues_workers_and_held_tokens_are_sampled_once_a_minute(core: Core) -> None:
    member = await core.member()
    for _ in range(3):
        await core.submit(member, cost=4)
    await core.start()
    await keeper(core).tick(NOW)
    await core.submit(member, cost=4)
    # A second control plane, in the same minute: the first sample stays.
    await keeper(core).tick(NOW)
    rows = await core.rows(core.databases.central, "SELECT * FROM queue_samples WHERE workflow_id = 0 ORDER BY 1, at")
    minutes = [row for row in rows if row["step_seconds"] == 60]
    assert (minutes[0]["queued"], minutes[0]["running"]) == (2, 1)
    # The mean of the minutes that were sampled; a minute may have ended between the two.
    assert {row["queued"] for row in rows if row["step_seconds"] == 600} <= {2, 2.5, 3}
    held = await core.rows(core.databases.central, "SELECT tokens_held FROM fleet_samples WHERE step_seconds = 60")
    assert held[0]["tokens_held"] == 12


async def test_a_sample_of_held_tokens_is_never_that_of_an_earlier_minute(core: Core) -> None:
    """With two control planes, the chart jumped between the sums that each of them had kept."""
    member = await core.member()
    await core.submit(member, cost=4)
    sampling = keeper(core)
    await sampling.tick(NOW)
    await core.submit(member, cost=5)
    # The next minute.
    await core.rows(core.databases.central, "DELETE FROM fleet_samples")
    sampling._sampled_minute = None
    await sampling.tick(NOW)
    [row] = await core.rows(core.databases.central, "SELECT tokens_held FROM fleet_samples WHERE step_seconds = 60")
    # None where to add them up took so long that it is not done every minute.
    assert row["tokens_held"] in (9, None)


async def test_old_minutes_are_deleted_and_hours_stay(core: Core) -> None:
    async with core.databases.central.connection() as connection:
        await add_finished(connection, core.workflow, ago=timedelta(hours=9))
    counting = keeper(core)
    while await counting.tick(NOW):
        # While it catches up, the minutes of at most two hours are there.
        [row] = await core.rows(
            core.databases.central,
            "SELECT count(DISTINCT date_trunc('hour', at)) AS hours FROM finished_jobs_by_time WHERE step_seconds = 60",
        )
        assert row["hours"] <= 2
    await keeper(core).tick(NOW)
    steps = await core.rows(
        core.databases.central, "SELECT DISTINCT step_seconds FROM finished_jobs_by_time ORDER BY step_seconds"
    )
    assert [row["step_seconds"] for row in steps] == [600, 3600]


async def test_one_process_counts_at_a_time_and_the_others_do_not_wait(core: Core) -> None:
    async with counting_elsewhere(core):
        assert await asyncio.wait_for(keeper(core).tick(NOW), 30) is False
        assert not await core.rows(core.databases.central, "SELECT FROM statistics_progress")
    await keeper(core).tick(NOW)
    assert await core.rows(core.databases.central, "SELECT FROM statistics_progress")


@asynccontextmanager
async def counting_elsewhere(core: Core) -> AsyncIterator[None]:
    other = await asyncpg.connect(core.databases.central.dsn)
    try:
        async with other.transaction():
            assert await other.fetchval(SQL["try_lock"].text)
            yield
    finally:
        await other.close()


REGISTERED = """
INSERT INTO comfyui_workers (worker_id, registration_source, stage, session_id, token_hash, max_concurrency)
SELECT worker_id, 'workflows', 'production', 1, sha256('token'), 2 FROM ai_job_dispatches WHERE status = 'leased'
RETURNING worker_id
"""
NEXT_MINUTE = """
INSERT INTO fleet_samples
SELECT 60, at + interval '1 minute', 0, 0, 0, 0, 0, 0 FROM fleet_samples WHERE step_seconds = 60
"""


async def test_the_busy_time_of_a_worker_is_added_up_once_a_minute(core: Core) -> None:
    await core.submit(await core.member(), cost=1)
    await core.start()
    [worker] = await core.rows(core.databases.central, REGISTERED)
    await keeper(core).tick(NOW)
    series = Series(core.databases)
    [first] = (await series.of_worker(worker["worker_id"])).hours
    assert (first.busy_share, first.minutes) == (0.5, 1)
    # A second control plane adds nothing in a minute that has a sample, and the next minute has one, too.
    await core.rows(core.databases.central, NEXT_MINUTE)
    await keeper(core).tick(NOW)
    assert (await series.of_worker(worker["worker_id"])).hours == [first]
    assert (await series.of_worker("stranger")).hours == []


SESSION = """
WITH session AS (
    INSERT INTO worker_sessions (worker_id, stage, started_at) VALUES ($1, 'production', $2) RETURNING id
)
INSERT INTO comfyui_workers (worker_id, registration_source, stage, session_id, token_hash, max_concurrency)
SELECT $1, 'workflows', 'production', id, sha256('short'), 1 FROM session
"""
# As it is written when leases have ended.
LEASES_ENDED = "UPDATE worker_sessions SET busy_seconds = busy_seconds + $2 WHERE worker_id = $1"


async def test_jobs_shorter_than_a_minute_count_as_busy_time(core: Core) -> None:
    """No job runs at the moment of any sample."""
    worker, start = "short-jobs", NOW.replace(minute=0, second=0, microsecond=0)
    await core.rows(core.databases.central, SESSION, worker, start)

    async def sample(minute: int) -> float:
        """Ends a minute; returns the busy minutes of the hour."""
        async with core.databases.central.ordinary() as connection:
            await SQL["sample_workers"].run(
                connection, now=start + timedelta(minutes=minute), alive_seconds=90.0, new_seconds=300.0
            )
        [hour] = await core.rows(core.databases.central, "SELECT * FROM worker_hours WHERE worker_id = $1", worker)
        assert hour["minutes"] == minute
        return float(hour["busy_minutes"])

    await core.rows(core.databases.central, LEASES_ENDED, worker, 45.0)
    assert await sample(1) == pytest.approx(0.75)
    assert await sample(2) == pytest.approx(0.75)
    # More than a minute of leases in a minute: jobs that were fetched ahead take no slot.
    await core.rows(core.databases.central, LEASES_ENDED, worker, 75.0)
    assert await sample(3) == pytest.approx(1.75)
    # The sum is late: what a sample missed is in the next one.
    await core.rows(core.databases.central, LEASES_ENDED, worker, -30.0)
    assert await sample(4) == pytest.approx(1.75)
    await core.rows(core.databases.central, LEASES_ENDED, worker, 45.0)
    assert await sample(5) == pytest.approx(2.0)
