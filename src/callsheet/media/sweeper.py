"""Deletes what is no longer named: uploads that never came, deleted files, what jobs and crashes left behind.

Safe on any number of control planes and killed anywhere: rows are marked before their objects are deleted, and
forgotten after. Doing a piece of it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from callsheet.media.deletion import paths_of
from callsheet.media.files import SQL
from callsheet.media.storage import LocalStorage, ObjectEntry, Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.plumbing.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.sql import Row, Statement
from callsheet.settings import Settings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.together import all_of
from callsheet.wire.errors import Unavailable

log = get_logger(__name__)
BATCH = 200
# Every upload and every job with outputs has a folder to look at, and S3 takes 20 ms to list one.
FOLDERS_AT_ONCE = 8
# A PUT that began just before its URL expired may still be under way.
UPLOAD_MARGIN = timedelta(hours=1)
# How far the clocks of the object store and the database may be apart.
CLOCK_MARGIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class FolderSweep:
    """A kind of folder that may hold objects which no file names, and the statements that know when."""

    folder: str
    owner: str
    find: Statement
    postpone: Statement
    forget: Statement
    # Whether its rows say which storage backend they are for.
    by_disk: bool = False


FOLDER_SWEEPS = (
    FolderSweep(
        "ai-jobs", "job_id", SQL["find_output_sweeps"], SQL["postpone_output_sweep"], SQL["forget_output_sweep"]
    ),
    FolderSweep(
        "uploads",
        "file_id",
        SQL["find_upload_sweeps"],
        SQL["postpone_upload_sweep"],
        SQL["forget_upload_sweep"],
        by_disk=True,
    ),
)


class MediaSweeper(Loop):
    name = "media_sweeper"
    interval_seconds = 60.0

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        storage: Storage,
        settings: Settings,
        owner: StorageOwner | None = None,
    ):
        super().__init__()
        self._owner = owner
        self._pools = pools
        self._storage = storage
        self._disk = settings.storage.backend
        # No signed URL lives longer than this after it was given out.
        self._grace = timedelta(seconds=settings.storage.url_seconds) + UPLOAD_MARGIN

    async def tick(self, now: datetime) -> bool:
        if not await self._may_delete():
            return False
        return any(await all_of(self.sweep(pool) for pool in self._pools()))

    async def _may_delete(self) -> bool:
        """Also where nothing is to be deleted: storage is marked before anybody makes a copy of the installation."""
        if self._owner is None:
            return True
        try:
            await self._owner.require(self._storage)
        except Unavailable:
            if self._owner.problem is None:
                raise
            # An alert shows it as long as it lasts.
            return False
        return True

    async def sweep(self, pool: Database, at: datetime | None = None) -> bool:
        """True while there is more."""
        more_files = await self._sweep_files(pool, at)
        more_folders = [await self._sweep_folders(pool, sweep, at) for sweep in FOLDER_SWEEPS]
        return more_files or any(more_folders)

    async def _sweep_files(self, pool: Database, at: datetime | None) -> bool:
        async with pool.ordinary() as connection:
            expired = await SQL["mark_expired"].run(connection, now=at, disk=self._disk, limit=BATCH)
            rows = await SQL["find_deleted"].rows(
                connection, now=at, grace_seconds=self._settle_seconds, disk=self._disk, limit=BATCH
            )
        if rows:
            await self._storage.delete_many([path for row in rows for path in paths_of(row)])
            await hit(Failpoint.MEDIA_SWEEP_BEFORE_ROWS)
            async with pool.ordinary() as connection:
                forgotten = await SQL["forget_files"].run(
                    connection, tenant_ids=[row["tenant_id"] for row in rows], file_ids=[row["id"] for row in rows]
                )
            log.info("media.files_swept", pool=pool.name, files=forgotten)
        return BATCH in (expired, len(rows))

    async def _sweep_folders(self, pool: Database, sweep: FolderSweep, at: datetime | None) -> bool:
        async with pool.ordinary() as connection:
            disk = {"disk": self._disk} if sweep.by_disk else {}
            rows = await sweep.find.rows(connection, now=at, grace_seconds=self._settle_seconds, limit=BATCH, **disk)
        for start in range(0, len(rows), FOLDERS_AT_ONCE):
            await all_of(self._sweep_folder(pool, sweep, row, at) for row in rows[start : start + FOLDERS_AT_ONCE])
        return len(rows) == BATCH

    async def _sweep_folder(self, pool: Database, sweep: FolderSweep, row: Row, at: datetime | None) -> None:
        settled = not row["too_early"]
        if settled:
            # A job that is retried from here on writes objects that are younger than this.
            before = (at or row["looked_at"]) - CLOCK_MARGIN
            folder = f"tenants/{row['tenant_id']}/{sweep.folder}/{row[sweep.owner]}"
            settled = await self._empty(pool, folder, before)
            await hit(Failpoint.MEDIA_SWEEP_BEFORE_ROWS)
        statement = sweep.forget if settled else sweep.postpone
        whose = {"tenant_id": row["tenant_id"], sweep.owner: row[sweep.owner]}
        async with pool.connection() as connection:
            await statement.run(connection, **whose, since=row["since"])

    async def _empty(self, pool: Database, folder: str, before: datetime) -> bool:
        """Deletes the objects below the folder that no file names; False where some are too young to decide."""
        found = [entry async for entry in self._storage.list(folder)]
        strays = await self._strays(pool, found)
        old = [entry.key for entry in strays if entry.modified_at <= before]
        if old:
            await self._storage.delete_many(old)
            log.info("media.folder_swept", pool=pool.name, folder=folder, objects=len(old))
        return len(old) == len(strays)

    @staticmethod
    async def _strays(pool: Database, found: Sequence[ObjectEntry]) -> list[ObjectEntry]:
        if not found:
            return []
        async with pool.ordinary() as connection:
            rows = await SQL["known_paths"].rows(connection, paths=[entry.key for entry in found])
        known = {row["path"] for row in rows}
        return [entry for entry in found if entry.key not in known]

    @property
    def _settle_seconds(self) -> int:
        return int(self._grace.total_seconds())


class StorageSweeper(Loop):
    """Removes what crashed or abandoned writes left behind in local storage."""

    name = "storage_sweeper"
    interval_seconds = 3600.0

    def __init__(self, storage: LocalStorage):
        super().__init__()
        self._storage = storage

    async def tick(self, now: datetime) -> None:
        await self._storage.sweep(now)
