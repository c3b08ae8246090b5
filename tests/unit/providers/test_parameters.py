"""What users may say in `params`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from callsheet.providers.parameters import Parameter, parameter_problems, unfit, with_defaults

WIDTH = Parameter(type="integer", default=1024, least=512, most=1536)


@pytest.mark.parametrize(
    ("parameter", "value", "reason"),
    [
        (WIDTH, 512, None),
        (WIDTH, 511, "should be 512 or more"),
        (WIDTH, 1537, "should be 1536 or less"),
        (WIDTH, 600.5, "should be a whole number"),
        (WIDTH, True, "should be a whole number"),
        (WIDTH, "600", "should be a whole number"),
        (Parameter(type="integer"), 2**60, "should be a number up to 9007199254740992"),
        (Parameter(type="number"), 1, None),
        (Parameter(type="number"), float("nan"), "should be a finite number"),
        (Parameter(type="number"), float("inf"), "should be a finite number"),
        (Parameter(type="boolean"), False, None),
        (Parameter(type="boolean"), 0, "should be true or false"),
        (Parameter(), "x" * 10_000, None),
        (Parameter(), "x" * 10_001, "should be 10000 characters or less"),
        (Parameter(least=2), "x", "should be 2 characters or more"),
        (Parameter(choices=("a", "b")), "c", "should be one of a, b"),
        (Parameter(), [], "should be text"),
        (Parameter(), {}, "should be text"),
    ],
)
def test_a_value_is_of_its_kind_and_within_its_bounds(parameter: Parameter, value: Any, reason: str | None) -> None:
    assert unfit(parameter, value) == reason


def test_every_wrong_parameter_is_named() -> None:
    parameters = {"width": WIDTH, "style": Parameter(required=True)}
    problems = parameter_problems(parameters, "txt2img", {"width": 1, "height": 2})
    assert {each.field: each.reason for each in problems} == {
        "params.height": "is not a parameter of txt2img; they are: width, style",
        "params.width": "should be 512 or more",
        "params.style": "is required",
    }


def test_a_null_says_nothing() -> None:
    assert list(parameter_problems({"width": WIDTH}, "txt2img", {"width": None})) == []
    assert with_defaults({"width": WIDTH, "seed": Parameter(type="integer")}, {"width": None}) == {"width": 1024}
    assert with_defaults({"width": WIDTH}, {"width": 600}) == {"width": 600}


@pytest.mark.parametrize(
    "wrong", [{"least": 2, "most": 1}, {"default": 5}, {"type": "integer", "default": "x"}, {"type": "colour"}]
)
def test_a_parameter_that_makes_no_sense_is_refused_in_the_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Parameter.model_validate(wrong)
