"""Deletes videos and files: first the rows, under the user's lock, then the objects.

A marked row names its object until the object is finally deleted: the sweeper deletes the object once more when no
signed URL can write it again, and only then deletes the row. After a crash at any point, no object is left without a
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.media.files import SQL
from callsheet.media.names import is_in_parts
from callsheet.media.previews.maker import preview_keys
from callsheet.media.storage import Storage
from callsheet.media.storage.port import discard, discard_parts
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import InUse, NotFound
from callsheet.wire.media import VideoStatus

UNDER_WAY = frozenset({VideoStatus.PENDING, VideoStatus.QUEUED, VideoStatus.PROCESSING})


@dataclass(frozen=True, slots=True)
class OwnerOfMedia:
    tenant_id: UUID
    user_id: UUID


class VideoFiles(NamedTuple):
    status: VideoStatus
    original_file_id: UUID
    processed_file_id: UUID | None
    updated_at: datetime


class MarkedFile(NamedTuple):
    tenant_id: UUID
    id: UUID
    path: str
    disk: str


class Deletion:
    def __init__(self, storage: Storage, disk: str):
        self._storage = storage
        self._disk = disk

    async def video(
        self, pool: Database, owner: OwnerOfMedia, video_id: UUID, *, unless_changed_after: datetime | None = None
    ) -> None:
        """Deletes a video and every file that was made from it, except files of another video."""
        async with pool.ordinary() as connection, connection.transaction():
            await self._lock(connection, owner)
            video = await SQL["find_video"].row(
                connection, VideoFiles, tenant_id=owner.tenant_id, video_id=video_id, user_id=owner.user_id
            )
            if video is None or (unless_changed_after and video.updated_at > unless_changed_after):
                raise NotFound("There is no such video.")
            outputs = await SQL["outputs_of_video"].column(connection, tenant_id=owner.tenant_id, video_id=video_id)
            files = {video.original_file_id, *outputs}
            if video.processed_file_id is not None:
                files.add(video.processed_file_id)
            if video.status in UNDER_WAY or await self._needed(connection, owner, files):
                raise InUse()
            await SQL["delete_video"].run(connection, tenant_id=owner.tenant_id, video_id=video_id)
            shown = await self._files_of_videos(connection, owner, files)
            gone = await self._mark(connection, owner, files - shown)
        await self.remove(gone)

    async def file(self, pool: Database, owner: OwnerOfMedia, file_id: UUID) -> None:
        """Deletes a file that no video shows. The caller must have checked that it belongs to the owner."""
        async with pool.ordinary() as connection, connection.transaction():
            await self._lock(connection, owner)
            if await self._needed(connection, owner, [file_id]):
                raise InUse()
            if await self._files_of_videos(connection, owner, [file_id]):
                raise InUse("A video shows this file. Delete the video; its files are deleted with it.")
            gone = await self._mark(connection, owner, [file_id])
        if not gone:
            raise NotFound("There is no such file.")
        await self.remove(gone)

    async def mark_outputs(self, connection: Connection, owner: OwnerOfMedia, job_id: UUID) -> Sequence[MarkedFile]:
        """Marks the outputs of a job as deleted, except files that a video shows. The caller has locked the owner, and
        calls `remove` after the commit."""
        outputs = set(await SQL["outputs_of_job"].column(connection, tenant_id=owner.tenant_id, job_id=job_id))
        if await self._needed(connection, owner, outputs):
            raise InUse("Another job works on an output of this job. Wait for that job, or cancel it.")
        return await self._mark(connection, owner, outputs - await self._files_of_videos(connection, owner, outputs))

    @staticmethod
    async def _lock(connection: Connection, owner: OwnerOfMedia) -> None:
        await SQL["lock_wallet"].run(connection, tenant_id=owner.tenant_id, user_id=owner.user_id)

    @staticmethod
    async def _needed(connection: Connection, owner: OwnerOfMedia, file_ids: Iterable[UUID]) -> bool:
        return bool(
            await SQL["files_in_use"].value(
                connection, tenant_id=owner.tenant_id, user_id=owner.user_id, file_ids=list(file_ids)
            )
        )

    @staticmethod
    async def _files_of_videos(connection: Connection, owner: OwnerOfMedia, file_ids: Iterable[UUID]) -> set[UUID]:
        return set(await SQL["shown_files"].column(connection, tenant_id=owner.tenant_id, file_ids=list(file_ids)))

    @staticmethod
    async def _mark(connection: Connection, owner: OwnerOfMedia, file_ids: Iterable[UUID]) -> Sequence[MarkedFile]:
        return await SQL["mark_deleted"].rows(
            connection, MarkedFile, tenant_id=owner.tenant_id, file_ids=list(file_ids)
        )

    async def remove(self, files: Sequence[MarkedFile]) -> None:
        """Deletes the objects of files that were marked as deleted."""
        # Objects in a storage backend that is no longer in use cannot be reached.
        paths = [
            path for file in files if file.disk == self._disk for path in paths_of(file.tenant_id, file.id, file.path)
        ]
        await hit(Failpoint.MEDIA_DELETE_BEFORE_OBJECTS)
        await discard(self._storage, paths)
        await discard_parts(self._storage, [path for path in paths if is_in_parts(path)])


def paths_of(tenant_id: UUID, file_id: UUID, path: str) -> list[str]:
    """The objects of a deleted file: its own object and all possible previews, including one that is being made."""
    return [path, *preview_keys(tenant_id, file_id)]
