"""Deleting videos and files: the rows under the user's lock, then the objects.

A row that is marked names its object until the object is gone for good: the sweeper deletes it once more when no signed
URL can bring it back, and only then forgets the row. Whatever crashes, nothing stays that no row names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from callsheet.media.files import SQL
from callsheet.media.previews.maker import preview_keys
from callsheet.media.storage import Storage
from callsheet.media.storage.leftovers import discard
from callsheet.plumbing.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.sql import Connection, Row
from callsheet.wire.errors import InUse, NotFound
from callsheet.wire.media import VideoStatus

UNDER_WAY = frozenset({VideoStatus.PENDING, VideoStatus.QUEUED, VideoStatus.PROCESSING})


@dataclass(frozen=True, slots=True)
class Owner:
    tenant_id: UUID
    user_id: UUID


class Deletion:
    def __init__(self, storage: Storage, disk: str):
        self._storage = storage
        self._disk = disk

    async def video(
        self, pool: Database, owner: Owner, video_id: UUID, *, unless_changed_after: datetime | None = None
    ) -> None:
        """With everything that was made of it, except what another video shows."""
        async with pool.ordinary() as connection, connection.transaction():
            await self._lock(connection, owner)
            video = await SQL["find_video"].row(
                connection, tenant_id=owner.tenant_id, video_id=video_id, user_id=owner.user_id
            )
            if video is None or (unless_changed_after and video["updated_at"] > unless_changed_after):
                raise NotFound("There is no such video.")
            made = await SQL["outputs_of_video"].rows(connection, tenant_id=owner.tenant_id, video_id=video_id)
            files = {video["original_file_id"], video["processed_file_id"], *(row["id"] for row in made)} - {None}
            if video["status"] in UNDER_WAY or await self._needed(connection, owner, files):
                raise InUse()
            await SQL["delete_video"].run(connection, tenant_id=owner.tenant_id, video_id=video_id)
            shown = await self._shown(connection, owner, files)
            gone = await self._mark(connection, owner, files - shown)
        await self.remove(gone)

    async def file(self, pool: Database, owner: Owner, file_id: UUID) -> None:
        """One that no video shows. That it is the owner's is for the caller to know."""
        async with pool.ordinary() as connection, connection.transaction():
            await self._lock(connection, owner)
            if await self._needed(connection, owner, [file_id]):
                raise InUse()
            if await self._shown(connection, owner, [file_id]):
                raise InUse("A video shows it. Delete the video, and the file goes with it.")
            gone = await self._mark(connection, owner, [file_id])
        if not gone:
            raise NotFound("There is no such file.")
        await self.remove(gone)

    async def mark_outputs(self, connection: Connection, owner: Owner, job_id: UUID) -> Sequence[Row]:
        """What a job made, except what a video shows; the owner is locked. `remove` them after the commit."""
        made = {
            row["id"] for row in await SQL["outputs_of_job"].rows(connection, tenant_id=owner.tenant_id, job_id=job_id)
        }
        if await self._needed(connection, owner, made):
            raise InUse("A job works on what this job made. Wait for it, or cancel it.")
        return await self._mark(connection, owner, made - await self._shown(connection, owner, made))

    @staticmethod
    async def _lock(connection: Connection, owner: Owner) -> None:
        await SQL["lock_wallet"].run(connection, tenant_id=owner.tenant_id, user_id=owner.user_id)

    @staticmethod
    async def _needed(connection: Connection, owner: Owner, file_ids: Iterable[UUID]) -> bool:
        return bool(
            await SQL["files_in_use"].value(
                connection, tenant_id=owner.tenant_id, user_id=owner.user_id, file_ids=list(file_ids)
            )
        )

    @staticmethod
    async def _shown(connection: Connection, owner: Owner, file_ids: Iterable[UUID]) -> set[UUID]:
        rows = await SQL["shown_files"].rows(connection, tenant_id=owner.tenant_id, file_ids=list(file_ids))
        return {row["id"] for row in rows}

    @staticmethod
    async def _mark(connection: Connection, owner: Owner, file_ids: Iterable[UUID]) -> Sequence[Row]:
        return await SQL["mark_deleted"].rows(connection, tenant_id=owner.tenant_id, file_ids=list(file_ids))

    async def remove(self, files: Sequence[Row]) -> None:
        """The objects of files that were marked."""
        # Objects of a backend that is not in use any more cannot be reached from here.
        paths = [path for row in files if row["disk"] == self._disk for path in paths_of(row)]
        await hit(Failpoint.MEDIA_DELETE_BEFORE_OBJECTS)
        await discard(self._storage, paths)


def paths_of(file: Row) -> list[str]:
    """The objects of a file that is deleted: its own, and those of its previews, of which one may just be made."""
    return [file["path"], *preview_keys(file["tenant_id"], file["id"])]
