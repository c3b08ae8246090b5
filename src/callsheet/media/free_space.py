"""Measures the free space of this control plane's disks, and refuses new work below the reserve.

New uploads and new jobs leave the reserve free, so that jobs that were accepted can still finish: their results, their
events and their payments are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from callsheet.settings import Settings
from callsheet.toolbox.disk_space import read_space
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import InsufficientStorage

# Refuses a request if its jobs could not store their results.
RequireSpace = Callable[[], None]


@dataclass(frozen=True, slots=True)
class PlaceSpace:
    """The free space of one place where this control plane writes."""

    place: Literal["home", "storage"]
    path: Path
    free_bytes: int
    size_bytes: int
    device: int
    # Whether jobs need it. The data directory is not needed with a database by DSN and storage elsewhere.
    is_needed: bool


def read_places(settings: Settings) -> Sequence[PlaceSpace]:
    """Measures each place. It may take long on a network disk that does not respond."""
    is_local = settings.storage.backend == "local"
    home, storage = settings.home, settings.home / "storage"
    space = read_space(home)
    found = [PlaceSpace("home", home, *space, is_needed=settings.database.dsn is None)]
    if is_local:
        found.append(PlaceSpace("storage", storage, *read_space(storage), is_needed=True))
    return found


def distinct(spaces: Iterable[PlaceSpace]) -> Sequence[PlaceSpace]:
    """One place per file system: a full disk is reported once, for the place that jobs need."""
    by_device: dict[int, PlaceSpace] = {}
    for space in spaces:
        known = by_device.get(space.device)
        if known is None or (space.is_needed and not known.is_needed):
            by_device[space.device] = space
    return list(by_device.values())


class FreeSpace(Loop):
    """Measures every few seconds, so that no request waits for a disk."""

    name = "free_space"
    interval_seconds = 5.0

    def __init__(self, settings: Settings):
        super().__init__()
        self._settings = settings
        # Empty before the first measurement: then nothing is refused.
        self.spaces: Sequence[PlaceSpace] = ()

    async def tick(self, now: datetime) -> None:
        self.spaces = await asyncio.to_thread(read_places, self._settings)

    def require(self) -> None:
        """Refuses new work if a disk that jobs need has less free space than the reserve."""
        self.require_for(0)

    def require_for(self, size: int) -> None:
        """Refuses an upload of this size if it would use the reserve."""
        for space in self.spaces:
            left = space.free_bytes - (size if space.place == "storage" else 0)
            if space.is_needed and left < self._settings.disk.reserve_bytes:
                raise InsufficientStorage()


class SpaceMetrics(Collector):
    """The free space at the last measurement."""

    def __init__(self, free_space: FreeSpace):
        self._free_space = free_space

    def collect(self) -> Iterable[Metric]:
        free = GaugeMetricFamily("callsheet_disk_free_bytes", "Free space of a disk.", labels=["place"])
        size = GaugeMetricFamily("callsheet_disk_size_bytes", "Size of a disk.", labels=["place"])
        for space in self._free_space.spaces:
            free.add_metric([space.place], space.free_bytes)
            size.add_metric([space.place], space.size_bytes)
        yield from (free, size)
