"""The parameters (`params`) that users may send."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.providers.parameters import Parameter, parameter_problems, unfit, with_defaults

WIDTH = Parameter(type="integer", default=1024, minimum=512, maximum=1536)


@pytest.mark.parametrize(
    ("parameter", "value", "reason"),
    [
        (WIDTH, 512, None),
        (WIDTH, 511, "The value must be 512 or more."),
        (WIDTH, 1537, "The value must be 1536 or less."),
        (WIDTH, 600.5, "The value must be a whole number."),
        (WIDTH, True, "The value must be a whole number."),
        (WIDTH, "600", "The value must be a whole number."),
        (Parameter(type="integer"), 2**60, "The value must be a number up to 9007199254740992."),
        (Parameter(type="number"), 1, None),
        (Parameter(type="number"), float("nan"), "The value must be a finite number."),
        (Parameter(type="number"), float("inf"), "The value must be a finite number."),
        (Parameter(type="boolean"), False, None),
        (Parameter(type="boolean"), 0, "The value must be true or false."),
        (Parameter(), "x" * 10_000, None),
        (Parameter(), "x" * 10_001, "The value must have 10000 characters or less."),
        (Parameter(minimum=2), "x", "The value must have 2 characters or more."),
        (Parameter(choices=("a", "b")), "c", "The value must be one of: a, b."),
        (Parameter(), [], "The value must be a text."),
        (Parameter(), {}, "The value must be a text."),
    ],
)
def test_a_value_is_of_its_kind_and_within_its_bounds(parameter: Parameter, value: Any, reason: str | None) -> None:
    assert unfit(parameter, value) == reason


def test_every_wrong_parameter_is_named() -> None:
    parameters = {"width": WIDTH, "style": Parameter(required=True)}
    problems = parameter_problems(parameters, "txt2img", {"width": 1, "height": 2})
    assert {each.field: each.reason for each in problems} == {
        "params.height": "The action txt2img has no such parameter. Available: width, style.",
        "params.width": "The value must be 512 or more.",
        "params.style": "This field is required.",
    }


def test_a_null_counts_as_missing() -> None:
    assert list(parameter_problems({"width": WIDTH}, "txt2img", {"width": None})) == []
    assert with_defaults({"width": WIDTH, "seed": Parameter(type="integer")}, {"width": None}) == {"width": 1024}
    assert with_defaults({"width": WIDTH}, {"width": 600}) == {"width": 600}


@pytest.mark.parametrize(
    "wrong", [{"minimum": 2, "maximum": 1}, {"default": 5}, {"type": "integer", "default": "x"}, {"type": "colour"}]
)
def test_an_impossible_parameter_is_refused_in_the_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Parameter.model_validate(wrong)
