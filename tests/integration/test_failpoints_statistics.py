"""A control plane that dies while it counts: the next one finds every figure right, and counts nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from callsheet.operate.statistics.keeper import StatisticsKeeper
from callsheet.operate.statistics.series import Series
from callsheet.operate.statistics.spend import Spend
from callsheet.operate.statistics.spend_keeper import SpendKeeper
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings import Settings
from callsheet.wire.operate.statistics import TimeRange
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked

Result = TypeVar("Result")
NOW = datetime.now(UTC)
RANGES: tuple[TimeRange, ...] = ("1h", "24h", "30d")
# The tables that one transaction writes, in this order. A lock on one of them stops the transaction there.
WRITTEN = ("finished_jobs_by_time", "statistics_progress", "fleet_samples", "queue_samples", "worker_hours")
SPENDING_WRITTEN = ("calls_by_provider", "calls_by_provider_progress")
REGISTERED = """
INSERT INTO comfyui_workers (worker_id, registration_source, stage, session_id, token_hash, max_concurrency)
SELECT worker_id, 'workflows', 'production', 1, sha256('token'), 2 FROM ai_job_dispatches WHERE status = 'leased'
"""
# The samples become those of an earlier minute: the next tick finds a minute without a sample.
MINUTE_LATER = (
    "DELETE FROM queue_samples WHERE step_seconds > 60",
    "DELETE FROM fleet_samples WHERE step_seconds > 60",
    "UPDATE queue_samples SET at = at - interval '30 minutes'",
    "UPDATE fleet_samples SET at = at - interval '30 minutes'",
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that the statistics keep, so that two histories can be compared."""

    finished: dict[TimeRange, tuple[int, int]]
    # Per minute: queued and running jobs of all workflows, busy and idle workers, slots, busy slots, held tokens.
    samples: set[tuple[float, ...]]
    sampled_minutes: int
    busy_minutes: float
    worker_minutes: int


@pytest.fixture
async def other_plane(shared_settings: Settings) -> AsyncIterator[Databases]:
    """The databases as a second control plane has them open."""
    databases = await open_databases(shared_settings)
    yield databases
    await databases.close()


async def count(core: Core) -> None:
    counting = StatisticsKeeper(core.databases, days=400)
    while await counting.tick(NOW):
        pass


async def prepare(core: Core) -> Member:
    """Three completed jobs, one failed, one that runs on a worker with two slots, and two in the queue."""
    member = await core.member()
    for number in range(4):
        await core.submit(member, cost=1)
        started = await core.start()
        await (core.fail(started) if number == 3 else core.complete(started))
    for _ in range(3):
        await core.submit(member, cost=4)
    await core.start()
    await core.rows(core.databases.central, REGISTERED)
    return member


async def minute_passes(core: Core) -> None:
    for statement in MINUTE_LATER:
        await core.rows(core.databases.central, statement)


async def figures(core: Core) -> Figures:
    finished: dict[TimeRange, tuple[int, int]] = {}
    for time_range in RANGES:
        points = (await Series(core.databases).read(time_range, None)).points
        finished[time_range] = (sum(each.completed for each in points), sum(each.failed for each in points))
    samples = await core.rows(
        core.databases.central,
        """SELECT q.queued, q.running, f.busy_workers, f.idle_workers, f.slots, f.busy_slots, f.tokens_held
           FROM fleet_samples f LEFT JOIN queue_samples q
           ON q.at = f.at AND q.step_seconds = f.step_seconds AND q.workflow_id = 0""",
    )
    [minutes] = await core.rows(
        core.databases.central, "SELECT count(*) AS number FROM fleet_samples WHERE step_seconds = 60"
    )
    [hours] = await core.rows(
        core.databases.central, "SELECT sum(busy_minutes) AS busy, sum(minutes)::integer AS minutes FROM worker_hours"
    )
    return Figures(
        finished,
        {tuple(sample.values()) for sample in samples},
        minutes["number"],
        hours["busy"],
        hours["minutes"],
    )


async def assert_right(core: Core, min_minutes: int) -> None:
    """A real minute may end during the test, so that there is one sample more; then it is in every figure."""
    found = await figures(core)
    assert found.finished == dict.fromkeys(RANGES, (3, 1))
    # The sum of held tokens is left out of a minute if it took too long in the one before.
    assert {sample[:-1] for sample in found.samples} == {(2, 1, 1, 0, 2, 1)}
    assert {sample[-1] for sample in found.samples} <= {12, None}
    assert found.sampled_minutes >= min_minutes
    assert found.worker_minutes == found.sampled_minutes
    # The seconds between two samples are measured with the clock.
    assert found.busy_minutes == pytest.approx(found.sampled_minutes / 2, abs=0.01)


