"""`/api/admin/statistics`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from callsheet.identity.authentication import Authentication
from callsheet.identity.permissions import Permission
from callsheet.plumbing.routing import Router
from callsheet.statistics.series import Series
from callsheet.wire.statistics import Statistics, TimeRange


def statistics_router(series: Series, authentication: Authentication) -> APIRouter:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_QUEUE)])

    @router.get("/statistics")
    async def get_statistics(
        time_range: Annotated[TimeRange, Query(alias="range")] = "1h",
        workflow: Annotated[str | None, Query(max_length=128)] = None,
    ) -> Statistics:
        """Charts of finished jobs, waiting and run times, queues, workers and held tokens."""
        return await series.read(time_range, workflow)

    return router
