"""Uploads, files and videos as the user API speaks of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Answer, Line, OptionalLine, UserRequest
from callsheet.wire.forms import Sha256


class VideoStatus(StrEnum):
    """`uploaded` until the first job; then that of the newest one."""

    UPLOADED = "uploaded"
    PENDING = "pending"
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


class CreateUpload(UserRequest):
    name: Line = Field(description="The file's name, for people.")
    mime_type: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Its media type, such as video/mp4. Parameters are left out.",
        # Only says what `media.names` checks, in words that people understand.
        json_schema_extra={"pattern": r"^[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}( ?;.*)?$"},
    )
    size: Annotated[int, Field(gt=0, le=2**53, description="Its exact size, in bytes."), WHOLE]
    sha256: Sha256 | None = Field(None, description="Of its bytes. What is uploaded must match it.")


class Thumbnails(Answer):
    """URLs of a WebP image in two sizes. A video's are of its poster."""

    small: str = Field(description="At most 384 pixels wide and high.")
    large: str = Field(description="At most 1280 pixels wide and high.")


class Shown(Answer):
    """What a list shows instead of an image or video itself. URLs are relative to the API, need no key and expire."""

    preview_status: Literal["pending", "ready", "none"] = Field(
        "none",
        description="Previews are made shortly after an upload or result. None: it is neither image nor video, it "
        "cannot be read, or this installation makes no previews of its kind.",
    )
    poster_url: str | None = Field(None, description="A frame of a video, for the `poster` of a player.")
    preview_url: str | None = Field(
        None, description="The first seconds of a video without sound, small: H.264 in MP4, for lists."
    )
    thumbnails: Thumbnails | None = None
    width: int | None = Field(None, description="Of the image or video itself, in pixels, as it is shown.")
    height: int | None = None
    duration_seconds: float | None = Field(None, description="Of the video itself, where it says so.")


class File(Shown):
    """An object in storage: an upload, or what a job made."""

    id: UUID
    name: str
    mime_type: str
    size: int
    sha256: str | None = Field(None, description="Of its bytes, where it was declared, or of a job's output.")
    purpose: Literal["upload", "output"]
    status: Literal["pending", "ready"] = Field(description="Pending until the upload is confirmed.")
    job_id: UUID | None = Field(None, description="The job that made it.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime
    expires_at: datetime | None = Field(None, description="When a pending upload is given up.")
    url: str | None = Field(None, description="Where a ready file is read; it needs no key and expires.")
    url_expires_at: datetime | None = None


class UploadRequest(Answer):
    """The request that uploads the bytes, to be made exactly like this."""

    method: Literal["PUT"]
    url: str
    headers: dict[str, str]
    expires_at: datetime


class UploadLimits(Answer):
    """What an upload may be, to be checked before it is sent."""

    accepted_types: list[str] = Field(description="Media types, for example `video/*` or `image/png`.")
    max_bytes: int = Field(description="Largest file, in bytes. An effect may take less.")
    max_image_pixels: int = Field(description="Most pixels of an image: width times height.")
    max_pending: int = Field(description="Most uploads of yours that are not confirmed yet.")
    url_seconds: int = Field(description="How long the upload URL works. Until then a broken upload can be sent again.")


class CreatedUpload(Answer):
    file: File
    upload: UploadRequest


class CreateVideo(UserRequest):
    original_file_id: UUID = Field(description="An upload of yours, confirmed or only uploaded.")
    title: OptionalLine | None = Field(None, description="Default: the file's name.")


class Progress(Answer):
    """The latest word of the run; never replayed."""

    percent: float | None = None
    message: str | None = None
    elapsed_ms: int | None = None
    updated_at: datetime


class Video(Answer):
    id: UUID
    title: str
    status: VideoStatus
    job_id: UUID | None = Field(None, description="The newest job on it.")
    effect_id: UUID | None = None
    original_file_id: UUID
    processed_file_id: UUID | None = None
    original_file_url: str | None = Field(None, description="Expires; ask again for a new one.")
    processed_file_url: str | None = Field(None, description="What the newest completed job made. Expires.")
    original: Shown | None = Field(None, description="The upload, as lists show it.")
    processed: Shown | None = Field(None, description="What the newest completed job made, as lists show it.")
    outputs: list[File] = Field(
        default_factory=list, description="Everything the newest job made; the first is the processed file."
    )
    progress: Progress | None = Field(None, description="While it is processing.")
    preview_url: str | None = Field(None, description="The newest picture of the run, while it is processing.")
    error: str | None = Field(None, description="Why the newest job failed.")
    created_at: datetime
    updated_at: datetime
