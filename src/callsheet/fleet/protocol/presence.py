"""Records when workers were last seen: outside the requests, once a second for all workers."""

from __future__ import annotations

from datetime import datetime

from callsheet.plumbing.database.database import DATABASE_AWAY
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.fleet.protocol")

log = get_logger(__name__)


class Presence(Loop):
    name = "worker_presence"
    interval_seconds = 1.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        # Times of this process's monotonic clock. The database gets their age and uses its own clock.
        self._seen: dict[str, float] = {}

    def record(self, worker_id: str) -> None:
        self._seen[worker_id] = self._clock.monotonic()

    async def tick(self, now: datetime) -> None:
        seen, self._seen = self._seen, {}
        if not seen:
            return
        moment = self._clock.monotonic()
        try:
            async with self._databases.central.connection() as connection:
                await SQL["touch_workers"].run(
                    connection,
                    worker_ids=list(seen),
                    seconds_ago=[moment - at for at in seen.values()],
                )
        except BaseException:
            self._seen = {**seen, **self._seen}
            raise

    async def stop(self) -> None:
        await super().stop()
        try:
            await self.tick(self._clock.now())
        # The rest of the shutdown is more important than the time when a worker was last seen.
        except DATABASE_AWAY as error:
            log.warning("presence.lost", workers=len(self._seen), error=repr(error))
