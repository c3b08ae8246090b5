"""Formulas of prices: what they mean, which are refused, and that every accepted one has a price for every job."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.catalog.pricing.formulas import FormulaProblem, Value, Variable, calculated, parsed, variables_of
from callsheet.catalog.pricing.ranges import LEAST, MAX_PRICE, lowest_price
from callsheet.wire.catalog import Property

VIDEO = {"key": "video", "type": "video", "is_primary_input": True, "limits": {"max_seconds": 60}}
QUALITY = {"key": "quality", "type": "choice", "limits": {"choices": ["draft", "final", "4k"]}}
COUNT = {"key": "count", "type": "number", "limits": {"min": 1, "max": 4, "integer": True}}
STRENGTH = {"key": "strength", "type": "number", "limits": {"min": -2, "max": 0.5}}
FREE = {"key": "free", "type": "number"}
LARGE = {"key": "large", "type": "boolean"}
PROMPT = {"key": "prompt", "type": "text", "limits": {"max_length": 500}}
OVERLAY = {"key": "overlay", "type": "image", "default": "00000000-0000-0000-0000-000000000001"}
ALL = (VIDEO, QUALITY, COUNT, STRENGTH, FREE, LARGE, PROMPT, OVERLAY)


def properties(*chosen: dict[str, Any]) -> list[Property]:
    return [
        Property.model_validate({"placeholder": f"{{{{{each['key']}}}}}", "user_configurable": True, **each})
        for each in chosen or ALL
    ]


def price(formula: str, **values: Value) -> Fraction:
    named = {Variable(*key.split("__")): value for key, value in values.items()}
    return calculated(parsed(formula), named)


@pytest.mark.parametrize(
    ("formula", "values", "expected"),
    [
        ("2 + 3 * 4", {}, 14),
        ("(2 + 3) * 4", {}, 20),
        ("10 - 4 - 3", {}, 3),
        ("12 / 2 / 3", {}, 2),
        ("ceil(count / 2) + floor(count / 2)", {"count": 5}, 5),
        ("round(count / 2)", {"count": 5}, 3),
        ("min(count, 3, 7) + max(1, count)", {"count": 5}, 8),
        ('quality["draft": 1, "final": 2.5] * 2', {"quality": "final"}, 5),
        ("large[true: 3, false: 1]", {"large": False}, 1),
        ("count[<=1: 5, <=4: 9, else: 2 * count]", {"count": 4}, 9),
        ("count[<=1: 5, <=4: 9, else: 2 * count]", {"count": 5}, 10),
        ("ceil(0.1 * count)", {"count": 0.1 * 100}, 1),
        ("ceil(10 * strength)", {"strength": 0.1}, 1),
        ("video.seconds * 3", {"video__seconds": Fraction(1, 3)}, 1),
    ],
)
def test_a_formula_is_calculated_exactly(formula: str, values: dict[str, Value], expected: int) -> None:
    assert price(formula, **values) == expected


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("", "A number, a property or ( is missing, at character 1."),
        ("1 +", "A number, a property or ( is missing, at character 4."),
        ("1 2", "An operator such as + or * is missing, at character 3."),
        ("-1", "A number has no sign here. Subtract from another number, for example 10 - count, at character 1."),
        ("count ** 2", "A number, a property or ( is missing, at character 8."),
        ("__import__('os')", "'_' has no meaning in a formula, at character 1."),
        ("exec(1)", "There is no function 'exec'. Use one of: ceil, floor, max, min, round, at character 5."),
        ("ceil(1, 2)", "ceil() takes one value, at character 11."),
        ("max(1)", "max() takes 2 to 10 values, at character 7."),
        ("1e9", "An operator such as + or * is missing, at character 2."),
        ("9" * 21, "A number has at most 20 digits, at character 1."),
        ("(" * 13 + "1" + ")" * 13, "The formula has more than 12 levels of brackets."),
        ("+".join("1" * 201), "The formula has more than 200 parts."),
        ("1 " + " " * 1000, "A formula has at most 1000 characters."),
        ("count[else: 1, 2: 3]", "In the table of count, else must be the last case."),
        ("count[1: 1, 1.0: 3]", "The table of count has two cases for 1."),
        ("count[<=2: 1, <=2: 3]", "In the table of count, each limit after <= must be larger than the one before "
         "it."),
        ("count[maybe: 1]", 'A case is missing: "text", a number, <=number, true, false or else, at character 7.'),
        ("width", "The workflow has no property 'width'. It has: count, free, large, overlay, prompt, quality, "
         "strength, video."),
        ("prompt", "prompt is not a number: its type is text. Use prompt.length."),
        ("video", "video is not a number: its type is video. Use video.seconds or video.megapixels."),
        ("count.seconds", "There is no count.seconds: the type of count is number. Use count."),
        ("overlay.megapixels", "overlay.megapixels is not known for every job: only files that users must send are "
         "measured, and overlay has a default or cannot be set by users."),
        ("quality", 'quality is not a number. Use a table, for example quality["draft": 1, "final": 2, "4k": 3].'),
        ('quality["darft": 1, else: 2]', '"darft" is not a value of quality. Its values are: "draft", "final", "4k".'),
        ("quality[<=2: 1, else: 2]", "quality is not a number, so its table cannot have a case with <=."),
        ("strength[1: 1, else: 2]", "strength can have any number in a range. Use limits in its table, for example "
         "strength[<=10: 1, else: 2]."),
        ('quality["draft": 1, "final": 2]', 'There is no price for quality = "4k". Add a case, or else.'),
        ('large[true: quality["draft": 1, "final": 2], false: 1]',
         'There is no price for large = true and quality = "4k". Add a case, or else.'),
        ("count[1: 1, 2: 2, 4: 4]", "There is no price for count = 3. Add a case, or else."),
        ("video.seconds[<=10: 1, <=30: 2]", "There is no price for video.seconds > 30. Add a case, or else."),
        ("strength + 1", "The price could be as low as -1. A price is never negative: use max(0, …) around it, or "
         "set limits of the properties."),
        ("10 / strength", "The formula could divide by 0. Use max(1, …) around the divisor, or set a minimum of the "
         "property."),
        ("max(0, free)", "The price could be more than 9007199254740992 tokens. Set a maximum of the properties, or "
         "use min(…, 1000) around it."),
    ],
    ids=lambda each: each[:40] if isinstance(each, str) else None,
)  # fmt: skip
def test_a_formula_that_leaves_a_price_open_is_refused(formula: str, reason: str) -> None:
    with pytest.raises(FormulaProblem) as refused:
        lowest_price(formula, properties(), {})
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("formula", "lowest"),
    [
        ("7", 7),
        ("1.2", 2),
        ("2 * video.seconds", 1),
        ("5 + ceil(video.seconds / 10) * count", 6),
        ('quality["draft": 3, "4k": 9, else: 4]', 3),
        ("count[1: 4, 2: 8, else: 10]", 4),
        ("max(0, strength)", 0),
        ("prompt.length / 100", 0),
        ("1 / video.seconds", 1),
    ],
)
def test_the_lowest_price_is_known_when_a_formula_is_saved(formula: str, lowest: int) -> None:
    assert lowest_price(formula, properties(), {}) == lowest


def test_a_value_that_users_cannot_set_is_the_one_of_the_effect() -> None:
    fixed = properties({**QUALITY, "user_configurable": False, "default": "draft"})
    assert lowest_price('quality["final": 8]', fixed, {"quality": "final"}) == 8
    with pytest.raises(FormulaProblem, match=r'"final" is not a value of quality. Its values are: "draft"'):
        lowest_price('quality["final": 8]', fixed, {})


NAMES = st.sampled_from(["count", "strength", "free", "video.seconds", "video.megapixels", "prompt.length"])
TABLES = ('quality["draft": {}, else: {}]', "large[true: {}, false: {}]", "count[<=2: {}, else: {}]")


def expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        NAMES | st.integers(0, 50).map(str) | st.decimals(0, 5, places=2).map(str),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
            st.tuples(st.sampled_from(["ceil", "floor", "round"]), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
            st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
            st.tuples(st.sampled_from(TABLES), inner, inner).map(lambda parts: parts[0].format(*parts[1:])),
        ),
        max_leaves=6,
    )  # fmt: skip


def allowed_value(variable: Variable, draw: random.Random) -> Value:
    most = {"seconds": 60, "megapixels": 100, "length": 500}
    match variable:
        case Variable("quality"):
            return draw.choice(["draft", "final", "4k"])
        case Variable("large"):
            return draw.random() < 0.5
        case Variable("count"):
            return draw.randint(1, 4)
        case Variable("strength"):
            return draw.choice([-2, 0, 0.5, draw.uniform(-2, 0.5)])
        case Variable("free"):
            return draw.choice([-(2**64), 2**64, 0, draw.uniform(-9e9, 9e9)])
        case Variable(_, measure):
            return max(LEAST[measure], Fraction(draw.randint(0, most[measure] * 1000), 1000))


@given(expressions(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_every_accepted_formula_has_a_price_for_every_job(formula: str, draw: random.Random) -> None:
    for text in (formula, f"min(1000, max(0, {formula}))"):
        try:
            lowest = lowest_price(text, properties(), {})
        except FormulaProblem:
            continue
        expression = parsed(text)
        for _ in range(5):
            values = {each: allowed_value(each, draw) for each in set(variables_of(expression))}
            assert lowest <= math.ceil(calculated(expression, values)) <= MAX_PRICE


@given(st.text(alphabet='0123456789.+-*/()[]:,<="abcelst _', max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_is_more_than_refused(text: str) -> None:
    with suppress(FormulaProblem):
        assert lowest_price(text, properties(), {}) >= 0
