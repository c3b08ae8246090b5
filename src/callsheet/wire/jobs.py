"""Jobs as every part speaks of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import Answer, Document, Line, UserRequest


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


class Job(Answer):
    id: UUID
    kind: str
    status: JobStatus
    charge_cycle: int
    cost: int
    priority: int
    result: dict[str, Any] | None = None
    error: JobError | None = None
    created_at: datetime
    submitted_at: datetime
    deadline_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None


class SubmitReadyJob(UserRequest):
    """A job that needs nothing more to be built: its payload goes to the worker as it is."""

    user_id: UUID
    workflow: Annotated[str, StringConstraints(max_length=128, pattern=r"^[a-z0-9][a-z0-9:_.-]*$")]
    payload: Document
    cost: int = Field(ge=0, le=2**53)
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")] = "effect"
    priority: int = Field(0, ge=-(2**31), le=2**31 - 1)
    idempotency_key: Line | None = None


class JobEvent(Answer):
    """One line of a job's history."""

    job_id: UUID
    seq: int
    event: str
    from_status: JobStatus | None = None
    to_status: JobStatus | None = None
    actor: str
    reason: str | None = None
    data: dict[str, Any] | None = None
    at: datetime
