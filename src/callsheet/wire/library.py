"""The library: jobs as lists show them, actions on several of them, and public links to results."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Moment, OptionalLine, ResponseModel, Switch, UserRequest
from callsheet.wire.forms import Slug
from callsheet.wire.jobs import JobError, JobFilters, JobStatus
from callsheet.wire.media import MediaPreviews
from callsheet.wire.tasks import ActorName

# Jobs of one request: each is a transaction of its own.
MAX_JOBS = 100
# Values of one filter.
MAX_VALUES = 50
JobKind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
JobIds = Annotated[list[UUID], Field(min_length=1, max_length=MAX_JOBS, description="Ids of jobs of yours.")]


class Medium(StrEnum):
    """Kind of a job's main output."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    TEXT = "text"
    OTHER = "other"


class JobSearch(JobFilters):
    """The filters of lists that are searched."""

    status: list[JobStatus] = Field([], max_length=MAX_VALUES, description="Only jobs of these statuses.")
    effect: list[Slug] = Field([], max_length=MAX_VALUES, description="Only jobs of these effects: ids or slugs.")
    kind: list[JobKind] = Field([], max_length=MAX_VALUES, description="Only jobs of these kinds: effect, task, …")
    created_from: Moment | None = Field(None, description="Only jobs submitted at this time or later.")
    created_to: Moment | None = Field(None, description="Only jobs submitted before this time.")


class LibraryFilter(JobSearch):
    """The filter of a user's library."""

    q: OptionalLine | None = Field(
        None,
        description="Words that must all be in the prompt, the name of the input or the name of the effect. Upper and "
        "lower case are the same, and a part of a word is enough.",
    )
    medium: list[Medium] = Field([], max_length=MAX_VALUES, description="Only jobs whose main output is of this type.")
    actor: list[ActorName] = Field([], max_length=MAX_VALUES, description="Only tasks of these actors.")


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
    batch_id: UUID | None = Field(None, description="The batch that the job was submitted with.")
    batch_item: int | None = Field(None, description="Number of the job in its batch, from 1.")
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


class CreateShareLink(UserRequest):
    expires_in_days: Annotated[int, Field(ge=1, le=36_500), WHOLE] | None = Field(
        None,
        description="Days until the link expires. Default: the setting `sharing.link_days`. Maximum: "
        "`sharing.max_link_days`.",
    )
    show_prompt: Switch = Field(False, description="Whether the page shows the prompt.")
    show_input: Switch = Field(True, description="Whether the page shows the file that the job worked on.")


class ShareLink(ResponseModel):
    """A public link to the result of a job, as its owner sees it."""

    id: UUID = Field(description="Id of the link. It cannot be used to open the page.")
    job_id: UUID
    shows_prompt: bool
    shows_input: bool
    created_at: datetime
    expires_at: datetime
    opened: int = Field(description="How often the page was opened, exact to about a minute.")
    last_opened_at: datetime | None = None


class CreatedShareLink(ShareLink):
    url: str = Field(description="The link. It is shown only this once.")


class SharedFile(ResponseModel):
    medium: Medium
    mime_type: str
    url: str = Field(description="URL of the file, relative to the API. It expires with the link.")
    poster_url: str | None = Field(None, description="A smaller image of it, or a frame of a video, as WebP.")
    width: int | None = Field(None, description="Size of the image or video in pixels, as it is shown.")
    height: int | None = None
    duration_seconds: float | None = None


class SharedResult(ResponseModel):
    """Everything that anyone with the link sees."""

    title: str = Field(description="Name of the effect, actor or workflow.")
    prompt: str | None = Field(None, description="Prompt of the job, if the owner shows it.")
    before: SharedFile | None = Field(None, description="Input of the job, if the owner shows it.")
    after: SharedFile = Field(description="The main file that the job made.")
    more: list[SharedFile] = Field(default_factory=list, description="Other files that it made.")
    expires_at: datetime = Field(description="When the link ends.")
