"""All routes of the media room."""

from __future__ import annotations

from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.room import IdentityRoom
from callsheet.media.previews.routes import preview_router
from callsheet.media.quota_routes import quota_router
from callsheet.media.room import MediaRoom
from callsheet.media.routes import file_router, video_router
from callsheet.media.storage import LocalStorage
from callsheet.media.storage.routes import storage_router
from callsheet.media.uploads import AwaitedUploads
from callsheet.plumbing.http.routing import Router


def media_routers(media: MediaRoom, identity: IdentityRoom) -> list[Router]:
    authentication, storage = identity.authentication, media.files.storage
    awaited = AwaitedUploads(TenantRouting(media.files.databases))
    return [
        # Other storage backends serve their objects themselves.
        *([storage_router(storage, awaited)] if isinstance(storage, LocalStorage) else []),
        preview_router(storage, media.preview_urls),
        video_router(media, authentication),
        file_router(media, authentication),
        quota_router(media.usage, identity.accounts, authentication),
    ]
