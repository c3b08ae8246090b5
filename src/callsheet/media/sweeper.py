"""Deletes unused objects: uploads that never arrived, deleted files, and the remains of jobs and crashes.

Safe on any number of control planes, and at any crash: rows are marked before their objects are deleted, and deleted
after that. A repeated step changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.media.deletion import paths_of
from callsheet.media.files import SQL
from callsheet.media.names import is_in_parts
from callsheet.media.storage import LocalStorage, ObjectEntry, Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import Settings
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import Unavailable

log = get_logger(__name__)
BATCH = 200
# Every upload and every job with outputs has a folder to check, and S3 takes 20 ms to list one.
FOLDERS_AT_ONCE = 8
# A PUT that started just before its URL expired may still be running.
UPLOAD_MARGIN = timedelta(hours=1)
# Maximum difference between the clocks of the object store and the database.
CLOCK_MARGIN = timedelta(minutes=10)


class FileToRemove(NamedTuple):
    tenant_id: UUID
    id: UUID
    path: str


class DueFolder(NamedTuple):
    """A folder of a job or an upload that may hold objects without a file."""

    tenant_id: UUID
    owner_id: UUID
    since: datetime
    checked_at: datetime
    too_early: bool


@dataclass(frozen=True, slots=True)
class FolderSweep:
    """A kind of folder. `find` gets the connection, the time, the grace period in seconds and the storage backend."""

    folder: str
    find: Callable[[Connection, datetime | None, int, str], Awaitable[list[DueFolder]]]
    postpone: Statement
    forget: Statement


async def _find_outputs(connection: Connection, now: datetime | None, grace: int, _: str) -> list[DueFolder]:
    return await SQL["find_output_sweeps"].rows(connection, DueFolder, now=now, grace_seconds=grace, limit=BATCH)


async def _find_uploads(connection: Connection, now: datetime | None, grace: int, disk: str) -> list[DueFolder]:
    return await SQL["find_upload_sweeps"].rows(
        connection, DueFolder, now=now, grace_seconds=grace, disk=disk, limit=BATCH
    )


FOLDER_SWEEPS = (
    FolderSweep("ai-jobs", _find_outputs, SQL["postpone_output_sweep"], SQL["forget_output_sweep"]),
    FolderSweep("uploads", _find_uploads, SQL["postpone_upload_sweep"], SQL["forget_upload_sweep"]),
)


class MediaSweeper(Loop):
    name = "media_sweeper"
    interval_seconds = 60.0

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        storage: Storage,
        settings: Settings,
        owner: StorageOwner,
    ):
        super().__init__()
        self._owner = owner
        self._pools = pools
        self._storage = storage
        self._disk = settings.storage.backend
        # No signed URL is valid longer than this after it was created.
        self._grace = timedelta(seconds=settings.storage.url_seconds) + UPLOAD_MARGIN

    async def tick(self, now: datetime) -> bool:
        if not await self._may_delete():
            return False
        return any(await all_of(self.sweep(pool) for pool in self._pools()))

    async def _may_delete(self) -> bool:
        """Whether objects may be deleted. This is checked even if nothing is due: storage must be marked before the
        installation is copied.
        """
        try:
            await self._owner.require(self._storage)
        except Unavailable:
            if self._owner.problem is None:
                raise
            # An alert shows the problem.
            return False
        return True

    async def sweep(self, pool: Database, at: datetime | None = None) -> bool:
        """Deletes what is due. Returns whether there may be more."""
        refused: list[Unavailable] = []
        more_files = await self._sweep_files(pool, at, refused)
        more_folders = [await self._sweep_folders(pool, sweep, at) for sweep in FOLDER_SWEEPS]
        if refused:
            raise refused[0]
        return more_files or any(more_folders)

    async def _sweep_files(self, pool: Database, at: datetime | None, refused: list[Unavailable]) -> bool:
        async with pool.ordinary() as connection:
            expired = await SQL["mark_expired"].run(connection, now=at, disk=self._disk, limit=BATCH)
            files = await SQL["find_deleted"].rows(
                connection, FileToRemove, now=at, grace_seconds=self._settle_seconds, disk=self._disk, limit=BATCH
            )
        gone = await self._without_parts(files, refused)
        if gone:
            await self._storage.delete_many([path for file in gone for path in paths_of(*file)])
            await hit(Failpoint.MEDIA_SWEEP_BEFORE_ROWS)
            async with pool.ordinary() as connection:
                forgotten = await SQL["forget_files"].run(
                    connection, tenant_ids=[file.tenant_id for file in gone], file_ids=[file.id for file in gone]
                )
            log.info("media.files_swept", pool=pool.name, files=forgotten)
        return BATCH in (expired, len(files))

    async def _without_parts(self, files: Sequence[FileToRemove], refused: list[Unavailable]) -> list[FileToRemove]:
        """Files whose parts are removed. If the storage refuses that for some, for example for lack of a right, they
        do not hold up the others."""

        async def abort(file: FileToRemove) -> FileToRemove | None:
            try:
                if is_in_parts(file.path):
                    await self._storage.parts.abort(file.path)
            except Unavailable as error:
                refused.append(error)
                return None
            return file

        return [file for file in await all_of(abort(file) for file in files) if file is not None]

    async def _sweep_folders(self, pool: Database, sweep: FolderSweep, at: datetime | None) -> bool:
        async with pool.ordinary() as connection:
            folders = await sweep.find(connection, at, self._settle_seconds, self._disk)
        for start in range(0, len(folders), FOLDERS_AT_ONCE):
            some = folders[start : start + FOLDERS_AT_ONCE]
            await all_of(self._sweep_folder(pool, sweep, folder, at) for folder in some)
        return len(folders) == BATCH

    async def _sweep_folder(self, pool: Database, sweep: FolderSweep, due: DueFolder, at: datetime | None) -> None:
        settled = not due.too_early
        if settled:
            # A job that is retried after this moment writes newer objects.
            before = (at or due.checked_at) - CLOCK_MARGIN
            folder = f"tenants/{due.tenant_id}/{sweep.folder}/{due.owner_id}"
            settled = await self._empty(pool, folder, before)
            await hit(Failpoint.MEDIA_SWEEP_BEFORE_ROWS)
        statement = sweep.forget if settled else sweep.postpone
        async with pool.connection() as connection:
            await statement.run(connection, tenant_id=due.tenant_id, owner_id=due.owner_id, since=due.since)

    async def _empty(self, pool: Database, folder: str, before: datetime) -> bool:
        """Deletes the objects in the folder that no file refers to. Returns False if some are too new to decide."""
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
            known = set(await SQL["known_paths"].column(connection, paths=[entry.key for entry in found]))
        return [entry for entry in found if entry.key not in known]

    @property
    def _settle_seconds(self) -> int:
        return int(self._grace.total_seconds())


class StorageSweeper(Loop):
    """Deletes files that crashed or abandoned writes left in local storage."""

    name = "storage_sweeper"
    interval_seconds = 3600.0

    def __init__(self, storage: LocalStorage):
        super().__init__()
        self._storage = storage

    async def tick(self, now: datetime) -> None:
        await self._storage.sweep(now)
