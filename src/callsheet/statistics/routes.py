"""`/api/admin/statistics`, and how busy a worker was."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from callsheet.identity.authentication import Authentication
from callsheet.identity.permissions import Permission
from callsheet.plumbing.routing import Router
from callsheet.statistics.series import Series
from callsheet.wire.forms import WorkerId
from callsheet.wire.statistics import Statistics, TimeRange, Utilisation


def statistics_router(series: Series, authentication: Authentication) -> APIRouter:
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

    return router
