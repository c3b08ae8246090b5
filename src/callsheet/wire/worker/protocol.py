"""The worker protocol from poll to report. `wire.fleet` has the registration of workers.

Requests ignore unknown fields and accept null for anything optional, because a worker may be older or newer than its
control plane. Any request may contain `worker_id`. Free text is cut and cleaned, not refused: a worker that reports a
failure must not fail at that, too.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
)

from callsheet.wire.base import Document, Line, ResponseModel
from callsheet.wire.forms import Provider, Sha256
from callsheet.wire.worker.fields import (
    MAX_SIZE,
    REASON,
    TRACEBACK,
    Base64Image,
    Facts,
    FileName,
    MimeType,
    Reason,
    ShortHash,
    Size,
    cleaned,
    cut_at,
    in_utc,
)
from callsheet.wire.worker.traces import MAX_NODE_ID_LENGTH, OptionalTrace

MAX_WAIT_SECONDS = 55
# Each output is signed at once; a run with more outputs announces them in several heartbeats.
MAX_ANNOUNCED = 100
# Enough for the single frames of a video.
MAX_DELIVERED = 2000
MAX_ACTIVE_LEASES = 1000
MAX_LOADED_MODELS = 64
MAX_REPORTED_ENGINES = 64
MAX_REFUSED = 20
MAX_ENGINE_NAME_LENGTH = 100

# The progress message of a worker from the end of the engine's run until everything is stored.
UPLOADING = "Uploading the result"


class WorkerRequest(BaseModel):
    """A request of the worker protocol."""

    model_config = ConfigDict(extra="ignore", frozen=True)


ActiveLeases = Annotated[
    list[UUID] | None,
    Field(
        max_length=MAX_ACTIVE_LEASES,
        description="All lease tokens that the worker holds. Its other leases go back to the queue within seconds.",
    ),
]


class LeaseRequest(WorkerRequest):
    """About one lease."""

    dispatch_id: int = Field(ge=1, le=2**53)
    lease_token: UUID


def max_leases(slots: int, *, prefetch: bool) -> int:
    """How many jobs a worker may hold that runs `slots` at once: with `prefetch` twice as many. For each rendering
    job there may be one whose files are fetched or whose result is uploaded.
    """
    return 2 * slots if prefetch else slots


class ReportedEngine(WorkerRequest):
    """How much one engine of the worker was used."""

    name: Annotated[str, cut_at(MAX_ENGINE_NAME_LENGTH)] = Field(
        description="Name that distinguishes the worker's engines."
    )
    slots: int = Field(ge=0, le=2**31 - 1, description="Number of jobs that the engine runs at once.")
    idle_share: float | None = Field(
        None,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Share of the time in which the engine took jobs and its slots did not render. Null: it took no "
        "jobs.",
    )
    measured_seconds: float = Field(
        0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="Length of the measured period in seconds, at most an hour.",
    )


class ReportedDisk(WorkerRequest):
    """The disk of the worker's data directory."""

    free_bytes: int = Field(ge=0, le=MAX_SIZE, description="What the worker may still write, in bytes.")
    size_bytes: int = Field(ge=0, le=MAX_SIZE, description="Size of the disk in bytes.")


