"""Files: objects in storage that belong to a user, and their URLs for reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.media.previews.maker import preview_folder
from callsheet.media.previews.sandbox import kinds
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.storage import SignedRequest, Storage
from callsheet.media.storage.responses import download_name, served_type, shows_inline
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import copied, statements
from callsheet.settings import Settings
from callsheet.wire.errors import NotFound
from callsheet.wire.media import File, MediaPreviews

SQL = statements("callsheet.media")


class FileRow(NamedTuple):
    """A file that is not deleted, with its previews. The last six columns are None if the file has no previews."""

    tenant_id: UUID
    id: UUID
    user_id: UUID
    purpose: Literal["upload", "output"]
    status: Literal["pending", "ready"]
    disk: str
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None
    metadata: Any
    job_id: UUID | None
    created_at: datetime
    expires_at: datetime | None
    preview_kind: str | None
    preview_status: str | None
    width: int | None
    height: int | None
    duration_seconds: float | None
    has_clip: bool | None


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """The fields of an input that a job's payload needs."""

    id: UUID
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None
    # Whether the previews are made, or still will be. The control plane measures a file when it makes them.
    measured: Literal["pending", "ready", "none"] = "none"
    # Of a video or a sound.
    duration_seconds: float | None = None
    # Of an image or a video.
    width: int | None = None
    height: int | None = None


class Files:
    def __init__(self, databases: Databases, storage: Storage, settings: Settings, preview_urls: PreviewUrls):
        self.databases = databases
        self.storage = storage
        self.settings = settings
        self._preview_urls = preview_urls
        self.makes_previews = settings.media.previews
        self._previewed = previewed(settings)

    async def views(self, pool: Database, tenant_id: UUID, file_ids: Sequence[UUID]) -> list[File]:
        """The files with new URLs, in the given order, without deleted ones. The caller checks their owner."""
        return [self.view(row) for row in await self.rows(pool, tenant_id, file_ids)]

    async def rows(self, pool: Database, tenant_id: UUID, file_ids: Sequence[UUID]) -> list[FileRow]:
        """Like `views`, without URLs, which take time to sign."""
        async with pool.connection() as connection:
            return await SQL["files_by_ids"].rows(connection, FileRow, tenant_id=tenant_id, file_ids=list(file_ids))

    async def ready(
        self, pool: Database, tenant_id: UUID, user_id: UUID, file_ids: Sequence[UUID]
    ) -> dict[UUID, ReadyFile]:
        """The files that belong to the user and are ready. The caller reports which ones are missing."""
        rows = await self.rows(pool, tenant_id, file_ids)
        return {row.id: self._ready(row) for row in rows if row.user_id == user_id and row.status == "ready"}

    def _ready(self, row: FileRow) -> ReadyFile:
        measured: Literal["pending", "ready", "none"] = "none"
        if row.preview_status == "ready":
            measured = "ready"
        elif self._is_due(row):
            measured = "pending"
        return ReadyFile(
            **copied(("id", "path", "name", "mime_type", "size", "sha256"), row),
            measured=measured,
            **copied(("duration_seconds", "width", "height"), row),
        )

    async def own(self, principal: Principal, file_id: UUID) -> FileRow:
        """A file of the caller. A file of another user is reported as missing (G6)."""
        pool = await self.databases.pool(principal.pool)
        rows = await self.rows(pool, principal.tenant_id, [file_id])
        if not rows or rows[0].user_id != principal.user_id:
            raise NotFound("There is no such file.")
        return rows[0]

    def view(self, row: FileRow, *, download: bool = False) -> File:
        address = self.address(row, download=download)
        return File(
            **dict(self.shown(row)),
            id=row.id,
            name=row.name,
            mime_type=row.mime_type,
            size=row.size,
            sha256=row.sha256,
            purpose=row.purpose,
            status=row.status,
            job_id=row.job_id,
            metadata=row.metadata,
            created_at=row.created_at,
            expires_at=row.expires_at,
            url=address.url if address else None,
            url_expires_at=address.expires_at if address else None,
        )

    def address(self, row: FileRow, *, download: bool = False) -> SignedRequest | None:
        """The signed URL of a ready file; None if the file is in a storage backend that is no longer in use."""
        if row.status != "ready" or row.disk != self.disk:
            return None
        # This is the accepted type. The writer of the object may have set another type in storage.
        content_type = row.mime_type if row.purpose == "upload" else served_type(row.mime_type)
        # Types that a browser could execute are downloaded and not shown. An <img> shows an uploaded drawing anyway.
        saved = download or not shows_inline(content_type)
        name = download_name(row.name, row.mime_type) if saved else None
        return self.storage.presign_get(row.path, download_name=name, content_type=content_type)

    def shown(self, row: FileRow) -> MediaPreviews:
        """The URLs of a file's previews. They take time to sign."""
        status = row.preview_status
        if status == "ready" and row.disk == self.disk:
            return self._preview_urls.shown(
                preview_folder(row.tenant_id, row.id),
                width=row.width,
                height=row.height,
                duration_seconds=row.duration_seconds,
                has_clip=bool(row.has_clip),
            )
        return MediaPreviews(preview_status="pending" if self._is_due(row) else "none")

    def _is_due(self, row: FileRow) -> bool:
        return row.preview_status == "pending" and row.preview_kind in self._previewed

    @property
    def disk(self) -> str:
        return self.settings.storage.backend


def previewed(settings: Settings) -> tuple[str, ...]:
    """The kinds of files that get previews here. Only these are measured."""
    return kinds() if settings.media.previews else ()


def listed_files(outputs: object) -> list[UUID]:
    """The files that `outputs` of a job's result names, in its order. Results of actors may have another form."""
    listed: Iterable[object] = outputs if isinstance(outputs, list) else ()
    found = []
    for output in listed:
        try:
            found.append(UUID(output["file_id"]))  # type: ignore[index]
        except (TypeError, KeyError, ValueError, AttributeError):
            continue
    return found
