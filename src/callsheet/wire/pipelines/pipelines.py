"""The models of pipelines, their runs and candidates."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from callsheet.wire.base import (
    METADATA,
    WHOLE,
    Document,
    KeyedRequest,
    Line,
    Metadata,
    MetadataPair,
    ResponseModel,
    Switch,
    UserRequest,
    metadata_of,
)
from callsheet.wire.catalog import Paragraph, PropertyValue, Values
from callsheet.wire.forms import PropertyKey, Slug, WorkflowSlug
from callsheet.wire.media import File

MAX_STEPS = 50
DEFAULT_CHILDREN = 5
DEFAULT_LEAVES = 10
START_ELO = 1000
# The largest number that JSON can express exactly in every language.
MAX_SEED = 2**53 - 1

Children = Annotated[int, Field(ge=1, le=10_000), WHOLE]
Leaves = Annotated[int, Field(ge=1, le=100_000), WHOLE]
Budget = Annotated[int, Field(ge=1, le=2**53), WHOLE]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED), WHOLE]
# Maximum number of characters of all variables of a run: they are in every job of the run and in every row of a list of
# runs.
MAX_CHARACTERS = 65_536


def _bounded(variables: dict[str, Any]) -> dict[str, Any]:
    if sum(len(value) for value in variables.values() if isinstance(value, str)) > MAX_CHARACTERS:
        raise ValueError(f"All texts together must have at most {MAX_CHARACTERS} characters.")
    return variables


# The document describes keys of this form; this says that there are no other keys.
Variables = Annotated[
    dict[PropertyKey, PropertyValue],
    Field(max_length=100, json_schema_extra={"additionalProperties": False}),
    AfterValidator(_bounded),
]


class Strategy(StrEnum):
    """`finish_first` works depth-first. `breadth_first` fills a step before it starts the next step."""

    FINISH_FIRST = "finish_first"
    BREADTH_FIRST = "breadth_first"


class RunStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELED = "canceled"


class RunReason(StrEnum):
    """Why a run does not continue, or how it ended."""

    BY_USER = "by_user"
    TARGET_REACHED = "target_reached"
    NOTHING_LEFT = "nothing_left"
    APPROVAL_NEEDED = "approval_needed"
    BUDGET_SPENT = "budget_spent"
    BUDGET_REACHED = "budget_reached"
    INSUFFICIENT_TOKENS = "insufficient_tokens"
    TOO_MANY_ACTIVE_JOBS = "too_many_active_jobs"
    TENANT_AT_LIMIT = "tenant_at_limit"
    QUOTA_EXCEEDED = "quota_exceeded"
    INSUFFICIENT_STORAGE = "insufficient_storage"
    CANNOT_BUILD = "cannot_build"
    BASE_FAILED = "base_failed"
    BRANCHES_FAILED = "branches_failed"
    INTERNAL_ERROR = "internal_error"


class CandidateStatus(StrEnum):
    ACTIVE = "active"
    REJECTED = "rejected"


class Rejection(StrEnum):
    """Why a candidate was rejected: by a person, together with its ancestor, or because its job made more images than
    its parent may have children."""

    KILLED = "killed"
    KILLED_WITH_ANCESTOR = "killed_with_ancestor"
    SURPLUS = "surplus"


class NewStep(UserRequest):
    """One step. `max_children`, `top_k` and `requires_approval` apply to its candidates as parents for the next
    step."""

    name: Line
    slug: Slug | None = Field(
        None, description="Slug of the step. It is also the folder of the step's files. Default: derived from the name."
    )
    position: Annotated[int, Field(ge=1, le=MAX_STEPS), WHOLE] | None = Field(
        None, description="Position from 1, without a gap. Default: the order of the list."
    )
    workflow: WorkflowSlug = Field(
        description="The workflow that makes the candidates, or an actor as `actor:NAME` or `actor:NAME:QUEUE`."
    )
    payload: Document | None = Field(
        None,
        description="Payload for an actor. Its texts may contain `{{prompt}}`, `{{seed}}`, `{{parent_image_path}}` "
        "(a URL of the parent's image), `{{parent_file_id}}`, and variables.",
    )
    effect: Slug | None = Field(
        None,
        description="The published effect whose price applies. Required if the workflow has several published effects.",
    )
    values: Values = Field(default_factory=dict, description="Values of the workflow's properties, by key.")
    needs_run_prompt: Switch = Field(False, description="Whether `{{prompt}}` is replaced by the run's prompt.")
    needs_parent_image_path: Switch = Field(
        False, description="Whether `{{parent_image_path}}` is replaced by the parent's image."
    )
    needs_run_variables: Switch = Field(
        False, description="Whether placeholders are replaced by the run's variables of the same name."
    )
    max_children: Children = Field(DEFAULT_CHILDREN, description="N: largest number of children of each candidate.")
    top_k: Children | None = Field(
        None, description="Only this many candidates, the best by ELO, become parents. For `breadth_first` runs."
    )
    requires_approval: Switch = Field(
        False, description="Whether the candidates wait until a person approves the step."
    )


Steps = Annotated[list[NewStep], Field(min_length=1, max_length=MAX_STEPS)]


class CreatePipeline(UserRequest):
    slug: Slug
    name: Line
    description: Paragraph = ""
    steps: Steps


class UpdatePipeline(UserRequest):
    """Fields that you leave out do not change. Runs that have started keep the steps they started with."""

    name: Line | None = None
    description: Paragraph | None = None
    steps: Steps | None = None


class Step(ResponseModel):
    id: UUID
    position: int
    name: str
    slug: str
    workflow: str
    effect_id: UUID | None = Field(
        None, description="The effect whose price applies. Null for an actor, whose price is in the settings."
    )
    payload: dict[str, Any] | None = None
    values: dict[str, Any]
    needs_run_prompt: bool
    needs_parent_image_path: bool
    needs_run_variables: bool
    max_children: int
    top_k: int | None = None
    requires_approval: bool


class PipelineSummary(ResponseModel):
    id: UUID
    slug: str
    name: str
    description: str
    version: int = Field(description="Version of the steps. Every change of the steps increments it.")
    created_at: datetime
    updated_at: datetime


class Pipeline(PipelineSummary):
    steps: list[Step]


class CreateRun(KeyedRequest):
    name: Line
    budget: Budget = Field(description="Largest number of tokens that the run may spend. No job is started beyond it.")
    prompt: Paragraph | None = Field(None, description="Text that replaces `{{prompt}}`.")
    variables: Variables = Field(default_factory=dict, description="Values that replace placeholders like `{{style}}`.")
    target_folder: Slug | None = Field(
        None, description="Folder of the run's files. Default: derived from the name and the id."
    )
    strategy: Strategy = Strategy.FINISH_FIRST
    seed: Seed | None = Field(
        None, description="Random seed; the same seed repeats the same choices. Default: a random one."
    )
    max_children: Children | None = Field(None, description="N for every step, instead of the value of each step.")
    target_leaves: Leaves = Field(
        DEFAULT_LEAVES, description="T: no new base is started once there are this many leaves."
    )
    concurrency: Annotated[int, Field(ge=1, le=1000), WHOLE] | None = Field(
        None, description="Largest number of concurrent jobs. Default and maximum: pipelines.jobs_per_run."
    )
    client_reference: Line | None = Field(None, description="What you call the run. Lists can be filtered by it.")
    metadata: Metadata | None = Field(None, description=METADATA)


class RunFilter(BaseModel):
    """The filter of lists of runs. Fields of other names are ignored: they may be other parts of the query."""

    model_config = ConfigDict(frozen=True)

    status: RunStatus | None = Field(None, description="Only runs of this status.")
    client_reference: Line | None = Field(
        None, description="Only runs that were started with this reference.", examples=["order-1001"]
    )
    idempotency_key: Line | None = Field(
        None, description="Only the run that was started by a request with this idempotency key."
    )
    metadata: list[MetadataPair] = Field(
        [],
        max_length=20,
        description="Only runs whose metadata has this value: `KEY:VALUE`. It can be repeated.",
        examples=[["color:red"]],
    )

    @property
    def columns(self) -> dict[str, Any]:
        # The key is not a column of every list: a list of its own finds the one run that has it.
        return {**self.model_dump(mode="json", exclude={"idempotency_key"}), "metadata": metadata_of(self.metadata)}


class UpdateRun(UserRequest):
    budget: Budget | None = Field(None, description="New budget. It must not be less than what the run has spent.")
    target_leaves: Leaves | None = Field(
        None,
        description="New number of leaves. A completed run whose number is raised continues. A canceled run cannot "
        "be changed.",
    )
    name: Line | None = None


class StepProgress(ResponseModel):
    """Progress of a run in one of its steps."""

    step: Step
    candidates: int
    active: int
    in_flight: int
    approved: bool


class RunSummary(ResponseModel):
    id: UUID
    pipeline_id: UUID
    pipeline_version: int
    pipeline_slug: str
    pipeline_name: str
    name: str
    status: RunStatus
    reason: RunReason | None = Field(None, description="Why the run does not continue, or how it ended.")
    reason_detail: str | None = None
    strategy: Strategy
    target_folder: str
    prompt: str | None = None
    variables: dict[str, Any]
    seed: int
    max_children: int | None = None
    target_leaves: int
    concurrency: int | None = None
    budget: int
    spent: int
    draws: int = Field(description="Number of jobs that the run has started.")
    candidates: int
    leaves: int = Field(
        description="Number of active candidates of the last step, counted up to `target_leaves` and up to 10,000."
    )
    idempotency_key: str | None = Field(None, description="The idempotency key of the request that started the run.")
    client_reference: str | None = Field(None, description="What its client calls the run.")
    metadata: dict[str, str] | None = Field(None, description="Texts of its client, by key.")
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None


class Run(RunSummary):
    steps: list[StepProgress]


class Candidate(ResponseModel):
    id: UUID
    run_id: UUID
    number: int = Field(description="Number of the candidate from 1, in the order of creation.")
    step_id: UUID
    position: int
    parent_id: UUID | None = None
    job_id: UUID
    output_index: int
    seed: int
    elo: int
    votes: int
    status: CandidateStatus
    rejection: Rejection | None = Field(None, description="Why the candidate was rejected.")
    child_count: int = Field(description="Number of children, without surplus ones.")
    in_flight: int
    max_children: int
    failure_count: int
    file_id: UUID
    file: File | None = Field(None, description="The file with a fresh signed URL. Null if it was deleted.")
    thumbnail: File | None = None
    created_at: datetime


class RunItem(RunSummary):
    """A run in a list."""

    winners: list[Candidate] = Field(
        default_factory=list, description="The best candidates of the last step, as many as the request named."
    )


class TreeNode(ResponseModel):
    """A candidate as a node of the tree."""

    id: UUID
    number: int
    parent_id: UUID | None = None
    step_id: UUID
    position: int
    status: CandidateStatus
    rejection: Rejection | None = None
    elo: int
    votes: int
    child_count: int
    in_flight: int = Field(description="Number of active jobs that make children of it.")
    max_children: int
    failure_count: int
