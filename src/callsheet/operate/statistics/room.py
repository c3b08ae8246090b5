"""The parts that keep statistics, and their routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.identity.access.authentication import Authentication
from callsheet.operate.statistics.keeper import StatisticsKeeper
from callsheet.operate.statistics.routes import statistics_router
from callsheet.operate.statistics.series import Series
from callsheet.operate.statistics.spend import Spend
from callsheet.operate.statistics.spend_keeper import SpendKeeper
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class StatisticsRoom(Room):
    keeper: StatisticsKeeper
    spend_keeper: SpendKeeper
    series: Series
    spend: Spend

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.keeper, self.spend_keeper)


def open_statistics(databases: Databases, settings: Settings) -> StatisticsRoom:
    return StatisticsRoom(
        StatisticsKeeper(databases, settings.statistics.days),
        SpendKeeper(databases),
        Series(databases),
        Spend(databases, settings.tasks.provider_prices, settings.tasks.currency),
    )


def statistics_routers(statistics: StatisticsRoom, authentication: Authentication) -> list[Router]:
    return [statistics_router(statistics.series, statistics.spend, authentication)]