class PollRequest(WorkerRequest):
    current_load: int | None = Field(None, ge=0, le=2**31 - 1, description="Number of jobs that the worker is running.")
    max_concurrency: int | None = Field(
        None,
        ge=1,
        le=2**31 - 1,
        description="Number of jobs that the worker runs at once now. Default and maximum: the number that it "
        "registered with.",
    )
    capabilities: Facts | None = Field(
        None,
        description="Facts about the machine for operators. Each replaces the fact of that name that the worker "
        "registered with. Send them when they change.",
    )
    providers: list[Provider] | None = Field(
        None,
        max_length=50,
        description="Providers whose jobs the worker can run. Default: those that it registered with.",
    )
    wait_seconds: float | None = Field(
        None, ge=0, le=MAX_WAIT_SECONDS, description="How long to wait if there is no job, in seconds. Default: 0."
    )
    poll_id: Line | None = Field(None, description="A poll that is repeated with the same id gets the same lease.")
    active_leases: ActiveLeases = None
    prefetch: bool | None = Field(
        None, description="Asks for a lease beyond its capacity: at most one for each job that it runs at once."
    )
    loaded_models: list[ShortHash] | None = Field(
        None,
        max_length=MAX_LOADED_MODELS,
        description="Models that its engines have loaded, each as the first 16 hexadecimal digits of the SHA-256 of "
        "its name in the graph. Among jobs that are equally due it gets one that needs them.",
    )
    engine_use: list[ReportedEngine] | None = Field(
        None,
        max_length=MAX_REPORTED_ENGINES,
        description="How much each engine was used in the last hour, for operators. Twice a minute is enough.",
    )
    disk: ReportedDisk | None = Field(
        None, description="Free space of the worker's disk, for operators. Twice a minute is enough."
    )


class InputFile(ResponseModel):
    """The file at `input_url`."""

    name: str
    mime_type: str
    content_hash: str | None = None


class OutputFile(ResponseModel):
    """The file that is expected at `output_url`."""

    name: str
    extension: str
    mime_type: str


class CallbackAddress(ResponseModel):
    """The URL that the provider calls back. Only in jobs of providers that call back."""

    url: str
    may_exist: bool = Field(
        description="An earlier attempt may have reached the provider: look before submitting again."
    )


class WorkerJob(ResponseModel):
    dispatch_id: int
    lease_token: UUID
    lease_expires_at: datetime
    lease_ttl_seconds: float = Field(
        description="Seconds until the lease expires. Measure them with a monotonic clock."
    )
    tenant_id: UUID
    job_id: UUID
    effect_id: UUID | None
    kind: str
    actor: str | None = Field(description="Actor of a task. Null for an engine's job.")
    attempt: int = Field(1, description="1 is the first.")
    provider: str
    run_limit_seconds: int
    wedges: int = Field(
        0, description="How often a run of this job made an engine hang (a failure of the type engine_stuck)."
    )
    input_payload: dict[str, Any]
    callback: CallbackAddress | None = None
    input_file: InputFile | None
    output_file: OutputFile | None
    input_url: str | None
    output_url: str | None
    output_headers: dict[str, str] = Field(description="The headers the PUT to `output_url` must have, all of them.")


class WorkerResponse(ResponseModel):
    rotated_token: str | None = Field(
        None,
        description="The token to use from now on. The old token becomes invalid when this one is used, or "
        "after ten minutes.",
    )


class PollResponse(WorkerResponse):
    job: WorkerJob | None
    reason: Literal["draining", "at_capacity", "not_approved", "no_workflows", "empty"] | None = Field(
        None, description="Why there is no job."
    )


class ReportedProgress(WorkerRequest):
    percent: float | None = Field(None, description="Progress from 0 to 100.")
    message: Reason | None = None
    elapsed_ms: float | None = Field(
        None, description="Milliseconds since the start of the run, by the worker's clock."
    )
    node_id: Annotated[str, cut_at(MAX_NODE_ID_LENGTH)] | None = Field(
        None, description="Id of the node of the graph that runs now. An empty text: none runs."
    )


class Preview(WorkerRequest):
    """A preview image of a running job, at most 64 KiB when decoded."""

    mime_type: Literal["image/jpeg", "image/png", "image/webp", "image/gif"]
    data: Base64Image


class AnnouncedOutput(WorkerRequest):
    """A file that the worker will upload. If size and checksum are given, other bytes are refused."""

    name: FileName
    mime_type: MimeType
    size: Size
    sha256: Sha256 | None = None


class HeartbeatRequest(LeaseRequest):
    active_leases: ActiveLeases = None
    run_started: bool | None = Field(
        None, description="Whether the engine has started the run. The run time counts from here."
    )
    run_waiting: bool | None = Field(
        None,
        description="The engine has not started the run, so the run limit does not count yet. Without it the limit "
        "counts from the lease.",
    )
    progress: ReportedProgress | None = None
    preview: Preview | None = None
    outputs: list[AnnouncedOutput] | None = Field(None, max_length=MAX_ANNOUNCED)
    refresh_inputs: bool | None = Field(None, description="Requests fresh URLs of all inputs.")
    provider_job_id: Line | None = Field(
        None, description="Id of the run at the engine or the provider, as soon as the run was submitted."
    )


