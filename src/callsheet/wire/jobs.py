"""The models of jobs."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from callsheet.wire.base import (
    METADATA,
    WHOLE,
    Document,
    KeyedRequest,
    Line,
    Metadata,
    MetadataPair,
    ResponseModel,
    UserRequest,
    metadata_of,
)
from callsheet.wire.media import MediaPreviews

# Users choose a priority from 0 down to this.
MIN_USER_PRIORITY = -3


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


class JobError(ResponseModel):
    """Why a job failed."""

    type: str
    message: str = Field(description="For users a sentence about the type, for operators the reported text.")


class JobProgress(ResponseModel):
    """The latest progress of a running job."""

    job_id: UUID
    percent: float | None = Field(None, description="Progress from 0 to 100, if the worker reports it.")
    message: str | None = None
    elapsed_ms: int | None = Field(None, description="Run time so far by the worker's clock, in milliseconds.")
    node_id: str | None = Field(None, description="Node of the graph that runs now, if the worker reports it.")
    updated_at: datetime
    preview_url: str | None = Field(
        None, description="The newest preview image as a `data:` URL. Only in the response for one job, not in lists."
    )


class JobPreview(ResponseModel):
    """A new preview image of a running job."""

    job_id: UUID
    preview_url: str = Field(description="The image as a `data:` URL, for an <img> element.")
    at: datetime


class JobOutput(MediaPreviews):
    """A file that a job made."""

    file_id: UUID
    name: str
    mime_type: str
    size: int
    sha256: str | None = None
    url: str | None = Field(None, description="Signed URL of the file. It needs no key and expires.")
    url_expires_at: datetime | None = None


class JobInput(MediaPreviews):
    """A file of the user that a job works on."""

    file_id: UUID
    name: str
    mime_type: str
    size: int
    url: str | None = Field(
        None,
        description="Signed URL of the file. It needs no key and expires. Only in the response for one job, not in "
        "lists.",
    )
    url_expires_at: datetime | None = None


class WhyWaiting(ResponseModel):
    """Why a job is not running yet."""

    code: Literal[
        "accepted",
        "workflow_off",
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
    message: str = Field(description="The reason as a sentence.")
    ahead: int | None = Field(None, description="Number of jobs that run first. 1000 means 1000 or more.")
    retry_at: datetime | None = Field(None, description="The next attempt is not before this time.")


class Job(MediaPreviews):
    """A job. Its poster, preview and thumbnails show its first output, or its first input until there is an output."""

    id: UUID
    kind: str
    status: JobStatus
    charge_cycle: int
    cost: int
    priority: int
    effect_id: UUID | None = None
    video_id: UUID | None = None
    run_id: UUID | None = Field(None, description="The pipeline run that the job belongs to.")
    step_id: UUID | None = None
    parent_candidate_id: UUID | None = Field(None, description="The parent candidate in that run.")
    batch_id: UUID | None = Field(None, description="The batch that the job was submitted with.")
    batch_item: int | None = Field(None, description="Number of the job in its batch, from 1.")
    client_reference: str | None = Field(None, description="What its client calls the job.")
    metadata: dict[str, str] | None = Field(None, description="Texts of its client, by key.")
    webhook_url: str | None = Field(None, description="Where its events are sent, beside your other endpoints.")
    idempotency_key: str | None = Field(None, description="The idempotency key of the request that created the job.")
    title: str | None = Field(
        None,
        description="Name of the effect, actor or workflow.",
    )
    prompt: str | None = Field(
        None, description="The first 2,000 characters of the user's text. Only in the response for one job."
    )
    input_payload: dict[str, Any] | None = Field(
        None,
        description="The values that were sent for an effect, to fill a form with, and each seed that was drawn "
        "because it was left out: the same values make the same result. Only in the response for one job.",
    )
    result: dict[str, Any] | None = None
    inputs: list[JobInput] = Field(
        default_factory=list, description="Input files, the main one first. Lists have only the main one."
    )
    outputs: list[JobOutput] = Field(
        default_factory=list, description="Outputs of a completed job, the main one first."
    )
    error: JobError | None = None
    created_at: datetime
    submitted_at: datetime
    deadline_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    progress: JobProgress | None = Field(None, description="Progress of a running job. Null before the first report.")
    queue_position: int | None = Field(
        None,
        description="Position in the queue: 1 is next, 0 is running. 1000 means 1000 or more. Null for a job "
        "that has ended.",
    )
    queue_position_text: str | None = Field(
        None, description="The position as a text: exact up to `1000`, then `1000+`."
    )
    eta_seconds: int | None = Field(
        None,
        description="Estimated seconds until the job is done, from the run times of such jobs. The job can take longer "
        "if the position is `1000+`. Null if unknown: no such job has run yet, or no worker is online.",
    )
    why_waiting: WhyWaiting | None = Field(None, description="Why an active job is not running.")


class JobFilters(BaseModel):
    """The columns by which every list of jobs is filtered. A field that is left out matches every job. Fields of other
    names are ignored: they may be filters of another part of the list.
    """

    model_config = ConfigDict(frozen=True)

    run_id: UUID | None = Field(None, description="Only jobs of this pipeline run.")
    batch_id: UUID | None = Field(None, description="Only jobs of this batch.")
    client_reference: Line | None = Field(
        None, description="Only jobs that were submitted with this reference.", examples=["order-1001"]
    )

    @property
    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in JobFilters.model_fields}


class JobListFilter(JobFilters):
    """The filter of a user's own jobs."""

    status: JobStatus | None = Field(None, description="Only jobs of this status.")
    idempotency_key: Line | None = Field(
        None, description="Only the job that was created by a request with this idempotency key."
    )

    metadata: list[MetadataPair] = Field(
        [],
        max_length=20,
        description="Only jobs whose metadata has this value: `KEY:VALUE`. It can be repeated.",
        examples=[["color:red"]],
    )

    @property
    def columns(self) -> dict[str, Any]:
        # The key is not a column of every list: a list of its own finds the one job that has it.
        return {**super().columns, "status": self.status, "metadata": metadata_of(self.metadata)}

    @property
    def narrowest(self) -> Literal["key", "batch", "reference", "run"] | None:
        """The filter that leaves the fewest jobs and has an index of its own."""
        if self.idempotency_key is not None:
            return "key"
        if self.batch_id is not None:
            return "batch"
        if self.client_reference is not None:
            return "reference"
        return "run" if self.run_id is not None else None


