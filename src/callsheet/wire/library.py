"""The library: jobs as lists show them, and actions on several of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import ResponseModel, UserRequest
from callsheet.wire.jobs import JobError, JobStatus
from callsheet.wire.media import MediaPreviews

# Jobs of one request: each is a transaction of its own.
MAX_JOBS = 100
JobIds = Annotated[list[UUID], Field(min_length=1, max_length=MAX_JOBS, description="Ids of jobs of yours.")]


class Medium(StrEnum):
    """Kind of a job's main output."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    TEXT = "text"
    OTHER = "other"


class ListedFile(MediaPreviews):
    """A file in a list."""

    id: UUID
    name: str
    mime_type: str
    size: int
    url: str | None = Field(None, description="Signed URL of the file. It needs no key and expires.")


class ListedProgress(ResponseModel):
    percent: float | None = Field(None, description="Progress from 0 to 100, if the worker reports it.")
    message: str | None = None
    updated_at: datetime


class JobSummary(ResponseModel):
    """A job in a list, without payload and result."""

    id: UUID
    task_id: str | None = Field(None, description="Id of the task, if the job is a task.")
    kind: str = Field(description="`effect`, `task`, `pipeline`, or the type of a typed job, for example `copy`.")
    actor: str | None = Field(None, description="The actor of a task.")
    status: JobStatus
    title: str = Field(description="Name of the effect, actor or workflow.")
    input_name: str | None = Field(None, description="Name of the input file.")
    prompt: str | None = Field(None, description="The first 200 characters of the user's text.")
    medium: Medium | None = Field(None, description="Kind of the job's main output, or the expected kind.")
    effect_id: UUID | None = None
    effect_slug: str | None = None
    run_id: UUID | None = Field(None, description="The pipeline run that the job belongs to.")
    client_reference: str | None = Field(None, description="What its client calls the job.")
    cost: int = Field(description="Tokens that the job holds while it is active, and its price once it is completed.")
    created_at: datetime
    submitted_at: datetime = Field(description="When the job was submitted, or last retried.")
    started_at: datetime | None = None
    completed_at: datetime | None = Field(None, description="When the job ended, with any outcome.")
    progress: ListedProgress | None = Field(None, description="Progress while the job is processing.")
    error: JobError | None = None
    input: ListedFile | None = Field(None, description="The input file, unless it was deleted.")
    output: ListedFile | None = Field(None, description="The main output, unless it was deleted.")
    output_count: int = Field(description="Number of outputs.")


class JobCounts(ResponseModel):
    """Number of jobs per status, with all filters except `status`."""

    total: int
    by_status: dict[JobStatus, int] = Field(description="Number of jobs for every status, also 0.")
    is_partial: bool = Field(description="Whether only the newest 20,000 jobs were counted.")


class ManyJobs(UserRequest):
    job_ids: JobIds


class JobOutcome(ResponseModel):
    """The outcome for one job of a request for several jobs."""

    job_id: UUID
    outcome: Literal["done", "unchanged", "refused"] = Field(
        description="`unchanged`: the job was already in the requested state, for example because the request was "
        "repeated."
    )
    status: JobStatus | None = Field(
        None, description="Status of the job after the request. Null if there is no such job."
    )
    code: str | None = Field(None, description="Error code of a refusal.")
    message: str | None = Field(None, description="Reason of a refusal.")


class JobOutcomes(ResponseModel):
    """The outcomes in the order of the request. A job that was named twice has one outcome."""

    items: list[JobOutcome]