@asynccontextmanager
async def stopped_at(
    table: str, plane: Databases, counting: Coroutine[Any, Any, Result]
) -> AsyncIterator[asyncio.Task[Result]]:
    """Starts to count. The transaction waits at its first write to the table until the block ends."""
    async with open_transaction(plane.central, f"LOCK TABLE {table} IN SHARE MODE"):
        [task] = await start_blocked(plane.central, counting)
        yield task


async def ended_at(table: str, plane: Databases, counting: Coroutine[Any, Any, object]) -> None:
    async with stopped_at(table, plane, counting) as task:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("table", WRITTEN)
async def test_a_control_plane_that_ends_while_it_counts_leaves_nothing_half_counted(
    core: Core, other_plane: Databases, table: str
) -> None:
    await prepare(core)
    # The first minute of an installation, and a minute of an hour that has samples already.
    await ended_at(table, other_plane, count(core))
    await count(core)
    await assert_right(core, 1)
    await minute_passes(core)
    await ended_at(table, other_plane, count(core))
    # Two control planes take over in the same minute, and the one that died starts again.
    for _ in range(3):
        await count(core)
    await assert_right(core, 2)


async def test_a_crash_after_the_commit_counts_nothing_twice(core: Core) -> None:
    await prepare(core)
    assert await crashed_at(Failpoint.STATISTICS_AFTER_COMMIT, count(core))
    await count(core)
    await assert_right(core, 1)
    await minute_passes(core)
    assert await crashed_at(Failpoint.STATISTICS_AFTER_COMMIT, count(core))
    for _ in range(3):
        await count(core)
    await assert_right(core, 2)


@pytest.mark.parametrize("table", WRITTEN)
async def test_a_second_control_plane_adds_nothing_while_the_first_counts(
    core: Core, other_plane: Databases, table: str
) -> None:
    await prepare(core)
    await count(core)
    await minute_passes(core)
    async with stopped_at(table, other_plane, count(core)) as first:
        await StatisticsKeeper(other_plane, days=400).tick(NOW)
    await first
    await count(core)
    await assert_right(core, 2)


async def test_a_second_control_plane_adds_nothing_after_the_commit_of_the_first(
    core: Core, other_plane: Databases
) -> None:
    await prepare(core)
    await count(core)
    await minute_passes(core)
    async with paused_at(Failpoint.STATISTICS_AFTER_COMMIT, count(core)) as first:
        await StatisticsKeeper(other_plane, days=400).tick(NOW)
    await first
    await count(core)
    await assert_right(core, 2)


async def test_a_minute_that_is_sampled_gets_no_sample_of_a_workflow_later(core: Core) -> None:
    """The first jobs of a workflow came between the samples of two control planes: only the second counted them."""
    await count(core)
    await core.submit(await core.member(), cost=4)
    await count(core)
    rows = await core.rows(
        core.databases.central,
        """SELECT FROM fleet_samples f JOIN queue_samples q USING (step_seconds, at)
           WHERE f.at = (SELECT min(at) FROM fleet_samples WHERE step_seconds = 60)""",
    )
    assert rows == []


@pytest.mark.parametrize("table", SPENDING_WRITTEN)
async def test_a_control_plane_that_ends_while_it_counts_the_spending_counts_nothing_twice(
    core: Core, other_plane: Databases, table: str
) -> None:
    await spend(core)
    for _ in range(2):
        await ended_at(table, other_plane, SpendKeeper(core.databases).tick(NOW))
    await assert_spending_is_right(core)


async def test_a_crash_between_the_databases_counts_no_spending_twice(core: Core) -> None:
    await spend(core)
    for _ in range(2):
        assert await crashed_at(Failpoint.SPEND_BETWEEN_DATABASES, SpendKeeper(core.databases).tick(NOW))
    await assert_spending_is_right(core)


async def spend(core: Core) -> None:
    for pool, cost in (("pool_1", 5), ("pool_2", 7)):
        await core.submit(await core.member(pool), cost=cost, provider="replicate")
        await core.complete(await core.start(criteria=core.criteria(providers=("replicate",))))


async def assert_spending_is_right(core: Core) -> None:
    for _ in range(2):
        await SpendKeeper(core.databases).tick(NOW)
    [spent] = (await Spend(core.databases, {}, "USD").read()).providers
    for window in (spent.last_24h, spent.last_30d):
        assert (window.calls, window.completed, window.failed, window.tokens) == (2, 2, 0, 12)


def test_every_failpoint_of_the_statistics_is_tested() -> None:
    here = ("statistics.", "spend.")
    tested = {Failpoint.STATISTICS_AFTER_COMMIT, Failpoint.SPEND_BETWEEN_DATABASES}
    assert tested == {point for point in Failpoint if point.startswith(here)}
