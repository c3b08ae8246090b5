"""How many workers a fleet's work needs now, for external autoscalers such as KEDA, which decide themselves."""

from __future__ import annotations

from callsheet.fleet.registry import DEFAULT_PROVIDERS
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import statements
from callsheet.scaling.policy import MOST_WORKERS, Policy, Situation, Worker, needed_workers
from callsheet.scaling.scaled import MOST_COUNTED
from callsheet.scaling.sharing import UNMEASURED_SECONDS
from callsheet.wire.errors import NotFound, Unavailable
from callsheet.wire.fleet import FleetMetric

SQL = statements("callsheet.scaling", "metric_statements.sql")


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
                fleet_id=fleet_id,
                providers=DEFAULT_PROVIDERS,
                unmeasured=UNMEASURED_SECONDS,
                most=MOST_COUNTED,
            )
        if row is None:
            raise NotFound("There is no such fleet.")
        queued, seconds, running = row["queued_jobs"], row["queued_seconds"], row["running_jobs"]
        slots, busy_slots = max(1.0, row["slots"]), row["busy_slots"]
        busy = Worker("all of them", busy_slots, busy_slots, False, False, 0.0, None)
        situation = Situation(now=0.0, queued_jobs=queued, queued_seconds=seconds, workers=[busy], coming=0)
        policy = Policy(maximum=MOST_WORKERS, target_seconds=target_seconds)
        return FleetMetric(
            fleet_slug=row["slug"],
            stage=row["stage"],
            queued_jobs=queued,
            queued_seconds=seconds,
            running_jobs=running,
            jobs=queued + running,
            needed_workers=needed_workers(policy, situation, slots),
        )
