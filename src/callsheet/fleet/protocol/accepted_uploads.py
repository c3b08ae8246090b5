"""Deletes uploads after their outputs were accepted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from callsheet.media.storage import Storage
from callsheet.media.storage.leftovers import discard
from callsheet.toolbox.loops import Loop

# The number of objects that S3 deletes with one request.
MAX_AT_ONCE = 1000
# Maximum number of uploads that wait for deletion. The sweep of the job's folder deletes further uploads.
MAX_WAITING = 100_000


class AcceptedUploads(Loop):
    """Deletes uploads whose output was accepted: the accepted output is a copy. Uploads of one second are deleted
    together, and no worker waits for this. After a crash, the sweep of the job's folder deletes the remaining
    uploads.
    """

    name = "accepted_uploads"
    interval_seconds = 1.0

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage
        self._keys: list[str] = []

    def add(self, keys: Iterable[str]) -> None:
        if len(self._keys) < MAX_WAITING:
            self._keys.extend(keys)

    async def tick(self, now: datetime) -> bool:
        batch, self._keys = self._keys[:MAX_AT_ONCE], self._keys[MAX_AT_ONCE:]
        await discard(self._storage, batch)
        return bool(self._keys)

    async def stop(self) -> None:
        await super().stop()
        while await self.tick(self._clock.now()):
            pass
