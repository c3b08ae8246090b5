"""The library: jobs as lists show them, and actions on several of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import Answer, UserRequest
from callsheet.wire.jobs import JobError, JobStatus
from callsheet.wire.media import Shown

# Jobs of one request: each is a transaction of its own.
MOST_JOBS = 100
JobIds = Annotated[list[UUID], Field(min_length=1, max_length=MOST_JOBS, description="Ids of jobs of yours.")]


class Medium(StrEnum):
    """What the main output of a job is."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    TEXT = "text"
    OTHER = "other"


class ListedFile(Shown):
    """A file as far as a list shows it."""

    id: UUID
    name: str
    mime_type: str
    size: int
    url: str | None = Field(None, description="Where it is read; it needs no key and expires.")


class ListedProgress(Answer):
    percent: float | None = Field(None, description="0 to 100, where the worker says it.")
    message: str | None = None
    updated_at: datetime


class JobSummary(Answer):
    """A job as a list shows it: no payload, no result."""

    id: UUID
    task_id: str | None = Field(None, description="Of a job that is a task.")
    kind: str = Field(description="`effect`, `task`, `pipeline`, or the type of a typed job, for example `copy`.")
    actor: str | None = Field(None, description="The actor that a task is addressed to.")
    status: JobStatus
    title: str = Field(description="Name of the effect or actor.")
    input_name: str | None = Field(None, description="Name of the file that it works on.")
    prompt: str | None = Field(None, description="The first 200 characters of what its user wrote.")
    medium: Medium | None = Field(None, description="What its main output is, or is expected to be.")
    effect_id: UUID | None = None
    effect_slug: str | None = None
    run_id: UUID | None = Field(None, description="The run of a pipeline that it belongs to.")
    cost: int = Field(description="Tokens that it holds while it is active, and has cost once it is completed.")
    created_at: datetime
    submitted_at: datetime = Field(description="When it was submitted, or retried last.")
    started_at: datetime | None = None
    completed_at: datetime | None = Field(None, description="When it ended, however it ended.")
    progress: ListedProgress | None = Field(None, description="While it is processing.")
    error: JobError | None = None
    input: ListedFile | None = Field(None, description="The file that it works on, unless it was deleted.")
    output: ListedFile | None = Field(None, description="The main file that it made, unless it was deleted.")
    output_count: int = Field(description="How many files it made.")


class JobCounts(Answer):
    """How many jobs have each status, with all filters except `status`."""

    total: int
    by_status: dict[JobStatus, int] = Field(description="Every status, also those that no job has.")
    is_partial: bool = Field(description="Whether only the newest 20,000 jobs were counted.")


class ManyJobs(UserRequest):
    job_ids: JobIds


class JobOutcome(Answer):
    """What became of one job of a request for several."""

    job_id: UUID
    outcome: Literal["done", "unchanged", "refused"] = Field(
        description="`unchanged`: it was as asked for already, for example because the request was repeated."
    )
    status: JobStatus | None = Field(None, description="Its status afterwards; null where there is no such job.")
    code: str | None = Field(None, description="Of a refusal: the code of the error.")
    message: str | None = Field(None, description="Of a refusal: why.")


class JobOutcomes(Answer):
    """In the order of the request; a job that was named twice is there once."""

    items: list[JobOutcome]
