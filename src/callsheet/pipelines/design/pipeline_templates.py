"""Templates of pipelines, which are filled with workflows of the installation."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict

from callsheet.pipelines.design.step_workflows import StepWorkflows
from callsheet.pipelines.run.expectations import Link, expected_candidates
from callsheet.pipelines.run.workflow_placeholders import PARENT, PROMPT, SEED, names_of
from callsheet.wire.pipelines.design import PipelineTemplate, StepWorkflow, TemplateRun, TemplateStep
from callsheet.wire.pipelines.pipelines import DEFAULT_CHILDREN, Strategy


class StepKind(StrEnum):
    PAINT = "paint"
    VARY = "vary"
    FINISH = "finish"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StartingStep(_Strict):
    name: str
    kind: StepKind
    prompt: str = "{{prompt}}"
    max_children: int = DEFAULT_CHILDREN
    top_k: int | None = None
    requires_approval: bool = False


class StartingRun(_Strict):
    prompt: str
    variables: dict[str, Any] = {}
    target_leaves: int
    strategy: Strategy = Strategy.FINISH_FIRST


class StartingPoint(_Strict):
    slug: str
    name: str
    description: str
    run: StartingRun
    steps: tuple[StartingStep, ...]


def read_starting_points() -> tuple[StartingPoint, ...]:
    text = files("callsheet.pipelines.design").joinpath("starting_points.toml").read_text("utf-8")
    return tuple(StartingPoint.model_validate(each) for each in tomllib.loads(text)["templates"])


class StartingPoints:
    def __init__(self, workflows: StepWorkflows):
        self._workflows = workflows
        self._all = read_starting_points()

    async def list(self) -> list[PipelineTemplate]:
        available = await self._workflows.newest()
        return [found for each in self._all if (found := filled_template(each, available)) is not None]


def filled_template(point: StartingPoint, workflows: Sequence[StepWorkflow]) -> PipelineTemplate | None:
    """The template with the cheapest suitable workflow for each step. None if no workflow suits a step."""
    chosen = []
    for step in point.steps:
        fitting = [each for each in workflows if fits(step.kind, each)]
        if not fitting:
            return None
        chosen.append(min(fitting, key=lambda each: (each.credits_cost, each.effect)))
    counts = expected_candidates(
        [Link(step.max_children, step.top_k) for step in point.steps], point.run.target_leaves, point.run.strategy
    )
    steps = [_step(step, workflow) for step, workflow in zip(point.steps, chosen, strict=True)]
    # Only variables that a step uses are kept, because a run with other variables would be refused.
    used = {name for step in steps for value in step.values.values() for name in names_of(value)}
    return PipelineTemplate(
        slug=point.slug,
        name=point.name,
        description=point.description,
        steps=steps,
        run=TemplateRun(
            prompt=point.run.prompt,
            variables={name: value for name, value in point.run.variables.items() if name in used},
            target_leaves=point.run.target_leaves,
            strategy=point.run.strategy,
        ),
        jobs=sum(counts),
        cost=sum(count * workflow.credits_cost for count, workflow in zip(counts, chosen, strict=True)),
    )


def fits(kind: StepKind, workflow: StepWorkflow) -> bool:
    """Whether the workflow can do this kind of work with only a prompt, a seed and the parent's image."""
    given = {workflow.prompt_property, workflow.seed_property}
    if not workflow.is_available or any(each.required and each.key not in given for each in workflow.properties):
        return False
    if set(workflow.placeholders) - {PROMPT, SEED, PARENT}:
        return False
    match kind:
        case StepKind.PAINT:
            return not workflow.takes_image and _takes_prompt(workflow)
        case StepKind.VARY:
            return workflow.takes_image and workflow.seed_property is not None
        case StepKind.FINISH:
            return workflow.takes_image


def _takes_prompt(workflow: StepWorkflow) -> bool:
    return workflow.prompt_property is not None or PROMPT in workflow.placeholders


def _step(step: StartingStep, workflow: StepWorkflow) -> TemplateStep:
    key = workflow.prompt_property
    names = set(names_of(step.prompt)) if key is not None else set()
    # The property gets the plain prompt without a value.
    values = {key: step.prompt} if key is not None and step.prompt != "{{prompt}}" else {}
    return TemplateStep(
        name=step.name,
        workflow=workflow.workflow,
        effect=workflow.effect,
        values=values,
        needs_run_prompt=PROMPT in names or PROMPT in workflow.placeholders,
        needs_parent_image_path=workflow.takes_image,
        needs_run_variables=bool(names - {PROMPT, SEED}),
        max_children=step.max_children,
        top_k=step.top_k,
        requires_approval=step.requires_approval,
    )
