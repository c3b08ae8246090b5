"""Builds the parts that keep statistics."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from callsheet.identity.authentication import Authentication
from callsheet.plumbing.databases import Databases
from callsheet.settings import Settings
from callsheet.statistics.keeper import StatisticsKeeper
from callsheet.statistics.routes import statistics_router
from callsheet.statistics.series import Series
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class StatisticsRoom:
    keeper: StatisticsKeeper
    series: Series

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.keeper,)

    def routers(self, authentication: Authentication) -> list[APIRouter]:
        return [statistics_router(self.series, authentication)]


def open_statistics(databases: Databases, settings: Settings) -> StatisticsRoom:
    return StatisticsRoom(StatisticsKeeper(databases, settings.statistics.days), Series(databases))
