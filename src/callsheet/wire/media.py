"""The models of uploads, files and videos."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Line, OptionalLine, ResponseModel, UserRequest
from callsheet.wire.forms import Sha256


class VideoStatus(StrEnum):
    """`uploaded` until the first job, then the status of the newest job."""

    UPLOADED = "uploaded"
    PENDING = "pending"
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


class CreateUpload(UserRequest):
    name: Line = Field(description="Name of the file as users see it.")
    mime_type: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Media type of the file, for example video/mp4, without parameters.",
        # The pattern only documents the check of `media.names`, in words that users understand.
        json_schema_extra={"pattern": r"^[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}( ?;.*)?$"},
    )
    size: Annotated[int, Field(gt=0, le=2**53, description="Exact size of the file, in bytes."), WHOLE]
    sha256: Sha256 | None = Field(None, description="SHA-256 of the file. The uploaded bytes must match it.")
    resume_key: Line | None = Field(
        None,
        description="Your name for this upload, for example made of the name, size and time of the file. With it, a "
        "large file is uploaded in parts, and a repeated request continues the same upload.",
    )


class UploadRequest(ResponseModel):
    """The request that uploads the bytes. Send it exactly like this."""

    method: Literal["PUT"]
    url: str
    headers: dict[str, str]
    expires_at: datetime


class PartToSign(UserRequest):
    number: Annotated[int, Field(ge=1, le=1000, description="The first part is 1."), WHOLE]
    sha256: Sha256 = Field(description="SHA-256 of the part. Once it is given, the part accepts no other bytes.")


class SignParts(UserRequest):
    parts: list[PartToSign] = Field(min_length=1, max_length=100, description="Each number once.")


class SignedPart(ResponseModel):
    number: int
    size: int = Field(description="Exact size of the part, in bytes.")
    upload: UploadRequest


class SignedParts(ResponseModel):
    parts: list[SignedPart]


class ArrivedPart(ResponseModel):
    number: int
    sha256: str


class UploadParts(ResponseModel):
    """How a file is uploaded in parts, and what has arrived. Request URLs for the parts that are missing, upload these
    parts in any order, then confirm the upload."""

    part_bytes: int = Field(description="Size of each part but the last one, in bytes.")
    count: int = Field(description="Number of parts.")
    arrived: list[ArrivedPart] = Field(description="Parts that are in storage, by number.")


class Thumbnails(ResponseModel):
    """URLs of a WebP image in two sizes. For a video they show its poster, for an audio file its waveform."""

    small: str = Field(description="At most 384 pixels wide and high.")
    large: str = Field(description="At most 1280 pixels wide and high.")


class MediaPreviews(ResponseModel):
    """Previews that a list shows instead of the file. URLs are relative to the API, need no key and
    expire."""

    preview_status: Literal["pending", "ready", "none"] = Field(
        "none",
        description="State of the previews, which are made shortly after an upload or result. None: the file is "
        "not an image, a video or an audio file, it cannot be read, or this installation makes no previews of this "
        "kind.",
    )
    poster_url: str | None = Field(
        None, description="A frame of a video, for the `poster` of a player. For an audio file its waveform."
    )
    preview_url: str | None = Field(
        None, description="The first seconds of a video without sound, small: H.264 in MP4, for lists."
    )
    thumbnails: Thumbnails | None = None
    width: int | None = Field(None, description="Size of the image or video in pixels, as it is shown.")
    height: int | None = None
    duration_seconds: float | None = Field(
        None, description="Duration of the video or audio file in seconds, if it is known."
    )


class File(MediaPreviews):
    """A file in storage: an upload or a job's output."""

    id: UUID
    name: str
    mime_type: str
    size: int
    sha256: str | None = Field(
        None, description="SHA-256 of the file, if it was declared or if the file is a job's output."
    )
    purpose: Literal["upload", "output"]
    status: Literal["pending", "ready"] = Field(description="Pending until the upload is confirmed.")
    job_id: UUID | None = Field(None, description="The job that made it.")
    metadata: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime
    expires_at: datetime | None = Field(None, description="When a pending upload expires.")
    url: str | None = Field(None, description="Signed URL of a ready file. It needs no key and expires.")
    url_expires_at: datetime | None = None


class UploadLimits(ResponseModel):
    """Limits of an upload, to check before it is sent."""

    accepted_types: list[str] = Field(description="Media types, for example `video/*` or `image/png`.")
    max_bytes: int = Field(description="Largest file, in bytes. An effect may have a smaller limit.")
    max_image_pixels: int = Field(description="Maximum number of pixels of an image: width times height.")
    max_pending: int = Field(description="Largest number of your uploads that are not confirmed.")
    url_seconds: int = Field(description="How long the upload URL works. Until then a broken upload can be sent again.")
    parts_above_bytes: int = Field(
        description="A larger file is uploaded in parts if the request has a `resume_key`, so that it can be resumed."
    )


class CreatedUpload(ResponseModel):
    file: File
    upload: UploadRequest | None = Field(description="Null if the file is uploaded in parts.")
    parts: UploadParts | None = Field(None, description="Null if the file is uploaded by one request.")


class CreateVideo(UserRequest):
    original_file_id: UUID = Field(description="Id of an upload of yours, confirmed or only uploaded.")
    title: OptionalLine | None = Field(None, description="Title of the video. Default: the name of the file.")


class Progress(ResponseModel):
    """The latest progress of the run. It is never replayed."""

    percent: float | None = None
    message: str | None = None
    elapsed_ms: int | None = None
    updated_at: datetime


class Video(ResponseModel):
    id: UUID
    title: str
    status: VideoStatus
    job_id: UUID | None = Field(None, description="The newest job of the video.")
    effect_id: UUID | None = None
    original_file_id: UUID
    processed_file_id: UUID | None = Field(
        None, description="The result of the last job that completed. It stays if a later job fails or is canceled."
    )
    original_file_url: str | None = Field(
        None, description="Signed URL of the original. It expires; request the video again for a new one."
    )
    processed_file_url: str | None = Field(None, description="Signed URL of the result. It expires.")
    original: MediaPreviews | None = Field(None, description="Previews of the upload.")
    processed: MediaPreviews | None = Field(None, description="Previews of the result.")
    outputs: list[File] = Field(
        default_factory=list, description="All outputs of the job that made the result. The first one is the result."
    )
    progress: Progress | None = Field(None, description="Progress while the video is processing.")
    preview_url: str | None = Field(None, description="URL of the newest preview image while the video is processing.")
    error: str | None = Field(None, description="Why the newest job failed.")
    created_at: datetime
    updated_at: datetime
