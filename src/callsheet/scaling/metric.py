"""Computes how many workers a fleet's work needs now, for external autoscalers such as KEDA, which decide
themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.fleet.registry.registry import DEFAULT_PROVIDERS
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.scaling.fleet_states import MAX_COUNTED
from callsheet.scaling.policy import MAX_WORKERS, Policy, PolicyWorker, Situation, needed_workers
from callsheet.scaling.queue_split import UNMEASURED_SECONDS
from callsheet.wire.errors import NotFound, Unavailable
from callsheet.wire.fleet import FleetMetric

SQL = statements("callsheet.scaling", "metric_statements.sql")


class MetricRow(NamedTuple):
    slug: str
    stage: str
    queued_jobs: int
    queued_seconds: float
    running_jobs: int
    busy_slots: int
    # Average of a worker.
    slots: float


class FleetMetrics:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def get(self, fleet_id: int, target_seconds: float) -> FleetMetric:
        away = sorted(self._databases.unavailable)
        if away:
            # A number that is too small would end workers; without a number, KEDA does not change them.
            raise Unavailable(f"Pool {', '.join(away)} is not served, so its part of the queue is unknown.")
        async with self._databases.central.ordinary() as connection:
            row = await SQL["fleet_metric"].row(
                connection,
                MetricRow,
                fleet_id=fleet_id,
                providers=DEFAULT_PROVIDERS,
                unmeasured=UNMEASURED_SECONDS,
                max_rows=MAX_COUNTED,
            )
        if row is None:
            raise NotFound("There is no such fleet.")
        busy = PolicyWorker("all of them", row.busy_slots, row.busy_slots, False, False, 0.0, None)
        situation = Situation(0.0, row.queued_jobs, row.queued_seconds, workers=[busy], coming=0)
        policy = Policy(maximum=MAX_WORKERS, target_seconds=target_seconds)
        return FleetMetric(
            fleet_slug=row.slug,
            stage=row.stage,
            queued_jobs=row.queued_jobs,
            queued_seconds=row.queued_seconds,
            running_jobs=row.running_jobs,
            jobs=row.queued_jobs + row.running_jobs,
            needed_workers=needed_workers(policy, situation, max(1.0, row.slots)),
        )
