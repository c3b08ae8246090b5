"""Object storage: one port, two backends. Rooms call `open_storage` and see `Storage`, nothing else."""

from __future__ import annotations

from callsheet.media.storage.calls import StorageCalls
from callsheet.media.storage.local import LocalStorage
from callsheet.media.storage.port import DeletionGuard, ObjectEntry, ObjectInfo, SignedRequest, Storage
from callsheet.settings import Settings
from callsheet.toolbox.signing import Master

__all__ = ["LocalStorage", "ObjectEntry", "ObjectInfo", "SignedRequest", "Storage", "open_storage"]


def open_storage(settings: Settings, secret: Master, guard: DeletionGuard | None) -> Storage:
    """`guard` is asked before anything is deleted. None for checks, which delete only what they wrote."""
    chosen, calls = settings.storage, StorageCalls(settings.storage.slow_seconds)
    if chosen.backend == "s3":
        # Imported here: who does not use S3 does not pay for its libraries in memory.
        from callsheet.media.storage.s3 import S3Storage

        return S3Storage(chosen.s3, url_seconds=chosen.url_seconds, guard=guard, calls=calls)
    return LocalStorage(
        settings.home / "storage",
        public_url=settings.public_url,
        secret=secret,
        url_seconds=chosen.url_seconds,
        max_upload_bytes=chosen.max_upload_bytes,
        guard=guard,
        reserve_bytes=settings.disk.reserve_bytes,
        calls=calls,
    )
