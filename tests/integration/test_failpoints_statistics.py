"""A control plane that dies while it counts: the next one finds every figure right, and counts nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from callsheet.plumbing.databases import Databases, open_databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings import Settings
from callsheet.statistics.keeper import StatisticsKeeper
from callsheet.statistics.series import Series
from callsheet.statistics.spend import Spend
from callsheet.statistics.spend_keeper import SpendKeeper
from callsheet.wire.statistics import TimeRange
from tests.support.core import Core, Member
from tests.support.crashes import crashed_at
from tests.support.race_control import paused_at

NOW = datetime.now(UTC)
RANGES: tuple[TimeRange, ...] = ("1h", "24h", "30d")
STATISTICS = (
    Failpoint.STATISTICS_COUNTED_BEFORE_LONGER_STEPS,
    Failpoint.STATISTICS_COUNTED_BEFORE_PROGRESS,
    Failpoint.STATISTICS_PROGRESS_BEFORE_SAMPLES,
    Failpoint.STATISTICS_FLEET_BEFORE_QUEUES,
    Failpoint.STATISTICS_QUEUES_BEFORE_WORKERS,
    Failpoint.STATISTICS_WORKERS_BEFORE_LONGER_STEPS,
    Failpoint.STATISTICS_BEFORE_COMMIT,
    Failpoint.STATISTICS_AFTER_COMMIT,
)
SPEND = (Failpoint.SPEND_COUNTED_BEFORE_PROGRESS, Failpoint.SPEND_BEFORE_COMMIT, Failpoint.SPEND_BETWEEN_DATABASES)
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


async def assert_right(core: Core, least_minutes: int) -> None:
    """A real minute may end during the test, so that there is one sample more; then it is in every figure."""
    found = await figures(core)
    assert found.finished == dict.fromkeys(RANGES, (3, 1))
    # The sum of held tokens is left out of a minute if it took too long in the one before.
    assert {sample[:-1] for sample in found.samples} == {(2, 1, 1, 0, 2, 1)}
    assert {sample[-1] for sample in found.samples} <= {12, None}
    assert found.sampled_minutes >= least_minutes
    assert found.worker_minutes == found.sampled_minutes
    # The seconds between two samples are measured with the clock.
    assert found.busy_minutes == pytest.approx(found.sampled_minutes / 2, abs=0.01)


@pytest.mark.parametrize("point", STATISTICS)
async def test_a_crash_while_counting_loses_nothing_and_counts_nothing_twice(core: Core, point: Failpoint) -> None:
    await prepare(core)
    # The first minute of an installation, and a minute of an hour that has samples already.
    assert await crashed_at(point, count(core))
    await count(core)
    await assert_right(core, 1)
    await minute_passes(core)
    assert await crashed_at(point, count(core))
    # Two control planes take over in the same minute, and the one that died starts again.
    for _ in range(3):
        await count(core)
    await assert_right(core, 2)


@pytest.mark.parametrize("point", STATISTICS)
async def test_a_second_control_plane_adds_nothing_while_the_first_counts(
    core: Core, other_plane: Databases, point: Failpoint
) -> None:
    await prepare(core)
    await count(core)
    await minute_passes(core)
    async with paused_at(point, count(core)) as first:
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


@pytest.mark.parametrize("point", SPEND)
async def test_a_crash_while_counting_the_spending_counts_nothing_twice(core: Core, point: Failpoint) -> None:
    for pool, cost in (("pool_1", 5), ("pool_2", 7)):
        await core.submit(await core.member(pool), cost=cost, provider="replicate")
        await core.complete(await core.start(criteria=core.criteria(providers=("replicate",))))
    for _ in range(2):
        assert await crashed_at(point, SpendKeeper(core.databases).tick(NOW))
    for _ in range(2):
        await SpendKeeper(core.databases).tick(NOW)
    [spent] = (await Spend(core.databases, {}, "USD").read()).providers
    for window in (spent.last_24h, spent.last_30d):
        assert (window.calls, window.completed, window.failed, window.tokens) == (2, 2, 0, 12)


def test_every_failpoint_of_the_statistics_is_tested() -> None:
    here = ("statistics.", "spend.")
    assert {*STATISTICS, *SPEND} == {point for point in Failpoint if point.startswith(here)}
