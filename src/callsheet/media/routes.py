"""`/api/videos` and `/api/files`: uploads, videos and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from fastapi import Depends, Query
from starlette.responses import Response

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.media.deletion import OwnerOfMedia
from callsheet.media.storage.responses import ISOLATION_HEADERS, shows_inline
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.media import (
    CreatedUpload,
    CreateUpload,
    CreateVideo,
    File,
    SignedParts,
    SignParts,
    UploadLimits,
    UploadParts,
    Video,
    VideoStatus,
)

if TYPE_CHECKING:
    from callsheet.media.room import MediaRoom

_PREVIEW: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The image.",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def video_router(room: MediaRoom, authentication: Authentication) -> Router:
    # The path matches only ids: `GET /api/videos/uploads` must return that the method is not allowed.
    router = Router(prefix="/api/videos", tags=["videos"])

    _add_uploads(router, room, authentication)

    @router.post("", status_code=201, once=True)
    async def create_video(body: CreateVideo, principal: Principal = Depends(authentication.user)) -> Video:
        """Creates a video from an upload. Confirms the upload if that was not done."""
        return await room.videos.create(principal, body)

    @router.get("")
    async def list_videos(
        status: VideoStatus | None = Query(None, description="Only videos of this status."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Video]:
        """Your videos, newest first.

        A page ends early, with a `next_cursor`, if its outputs exceed 4 MiB.
        """
        return await room.videos.page(principal, status=status, before=cursor, limit=limit)

    @router.get("/{video_id:uuid}")
    async def get_video(video_id: UUID, principal: Principal = Depends(authentication.user)) -> Video:
        """One of your videos, with the state of its newest job and the URLs of its files."""
        return await room.videos.get(principal, video_id)

    @router.get("/{video_id:uuid}/preview", response_class=Response, responses=_PREVIEW)
    async def get_preview(video_id: UUID, principal: Principal = Depends(authentication.user)) -> Response:
        """The newest preview image of the video's job while it is processing."""
        content, content_type = await room.videos.preview(principal, video_id)
        # A worker sent the image: nothing in it may be executed, and the next request gets another image.
        headers = {**ISOLATION_HEADERS, "cache-control": "no-store"}
        if not shows_inline(content_type):
            headers["content-disposition"] = "attachment"
        return Response(content, media_type=content_type, headers=headers)

    @router.delete("/{video_id:uuid}", status_code=204)
    async def delete_video(video_id: UUID, principal: Principal = Depends(authentication.user)) -> None:
        """Deletes the video, its upload and all its results."""
        pool = await room.files.databases.pool(principal.pool)
        await room.deletion.video(pool, OwnerOfMedia(principal.tenant_id, principal.user_id), video_id)

    return router


def _add_uploads(router: Router, room: MediaRoom, authentication: Authentication) -> None:
    @router.post("/uploads", status_code=201, once=True)
    async def create_upload(body: CreateUpload, principal: Principal = Depends(authentication.user)) -> CreatedUpload:
        """Returns a URL to upload a video, image or audio file to. Send the request that `upload` describes.

        With a `resume_key`, a large file is uploaded in parts instead: `parts` says how.
        """
        return await room.uploads.create(principal, body)

    @router.get("/uploads/limits", dependencies=[Depends(authentication.user)])
    async def get_upload_limits() -> UploadLimits:
        """Limits of an upload: media types, size and pixels."""
        return room.uploads.limits()

    @router.get("/uploads/{file_id}/parts")
    async def get_parts(file_id: UUID, principal: Principal = Depends(authentication.user)) -> UploadParts:
        """The parts of a file that have arrived."""
        return await room.parts.state(principal, file_id)

    @router.post("/uploads/{file_id}/parts")
    async def sign_parts(
        file_id: UUID, body: SignParts, principal: Principal = Depends(authentication.user)
    ) -> SignedParts:
        """Returns a URL for each of these parts. You may upload parts in any order, several at a time, and again."""
        return await room.parts.sign(principal, file_id, body.parts)

    @router.post("/uploads/{file_id}/confirm")
    async def confirm_upload(file_id: UUID, principal: Principal = Depends(authentication.user)) -> File:
        """Checks that the uploaded file is as declared. A repeated confirmation returns the same file."""
        return room.files.view(await room.uploads.confirm(principal, file_id))


def file_router(room: MediaRoom, authentication: Authentication) -> Router:
    router = Router(prefix="/api/files", tags=["files"])

    @router.get("/{file_id}")
    async def get_file(
        file_id: UUID,
        download: bool = Query(
            False, description="Whether a browser saves the file under its name instead of showing it."
        ),
        principal: Principal = Depends(authentication.user),
    ) -> File:
        """One of your files, with a new URL to read it."""
        return room.files.view(await room.files.own(principal, file_id), download=download)

    @router.delete("/{file_id}", status_code=204)
    async def delete_file(file_id: UUID, principal: Principal = Depends(authentication.user)) -> None:
        """Deletes a file that no video shows."""
        await room.files.own(principal, file_id)
        pool = await room.files.databases.pool(principal.pool)
        await room.deletion.file(pool, OwnerOfMedia(principal.tenant_id, principal.user_id), file_id)

    return router
