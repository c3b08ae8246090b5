"""The payload of a step that is an actor: values are put into parsed texts, with their types, in one pass."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.pipelines.run.payload_placeholders import (
    address_places,
    check_payload,
    filled,
    names_behind,
    placed_names,
    variables_in,
)
from callsheet.pipelines.run.workflow_placeholders import Needs

EVERYTHING = Needs(prompt=True, parent=True, variables=True)
PAYLOAD: dict[str, Any] = {
    "prompt": "{{prompt}}, {{style}}",
    "params": {"seed": "{{seed}}", "width": "{{width}}", "images": ["{{parent_image_path}}"], "steps": 4, "raw": None},
}


def problems(payload: dict[str, Any], needs: Needs = EVERYTHING, position: int = 2) -> dict[str, str]:
    return {each.field: each.reason for each in check_payload(payload, needs, position)}


def test_a_text_that_is_one_placeholder_becomes_the_value_with_its_type() -> None:
    made = filled(PAYLOAD, {"prompt": "a gym", "style": "noir", "seed": 7, "width": 1.5})
    assert made["prompt"] == "a gym, noir"
    assert made["params"] == {
        "seed": 7,
        "width": 1.5,
        "images": ["{{parent_image_path}}"],
        "steps": 4,
        "raw": None,
    }


def test_placeholders_inside_values_are_not_replaced() -> None:
    given = {"prompt": '{{style}}", "width": 9, "{{parent_image_path}}', "style": "noir", "seed": 1, "width": True}
    made = filled(PAYLOAD, given)
    assert made["prompt"] == '{{style}}", "width": 9, "{{parent_image_path}}, noir'
    assert made["params"]["width"] is True
    assert filled({"text": "it is {{width}}"}, given) == {"text": "it is true"}


def test_the_step_and_never_a_value_decides_where_the_parent_image_goes() -> None:
    assert address_places(PAYLOAD) == [("params", "images", 0)]
    assert address_places({"prompt": "{{prompt}}"}) == []


def test_a_payload_that_fits_has_no_problem() -> None:
    assert problems(PAYLOAD) == {}
    assert variables_in(PAYLOAD, EVERYTHING) == {"style", "width", "seed"}
    assert variables_in(PAYLOAD, Needs(prompt=True)) == set()


@pytest.mark.parametrize(
    ("payload", "needs", "field", "reason"),
    [
        ({"prompt": "{{prompt}}"}, Needs(), "payload.prompt", "Set needs_run_prompt."),
        ({"a": [{"b": "{{style}}"}]}, Needs(), "payload.a.0.b", "The placeholder {{style}} is unknown."),
        ({"a": "{{Not a name}}"}, Needs(variables=True), "payload.a", "is not a valid name"),
        ({"a": "{{parent_image_path}}"}, Needs(), "payload.a", "Set needs_parent_image_path."),
        ({"a": "{{parent_file_id}}"}, Needs(), "payload.a", "Set needs_parent_image_path."),
        ({"a": "see {{parent_image_path}}"}, Needs(parent=True), "payload.a", "The whole text must be"),
        ({"a": 1}, Needs(prompt=True), "needs_run_prompt", "has no {{prompt}}"),
        ({"a": 1}, Needs(parent=True), "needs_parent_image_path", "neither {{parent_image_path}} nor"),
        ({"{{style}}": 1}, Needs(variables=True), "payload", "A key contains a placeholder."),
        ({"a": [{"{{style}}": 1}]}, Needs(variables=True), "payload.a.0", "A key contains a placeholder."),
        ({"task_files": []}, Needs(), "payload.task_files", "reserved"),
        ({"a": ["{{seed}}"] * 1001}, Needs(), "payload", "The limit is 1000."),
    ],
)
def test_a_problem_in_a_payload_is_named_by_its_place(
    payload: dict[str, Any], needs: Needs, field: str, reason: str
) -> None:
    assert reason in problems(payload, needs)[field]


def test_a_first_step_has_no_parent() -> None:
    found = problems({"a": "{{parent_image_path}}"}, Needs(parent=True), position=1)
    assert found == {"needs_parent_image_path": "The first step has no parent."}


def test_the_variables_behind_a_refused_field_are_found() -> None:
    placed = placed_names(PAYLOAD)
    assert names_behind(placed, "payload.params.width") == {"width"}
    assert names_behind(placed, "payload.params") == {"seed", "width", "parent_image_path"}
    assert names_behind(placed, "payload.params.images.0.extra") == {"parent_image_path"}
    assert names_behind(placed, "workflow") == set()
