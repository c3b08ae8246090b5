"""The loop that keeps the lanes of the queue up to date. Safe on any number of control planes."""

from __future__ import annotations

from datetime import datetime

from callsheet.dispatch.queue import Queue
from callsheet.toolbox.loops import Loop


class LaneKeeper(Loop):
    """Adds delayed rows to their lanes when they are due, and keeps leases fast and their order fair."""

    name = "lane_keeper"
    interval_seconds = 0.5

    def __init__(self, queue: Queue):
        super().__init__()
        self._queue = queue

    async def tick(self, now: datetime) -> bool:
        promoted = await self._queue.promote()
        await self._queue.maintain()
        return promoted >= 1000
