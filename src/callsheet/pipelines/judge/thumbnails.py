"""Makes thumbnails of accepted candidates. Until a thumbnail exists, a gallery shows the large image.

If control planes make previews of all files, the small preview is copied, so that nothing is decoded twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.media.files import Files
from callsheet.media.previews.maker import CONTENT_TYPES, preview_folder, previews_of_object
from callsheet.media.previews.program import SMALL, NoPreview
from callsheet.media.previews.sandbox import MAX_BYTES, OutOfTime
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import is_away
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import NotFound, Refusal, Unavailable

SQL = statements("callsheet.pipelines.judge")

log = get_logger(__name__)
BATCH = 20
EXTENSION = "webp"
MIME_TYPE = CONTENT_TYPES[SMALL]
# Seconds until the maker looks again for the preview of a candidate's file.
PREVIEW_SECONDS = 5
# This is long enough for the largest image. After this time, the control plane with the claim counts as dead, and
# another one may try.
CLAIM_SECONDS = 360


class DueThumbnail(NamedTuple):
    """A candidate that needs a thumbnail, with its file. The file fields are None if the file was deleted."""

    tenant_id: UUID
    id: UUID
    file_id: UUID
    due_at: datetime
    user_id: UUID
    target_folder: str
    path: str | None
    disk: str | None
    size: int | None
    mime_type: str | None
    preview_status: str | None


class ThumbnailMaker(Loop):
    name = "thumbnail_maker"
    interval_seconds = 2.0

    def __init__(self, pools: Callable[[], Sequence[Database]], files: Files):
        super().__init__()
        self._pools = pools
        self._files = files

    async def tick(self, now: datetime) -> bool:
        return any([await self.make_due(pool) for pool in self._pools()])

    async def make_due(self, pool: Database, at: datetime | None = None) -> bool:
        """Makes thumbnails. Returns True while there are more to make."""
        async with pool.connection() as connection:
            rows = await SQL["due_thumbnails"].rows(connection, DueThumbnail, now=at, limit=BATCH)
        # One thumbnail is made at a time: decoding uses a whole processor core, and requests need the others.
        for row in rows:
            try:
                await self._make(pool, row)
            except OutOfTime as reason:
                # The maker tries again after the claim has expired.
                log.warning("pipeline.thumbnail_late", candidate_id=str(row.id), reason=str(reason))
            except Exception as error:
                if is_away(error) or isinstance(error, Unavailable):
                    raise
                # A thumbnail with an unexpected error is given up, so that it does not block the others.
                log.exception("pipeline.no_thumbnail", candidate_id=str(row.id))
                await self._give_up(pool, row)
        return len(rows) == BATCH

    async def _make(self, pool: Database, row: DueThumbnail) -> None:
        names = {"tenant_id": row.tenant_id, "candidate_id": row.id}
        async with pool.connection() as connection:
            waits = self._files.makes_previews and row.preview_status == "pending"
            seconds = PREVIEW_SECONDS if waits else CLAIM_SECONDS
            if not await SQL["claim_thumbnail"].run(connection, **names, due_at=row.due_at, seconds=seconds) or waits:
                return
        await hit(Failpoint.PIPELINE_THUMBNAIL_BEFORE_OBJECT)
        content = await self._made(row)
        if content is None:
            await self._give_up(pool, row)
            return
        # Every process and every attempt uses the same key, so that an object from before a crash is overwritten.
        key = thumbnail_key(row.tenant_id, row.target_folder, row.id)
        await self._files.storage.put(key, content, content_type=MIME_TYPE)
        await hit(Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW)
        file_id = uuid7()
        async with pool.connection() as connection:
            await SQL["keep_thumbnail"].run(
                connection,
                **names,
                file_id=file_id,
                user_id=row.user_id,
                outputs=[
                    {
                        "file_id": str(file_id),
                        "disk": self._files.disk,
                        "path": key,
                        "name": f"thumbnail.{EXTENSION}",
                        "mime_type": MIME_TYPE,
                        "size": len(content),
                        "sha256": hashlib.sha256(content).hexdigest(),
                        "metadata": {},
                    }
                ],
            )

    async def _give_up(self, pool: Database, row: DueThumbnail) -> None:
        async with pool.connection() as connection:
            await SQL["give_up_thumbnail"].run(connection, tenant_id=row.tenant_id, candidate_id=row.id)

    async def _made(self, row: DueThumbnail) -> bytes | None:
        """The content of the thumbnail. None if the file can never have one."""
        if row.path is None or row.size is None or row.disk != self._files.disk:
            return None
        if row.mime_type is None or not row.mime_type.startswith("image/"):
            return None
        if row.preview_status == "none":
            return None
        storage = self._files.storage
        try:
            if row.preview_status == "ready":
                key = f"{preview_folder(row.tenant_id, row.file_id)}/{SMALL}"
                return await storage.read(key, MAX_BYTES[SMALL])
            return (await previews_of_object(storage, row.path, row.size, "image")).files[SMALL]
        except NotFound:
            return None
        except (NoPreview, Refusal) as error:
            if isinstance(error, Unavailable):
                raise
            log.warning("pipeline.no_thumbnail", candidate_id=str(row.id), reason=str(error))
            return None


def thumbnail_key(tenant_id: UUID, target_folder: str, candidate_id: UUID) -> str:
    return f"tenants/{tenant_id}/runs/{target_folder}/thumbnails/{candidate_id}.{EXTENSION}"
