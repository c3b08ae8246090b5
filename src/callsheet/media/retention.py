"""Deletes old media if the settings limit how long media are kept. The deletion is the same as by a user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.media.deletion import Deletion, OwnerOfMedia
from callsheet.media.files import SQL
from callsheet.plumbing.database.database import Database
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import InUse, NotFound

log = get_logger(__name__)
BATCH = 200


class OldMedia(NamedTuple):
    """An old video or file."""

    tenant_id: UUID
    id: UUID
    user_id: UUID


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
        """Deletes old media. Returns True while there is more."""
        videos = await self._delete_videos(pool, at)
        files = await self._delete_files(pool, at)
        if videos or files:
            log.info("media.retention", pool=pool.name, videos=videos, files=files)
        return BATCH in (videos, files)

    async def _delete_videos(self, pool: Database, at: datetime | None) -> int:
        async with pool.ordinary() as connection:
            videos = await SQL["find_old_videos"].rows(connection, OldMedia, now=at, days=self._days, limit=BATCH)
        changed_after = (at or datetime.now(UTC)) - timedelta(days=self._days)
        return await _count(
            self._deletion.video(
                pool, OwnerOfMedia(video.tenant_id, video.user_id), video.id, unless_changed_after=changed_after
            )
            for video in videos
        )

    async def _delete_files(self, pool: Database, at: datetime | None) -> int:
        """Deletes files without a video: uploads that were only inputs, and the outputs of their jobs."""
        async with pool.ordinary() as connection:
            files = await SQL["find_old_files"].rows(connection, OldMedia, now=at, days=self._days, limit=BATCH)
        return await _count(
            self._deletion.file(pool, OwnerOfMedia(file.tenant_id, file.user_id), file.id) for file in files
        )


async def _count(deletions: Iterable[Awaitable[None]]) -> int:
    """Runs the deletions one after the other and counts them. Files that are in use again or already deleted do not
    count.
    """
    done = 0
    for deletion in deletions:
        try:
            await deletion
        except (InUse, NotFound):
            continue
        done += 1
    return done
