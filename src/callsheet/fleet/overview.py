"""Metrics and alerts of the installation. The amount of data read is bounded for any length of the queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from callsheet.fleet.alerts import AlertFacts, EngineKiller, PausedProvider, ScaledFleetFacts, WaitingRoute, alerts
from callsheet.fleet.capacity import Capacity
from callsheet.fleet.registry import ALIVE_SECONDS
from callsheet.fleet.sql import OVERVIEW_SQL
from callsheet.identity.mail_sender import MailSender
from callsheet.media.storage.owner import StorageOwner
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection
from callsheet.toolbox.loops import Loop
from callsheet.wire.operations import Alerts, LoopMetrics, Metrics, RunsMetrics, WorkflowMetrics

MOST_QUEUED = 1000
MOST_FINISHED = 50_000
MOST_KILLERS = 20


class WorkflowQueue(NamedTuple):
    """The jobs of a workflow that are not finished, and the workers that can run them."""

    workflow_id: int
    slug: str
    is_active: bool
    queued: int
    delayed: int
    leased: int
    waiting: int
    average_seconds: float | None
    live_workers: int
    live_slots: int
    busy_slots: int


class LaneHead(NamedTuple):
    """The job that has waited longest in a lane."""

    workflow_id: int
    slug: str
    stage: str
    provider: str
    concurrency_identifier: str | None
    wait_seconds: float


class FinishedJobs(NamedTuple):
    """The jobs of a workflow that finished in the last hour."""

    workflow_id: int
    completed: int
    failed: int
    average_seconds: float | None
    p95_seconds: float | None
    # The same in all rows: how many finished jobs were read, and since when they are complete.
    looked_at: int
    since: datetime


class WorkerCounts(NamedTuple):
    now: datetime
    live: int
    unapproved: int
    draining: int
    unverified: int


async def engine_killers(connection: Connection) -> list[EngineKiller]:
    return await OVERVIEW_SQL["engine_killers"].rows(connection, EngineKiller, limit=MOST_KILLERS)


class FleetOverview:
    def __init__(
        self,
        databases: Databases,
        capacity: Capacity,
        loops: Iterable[Loop],
        reconciled: Mapping[str, int],
        longest_wait_seconds: int,
        runs: Callable[[], Awaitable[list[RunsMetrics]]],
        highest_failed_share: float,
        mails: MailSender,
        storage_owner: StorageOwner | None,
    ):
        """`runs` returns metrics of pipeline runs. A share of failures above `highest_failed_share` raises an alert."""
        self._databases = databases
        self._capacity = capacity
        self._loops = loops
        self._reconciled = reconciled
        self._longest_wait_seconds = longest_wait_seconds
        self._runs = runs
        self._highest_failed_share = highest_failed_share
        self._mails = mails
        self._storage_owner = storage_owner

    async def metrics(self) -> Metrics:
        metrics, _ = await self._look()
        return metrics

    async def alerts(self) -> Alerts:
        metrics, heads = await self._look()
        async with self._databases.central.ordinary() as connection:
            paused = await OVERVIEW_SQL["paused_limits"].column(connection)
            providers = await OVERVIEW_SQL["paused_providers"].rows(connection, PausedProvider)
            killers = await engine_killers(connection)
            scaled = await OVERVIEW_SQL["scaled_fleets"].rows(connection, ScaledFleetFacts)
        facts = AlertFacts(
            unavailable_pools=self._databases.unavailable,
            storage_problem=self._storage_owner.problem if self._storage_owner else None,
            routes=await self._waiting_routes(heads),
            workflows=metrics.workflows,
            engine_killers=killers,
            unapproved_workers=metrics.unapproved_workers,
            unverified_workers=metrics.unverified_workers,
            loops=metrics.loops,
            scaled_fleets=scaled,
            paused_limits=paused,
            paused_providers=providers,
            mails=await self._mails.unsent(),
            reconciled=metrics.reconciled,
            longest_wait_seconds=self._longest_wait_seconds,
            runs=metrics.runs,
            highest_failed_share=self._highest_failed_share,
        )
        return Alerts(at=metrics.at, alerts=alerts(facts))

    async def _look(self) -> tuple[Metrics, list[LaneHead]]:
        async with self._databases.central.ordinary() as connection:
            queues = await OVERVIEW_SQL["queue_depth"].rows(
                connection, WorkflowQueue, most=MOST_QUEUED, alive_seconds=ALIVE_SECONDS
            )
            heads = await OVERVIEW_SQL["queue_heads"].rows(connection, LaneHead)
            finished = await OVERVIEW_SQL["finished_lately"].rows(connection, FinishedJobs, most=MOST_FINISHED)
            workers = await OVERVIEW_SQL["count_workers"].row(connection, WorkerCounts, alive_seconds=ALIVE_SECONDS)
        assert workers is not None
        loops = [
            LoopMetrics(
                name=loop.name, ticks=loop.ticks, failures=loop.failures, failures_in_a_row=loop.failures_in_a_row
            )
            for loop in self._loops
        ]
        metrics = Metrics(
            at=workers.now,
            workflows=_workflows(queues, heads, finished),
            finished_since=_since(finished, workers.now),
            live_workers=workers.live,
            unapproved_workers=workers.unapproved,
            unverified_workers=workers.unverified,
            draining_workers=workers.draining,
            runs=await self._runs(),
            reconciled=dict(self._reconciled),
            loops=loops,
        )
        return metrics, heads

    async def _waiting_routes(self, heads: Sequence[LaneHead]) -> list[WaitingRoute]:
        oldest: dict[tuple[int, str, str], LaneHead] = {}
        for head in heads:
            route = (head.workflow_id, head.stage, head.provider)
            if route not in oldest or head.wait_seconds > oldest[route].wait_seconds:
                oldest[route] = head
        capacity = await self._capacity.of(list(oldest))
        return [
            WaitingRoute(
                workflow=head.slug,
                stage=head.stage,
                provider=head.provider,
                oldest_wait_seconds=head.wait_seconds,
                live_workers=capacity[route].live_workers,
                scaling_up=capacity[route].scaling_up,
                missing=capacity[route].missing,
            )
            for route, head in oldest.items()
        ]


def _workflows(
    queues: Sequence[WorkflowQueue], heads: Sequence[LaneHead], finished: Sequence[FinishedJobs]
) -> list[WorkflowMetrics]:
    lately = {row.workflow_id: row for row in finished}
    oldest: dict[int, float] = {}
    for head in heads:
        oldest[head.workflow_id] = max(head.wait_seconds, oldest.get(head.workflow_id, 0.0))
    return [_workflow(row, lately.get(row.workflow_id), oldest.get(row.workflow_id)) for row in queues]


def _workflow(row: WorkflowQueue, lately: FinishedJobs | None, oldest: float | None) -> WorkflowMetrics:
    return WorkflowMetrics(
        workflow=row.slug,
        is_active=row.is_active,
        queued=row.queued,
        delayed=row.delayed,
        leased=row.leased,
        waiting=row.waiting,
        oldest_wait_seconds=oldest,
        live_workers=row.live_workers,
        live_slots=row.live_slots,
        busy_slots=row.busy_slots,
        completed_last_hour=lately.completed if lately else 0,
        failed_last_hour=lately.failed if lately else 0,
        average_seconds=lately.average_seconds if lately else None,
        p95_seconds=lately.p95_seconds if lately else None,
        moving_average_seconds=row.average_seconds,
    )


def _since(finished: Sequence[FinishedJobs], now: datetime) -> datetime:
    if finished and finished[0].looked_at == MOST_FINISHED:
        return finished[0].since
    return now - timedelta(hours=1)
