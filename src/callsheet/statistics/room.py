"""Builds the parts that keep statistics."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.plumbing.databases import Databases
from callsheet.settings import Settings
from callsheet.statistics.keeper import StatisticsKeeper
from callsheet.statistics.series import Series
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class StatisticsRoom:
    keeper: StatisticsKeeper
    series: Series

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.keeper,)


def open_statistics(databases: Databases, settings: Settings) -> StatisticsRoom:
    return StatisticsRoom(StatisticsKeeper(databases, settings.statistics.days), Series(databases))
