"""Substitution: any text stays a text in the graph and nothing else (trap 1)."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callsheet.catalog.placeholders import fill, overlapping
from callsheet.providers.comfy.graphs import refuse_foreign_files, refuse_shared_files, with_files

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
    filled = fill(GRAPH, {"{{a}}": a, "{{b}}": b, "{{number}}": number}, KEPT).graph
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
    filled = fill(graph, {"{{v}}": value}, []).graph["1"]["inputs"]
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
        ("{{t}} on __FILE__", "a_b__"),
        ("__FILE____INPUT_PATH__{{t}}", "__FILE_1__"),
    ],
)
def test_a_text_with_the_placeholder_of_a_file_stays_and_only_the_workflows_own_placeholder_is_replaced(
    template: str, text: str
) -> None:
    assert delivered({"x": template}, {"{{t}}": text}) == {"x": expected(template, {"{{t}}": text})}


def test_the_placeholders_of_files_keep_their_names_if_no_value_contains_one() -> None:
    _, names = fill({"1": {"class_type": "A", "inputs": {"x": "{{t}} __FILE__"}}}, {"{{t}}": "a cat"}, KEPT)
    assert names == {each: each for each in KEPT}
    _, names = fill({"1": {"class_type": "A", "inputs": {"x": "{{t}} __FILE__"}}}, {"{{t}}": "__FILE__"}, KEPT)
    assert len(set(names.values()) | set(KEPT)) == 4


FILE_NAMES = {"__FILE__": 'callsheet/1/"{{t}}.png', "__INPUT_PATH__": "callsheet/1/__FILE__.mp4"}
# Pieces of placeholders, of file names and of the names that replace placeholders.
HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "__FILE__",
                "__INPUT_PATH__",
                "__FI",
                "LE__",
                "_",
                "__",
                "FILE_1_",
                "{{t}}",
                "{{u}}",
                "{{",
                "}}",
                '"',
                "\\",
            ]
        ),
        st.sampled_from(["\n", "$1", "\\1", "\\g<0>", "%width%", "callsheet/assets/", "../", "/", "{", "}", "日本"]),
        st.text(max_size=5),
    ),
    max_size=8,
).map("".join)


def expected(template: str, values: dict[str, str]) -> str:
    """The result by definition: every placeholder of the template is replaced once, and nothing else is."""
    parts = re.split(r"(\{\{t\}\}|\{\{u\}\}|__FILE__|__INPUT_PATH__)", template)
    return "".join({**values, **FILE_NAMES}.get(part, part) for part in parts)


def delivered(inputs: dict[str, Any], values: dict[str, str]) -> dict[str, Any]:
    """The inputs of a node as its engine gets them: filled by the control plane, sent as JSON, filled by the worker."""
    filled, names = fill({"1": {"class_type": "CLIPTextEncode", "inputs": inputs}}, values, KEPT)
    sent = json.loads(json.dumps(filled))
    refuse_shared_files(sent)
    made = with_files(sent, {names[each]: name for each, name in FILE_NAMES.items()})
    refuse_foreign_files(made)
    found: dict[str, Any] = made["1"]["inputs"]
    return found


@given(
    t=HOSTILE,
    u=HOSTILE,
    template=st.lists(st.sampled_from(["{{t}}", "{{u}}", "__FILE__", "__INPUT_PATH__", " ", "x", "_"])).map("".join),
)
def test_no_text_of_a_user_changes_on_the_way_to_the_node(t: str, u: str, template: str) -> None:
    assume(not list(overlapping(template, ["{{t}}", "{{u}}", *KEPT])))
    values = {"{{t}}": t, "{{u}}": u}
    inputs = {"text": "{{t}}", "other": "{{u}}", "mixed": template, "nested": [{"deep": ["{{t}}"]}]}
    assert delivered(inputs, values) == {
        "text": t,
        "other": u,
        "mixed": expected(template, values),
        "nested": [{"deep": [t]}],
    }


def test_a_graph_without_values_stays_as_it_is() -> None:
    assert fill(GRAPH, {}, KEPT).graph == GRAPH


def test_placeholders_that_share_characters_are_found() -> None:
    assert list(overlapping("__A__B__", ["__A__", "__B__"])) == [("__A__", "__B__")]
    assert list(overlapping("__A____B__", ["__A__", "__B__"])) == []
    assert list(overlapping("aaaa", ["aaa"])) == [("aaa", "aaa")]
