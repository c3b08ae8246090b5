"""`/api/admin/statistics`, the utilization of workers, and the costs of providers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.operate.statistics.series import Series
from callsheet.operate.statistics.spend import Spend
from callsheet.plumbing.http.routing import Router
from callsheet.wire.forms import WorkerId
from callsheet.wire.operate.providers import ProviderSpending
from callsheet.wire.operate.statistics import Statistics, TimeRange, Utilisation


def statistics_router(series: Series, spend: Spend, authentication: Authentication) -> Router:
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/statistics", dependencies=[authentication.may(Permission.SEE_QUEUE)])
    async def get_statistics(
        time_range: Annotated[TimeRange, Query(alias="range")] = "1h",
        workflow: Annotated[str | None, Query(max_length=128)] = None,
    ) -> Statistics:
        """Charts of finished jobs, waiting and run times, queues, workers and held tokens."""
        return await series.read(time_range, workflow)

    @router.get("/workers/{worker_id}/utilisation", dependencies=[authentication.may(Permission.SEE_FLEET)])
    async def get_worker_utilisation(worker_id: WorkerId) -> Utilisation:
        """How busy a worker was in each of the last 24 hours."""
        return await series.of_worker(worker_id)

    @router.get("/provider-spend", dependencies=[authentication.may(Permission.SEE_FLEET)])
    async def get_provider_spend() -> ProviderSpending:
        """Calls, charged tokens and estimated cost of each provider in the last 24 hours and in the last 30 days."""
        return await spend.read()

    return router
