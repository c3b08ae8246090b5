"""Files: objects in storage that belong to a user, and the URLs they are read at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from callsheet.identity.principal import Principal
from callsheet.media.previews.maker import preview_folder
from callsheet.media.previews.sandbox import kinds
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.storage import SignedRequest, Storage
from callsheet.media.storage.responses import shows_inline
from callsheet.plumbing.database import Database
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Row, statements
from callsheet.settings import Settings
from callsheet.wire.errors import NotFound
from callsheet.wire.media import File, Shown

SQL = statements("callsheet.media")


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """What a job's payload needs to know of an input."""

    id: UUID
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None
    # Null until its previews are made, and for what is not a video.
    duration_seconds: float | None = None


class Files:
    def __init__(self, databases: Databases, storage: Storage, settings: Settings, preview_urls: PreviewUrls):
        self.databases = databases
        self.storage = storage
        self.settings = settings
        self._preview_urls = preview_urls
        self.makes_previews = settings.media.previews
        self._previewed = kinds() if settings.media.previews else ()

    async def views(self, pool: Database, tenant_id: UUID, file_ids: Sequence[UUID]) -> list[File]:
        """These files with fresh URLs, in the order asked for; those that are gone are left out.

        Whose they are is for the caller to know.
        """
        return [self.view(row) for row in await self.rows(pool, tenant_id, file_ids)]

    async def rows(self, pool: Database, tenant_id: UUID, file_ids: Sequence[UUID]) -> list[asyncpg.Record]:
        """The same without URLs, which take time to sign."""
        async with pool.connection() as connection:
            return await SQL["files_by_ids"].rows(connection, tenant_id=tenant_id, file_ids=list(file_ids))

    async def ready(
        self, pool: Database, tenant_id: UUID, user_id: UUID, file_ids: Sequence[UUID]
    ) -> dict[UUID, ReadyFile]:
        """Those of them that are this user's and can be read; which one is missing is for the caller to say."""
        rows = await self.rows(pool, tenant_id, file_ids)
        names = ReadyFile.__slots__
        return {
            row["id"]: ReadyFile(**{name: row[name] for name in names})
            for row in rows
            if row["user_id"] == user_id and row["status"] == "ready"
        }

    async def own(self, principal: Principal, file_id: UUID) -> asyncpg.Record:
        """A file of the caller's: what belongs to another user is not there (G6)."""
        pool = await self.databases.pool(principal.pool)
        rows = await self.rows(pool, principal.tenant_id, [file_id])
        if not rows or rows[0]["user_id"] != principal.user_id:
            raise NotFound("There is no such file.")
        return rows[0]

    def view(self, row: Row, *, download: bool = False) -> File:
        address = self.address(row, download=download)
        return File(
            **dict(self.shown(row)),
            id=row["id"],
            name=row["name"],
            mime_type=row["mime_type"],
            size=row["size"],
            sha256=row["sha256"],
            purpose=row["purpose"],
            status=row["status"],
            job_id=row["job_id"],
            metadata=row["metadata"],
            created_at=row["created_at"],
            expires_at=row["expires_at"],
            url=address.url if address else None,
            url_expires_at=address.expires_at if address else None,
        )

    def address(self, row: Row, *, download: bool = False) -> SignedRequest | None:
        """Where a ready file is read; none for one that lies in a backend which is not in use any more."""
        if row["status"] != "ready" or row["disk"] != self.disk:
            return None
        # Whatever storage it comes from, what a browser could run is saved and not shown; <img> shows it all the same.
        saved = download or not shows_inline(row["mime_type"])
        # With the type that it was accepted as: the writer of the object may have set another type there.
        return self.storage.presign_get(
            row["path"], download_name=row["name"] if saved else None, content_type=row["mime_type"]
        )

    def shown(self, row: Row) -> Shown:
        """The previews of a file, as `files_by_ids` reads it. Costs a signature where there are some."""
        status = row.get("preview_status")
        if status == "ready" and row["disk"] == self.disk:
            return self._preview_urls.shown(
                preview_folder(row["tenant_id"], row["id"]),
                width=row["width"],
                height=row["height"],
                duration_seconds=row["duration_seconds"],
                has_clip=row["has_clip"],
            )
        is_due = status == "pending" and row["preview_kind"] in self._previewed
        return Shown(preview_status="pending" if is_due else "none")

    @property
    def disk(self) -> str:
        return self.settings.storage.backend


def listed_files(outputs: object) -> list[UUID]:
    """The files that `outputs` of a job's result names, in its order. What an actor returns may have another shape."""
    listed: Iterable[object] = outputs if isinstance(outputs, list) else ()
    found = []
    for output in listed:
        try:
            found.append(UUID(output["file_id"]))  # type: ignore[index]
        except (TypeError, KeyError, ValueError, AttributeError):
            continue
    return found
