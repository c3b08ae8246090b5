"""Reads the points of charts: the rows of one resolution, without gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from callsheet.operate.statistics.histogram import quantile
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.operate.statistics import (
    Statistics,
    StatisticsPoint,
    TimeRange,
    Utilisation,
    WorkerHour,
    WorkflowTotals,
)

SQL = statements("callsheet.operate.statistics")
ALL_WORKFLOWS = 0
DAY_HOURS = 24


class Resolution(NamedTuple):
    """The step and the number of points of a range."""

    step_seconds: int
    steps: int


RESOLUTIONS: Mapping[TimeRange, Resolution] = {
    "1h": Resolution(60, 60),
    "24h": Resolution(600, 144),
    "30d": Resolution(3600, 720),
}


class FinishedRow(NamedTuple):
    at: datetime
    completed: int
    failed: int
    canceled: int
    expired: int
    waits: list[int]
    runs: list[int]


class QueueRow(NamedTuple):
    at: datetime
    queued: float
    running: float


class FleetSampleRow(NamedTuple):
    at: datetime
    busy_workers: float
    idle_workers: float
    draining_workers: float
    slots: float
    busy_slots: float
    tokens_held: float | None


class TotalsRow(NamedTuple):
    workflow: str
    completed: int
    failed: int
    canceled: int
    expired: int


class Series:
    def __init__(self, databases: Databases):
        self._central = databases.central

    async def of_worker(self, worker_id: str) -> Utilisation:
        """How busy a worker was in the last day. Empty for a worker that was not online or does not exist."""
        async with self._central.reports() as connection:
            hours = await SQL["read_worker_hours"].rows(connection, WorkerHour, worker_id=worker_id, hours=DAY_HOURS)
        return Utilisation(hours=hours)

    async def read(self, time_range: TimeRange, workflow: str | None) -> Statistics:
        step_seconds, steps = RESOLUTIONS[time_range]
        async with self._central.reports() as connection:
            workflow_id = ALL_WORKFLOWS
            if workflow is not None:
                workflow_id = await SQL["find_workflow"].value(connection, slug=workflow)
                if workflow_id is None:
                    raise InvalidRequest.field("workflow", f"There is no workflow {workflow!r}.")
            now: datetime = await SQL["read_now"].value(connection)
            starts = step_starts(now, step_seconds, steps)
            of_workflow = {"step_seconds": step_seconds, "workflow_id": workflow_id, "since": starts[0]}
            of_all = {"step_seconds": step_seconds, "since": starts[0]}
            finished = await SQL["read_finished"].rows(connection, FinishedRow, **of_workflow)
            queues = await SQL["read_queues"].rows(connection, QueueRow, **of_workflow)
            fleet = await SQL["read_fleet"].rows(connection, FleetSampleRow, **of_all)
            totals = await SQL["read_workflows"].rows(connection, TotalsRow, **of_all)
        return Statistics(
            range=time_range,
            step_seconds=step_seconds,
            workflow=workflow,
            now=now,
            points=points(starts, finished, queues, fleet),
            workflows=[WorkflowTotals(**row._asdict()) for row in totals],
        )


def step_starts(now: datetime, step_seconds: int, steps: int) -> list[datetime]:
    """The start of each step, oldest first. `now` is in the last step."""
    last = int(now.timestamp()) // step_seconds * step_seconds
    return [
        datetime.fromtimestamp(last, UTC) - timedelta(seconds=step_seconds * before)
        for before in reversed(range(steps))
    ]


def points(
    starts: Sequence[datetime],
    finished: Sequence[FinishedRow],
    queues: Sequence[QueueRow],
    fleet: Sequence[FleetSampleRow],
) -> list[StatisticsPoint]:
    finished_at = {row.at: row for row in finished}
    queue_at = {row.at: row for row in queues}
    fleet_at = {row.at: row for row in fleet}
    return [_point(at, finished_at.get(at), queue_at.get(at), fleet_at.get(at)) for at in starts]


def _point(
    at: datetime, finished: FinishedRow | None, queue: QueueRow | None, fleet: FleetSampleRow | None
) -> StatisticsPoint:
    values: dict[str, Any] = {"at": at, "completed": 0, "failed": 0, "canceled": 0, "expired": 0}
    if fleet is not None:
        # A minute with a sample of the workers but not of the queue had an empty queue.
        values |= {"queued": 0.0, "running": 0.0, **fleet._asdict()}
    if queue is not None:
        values |= queue._asdict()
    if finished is not None:
        values |= {name: getattr(finished, name) for name in ("completed", "failed", "canceled", "expired")}
        values |= {
            "wait_p50_seconds": quantile(finished.waits, 0.5),
            "wait_p95_seconds": quantile(finished.waits, 0.95),
            "run_p50_seconds": quantile(finished.runs, 0.5),
            "run_p95_seconds": quantile(finished.runs, 0.95),
        }
    return StatisticsPoint(**values)