class Upload(ResponseModel):
    name: str
    method: Literal["PUT"] = "PUT"
    url: str
    headers: dict[str, str]


class Input(ResponseModel):
    """A fresh URL of an asset."""

    key: str | None = None
    placeholder: str | None = None
    download_url: str


class HeartbeatResponse(WorkerResponse):
    lease_expires_at: datetime
    lease_ttl_seconds: float
    cancel_requested: bool
    uploads: list[Upload] | None = None
    inputs: list[Input] | None = None
    input_url: str | None = None
    output_url: str | None = None
    output_headers: dict[str, str] | None = None


class RunEnd(LeaseRequest):
    """The end of a run, however it ended."""

    trace: OptionalTrace | None = Field(
        None,
        description="When each part of the run happened. A trace that cannot be read is dropped; the report counts.",
    )
    provider_job_id: Line | None = Field(None, description="Id of the run at the engine or the provider.")


class DeliveredOutput(WorkerRequest):
    """The file that was uploaded to `output_url`."""

    size: Size
    mime_type: MimeType
    sha256: Sha256 | None = None
    metadata: Document | None = None


class NamedOutput(DeliveredOutput):
    """The file that was uploaded to the URL of this name."""

    name: FileName


class CompleteRequest(RunEnd):
    output: DeliveredOutput | None = None
    outputs: list[NamedOutput] | None = Field(None, max_length=MAX_DELIVERED)
    result: Document | None = Field(None, description="Result of a task. An engine's job delivers files instead.")
    metadata: Document | None = None


class CompleteResponse(WorkerResponse):
    job_id: UUID
    status: str


class WorkerError(WorkerRequest):
    """Error of the worker, kept for operators. Users see only the sentence of its type."""

    type: Annotated[str, cut_at(100)] | None = None
    message: Annotated[str, cut_at(TRACEBACK)] | None = None
    details: Facts | None = None
    traceback: Annotated[str, cut_at(TRACEBACK)] | list[JsonValue] | None = Field(
        None, description="Traceback as a text or as a list of lines."
    )
    retryable: bool | None = Field(None, description="Whether another attempt may succeed.")


class FailRequest(RunEnd):
    error_message: Annotated[JsonValue, AfterValidator(cleaned)] = Field(
        None, description="Output of the engine, as text or JSON."
    )
    error: WorkerError | None = None


class RefusedInput(WorkerRequest):
    """A node that the engine refused: it does not have the node's class, or not this choice of one of its inputs."""

    node_id: Annotated[str, cut_at(MAX_NODE_ID_LENGTH)]
    node_class: Annotated[str, cut_at(REASON)]
    input_name: Annotated[str, cut_at(REASON)] | None = None
    value: Annotated[str, cut_at(REASON)] | None = Field(None, description="The choice, for example a model file.")


class Refusal(WorkerRequest):
    """Why an engine refused a graph that another engine may accept."""

    error: WorkerError = Field(description="The error of the job if no other worker can run it.")
    inputs: list[RefusedInput] = Field(max_length=MAX_REFUSED)


class RequeueRequest(RunEnd):
    reason: Reason | None = None
    refusal: Refusal | None = Field(
        None,
        description="The engine refused the graph only because it lacks node classes or choices, such as a model "
        "file. The job goes to another worker or waits for one. It fails if every worker that could run it has "
        "refused it. Report the environment of the engine first.",
    )


class DeferRequest(LeaseRequest):
    provider_job_id: Line
    expires_at: Annotated[AwareDatetime, AfterValidator(in_utc)] = Field(
        description="When the job expires if the provider has not called back."
    )


class DispatchResponse(WorkerResponse):
    dispatch_id: int
    status: str
