"""Removes what crashed or abandoned writes left behind in local storage."""

from __future__ import annotations

from datetime import datetime

from callsheet.media.storage import LocalStorage
from callsheet.toolbox.loops import Loop


class StorageSweeper(Loop):
    name = "storage_sweeper"
    interval_seconds = 3600.0

    def __init__(self, storage: LocalStorage):
        super().__init__()
        self._storage = storage

    async def tick(self, now: datetime) -> None:
        await self._storage.sweep(now)