_WEBHOOK_URL = re.compile(r"https?://[!-~]{1,1990}")


def _webhook_url(value: str) -> str:
    if not _WEBHOOK_URL.fullmatch(value):
        raise ValueError("Use a URL of at most 2,000 characters, for example https://shop.example.com/orders/1001.")
    return value


JobWebhookUrl = Annotated[
    str, AfterValidator(_webhook_url), Field(json_schema_extra={"pattern": f"^{_WEBHOOK_URL.pattern}$"})
]


class JobRequest(KeyedRequest):
    """A request for a job. The fields that a client chooses for every kind of job are here. `NewJob` has fields of the
    same names.
    """

    client_reference: Line | None = Field(
        None,
        description="What you call the job, for example the number of an order. The job has it, and lists can be "
        "filtered by it. Several jobs may have the same.",
    )
    metadata: Metadata | None = Field(None, description=METADATA)
    webhook_url: JobWebhookUrl | None = Field(
        None,
        description="Where the events of this job are sent. It starts with the URL of a webhook endpoint of yours with "
        "the scope `job`, which has the secret that signs them and says which events.",
        examples=["https://shop.example.com/callsheet/orders/1001"],
    )


class SubmitReadyJob(KeyedRequest):
    """A job whose payload goes to the worker unchanged."""

    user_id: UUID
    workflow: Annotated[str, StringConstraints(max_length=128, pattern=r"^[a-z0-9][a-z0-9:_.-]*$")]
    payload: Document
    cost: Annotated[int, Field(ge=0, le=2**53), WHOLE]
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")] = "effect"
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1), WHOLE] = 0


class StreamReset(ResponseModel):
    """Events that the stream has sent before no longer exist, because a database was restored or a failover lost its
    last seconds. The stream of a job starts again with the first event. The stream of all your jobs goes on with the
    next event: read the jobs again.
    """

    reason: str


class CreateStreamToken(UserRequest):
    job_id: UUID | None = Field(
        None, description="Id of a job: the token opens only its stream. Default: all your streams."
    )


class StreamToken(ResponseModel):
    token: str = Field(description="Append it to the URL of a stream as `token`.")
    expires_at: datetime = Field(description="After this time the token opens no more streams. Open streams continue.")


class JobEvent(ResponseModel):
    """One line of a job's history."""

    job_id: UUID
    seq: int
    event: str
    from_status: JobStatus | None = None
    to_status: JobStatus | None = None
    actor: str = Field(
        description="Who caused the event: `user:…` with the user's id, `worker`, `admin`, or the "
        "name of a background loop."
    )
    reason: str | None = None
    data: dict[str, Any] | None = None
    client_reference: str | None = Field(None, description="What its client calls the job. Only in streams.")
    metadata: dict[str, str] | None = Field(None, description="The metadata of the job. Only in streams.")
    at: datetime
