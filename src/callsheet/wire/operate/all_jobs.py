"""Jobs of all tenants for operators, groups of their errors, and bulk actions."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints

from callsheet.wire.base import Line, OptionalLine, ResponseModel, UserRequest
from callsheet.wire.forms import WorkflowSlug
from callsheet.wire.jobs import JobError, JobStatus
from callsheet.wire.library import MAX_VALUES, JobSearch
from callsheet.wire.operate.operations import Priority
from callsheet.wire.tasks import JobOrTaskId

MAX_NAMED_JOBS = 500
Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class JobFilter(JobSearch):
    """Only jobs that match all fields. A field that is left out matches every job."""

    model_config = ConfigDict(extra="forbid")

    q: OptionalLine | None = Field(
        None,
        description="The id of a job or task, or words that must all be in the error, the title or the user's texts.",
    )
    tenant_id: UUID | None = Field(None, description="Only jobs of this tenant.")
    user_id: UUID | None = Field(None, description="Only jobs of this user.")
    workflow: list[WorkflowSlug] = Field([], max_length=MAX_VALUES, description="Only jobs of these workflows.")
    worker_id: OptionalLine | None = Field(
        None,
        description="Only jobs that this worker holds, or held in one of the last 20,000 jobs of the history.",
    )
    fingerprint: Fingerprint | None = Field(None, description="Only jobs that failed with this error.")
    job_id: list[JobOrTaskId] = Field(
        [], max_length=MAX_NAMED_JOBS, description="Only these jobs: ids of jobs or tasks."
    )


class JobQuery(JobFilter):
    """The same filter beside the other parameters of a URL."""

    model_config = ConfigDict(extra="ignore")


class OperatedJob(ResponseModel):
    """A job in the list of all tenants, without payload and result."""

    id: UUID
    task_id: str | None = Field(None, description="Id of the task, if the job is a task.")
    tenant_id: UUID
    tenant: str = Field(description="Slug of the tenant.")
    user_id: UUID
    user: str | None = Field(None, description="E-mail address of the user. Null if the user was deleted.")
    kind: str
    actor: str | None = Field(None, description="The actor of a task.")
    status: JobStatus
    title: str = Field(description="Name of the effect, actor or workflow.")
    workflow: str = Field(description="Slug of the workflow.")
    effect_id: UUID | None = None
    effect_slug: str | None = None
    run_id: UUID | None = Field(None, description="The pipeline run that the job belongs to.")
    client_reference: str | None = Field(None, description="What its client calls the job.")
    cost: int
    priority: int
    charge_cycle: int
    created_at: datetime
    submitted_at: datetime = Field(description="When the job was submitted, or last retried.")
    started_at: datetime | None = None
    completed_at: datetime | None = Field(None, description="When the job ended, with any outcome.")
    percent: float | None = Field(None, description="Progress from 0 to 100 while the job runs.")
    error: JobError | None = None
    fingerprint: str | None = Field(None, description="Fingerprint of the error. Equal errors have equal fingerprints.")


class StatusTotal(ResponseModel):
    jobs: int
    tokens: int = Field(description="Sum of the costs of these jobs.")


class JobTotals(ResponseModel):
    """How many jobs match a filter, and what they cost."""

    jobs: int
    tokens: int = Field(description="Sum of the costs of these jobs.")
    by_status: dict[JobStatus, StatusTotal] = Field(description="For every status, also 0.")
    is_partial: bool = Field(description="Whether only the newest jobs were counted, because there are too many.")


class ErrorExample(ResponseModel):
    """The newest job of a group."""

    job_id: UUID
    tenant_id: UUID
    tenant: str
    workflow: str
    type: str
    message: str


class ErrorGroup(ResponseModel):
    """Jobs that failed with the same error: ids, numbers, paths, URLs and hosts in it may differ."""

    fingerprint: str
    jobs: int = Field(description="Number of jobs that are failed or expired with this error now.")
    tenants: int = Field(description="Number of tenants that have such a job.")
    first_seen_at: datetime = Field(description="When the oldest of these jobs ended, also before the range of time.")
    last_seen_at: datetime
    example: ErrorExample
    is_partial: bool = Field(False, description="Whether there are more jobs than were counted.")


class ErrorGroups(ResponseModel):
    """The groups with the most jobs first."""

    items: list[ErrorGroup]
    is_partial: bool = Field(description="Whether only the newest errors were counted, because there are too many.")


class BulkActionKind(StrEnum):
    RETRY = "retry"
    CANCEL = "cancel"
    SET_PRIORITY = "set_priority"


class BulkActionState(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    COMPLETED = "completed"


class StartBulkAction(UserRequest):
    action: BulkActionKind
    filter: JobFilter = Field(
        description="The jobs to act on. Jobs that are created later, and jobs whose status does not fit the action, "
        "are left alone."
    )
    priority: Priority | None = Field(None, description="The new priority, for `set_priority`.")
    reason: Line | None = Field(None, description="The reason, for the history of the jobs and the audit log.")


class RefusalCount(ResponseModel):
    code: str
    jobs: int
    example: str = Field(description="The error message of one of these jobs.")


class BulkAction(ResponseModel):
    """An action on all jobs that a filter matched when it was started."""

    id: UUID
    action: BulkActionKind
    priority: int | None = None
    filter: JobFilter
    reason: str | None = None
    created_by: UUID
    created_by_email: str | None = Field(None, description="Null if the user was deleted.")
    created_at: datetime
    state: BulkActionState
    stopped_by: UUID | None = None
    stopped_by_email: str | None = None
    finished_at: datetime | None = None
    is_collected: bool = Field(description="Whether all jobs were found. Until then `total` grows.")
    total: int
    done: int
    refused: int
    untouched: int = Field(description="Jobs that were not tried: not yet, or never if the action was stopped.")
    refusals: list[RefusalCount] = Field(description="Why jobs were refused, the most frequent reason first.")
