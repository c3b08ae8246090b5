"""Models for the editor of pipelines: workflows for steps, templates, versions, and previews of runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import ResponseModel, UserRequest
from callsheet.wire.catalog import Paragraph, PropertyValue
from callsheet.wire.effects import LOWEST, EffectPreview, EffectProperty
from callsheet.wire.pipelines.pipelines import (
    DEFAULT_LEAVES,
    Children,
    Leaves,
    PipelineSummary,
    RunReason,
    RunStatus,
    Seed,
    Step,
    Steps,
    Strategy,
    Variables,
)


class ChainStep(ResponseModel):
    """A step as a link of its chain: without payload and values."""

    position: int
    name: str
    workflow: str
    max_children: int
    top_k: int | None = None
    requires_approval: bool


class LastRun(ResponseModel):
    id: UUID
    name: str
    status: RunStatus
    reason: RunReason | None = Field(None, description="Why the run does not continue, or how it ended.")
    candidates: int
    created_at: datetime


class ListedPipeline(PipelineSummary):
    chain: list[ChainStep] = Field(description="The steps in order.")
    last_run: LastRun | None = Field(None, description="The newest run of the pipeline. Null if it has none.")


class PipelineVersion(ResponseModel):
    version: int
    created_at: datetime
    steps: list[Step]


class StepWorkflow(ResponseModel):
    """A published effect whose workflow can be a step."""

    workflow: str = Field(description="Value for `workflow` of a step.")
    effect: str = Field(description="Value for `effect` of a step: the effect that sets the price.")
    effect_id: UUID
    name: str
    description: str
    credits_cost: int = Field(description=LOWEST)
    price_formula: str = ""
    is_available: bool = Field(description="Whether the workflow is switched on.")
    preview: EffectPreview | None = None
    takes_image: bool = Field(description="Whether the workflow can use the image of the parent.")
    needs_image: bool = Field(description="Whether the workflow works on an image, so that it cannot be the first.")
    prompt_property: str | None = Field(None, description="Key of the property that gets the run's prompt.")
    seed_property: str | None = Field(None, description="Key of the property that gets the seed of each job.")
    placeholders: list[str] = Field(
        description="Names of placeholders in the graph that no property describes. A run gives their values."
    )
    properties: list[EffectProperty] = Field(description="Properties that a step can set. Files are left out.")


class TemplateStep(ResponseModel):
    """A step of a template, with the fields of a new step."""

    name: str
    workflow: str
    effect: str | None = None
    payload: dict[str, Any] | None = None
    values: dict[str, PropertyValue]
    needs_run_prompt: bool
    needs_parent_image_path: bool
    needs_run_variables: bool
    max_children: int
    top_k: int | None = None
    requires_approval: bool


class TemplateRun(ResponseModel):
    """A run that suits the template."""

    prompt: str | None = None
    variables: dict[str, Any]
    target_leaves: int
    strategy: Strategy


class PipelineTemplate(ResponseModel):
    """A pipeline that you can create as it is: the installation has all its workflows."""

    slug: str
    name: str
    description: str
    steps: list[TemplateStep]
    run: TemplateRun
    jobs: int = Field(description="Number of jobs that the run is expected to start.")
    cost: int = Field(description="Number of tokens that the run is expected to spend.")


class PreviewRun(UserRequest):
    """Steps, and what a run would give to them. Nothing is written."""

    steps: Steps
    prompt: Paragraph | None = None
    variables: Variables = Field(default_factory=dict)
    strategy: Strategy = Strategy.FINISH_FIRST
    seed: Seed | None = Field(None, description="Random seed of the run. Default: 0.")
    max_children: Children | None = None
    target_leaves: Leaves = DEFAULT_LEAVES


class StepPreview(ResponseModel):
    position: int
    name: str
    slug: str
    workflow: str
    cost: int | None = Field(
        None, description="Tokens for each job of this step. Null if the price depends on a value that is missing."
    )
    candidates: int = Field(description="Number of candidates that the step is expected to make.")


class FirstJob(ResponseModel):
    """The first job that a run with this seed would start."""

    step: str = Field(description="Slug of the step.")
    workflow: str
    cost: int
    seed: int
    values: dict[str, Any] = Field(description="Values of the workflow's properties that users can set, by key.")
    payload: dict[str, Any] | None = Field(None, description="Payload that the actor gets. Null for a workflow.")
    graph: dict[str, Any] | None = Field(
        None, description="Graph that the engine gets. Only operators see it. Null for an actor."
    )


class InputProblem(ResponseModel):
    field: str = Field(description="`prompt` or `variables.NAME`.")
    reason: str


class RunPreview(ResponseModel):
    """The jobs and costs of a run, if every job succeeds with one image and no person guides the run."""

    steps: list[StepPreview]
    jobs: int = Field(description="Number of jobs that the run is expected to start.")
    cost: int | None = Field(
        None, description="Number of tokens that the run is expected to spend. Null if the price of a step is."
    )
    variables: list[str] = Field(description="Names of the variables that the steps use.")
    needs_prompt: bool = Field(description="Whether a step uses the run's prompt.")
    first_job: FirstJob | None = Field(None, description="Null if `problems` is not empty.")
    problems: list[InputProblem] = Field(description="What is wrong with the prompt and the variables of the run.")
