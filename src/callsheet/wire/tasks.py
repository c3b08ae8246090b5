"""The models of tasks, which are jobs of an actor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from callsheet.wire.base import WHOLE, Document, ResponseModel, UserRequest
from callsheet.wire.jobs import JobError, JobOutput, JobRequest, JobStatus, WhyWaiting
from callsheet.wire.media import MediaPreviews

PREFIX = "tq_"
ID_OF_JOB_OR_TASK = r"^(tq_[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
ActorName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
QueueName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


# Other names of actors, which clients of earlier systems send.
ALIASES: Mapping[str, str] = {"media_generation": "media"}


def actor_named(name: str) -> str:
    """The actor with this name."""
    return ALIASES.get(name, name)


def task_id_of(job_id: UUID) -> str:
    return PREFIX + job_id.hex


def job_id_of(task_id: str) -> UUID | None:
    """The id of the job of a task. None if the text is not an id of a task."""
    digits = task_id.removeprefix(PREFIX)
    if len(digits) != 32 or digits == task_id or not all(digit in "0123456789abcdef" for digit in digits):
        return None
    return UUID(digits)


def _job_id(value: object) -> object:
    return (job_id_of(value) or value) if isinstance(value, str) else value


# The id of a job in requests of operators, who copy it from a job or from a task.
JobOrTaskId = Annotated[
    UUID, BeforeValidator(_job_id), WithJsonSchema({"type": "string", "pattern": ID_OF_JOB_OR_TASK})
]


def workflow_slug(actor: str, queue_name: str = "default") -> str:
    """The workflow that routes the tasks of an actor. There is one for each queue, so that routing stays strict."""
    return f"actor:{actor}" if queue_name == "default" else f"actor:{actor}:{queue_name}"


def actor_of(slug: str) -> tuple[str, str] | None:
    """The actor and the queue of a workflow; None for the workflow of an engine."""
    kind, _, rest = slug.partition(":")
    if kind != "actor":
        return None
    actor, _, queue_name = rest.partition(":")
    return actor_named(actor), queue_name or "default"


def response_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result of an actor in a job's result, together with what the control plane made of it (the product of a
    scrape).
    """
    responded = result.get("result")
    if not isinstance(responded, dict):
        return {name: value for name, value in result.items() if name != "outputs"}
    made = {name: value for name, value in result.items() if name not in ("outputs", "metadata", "result")}
    return {**responded, **made}


class SubmitTask(JobRequest):
    """`task_type` is an alias of `actor`. Send only one of them."""

    actor: ActorName | None = Field(
        None, description="Name of the actor, one of `GET /api/actors`. `media_generation` is an alias of `media`."
    )
    task_type: ActorName | None = None
    payload: Document = Field(
        default_factory=dict, description="Input of the actor. If a value is wrong, the error names the field."
    )
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1), WHOLE] = Field(
        0, description="0 to -3; operators may use any number. Tasks with a higher priority run first."
    )
    queue_name: QueueName = Field("default", description="One of the queues that `GET /api/actors` names.")
    max_retries: Annotated[int, Field(ge=0, le=20), WHOLE] = Field(
        3, description="Number of retries after the task's worker failed or was lost."
    )


class TaskProgress(ResponseModel):
    percent: float | None = None
    message: str | None = None
    elapsed_ms: int | None = None
    updated_at: datetime | None = None


class TaskResult(ResponseModel):
    """The result of a task. `urls` need no key and expire; request the task again for new ones."""

    metadata_id: str | None = None
    content_ids: list[str] = Field(default_factory=list)
    urls: list[str] = Field(default_factory=list)
    outputs: list[JobOutput] = Field(default_factory=list, description="The files, with their previews.")
    data: dict[str, Any] = Field(default_factory=dict, description="Data that the actor returned.")


class Task(MediaPreviews):
    """A task. Its poster, preview and thumbnails are those of its first output."""

    task_id: str
    job_id: UUID
    task_type: str
    actor: str
    queue_name: str
    status: JobStatus
    priority: int
    cost: int
    payload: dict[str, Any] | None = Field(
        None, description="The payload that was sent. Only in the response for one task; null in lists."
    )
    workflow_run_id: str | None = None
    client_reference: str | None = Field(None, description="What its client calls the task.")
    metadata: dict[str, str] | None = Field(None, description="Texts of its client, by key.")
    idempotency_key: str | None = Field(None, description="The idempotency key of the request that created the task.")
    progress: TaskProgress
    result: TaskResult | None = None
    error: JobError | None = None
    retry_count: int = Field(
        description="How often the task was requeued: after a failure, without its worker, by an "
        "interruption or by a retry of its user."
    )
    max_retries: int
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    why_waiting: WhyWaiting | None = None


class ActorVariant(ResponseModel):
    """One of several things that an actor can make."""

    title: str
    values: dict[str, Any] = Field(
        description="Fields of the payload that select this variant. The schema has them as constants."
    )
    payload_schema: dict[str, Any] = Field(description="JSON Schema of the payload, without references.")
    cost: int | None = Field(
        None, description="Tokens per task. Null if the price is that of an effect, or is not set."
    )


class ActorInfo(ResponseModel):
    """An actor that runs tasks."""

    name: str
    title: str = Field(description="Display name.")
    description: str
    queues: list[str]
    cost: int | None = Field(
        None,
        description="Tokens per task. Null if no price is set, or if the price depends on the provider (see "
        "`/api/providers`) or on an effect.",
    )
    is_active: bool = Field(description="Whether the actor currently accepts tasks in the default queue.")
    is_ready: bool = Field(
        description="Whether its example would be accepted now: its provider is configured and has a price. True if "
        "it has no example."
    )
    makes_images: bool = Field(
        True, description="Whether its example makes images or videos, so that it can be a step of a pipeline."
    )
    payload_schema: dict[str, Any] = Field(
        description="JSON Schema of the payload, without references: titles, descriptions, choices, limits, defaults."
    )
    example: dict[str, Any] | None = Field(None, description="An example payload.")
    variants: list[ActorVariant] = Field(
        default_factory=list,
        description="Variants of an actor that can make several things, each with its own schema and price.",
    )


class ProviderInfo(ResponseModel):
    """A provider that makes media."""

    name: str
    finish: str = Field(description="How the provider's tasks finish: `sync`, `webhook` or `worker`.")
    actions: list[str]
    costs: dict[str, int | None] = Field(
        description="Tokens per task, by action. Null if the price is that of an effect, or if no price is set. A "
        "task without a price is refused."
    )


class PreviewRequest(UserRequest):
    action_type: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    prompt: Annotated[str, StringConstraints(max_length=100_000)] = ""
    params: Document = Field(default_factory=dict)


class GenerationPreview(ResponseModel):
    """Information about a generation before it is made."""

    provider: str
    action_type: str
    info: dict[str, Any]
