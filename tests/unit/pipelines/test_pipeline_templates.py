"""Templates of pipelines: offered only with workflows that the installation has."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from callsheet.pipelines.design.pipeline_templates import StepKind, filled_template, fits, read_starting_points
from callsheet.wire.effects import EffectProperty
from callsheet.wire.pipelines.design import StepWorkflow
from callsheet.wire.pipelines.pipelines import CreateRun, NewStep

POINTS = {each.slug: each for each in read_starting_points()}


def a_property(key: str, kind: str = "text", *, required: bool = True) -> EffectProperty:
    return EffectProperty.model_validate(
        {"key": key, "type": kind, "label": key, "description": "", "required": required, "limits": {}}
    )


def a_workflow(slug: str, **changes: Any) -> StepWorkflow:
    return StepWorkflow(
        **{
            "workflow": f"workflow-{slug}",
            "effect": slug,
            "effect_id": UUID(int=1),
            "name": slug,
            "description": "",
            "credits_cost": 2,
            "is_available": True,
            "takes_image": False,
            "needs_image": False,
            "placeholders": [],
            "properties": [],
            **changes,
        }
    )


PAINT = a_workflow("paint", prompt_property="prompt", properties=[a_property("prompt")])
VARY = a_workflow("vary", takes_image=True, needs_image=True, seed_property="seed", credits_cost=3)
FINISH = a_workflow("finish", takes_image=True, needs_image=True)


def test_a_template_whose_step_finds_no_workflow_is_not_offered() -> None:
    explore = POINTS["explore-an-idea"]
    assert filled_template(explore, [PAINT, FINISH]) is None
    assert filled_template(explore, [VARY]) is None
    found = filled_template(explore, [FINISH, VARY, PAINT])
    assert found is not None
    assert [step.effect for step in found.steps] == ["paint", "vary", "vary"]
    assert (found.jobs, found.cost) == (2 + 6 + 12, 2 * 2 + 18 * 3)


def test_every_template_is_a_valid_pipeline_with_a_run_that_suits_it() -> None:
    for point in POINTS.values():
        found = filled_template(point, [PAINT, VARY, FINISH])
        assert found is not None
        steps = [NewStep.model_validate(step.model_dump()) for step in found.steps]
        assert not steps[0].needs_parent_image_path
        assert (steps[-1].top_k, steps[-1].requires_approval) == (None, False)
        CreateRun.model_validate({"name": found.name, "budget": found.cost, **found.run.model_dump()})


def test_a_prompt_with_a_variable_asks_the_run_for_it() -> None:
    found = filled_template(POINTS["one-prompt-many-images"], [PAINT])
    assert found is not None
    assert found.steps[0].values == {"prompt": "{{prompt}}, {{style}}"}
    assert (found.steps[0].needs_run_prompt, found.steps[0].needs_run_variables) == (True, True)
    assert found.run.variables.keys() == {"style"}
    # A graph that has its own {{prompt}} takes the prompt as it is, so the variable has no use.
    plain = filled_template(POINTS["one-prompt-many-images"], [a_workflow("plain", placeholders=["prompt"])])
    assert plain is not None
    assert (plain.steps[0].values, plain.steps[0].needs_run_prompt, plain.run.variables) == ({}, True, {})


def test_the_cheapest_workflow_that_needs_nothing_else_is_chosen() -> None:
    dear = a_workflow("dear", prompt_property="prompt", credits_cost=9)
    off = a_workflow("off", prompt_property="prompt", credits_cost=0, is_available=False)
    asks = a_workflow("asks", prompt_property="prompt", credits_cost=1, properties=[a_property("size", "number")])
    found = filled_template(POINTS["one-prompt-many-images"], [dear, off, asks, PAINT])
    assert found is not None
    assert found.steps[0].effect == "paint"
    assert not fits(StepKind.VARY, FINISH)
    assert not fits(StepKind.PAINT, a_workflow("named", prompt_property="prompt", placeholders=["style"]))
