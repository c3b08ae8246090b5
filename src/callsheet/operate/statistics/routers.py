"""All routes of the statistics room."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.operate.statistics.room import StatisticsRoom
from callsheet.operate.statistics.routes import statistics_router
from callsheet.plumbing.http.routing import Router


def statistics_routers(statistics: StatisticsRoom, authentication: Authentication) -> list[Router]:
    return [statistics_router(statistics.series, statistics.spend, authentication)]
