"""The media room: its parts and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.registry import Collector

from callsheet.identity.room import IdentityRoom
from callsheet.media.deletion import Deletion
from callsheet.media.files import Files
from callsheet.media.free_space import FreeSpace, SpaceMetrics
from callsheet.media.parts import PartUploads
from callsheet.media.previews.maker import PreviewMaker
from callsheet.media.previews.routes import preview_router
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.quota_routes import quota_router
from callsheet.media.retention import Retention
from callsheet.media.routes import file_router, video_router
from callsheet.media.storage import LocalStorage, Storage
from callsheet.media.storage.calls import StorageMetrics
from callsheet.media.storage.owner import StorageOwner
from callsheet.media.storage.routes import storage_router
from callsheet.media.sweeper import MediaSweeper, StorageSweeper
from callsheet.media.uploads import AwaitedUploads, Uploads
from callsheet.media.usage import StorageUsage
from callsheet.media.videos import Videos
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master


@dataclass(frozen=True, slots=True)
class MediaRoom(Room):
    files: Files
    uploads: Uploads
    parts: PartUploads
    videos: Videos
    deletion: Deletion
    preview_urls: PreviewUrls
    # None if the settings switch it off.
    preview_maker: PreviewMaker | None
    sweeper: MediaSweeper
    retention: Retention | None
    storage_sweeper: StorageSweeper | None
    owner: StorageOwner
    usage: StorageUsage
    free_space: FreeSpace

    @property
    def loops(self) -> tuple[Loop, ...]:
        optional = (self.retention, self.storage_sweeper, self.preview_maker)
        return self.free_space, self.sweeper, *(loop for loop in optional if loop is not None)

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return StorageMetrics(self.files.storage.calls), SpaceMetrics(self.free_space)


def open_media(
    databases: Databases,
    storage: Storage,
    settings: Settings,
    secret: Master,
    owner: StorageOwner,
    usage: StorageUsage,
    free_space: FreeSpace,
) -> MediaRoom:
    """Builds the room. `owner`: the guard that the storage was opened with."""
    preview_urls = PreviewUrls(secret)
    files = Files(databases, storage, settings, preview_urls)
    parts = PartUploads(files)
    uploads = Uploads(files, parts, usage, free_space)
    deletion = Deletion(storage, files.disk)
    days = settings.media.retention_days
    return MediaRoom(
        files=files,
        uploads=uploads,
        parts=parts,
        videos=Videos(files, uploads),
        deletion=deletion,
        preview_urls=preview_urls,
        preview_maker=(PreviewMaker(lambda: databases.pools, storage, files.disk) if settings.media.previews else None),
        sweeper=MediaSweeper(lambda: databases.pools, storage, settings, owner),
        retention=None if days is None else Retention(lambda: databases.pools, deletion, days),
        storage_sweeper=StorageSweeper(storage) if isinstance(storage, LocalStorage) else None,
        owner=owner,
        usage=usage,
        free_space=free_space,
    )


def media_routers(media: MediaRoom, identity: IdentityRoom) -> list[Router]:
    authentication, storage = identity.authentication, media.files.storage
    awaited = AwaitedUploads(identity.routing)
    return [
        # Other storage backends serve their objects themselves.
        *([storage_router(storage, awaited)] if isinstance(storage, LocalStorage) else []),
        preview_router(storage, media.preview_urls),
        video_router(media, authentication),
        file_router(media, authentication),
        quota_router(media.usage, identity.accounts, authentication),
    ]
