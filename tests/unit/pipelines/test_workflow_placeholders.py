"""The meaning of placeholders in a step's workflow, and names of steps, folders and candidates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.payloads import filled, resolve
from callsheet.pipelines.design.definitions import in_order, slug_of, slugs_of
from callsheet.pipelines.run.collector import candidate_id_of, path_of
from callsheet.pipelines.run.runs import folder_of
from callsheet.pipelines.run.workflow_placeholders import (
    Needs,
    check_step,
    completed,
    given_values,
    lacking_variables,
    taken_variables,
    undescribed,
)
from callsheet.wire.catalog import Property, PropertyType
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.pipelines.pipelines import NewStep
from tests.support.effect_recipes import effect_recipe

GRAPH: dict[str, Any] = {
    "1": {
        "class_type": "Paint",
        "inputs": {"text": "{{prompt}}, {{style}}", "cfg": "{{strength}}", "seed": "{{seed}}"},
    },
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}
RECIPE = effect_recipe()
ALL = Needs(prompt=True, variables=True)
AT = datetime(2025, 11, 10, 0, 23, 45, tzinfo=UTC)


def fill(prompt: str, variables: dict[str, Any], seed: int = 5, recipe: EffectRecipe = RECIPE) -> dict[str, Any]:
    whole = completed(recipe, GRAPH, {**variables, "seed": seed})
    graph = filled(whole, GRAPH, resolve(whole, given_values(whole, ALL, prompt, variables, seed)).values).graph
    inputs: dict[str, Any] = graph["1"]["inputs"]
    return inputs


def test_values_keep_their_type_and_text_stays_text() -> None:
    inputs = fill('a "gym"', {"style": "no'ir", "strength": 7.5})
    assert inputs == {"text": 'a "gym", no\'ir', "cfg": 7.5, "seed": 5}


@given(some.text(max_size=50), some.text(max_size=50))
def test_placeholders_inside_values_are_not_replaced(prompt: str, style: str) -> None:
    assert fill("{{style}}" + prompt, {"style": style, "strength": 1})["text"] == "{{style}}" + prompt + ", " + style


def test_names_that_no_property_describes_are_found() -> None:
    style = Property(key="look", type=PropertyType.TEXT, placeholder="{{style}}", user_configurable=True)
    described = replace(RECIPE, properties=(style,))
    assert undescribed(described, GRAPH) == {"prompt", "strength", "seed"}
    assert taken_variables(described, GRAPH, ALL) == {"look", "style", "strength", "seed"}
    # By its placeholder or by its key, it is the same property.
    for name in ("style", "look"):
        assert fill("a", {name: "noir", "strength": 1}, recipe=described)["text"] == "a, noir"


def test_a_seed_is_reduced_to_the_range_of_the_workflow() -> None:
    seed = Property(
        key="seed",
        type=PropertyType.NUMBER,
        placeholder="{{seed}}",
        default=1,
        user_configurable=True,
        limits={"integer": True, "min": 10, "max": 19},  # type: ignore[arg-type]
    )
    inputs = fill("a", {"style": "b", "strength": 1}, seed=2**53 - 1, recipe=replace(RECIPE, properties=(seed,)))
    assert inputs["seed"] == 10 + (2**53 - 1) % 10


def test_a_seed_that_users_may_not_set_stays_the_workflows_own() -> None:
    seed = Property(key="seed", type=PropertyType.NUMBER, placeholder="{{seed}}", default=7)
    assert fill("a", {"style": "b", "strength": 1}, recipe=replace(RECIPE, properties=(seed,)))["seed"] == 7


def test_a_step_that_fits_has_no_problems() -> None:
    assert list(check_step(RECIPE, GRAPH, ALL, 1)) == []


def step(name: str, position: int | None = None, slug: str | None = None) -> NewStep:
    return NewStep(name=name, position=position, slug=slug, workflow="w")


@given(some.permutations(range(1, 8)))
def test_positions_in_any_order_without_a_gap_are_an_order(positions: list[int]) -> None:
    ordered = in_order([step("s", position) for position in positions])
    assert [each.position for _, each in ordered] == list(range(1, 8))
    assert [positions[place] for place, _ in ordered] == list(range(1, 8))


@given(some.lists(some.integers(1, 9), min_size=1, max_size=7))
def test_positions_with_a_gap_or_a_circle_are_refused(positions: list[int]) -> None:
    if sorted(positions) != list(range(1, len(positions) + 1)):
        with pytest.raises(InvalidRequest):
            in_order([step("s", position) for position in positions])


def test_every_step_gets_a_folder_of_its_own() -> None:
    steps = [step("Face fix!"), step("face fix"), step("日本"), step("Fix", slug="own"), step("own")]
    assert slugs_of(steps) == ["face-fix", "face-fix-2", "step-3", "own", "own-5"]
    assert slugs_of([step("a"), step("a"), step("b", slug="a-2")]) == ["a", "a-3", "a-2"]
    with pytest.raises(InvalidRequest, match=r"steps\.0\.slug"):
        slugs_of([step("a", slug="same"), step("b", slug="same")])


@given(some.text())
def test_a_folder_is_always_one_plain_segment(name: str) -> None:
    folder = folder_of(name, UUID(int=2**120 + 5))
    assert 0 < len(folder) <= 63
    assert folder.strip("-") == folder
    assert set(folder) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert slug_of(folder) == folder


def test_a_candidates_id_and_path_follow_from_its_job() -> None:
    job_id = UUID(int=77)
    first = candidate_id_of(job_id, 0, AT)
    assert (first, first.version) == (candidate_id_of(job_id, 0, AT), 7)
    assert first != candidate_id_of(job_id, 1, AT)
    assert path_of("runs/gym/face-fix", first, AT, "a/output-1.png") == f"runs/gym/face-fix/{first}_20251110002345.png"
    assert path_of("runs/gym/face-fix", first, AT, "a/output.P/../x").endswith(".bin")


def _text(key: str, placeholder: str, **more: Any) -> Property:
    return Property.model_validate(
        {"key": key, "type": "text", "placeholder": placeholder, "user_configurable": True, **more}
    )


WORDS = _text("words", "{{words}}", limits={"max_length": 30})
SIZE = Property.model_validate(
    {"key": "size", "type": "number", "placeholder": "{{size}}", "user_configurable": True, "default": 1}
    | {"limits": {"min": 0, "max": 100, "integer": True}}
)
WORDED: dict[str, Any] = {"1": {"class_type": "Paint", "inputs": {"text": "{{words}}", "size": "{{size}}"}}}
DESCRIBED = replace(RECIPE, properties=(WORDS, SIZE))


def values_of(needs: Needs, prompt: str | None, variables: dict[str, Any], seed: int = 5) -> dict[str, Any]:
    return given_values(DESCRIBED, needs, prompt, variables, seed)


def test_a_text_of_a_step_takes_prompt_variables_and_seed() -> None:
    needs = Needs(prompt=True, variables=True, values={"words": "{{prompt}}, {{style}} {{seed}}", "size": "{{size_2}}"})
    assert list(check_step(DESCRIBED, WORDED, needs, 1)) == []
    assert taken_variables(DESCRIBED, WORDED, needs) >= {"style", "size_2"}
    found = values_of(needs, "{{style}}", {"style": "noir", "size_2": 7})
    # One pass: a prompt that looks like a placeholder stays a text. A text that is one placeholder keeps the type.
    assert found == {"words": "{{style}}, noir 5", "size": 7}
    assert lacking_variables(needs, {"style": "noir"}) == ["size_2"]


def test_a_drawn_seed_fits_the_property_that_a_step_gives_it_to() -> None:
    assert values_of(Needs(values={"size": "{{seed}}"}), None, {}, seed=2**52)["size"] == 2**52 % 101


def test_the_prompt_of_a_run_does_not_replace_the_text_of_a_step() -> None:
    recipe = replace(DESCRIBED, properties=(_text("prompt", "{{prompt}}"),))
    named = Needs(prompt=True, values={"prompt": "oil painting of {{prompt}}"})
    assert given_values(recipe, named, "a gym", {}, 1) == {"prompt": "oil painting of a gym"}
    # A text without a placeholder never had a say: the run's prompt goes into the prompt.
    assert given_values(recipe, Needs(prompt=True, values={"prompt": "x"}), "a gym", {}, 1) == {"prompt": "a gym"}


@pytest.mark.parametrize(
    ("needs", "field", "reason"),
    [
        (Needs(values={"words": "{{prompt}}"}), "values.words", "Set needs_run_prompt"),
        (Needs(values={"words": "{{style}}"}), "values.words", "set needs_run_variables"),
        (Needs(variables=True, values={"words": "{{My style}}"}), "values.words", "is not a valid name"),
        (Needs(parent=True, values={"words": "{{parent_image_path}}"}), "values.words", "gets the parent's image"),
        (Needs(variables=True, values={"size": "{{style}} px"}), "values.size", "must be a number"),
    ],
)
def test_a_placeholder_in_a_value_that_nothing_fills_is_refused_at_the_value(
    needs: Needs, field: str, reason: str
) -> None:
    found = {each.field: each.reason for each in check_step(DESCRIBED, WORDED, needs, 2)}
    assert reason in found[field]
