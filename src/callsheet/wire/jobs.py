"""Jobs as every part speaks of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Answer, Document, Line, UserRequest
from callsheet.wire.media import Shown

# Users choose a priority from 0 down to this.
LOWEST_USER_PRIORITY = -3


class JobStatus(StrEnum):
    PENDING = "pending"
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


ACTIVE = frozenset({JobStatus.PENDING, JobStatus.QUEUED, JobStatus.PROCESSING})
TERMINAL = frozenset(JobStatus) - ACTIVE


class JobError(Answer):
    """Why a job failed, as its user may see it."""

    type: str
    message: str


class JobProgress(Answer):
    """The latest word of a running job."""

    job_id: UUID
    percent: float | None = Field(None, description="0 to 100, where the worker says it.")
    message: str | None = None
    elapsed_ms: int | None = Field(None, description="How long it has been running, by its worker's clock.")
    updated_at: datetime
    preview_url: str | None = Field(
        None, description="The newest picture, as a `data:` address. Only where one job is asked for, not in lists."
    )


class JobPreview(Answer):
    """A newer picture of a running job."""

    job_id: UUID
    preview_url: str = Field(description="A `data:` address, as an <img> takes it.")
    at: datetime


class JobOutput(Shown):
    """A file that a job made."""

    file_id: UUID
    name: str
    mime_type: str
    size: int
    sha256: str | None = None
    url: str | None = Field(None, description="Where it is read; it needs no key and expires.")
    url_expires_at: datetime | None = None


class JobInput(Shown):
    """A file of the user's that a job works on."""

    file_id: UUID
    name: str
    mime_type: str
    size: int
    url: str | None = Field(
        None,
        description="Where it is read; it needs no key and expires. Only where one job is asked for, not in lists.",
    )
    url_expires_at: datetime | None = None


class WhyWaiting(Answer):
    """Why a job is not running yet."""

    code: Literal[
        "accepted",
        "retry_at",
        "no_live_worker",
        "scaling_up",
        "workers_lack",
        "provider_at_limit",
        "provider_paused",
        "tenant_at_limit",
        "user_at_limit",
        "ahead",
        "workers_at_capacity",
        "next",
    ]
    message: str = Field(description="The same as a sentence for people.")
    ahead: int | None = Field(None, description="Jobs that come first; 1000 also stands for more.")
    retry_at: datetime | None = Field(None, description="It is not tried again before this time.")


class Job(Shown):
    """A job. Its poster, preview and thumbnails are of its first output, and of its first input until there is one."""

    id: UUID
    kind: str
    status: JobStatus
    charge_cycle: int
    cost: int
    priority: int
    effect_id: UUID | None = None
    video_id: UUID | None = None
    run_id: UUID | None = Field(None, description="The run of a pipeline that it was begun for.")
    step_id: UUID | None = None
    parent_candidate_id: UUID | None = Field(None, description="The candidate of that run that it makes a child of.")
    title: str | None = Field(
        None,
        description="Name of its effect or actor. Only where one job is asked for; lists have `/api/library/jobs`.",
    )
    prompt: str | None = Field(None, description="The first 2,000 characters of what its user wrote; as `title`.")
    input_payload: dict[str, Any] | None = Field(
        None, description="Of a job of an effect: the values that were sent, to fill a form with; as `title`."
    )
    result: dict[str, Any] | None = None
    inputs: list[JobInput] = Field(
        default_factory=list, description="What it works on, the main one first; only that one in lists."
    )
    outputs: list[JobOutput] = Field(default_factory=list, description="Of a completed job; the first is the main one.")
    error: JobError | None = None
    created_at: datetime
    submitted_at: datetime
    deadline_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    progress: JobProgress | None = Field(None, description="Of a running job that has said something.")
    queue_position: int | None = Field(
        None, description="1 is next, 0 is running. 1000 also stands for more. Null for a job that has ended."
    )
    queue_position_text: str | None = Field(None, description="The same for people: exact up to `1000`, then `1000+`.")
    eta_seconds: int | None = Field(
        None,
        description="In how many seconds it should be done, from how long such jobs take; at least that for `1000+`. "
        "Null where nobody can tell: no such job has run yet, or no worker is there.",
    )
    why_waiting: WhyWaiting | None = Field(None, description="Of an active job that is not running.")


class SubmitReadyJob(UserRequest):
    """A job that needs nothing more to be built: its payload goes to the worker as it is."""

    user_id: UUID
    workflow: Annotated[str, StringConstraints(max_length=128, pattern=r"^[a-z0-9][a-z0-9:_.-]*$")]
    payload: Document
    cost: Annotated[int, Field(ge=0, le=2**53), WHOLE]
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")] = "effect"
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1), WHOLE] = 0
    idempotency_key: Line | None = None


class CreateStreamToken(UserRequest):
    job_id: UUID | None = Field(None, description="Only the stream of this job. Default: all streams of yours.")


class StreamToken(Answer):
    token: str = Field(description="Append it to the URL of a stream as `token`.")
    expires_at: datetime = Field(description="After this time it opens no more streams. Open ones go on.")


class JobEvent(Answer):
    """One line of a job's history."""

    job_id: UUID
    seq: int
    event: str
    from_status: JobStatus | None = None
    to_status: JobStatus | None = None
    actor: str = Field(description="Who did it: `user:…` with the id of a user, `worker`, `admin`, or a loop's name.")
    reason: str | None = None
    data: dict[str, Any] | None = None
    at: datetime
