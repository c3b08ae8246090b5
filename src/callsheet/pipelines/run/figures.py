"""Numbers of runs for operators: active runs, open jobs, throughput and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prometheus_client import Counter, Histogram
from prometheus_client.registry import Collector

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import DATABASE_AWAY, is_away
from callsheet.plumbing.database.sql import statements
from callsheet.settings import PipelineSettings
from callsheet.toolbox.concurrently import all_of
from callsheet.wire.operate.operations import RunsMetrics, StoppedRun

SQL = statements("callsheet.pipelines.run")

# Maximum counts, so that a request never reads a whole table. A count that reaches its maximum is shown as the maximum.
MAX_ROWS = 1000
MAX_OPEN_JOBS = 50_000
# This is enough to compute a rate. Counting ten times as many took 0.1 s of each request.
MAX_SETTLED = 5000
# A run that its user has left alone for longer is not news.
STOPPED_HOURS = 24
MAX_STOPPED = 20
# Buckets in seconds, from a fast provider to a long video.
BUCKETS = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class RunCounts(NamedTuple):
    active_runs: int
    blocked_runs: int
    broken_runs: int
    jobs_under_way: int
    oldest_job_seconds: float | None
    completed: int
    failed: int
    canceled: int
    average_seconds: float | None
    p95_seconds: float | None
    due_thumbnails: int
    # Seconds since the end of the oldest settled job that was counted. None if no job was counted.
    settled_seconds: float | None


class RunNumbers:
    def __init__(self, pools: Callable[[], Sequence[Database]], settings: PipelineSettings):
        self._pools = pools
        self._window_seconds = settings.error_window_seconds

    async def read(self) -> list[RunsMetrics]:
        """The numbers of each pool that responds."""
        numbers = await all_of(self._of_pool(pool) for pool in self._pools())
        return [found for found in numbers if found is not None]

    async def _of_pool(self, pool: Database) -> RunsMetrics | None:
        try:
            return await self._numbers(pool)
        except DATABASE_AWAY as error:  # Alerts about the other pools must be shown even if this pool is unreachable.
            if is_away(error):
                return None
            raise

    async def _numbers(self, pool: Database) -> RunsMetrics:
        async with pool.ordinary() as connection:
            row = await SQL["runs_in_numbers"].row(
                connection,
                RunCounts,
                window_seconds=self._window_seconds,
                max_rows=MAX_ROWS,
                max_open=MAX_OPEN_JOBS,
                max_settled=MAX_SETTLED,
            )
            stopped = await SQL["stopped_runs"].rows(connection, StoppedRun, hours=STOPPED_HOURS, limit=MAX_STOPPED)
        assert row is not None, "the statement always returns one row"
        return numbers_view(pool.name, self._window_seconds, row, stopped)


def numbers_view(
    pool: str, window_seconds: int, row: RunCounts, stopped_runs: Sequence[StoppedRun] = ()
) -> RunsMetrics:
    judged = row.completed + row.failed
    settled = judged + row.canceled
    if settled >= MAX_SETTLED and row.settled_seconds is not None:
        # More jobs were probably settled than counted, and the counted ones ended within a shorter time.
        window_seconds = max(1, round(row.settled_seconds))
    return RunsMetrics(
        pool=pool,
        window_seconds=window_seconds,
        jobs_per_minute=round(settled * 60 / window_seconds, 3),
        failed_share=row.failed / judged if judged else None,
        stopped_runs=list(stopped_runs),
        **{name: value for name, value in row._asdict().items() if name != "settled_seconds"},
    )


class RunMetrics:
    """Counts the jobs that this process has settled, for Prometheus."""

    def __init__(self) -> None:
        self._jobs = Counter(
            "callsheet_pipeline_jobs",
            "Jobs of pipeline runs that this process has settled.",
            ["status"],
            registry=None,
        )
        self._seconds = Histogram(
            "callsheet_pipeline_job_seconds",
            "Seconds from the submission of a run's job to its end.",
            ["status"],
            buckets=BUCKETS,
            registry=None,
        )

    @property
    def collectors(self) -> tuple[Collector, ...]:
        return self._jobs, self._seconds

    def observe(self, status: str, seconds: float) -> None:
        self._jobs.labels(status).inc()
        self._seconds.labels(status).observe(seconds)
