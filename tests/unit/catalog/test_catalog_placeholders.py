"""Substitution: any text stays a text in the graph and nothing else (trap 1)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.catalog.placeholders import InjectedPlaceholder, overlapping, substitute

GRAPH: dict[str, Any] = {
    "1": {"class_type": "A", "inputs": {"text": "{{a}}", "other": "x {{a}} {{b}} y", "n": 5, "link": ["2", 0]}},
    "2": {
        "class_type": "B {{a}}",
        "inputs": {"{{a}}": "{{number}}", "deep": [{"x": ["{{b}}", "plain", None, 1.5]}], "file": "in/__FILE__"},
        "_meta": {"title": "{{a}}"},
    },
}
KEPT = ["__FILE__", "__INPUT_PATH__"]
# Everything that could mean something to JSON, to a template or to the next pass.
NASTY = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ['"', "}", "{", "\\", "\n", ",", ":", "{{a}}", "{{b}}", "{{number}}", "x", "$1", "\\1", "\\g<0>"]
        )
    ).map("".join),
)


def shape(value: Any) -> Any:
    match value:
        case dict():
            return {name: shape(member) for name, member in value.items()}
        case list():
            return [shape(item) for item in value]
        case str():
            return str
    return value


@given(a=NASTY, b=NASTY, number=st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_no_text_changes_the_shape_of_the_graph(a: str, b: str, number: float) -> None:
    before = copy.deepcopy(GRAPH)
    filled = substitute(GRAPH, {"{{a}}": a, "{{b}}": b, "{{number}}": number}, KEPT)
    assert before == GRAPH
    expected = copy.deepcopy(GRAPH)
    expected["1"]["inputs"]["text"] = a
    expected["1"]["inputs"]["other"] = f"x {a} {b} y"
    expected["2"]["inputs"]["{{a}}"] = number
    expected["2"]["inputs"]["deep"][0]["x"][0] = b
    assert filled == expected
    assert type(filled["2"]["inputs"]["{{a}}"]) is type(number)
    # Also after the trip through JSON that every payload makes.
    again = json.loads(json.dumps(filled))
    assert shape(again) == shape(filled)


@pytest.mark.parametrize(
    ("value", "whole", "part"),
    [(True, True, "a true b"), (False, False, "a false b"), (3, 3, "a 3 b"), (0.5, 0.5, "a 0.5 b"), ("", "", "a  b")],
)
def test_a_whole_placeholder_becomes_the_value_and_an_embedded_one_its_text(value: Any, whole: Any, part: str) -> None:
    graph = {"1": {"class_type": "A", "inputs": {"x": "{{v}}", "y": "a {{v}} b"}}}
    filled = substitute(graph, {"{{v}}": value}, [])["1"]["inputs"]
    assert (filled["x"], type(filled["x"])) == (whole, type(whole))
    assert filled["y"] == part


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{t}}", "__FILE__"),
        ("{{t}}", "see __FILE__ there"),
        ("say {{t}}", "x__FILE__"),
        ("{{t}}LE__", "__FI"),
        ("__FI{{t}}", "LE__"),
        ("{{t}}__FILE__", "__FILE"),
        ("{{t}}{{t}}", "LE____FI"),
    ],
)
def test_a_text_cannot_make_a_placeholder_of_a_file(template: str, text: str) -> None:
    graph = {"1": {"class_type": "A", "inputs": {"x": template}}}
    with pytest.raises(InjectedPlaceholder) as smuggled:
        substitute(graph, {"{{t}}": text}, ["__FILE__"])
    assert (smuggled.value.value_of, smuggled.value.placeholder) == ("{{t}}", "__FILE__")


def test_a_text_beside_the_placeholder_of_a_file_is_accepted() -> None:
    graph = {"1": {"class_type": "A", "inputs": {"x": "{{t}} on __FILE__"}}}
    assert substitute(graph, {"{{t}}": "a_b__"}, ["__FILE__"])["1"]["inputs"]["x"] == "a_b__ on __FILE__"


def test_a_graph_without_values_stays_as_it_is() -> None:
    assert substitute(GRAPH, {}, KEPT) == GRAPH


def test_placeholders_that_share_characters_are_found() -> None:
    assert list(overlapping("__A__B__", ["__A__", "__B__"])) == [("__A__", "__B__")]
    assert list(overlapping("__A____B__", ["__A__", "__B__"])) == []
    assert list(overlapping("aaaa", ["aaa"])) == [("aaa", "aaa")]
