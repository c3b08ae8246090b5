"""Schedules previews for files that are older than the feature. Newer files come first."""

from __future__ import annotations

from callsheet.media.previews.maker import SQL
from callsheet.plumbing.backfills import Backfill, BackfillPlace
from callsheet.plumbing.database.database import Database

BATCH = 1000


class PreviewBackfill(Backfill):
    name = "file_previews"
    batch = BATCH

    async def fill(self, pool: Database, after: BackfillPlace) -> None:
        async with pool.ordinary() as connection, connection.transaction():
            if not await self.hold(connection, after):
                return
            names = after._asdict()
            last = await SQL["make_files_due"].row(connection, BackfillPlace, **names, limit=self.batch)
            await self.move(connection, last)
