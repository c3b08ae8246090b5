"""Everything the media room is made of, put together once."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.identity.quotas import Quotas
from callsheet.media.deletion import Deletion
from callsheet.media.files import Files
from callsheet.media.retention import Retention
from callsheet.media.storage import LocalStorage, Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.media.sweeper import MediaSweeper, StorageSweeper
from callsheet.media.uploads import Uploads
from callsheet.media.usage import StorageUsage
from callsheet.media.videos import Videos
from callsheet.plumbing.databases import Databases
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class MediaRoom:
    files: Files
    uploads: Uploads
    videos: Videos
    deletion: Deletion
    sweeper: MediaSweeper
    retention: Retention | None
    storage_sweeper: StorageSweeper | None
    owner: StorageOwner | None
    usage: StorageUsage

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(loop for loop in (self.sweeper, self.retention, self.storage_sweeper) if loop is not None)


def open_media(
    databases: Databases,
    storage: Storage,
    settings: Settings,
    owner: StorageOwner | None = None,
    quotas: Quotas | None = None,
) -> MediaRoom:
    """`owner`: the guard that the storage was opened with."""
    files = Files(databases, storage, settings)
    usage = StorageUsage(databases, quotas or Quotas(databases, settings.quotas))
    uploads = Uploads(files, usage)
    deletion = Deletion(storage, files.disk)
    days = settings.media.retention_days
    return MediaRoom(
        files=files,
        uploads=uploads,
        videos=Videos(files, uploads),
        deletion=deletion,
        sweeper=MediaSweeper(lambda: databases.pools, storage, settings, owner),
        retention=None if days is None else Retention(lambda: databases.pools, deletion, days),
        storage_sweeper=StorageSweeper(storage) if isinstance(storage, LocalStorage) else None,
        owner=owner,
        usage=usage,
    )
