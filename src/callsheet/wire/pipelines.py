"""Pipelines, their runs, and the candidates these make, as the user API speaks of them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field

from callsheet.wire.base import WHOLE, Answer, Document, Line, Switch, UserRequest
from callsheet.wire.catalog import Paragraph, PropertyValue, Values
from callsheet.wire.forms import PropertyKey, Slug, WorkflowSlug
from callsheet.wire.media import File

MOST_STEPS = 50
DEFAULT_CHILDREN = 5
DEFAULT_LEAVES = 10
START_ELO = 1000
# What JSON's numbers can say exactly in every language.
LARGEST_SEED = 2**53 - 1

Children = Annotated[int, Field(ge=1, le=10_000), WHOLE]
Leaves = Annotated[int, Field(ge=1, le=100_000), WHOLE]
Budget = Annotated[int, Field(ge=1, le=2**53), WHOLE]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED), WHOLE]
# Of all variables of a run together. They are in every job of it, and in every line of a list of runs.
MOST_CHARACTERS = 65_536


def _bounded(variables: dict[str, Any]) -> dict[str, Any]:
    if sum(len(value) for value in variables.values() if isinstance(value, str)) > MOST_CHARACTERS:
        raise ValueError(f"should have at most {MOST_CHARACTERS} characters in all texts together")
    return variables


# The document speaks of keys of this form; that there are no others has to be said.
Variables = Annotated[
    dict[PropertyKey, PropertyValue],
    Field(max_length=100, json_schema_extra={"additionalProperties": False}),
    AfterValidator(_bounded),
]


class Strategy(StrEnum):
    """`finish_first` finishes what is nearest done; `breadth_first` fills a step before it goes on to the next."""

    FINISH_FIRST = "finish_first"
    BREADTH_FIRST = "breadth_first"


class RunStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELED = "canceled"


class RunReason(StrEnum):
    """Why a run does not go on, or how it ended."""

    BY_USER = "by_user"
    TARGET_REACHED = "target_reached"
    NOTHING_LEFT = "nothing_left"
    APPROVAL_NEEDED = "approval_needed"
    BUDGET_SPENT = "budget_spent"
    INSUFFICIENT_TOKENS = "insufficient_tokens"
    TOO_MANY_ACTIVE_JOBS = "too_many_active_jobs"
    TENANT_AT_LIMIT = "tenant_at_limit"
    QUOTA_EXCEEDED = "quota_exceeded"
    CANNOT_BUILD = "cannot_build"
    BASE_FAILED = "base_failed"
    BRANCHES_FAILED = "branches_failed"
    INTERNAL_ERROR = "internal_error"


class CandidateStatus(StrEnum):
    ACTIVE = "active"
    REJECTED = "rejected"


class Rejection(StrEnum):
    """How a candidate came to be rejected: by a person, with one it descends from, or because its job made more
    pictures than its parent may have children."""

    KILLED = "killed"
    KILLED_WITH_ANCESTOR = "killed_with_ancestor"
    SURPLUS = "surplus"


class NewStep(UserRequest):
    """One step. `max_children`, `top_k` and `requires_approval` are about its candidates as parents of the next."""

    name: Line
    slug: Slug | None = Field(None, description="A folder of its files. Default: made of the name.")
    position: Annotated[int, Field(ge=1, le=MOST_STEPS), WHOLE] | None = Field(
        None, description="From 1, without a gap. Default: as listed."
    )
    workflow: WorkflowSlug = Field(
        description="What makes its candidates: a workflow, or an actor of tasks as `actor:NAME` or `actor:NAME:QUEUE`."
    )
    payload: Document | None = Field(
        None,
        description="What the actor is asked with, where it is one. In its texts may stand `{{prompt}}`, `{{seed}}`, "
        "`{{parent_image_path}}` (an address of the parent's picture), `{{parent_file_id}}`, and variables.",
    )
    effect: Slug | None = Field(
        None, description="The published effect of the workflow that prices it. Needed where there are several."
    )
    values: Values = Field(default_factory=dict, description="Values of the workflow's properties, by key.")
    needs_run_prompt: Switch = Field(False, description="Whether `{{prompt}}` is the run's.")
    needs_parent_image_path: Switch = Field(
        False, description="Whether `{{parent_image_path}}` is the parent's picture."
    )
    needs_run_variables: Switch = Field(
        False, description="Whether the run's variables fill the placeholders they name."
    )
    max_children: Children = Field(DEFAULT_CHILDREN, description="N: how many children each candidate may have.")
    top_k: Children | None = Field(None, description="Only so many, the best by ELO, go on; in `breadth_first` runs.")
    requires_approval: Switch = Field(
        False, description="Whether its candidates wait until a person approves the step."
    )


Steps = Annotated[list[NewStep], Field(min_length=1, max_length=MOST_STEPS)]


class CreatePipeline(UserRequest):
    slug: Slug
    name: Line
    description: Paragraph = ""
    steps: Steps


class UpdatePipeline(UserRequest):
    """What is left out stays as it is. Runs that have begun keep the steps they began with."""

    name: Line | None = None
    description: Paragraph | None = None
    steps: Steps | None = None


class Step(Answer):
    id: UUID
    position: int
    name: str
    slug: str
    workflow: str
    effect_id: UUID | None = Field(
        None, description="What prices it; null where it is an actor, priced by the settings."
    )
    payload: dict[str, Any] | None = None
    values: dict[str, Any]
    needs_run_prompt: bool
    needs_parent_image_path: bool
    needs_run_variables: bool
    max_children: int
    top_k: int | None = None
    requires_approval: bool


class PipelineSummary(Answer):
    id: UUID
    slug: str
    name: str
    description: str
    version: int = Field(description="Raised whenever its steps change.")
    created_at: datetime
    updated_at: datetime


class Pipeline(PipelineSummary):
    steps: list[Step]


class CreateRun(UserRequest):
    name: Line
    budget: Budget = Field(description="The most tokens it may use up; no job is begun beyond it.")
    prompt: Paragraph | None = Field(None, description="What `{{prompt}}` stands for.")
    variables: Variables = Field(default_factory=dict, description="What placeholders like `{{style}}` stand for.")
    target_folder: Slug | None = Field(None, description="Where its files go. Default: made of the name and its id.")
    strategy: Strategy = Strategy.FINISH_FIRST
    seed: Seed | None = Field(None, description="Everything it draws follows from this. Default: a random one.")
    max_children: Children | None = Field(None, description="N for every step, in place of the steps' own.")
    target_leaves: Leaves = Field(DEFAULT_LEAVES, description="T: no new base is begun once there are so many leaves.")
    concurrency: Annotated[int, Field(ge=1, le=1000), WHOLE] | None = Field(
        None, description="Jobs at once, up to what the settings allow, which is the default."
    )
    idempotency_key: Line | None = Field(None, description="The same key once more answers the run it was used for.")


class UpdateRun(UserRequest):
    budget: Budget | None = Field(None, description="Not less than what was spent.")
    name: Line | None = None


class StepProgress(Answer):
    """How far a run is in one of its steps."""

    step: Step
    candidates: int
    active: int
    in_flight: int
    approved: bool


class RunSummary(Answer):
    id: UUID
    pipeline_id: UUID
    pipeline_version: int
    name: str
    status: RunStatus
    reason: RunReason | None = Field(None, description="Why it does not go on, or how it ended.")
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
    draws: int = Field(description="How many jobs it has begun.")
    candidates: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None


class Run(RunSummary):
    steps: list[StepProgress]


class Candidate(Answer):
    id: UUID
    run_id: UUID
    number: int = Field(description="From 1, in the order they were made.")
    step_id: UUID
    position: int
    parent_id: UUID | None = None
    job_id: UUID
    output_index: int
    seed: int
    elo: int
    votes: int
    status: CandidateStatus
    rejection: Rejection | None = Field(None, description="How it came to be rejected.")
    child_count: int = Field(description="Not counted: children that were surplus.")
    in_flight: int
    max_children: int
    failure_count: int
    file_id: UUID
    file: File | None = Field(None, description="With a fresh address; null where it was deleted.")
    thumbnail: File | None = None
    created_at: datetime


class TreeNode(Answer):
    """A candidate as a place in the tree."""

    id: UUID
    number: int
    parent_id: UUID | None = None
    step_id: UUID
    position: int
    status: CandidateStatus
    elo: int
    votes: int
    child_count: int
    failure_count: int
