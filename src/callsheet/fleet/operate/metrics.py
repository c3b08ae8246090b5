"""Metrics of the installation. The amount of data read is bounded for any length of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.fleet.registry.registry import ALIVE_SECONDS
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.loops import Loop
from callsheet.wire.operate.operations import LoopMetrics, Metrics, ProviderMetrics, RunsMetrics, WorkflowMetrics

SQL = statements("callsheet.fleet.operate", "metrics_statements.sql")

MAX_QUEUED = 1000
MAX_FINISHED = 50_000


class WorkflowQueue(NamedTuple):
    """The jobs of a workflow that are not finished."""

    workflow_id: int
    slug: str
    is_active: bool
    queued: int
    delayed: int
    leased: int
    waiting: int
    average_seconds: float | None


class WorkflowWorkersRow(NamedTuple):
    """The live workers of a stage that can run the jobs of a workflow for these providers."""

    workflow_id: int
    stage: str
    providers: list[str]
    live_workers: int
    live_slots: int
    busy_slots: int


class QueueHead(NamedTuple):
    """The job that has waited longest in a lane."""

    workflow_id: int
    slug: str
    stage: str
    provider: str
    concurrency_identifier: str | None
    wait_seconds: float
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class FinishedJobs(NamedTuple):
    """The jobs of a workflow or of a provider that finished in the last hour. The other of the two is None."""

    workflow_id: int | None
    provider: str | None
    completed: int
    failed: int
    average_seconds: float | None
    p95_seconds: float | None
    # These two are the same in all rows: how many finished jobs were read, and the time since which they are complete.
    jobs_read: int
    since: datetime


class WorkerCounts(NamedTuple):
    now: datetime
    live: int
    unapproved: int
    draining: int
    unverified: int


class OverviewFigures(NamedTuple):
    metrics: Metrics
    # The job that has waited longest in each lane.
    heads: Sequence[QueueHead]
    crews: Sequence[WorkflowWorkersRow]

    def live_workers(self, route: tuple[int, str, str]) -> int:
        """Live workers that can run the jobs of a route (workflow_id, stage, provider)."""
        workflow_id, stage, provider = route
        return sum(
            crew.live_workers
            for crew in self.crews
            if crew.workflow_id == workflow_id and crew.stage == stage and provider in crew.providers
        )


class FleetOverview:
    def __init__(
        self,
        databases: Databases,
        loops: Iterable[Loop],
        reconciled: Mapping[str, int],
        runs: Callable[[], Awaitable[list[RunsMetrics]]],
    ):
        """`runs` returns metrics of pipeline runs."""
        self._databases = databases
        self._loops = loops
        self.reconciled = reconciled
        self._runs = runs

    async def metrics(self) -> Metrics:
        return (await self.figures()).metrics

    async def figures(self) -> OverviewFigures:
        # The statements run at once, each on its own connection: an operator waits for the slowest, not for the sum.
        (queues, heads, workers), crews, finished, runs = await asyncio.gather(
            self._queues(), self._crews(), self._finished(), self._runs()
        )
        metrics = Metrics(
            at=workers.now,
            workflows=_workflows(queues, crews, heads, finished),
            providers=_providers(finished),
            finished_since=_since(finished, workers.now),
            live_workers=workers.live,
            unapproved_workers=workers.unapproved,
            unverified_workers=workers.unverified,
            draining_workers=workers.draining,
            runs=runs,
            reconciled=dict(self.reconciled),
            loops=self.loops(),
        )
        return OverviewFigures(metrics, heads, crews)

    async def _queues(self) -> tuple[list[WorkflowQueue], list[QueueHead], WorkerCounts]:
        async with self._databases.central.ordinary() as connection:
            queues = await SQL["queue_depth"].rows(connection, WorkflowQueue, max_rows=MAX_QUEUED)
            heads = await SQL["queue_heads"].rows(connection, QueueHead)
            workers = await SQL["count_workers"].row(connection, WorkerCounts, alive_seconds=ALIVE_SECONDS)
        assert workers is not None
        return queues, heads, workers

    async def _crews(self) -> list[WorkflowWorkersRow]:
        async with self._databases.central.ordinary() as connection:
            return await SQL["workers_of_workflows"].rows(connection, WorkflowWorkersRow, alive_seconds=ALIVE_SECONDS)

    async def _finished(self) -> list[FinishedJobs]:
        async with self._databases.central.ordinary() as connection:
            return await SQL["finished_lately"].rows(connection, FinishedJobs, max_rows=MAX_FINISHED)

    def loops(self) -> list[LoopMetrics]:
        """The background loops of this process."""
        return [
            LoopMetrics(
                name=loop.name, ticks=loop.ticks, failures=loop.failures, failures_in_a_row=loop.alarming_failures
            )
            for loop in self._loops
        ]


def _workflows(
    queues: Sequence[WorkflowQueue],
    crews: Sequence[WorkflowWorkersRow],
    heads: Sequence[QueueHead],
    finished: Sequence[FinishedJobs],
) -> list[WorkflowMetrics]:
    of_workflow: dict[int, list[WorkflowWorkersRow]] = {}
    for crew in crews:
        of_workflow.setdefault(crew.workflow_id, []).append(crew)
    lately = {row.workflow_id: row for row in finished if row.workflow_id is not None}
    oldest: dict[int, float] = {}
    for head in heads:
        oldest[head.workflow_id] = max(head.wait_seconds, oldest.get(head.workflow_id, 0.0))
    return [
        _workflow(row, of_workflow.get(row.workflow_id, ()), lately.get(row.workflow_id), oldest.get(row.workflow_id))
        for row in queues
    ]


def _providers(finished: Sequence[FinishedJobs]) -> list[ProviderMetrics]:
    return [
        ProviderMetrics(provider=row.provider, completed_last_hour=row.completed, failed_last_hour=row.failed)
        for row in sorted(finished, key=lambda row: row.provider or "")
        if row.provider is not None and row.completed + row.failed
    ]


def _workflow(
    row: WorkflowQueue, crews: Sequence[WorkflowWorkersRow], lately: FinishedJobs | None, oldest: float | None
) -> WorkflowMetrics:
    return WorkflowMetrics(
        workflow=row.slug,
        is_active=row.is_active,
        queued=row.queued,
        delayed=row.delayed,
        leased=row.leased,
        waiting=row.waiting,
        oldest_wait_seconds=oldest,
        live_workers=sum(crew.live_workers for crew in crews),
        live_slots=sum(crew.live_slots for crew in crews),
        busy_slots=sum(crew.busy_slots for crew in crews),
        completed_last_hour=lately.completed if lately else 0,
        failed_last_hour=lately.failed if lately else 0,
        average_seconds=lately.average_seconds if lately else None,
        p95_seconds=lately.p95_seconds if lately else None,
        moving_average_seconds=row.average_seconds,
    )


def _since(finished: Sequence[FinishedJobs], now: datetime) -> datetime:
    if finished and finished[0].jobs_read == MAX_FINISHED:
        return finished[0].since
    return now - timedelta(hours=1)
