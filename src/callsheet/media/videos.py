"""Videos: an upload, and the results of effects on it. The jobs room writes the status of a video together with its
job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.media.files import SQL, FileRow, Files, listed_files
from callsheet.media.uploads import Uploads
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.pages import MAX_PAGE_BYTES
from callsheet.plumbing.database.sql import Connection
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import InvalidRequest, NotFound
from callsheet.wire.media import CreateVideo, MediaPreviews, Progress, Video, VideoStatus

# Estimated bytes of one output in a response: at least 600, most of them for the signed URL.
OUTPUT_BYTES = 1024


class VideoRow(NamedTuple):
    tenant_id: UUID
    id: UUID
    title: str
    status: VideoStatus
    original_file_id: UUID
    processed_file_id: UUID | None
    job_id: UUID | None
    effect_id: UUID | None
    processing_details: Any
    created_at: datetime
    updated_at: datetime
    # Progress of the current run. All fields are None if there is none.
    percent: float | None
    message: str | None
    elapsed_ms: int | None
    progress_at: datetime | None
    preview_at: datetime | None
    # The job that made the result: the last one that completed.
    result_job_id: UUID | None
    # Outputs that the result of that job names. A list of videos reads them with another statement.
    outputs: Any


class VideoPreviewRow(NamedTuple):
    preview: bytes
    preview_type: str


class Videos:
    def __init__(self, files: Files, uploads: Uploads):
        self._files = files
        self._uploads = uploads

    async def create(self, principal: Principal, wanted: CreateVideo) -> Video:
        """Creates a video from an upload. Confirms the upload if that was not done."""
        try:
            await self._uploads.confirm(principal, wanted.original_file_id)
        except NotFound:
            raise _no_such_file() from None
        video_id = uuid7()
        pool = await self._pool(principal)
        async with pool.transaction() as connection:
            await SQL["lock_wallet"].run(connection, tenant_id=principal.tenant_id, user_id=principal.user_id)
            created = await SQL["create_video"].value(
                connection,
                tenant_id=principal.tenant_id,
                video_id=video_id,
                title=wanted.title,
                file_id=wanted.original_file_id,
                user_id=principal.user_id,
            )
        if created is None:
            raise _no_such_file()
        return await self.get(principal, video_id)

    async def get(self, principal: Principal, video_id: UUID) -> Video:
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            row = await SQL["get_video"].row(
                connection, VideoRow, tenant_id=principal.tenant_id, video_id=video_id, user_id=principal.user_id
            )
        if row is None:
            raise NotFound("There is no such video.")
        [video] = await self._views(pool, [row])
        return video

    async def page(
        self, principal: Principal, *, status: VideoStatus | None, before: UUID | None, limit: int
    ) -> Page[Video]:
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            rows = await SQL["list_videos"].rows(
                connection,
                VideoRow,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                before=before,
                status=status.value if status else None,
                limit=limit + 1,
            )
            with_outputs = await _with_outputs(connection, rows[:limit])
        videos = await self._views(pool, with_outputs)
        return Page(items=videos, next_cursor=str(videos[-1].id) if len(with_outputs) < len(rows) else None)

    async def preview(self, principal: Principal, video_id: UUID) -> tuple[bytes, str]:
        """The newest preview image of the current run, and its type."""
        pool = await self._pool(principal)
        async with pool.ordinary() as connection:
            row = await SQL["preview_of_video"].row(
                connection, VideoPreviewRow, tenant_id=principal.tenant_id, video_id=video_id, user_id=principal.user_id
            )
        if row is None:
            raise NotFound("This video has no preview.")
        return row.preview, row.preview_type

    async def _views(self, pool: Database, rows: Sequence[VideoRow]) -> list[Video]:
        """The videos with their files, which are read with one query. The videos belong to one user."""
        if not rows:
            return []
        wanted = {file_id for row in rows for file_id in _files_of(row)}
        async with pool.ordinary() as connection:
            found = await SQL["files_by_ids"].rows(
                connection, FileRow, tenant_id=rows[0].tenant_id, file_ids=sorted(wanted)
            )
        files = {file.id: file for file in found}
        return [self._view(row, files) for row in rows]

    def _view(self, row: VideoRow, files: Mapping[UUID, FileRow]) -> Video:
        processed = files.get(row.processed_file_id) if row.processed_file_id else None
        outputs = [files[file_id] for file_id in listed_files(row.outputs) if file_id in files]
        return Video(
            id=row.id,
            title=row.title,
            status=row.status,
            job_id=row.job_id,
            effect_id=row.effect_id,
            original_file_id=row.original_file_id,
            processed_file_id=row.processed_file_id,
            original_file_url=self._url(files.get(row.original_file_id)),
            processed_file_url=self._url(processed),
            original=self._shown(files.get(row.original_file_id)),
            processed=self._shown(processed),
            # Only files that the job made are shown, because a result may name any file.
            outputs=[self._files.view(file) for file in outputs if file.job_id == row.result_job_id],
            progress=_progress(row),
            preview_url=f"/api/videos/{row.id}/preview" if row.preview_at else None,
            error=(row.processing_details or {}).get("error"),
            created_at=row.created_at,
            updated_at=row.updated_at,
        )

    def _url(self, file: FileRow | None) -> str | None:
        address = None if file is None else self._files.address(file)
        return None if address is None else address.url

    def _shown(self, file: FileRow | None) -> MediaPreviews | None:
        return None if file is None else self._files.shown(file)

    async def _pool(self, principal: Principal) -> Database:
        return await self._files.databases.pool(principal.pool)


async def _with_outputs(connection: Connection, rows: Sequence[VideoRow]) -> list[VideoRow]:
    """The first videos with the outputs of the jobs that made their results: as many as fit into a page, at least
    one.
    """
    if not rows:
        return []
    found = await SQL["outputs_of_jobs"].column(
        connection,
        tenant_id=rows[0].tenant_id,
        job_ids=[row.result_job_id for row in rows],
        output_bytes=OUTPUT_BYTES,
        max_bytes=MAX_PAGE_BYTES,
    )
    return [row._replace(outputs=outputs) for row, outputs in zip(rows, found, strict=False)]


def _files_of(row: VideoRow) -> Iterator[UUID]:
    yield row.original_file_id
    if row.processed_file_id is not None:
        yield row.processed_file_id
    yield from listed_files(row.outputs)


def _progress(row: VideoRow) -> Progress | None:
    if row.progress_at is None:
        return None
    return Progress(
        percent=row.percent,
        message=row.message,
        elapsed_ms=row.elapsed_ms,
        updated_at=row.progress_at,
    )


def _no_such_file() -> InvalidRequest:
    return InvalidRequest.field("original_file_id", "You have no such file.")
