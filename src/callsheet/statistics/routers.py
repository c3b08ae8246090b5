"""All routes of the statistics room."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.identity.authentication import Authentication
from callsheet.statistics.room import StatisticsRoom
from callsheet.statistics.routes import statistics_router


def statistics_routers(statistics: StatisticsRoom, authentication: Authentication) -> list[APIRouter]:
    return [statistics_router(statistics.series, statistics.spend, authentication)]
