"""Deletes uploads after their outputs were accepted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from callsheet.media.storage import Storage
from callsheet.media.storage.leftovers import discard
from callsheet.toolbox.loops import Loop

# As many as S3 deletes with one request.
MOST_AT_ONCE = 1000
# What is beyond it is left to the sweep of the job's folder.
MOST_WAITING = 100_000


class AcceptedUploads(Loop):
    """The accepted output is a copy, so the upload is not needed any more. Uploads of one second are deleted together,
    and no worker waits for it. What a crash leaves, the sweep of the job's folder deletes."""

    name = "accepted_uploads"
    interval_seconds = 1.0

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self._keys: list[str] = []

    def add(self, keys: Iterable[str]) -> None:
        if len(self._keys) < MOST_WAITING:
            self._keys.extend(keys)

    async def tick(self, now: datetime) -> bool:
        batch, self._keys = self._keys[:MOST_AT_ONCE], self._keys[MOST_AT_ONCE:]
        await discard(self._storage, batch)
        return bool(self._keys)

    async def stop(self) -> None:
        await super().stop()
        while await self.tick(self._clock.now()):
            pass
