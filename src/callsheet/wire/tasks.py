"""Tasks as every part speaks of them: jobs addressed to an actor."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Answer, Document, Line, UserRequest
from callsheet.wire.jobs import JobError, JobStatus, WhyWaiting

PREFIX = "tq_"
ActorName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
QueueName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


def task_id_of(job_id: UUID) -> str:
    return PREFIX + job_id.hex


def job_id_of(task_id: str) -> UUID | None:
    """None where it is no task's id."""
    digits = task_id.removeprefix(PREFIX)
    if len(digits) != 32 or digits == task_id or not all(digit in "0123456789abcdef" for digit in digits):
        return None
    return UUID(digits)


def workflow_slug(actor: str, queue_name: str = "default") -> str:
    """The workflow that tasks of an actor are routed by: one for each queue, so that routing stays strict."""
    return f"actor:{actor}" if queue_name == "default" else f"actor:{actor}:{queue_name}"


class SubmitTask(UserRequest):
    """`actor` and `task_type` are two names for the same; send one."""

    actor: ActorName | None = None
    task_type: ActorName | None = None
    payload: Document = Field(default_factory=dict)
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1), WHOLE] = 0
    queue_name: QueueName = "default"
    max_retries: Annotated[int, Field(ge=0, le=20), WHOLE] = 3
    idempotency_key: Line | None = None


class TaskProgress(Answer):
    percent: float | None = None
    message: str | None = None
    elapsed_ms: int | None = None
    updated_at: datetime | None = None


class TaskResult(Answer):
    """What a task made. `urls` need no key and expire; ask again for new ones."""

    metadata_id: str | None = None
    content_ids: list[str] = Field(default_factory=list)
    urls: list[str] = Field(default_factory=list)
    data: dict[str, Any] = Field(default_factory=dict, description="What its actor answered.")


class Task(Answer):
    task_id: str
    job_id: UUID
    task_type: str
    actor: str
    queue_name: str
    status: JobStatus
    priority: int
    cost: int
    payload: dict[str, Any]
    workflow_run_id: str | None = None
    progress: TaskProgress
    result: TaskResult | None = None
    error: JobError | None = None
    retry_count: int = Field(description="How often it was begun again.")
    max_retries: int
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    why_waiting: WhyWaiting | None = None


class ActorInfo(Answer):
    """Whom tasks can be addressed to."""

    name: str
    queues: list[str]
    cost: int = Field(description="Tokens per task, where it does not become the job of an effect, which has its own.")
    is_active: bool = Field(description="Whether it takes tasks in the default queue at the moment.")


class ProviderInfo(Answer):
    """Who makes media."""

    name: str
    finish: str = Field(description="How its tasks end: `sync`, `webhook` or `worker`.")
    actions: list[str]


class PreviewRequest(UserRequest):
    action_type: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    prompt: Annotated[str, StringConstraints(max_length=100_000)] = ""
    params: Document = Field(default_factory=dict)


class GenerationPreview(Answer):
    """What can be said before anything is made."""

    provider: str
    action_type: str
    info: dict[str, Any]
