"""Where the settings say how long media are kept, what has not changed for longer is deleted as its user would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from callsheet.media.deletion import Deletion, Owner
from callsheet.media.files import SQL
from callsheet.plumbing.database import Database
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.together import all_of
from callsheet.wire.errors import InUse, NotFound

log = get_logger(__name__)
BATCH = 200


class Retention(Loop):
    name = "retention"
    interval_seconds = 3600.0

    def __init__(self, pools: Callable[[], Sequence[Database]], deletion: Deletion, days: int):
        super().__init__()
        self._pools = pools
        self._deletion = deletion
        self._days = days

    async def tick(self, now: datetime) -> bool:
        return any(await all_of(self.delete_old(pool) for pool in self._pools()))

    async def delete_old(self, pool: Database, at: datetime | None = None) -> bool:
        """True while there is more."""
        videos = await self._delete_videos(pool, at)
        files = await self._delete_files(pool, at)
        if videos or files:
            log.info("media.retention", pool=pool.name, videos=videos, files=files)
        return BATCH in (videos, files)

    async def _delete_videos(self, pool: Database, at: datetime | None) -> int:
        async with pool.ordinary() as connection:
            rows = await SQL["find_old_videos"].rows(connection, now=at, days=self._days, limit=BATCH)
        changed_after = (at or datetime.now(UTC)) - timedelta(days=self._days)
        return await _count(
            self._deletion.video(
                pool, Owner(row["tenant_id"], row["user_id"]), row["id"], unless_changed_after=changed_after
            )
            for row in rows
        )

    async def _delete_files(self, pool: Database, at: datetime | None) -> int:
        """Those without a video: uploads that were inputs only, and outputs of jobs on them."""
        async with pool.ordinary() as connection:
            rows = await SQL["find_old_files"].rows(connection, now=at, days=self._days, limit=BATCH)
        return await _count(
            self._deletion.file(pool, Owner(row["tenant_id"], row["user_id"]), row["id"]) for row in rows
        )


async def _count(deletions: Iterable[Awaitable[None]]) -> int:
    """One after the other. What was taken up again meanwhile, or is gone, does not count."""
    done = 0
    for deletion in deletions:
        try:
            await deletion
        except (InUse, NotFound):
            continue
        done += 1
    return done
