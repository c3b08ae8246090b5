"""All routes of the statistics room."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.identity.access.authentication import Authentication
from callsheet.operate.statistics.room import StatisticsRoom
from callsheet.operate.statistics.routes import statistics_router


def statistics_routers(statistics: StatisticsRoom, authentication: Authentication) -> list[APIRouter]:
    return [statistics_router(statistics.series, statistics.spend, authentication)]
