"""Values in templates and paths in responses, without any network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.providers.http.templates import dug, dug_texts, filled, filled_path, percent_of


@pytest.mark.parametrize(
    ("template", "becomes"),
    [
        ("{params.width}", 640),
        ("{params.flag}", False),
        ("{params.none}", None),
        ("w={params.width} f={params.flag} n={params.none}.", "w=640 f=false n=."),
        ("{{prompt}}", "{a cat}"),
        ("{Prompt} {} {params} plain", "{Prompt} {}  plain"),
    ],
)
def test_a_lone_placeholder_becomes_the_value_and_others_become_text(template: str, becomes: Any) -> None:
    values = {"prompt": "a cat", "params.width": 640, "params.flag": False}
    result = filled({"it": template}, values)
    assert result == ({} if becomes is None else {"it": becomes})
    if result:
        assert type(result["it"]) is type(becomes)


def test_keys_and_items_without_a_value_are_left_out_at_any_depth() -> None:
    template = {"a": ["{params.x}", {"b": "{params.x}", "c": 1}], "d": None, "e": {"f": "{params.x}"}}
    assert filled(template, {}) == {"a": [{"c": 1}], "d": None, "e": {}}


@given(st.text())
def test_placeholders_inside_values_are_not_replaced(prompt: str) -> None:
    sent = json.loads(json.dumps(filled({"a": "{prompt}", "b": ["x {prompt} {params.y}"]}, {"prompt": prompt})))
    assert sent == {"a": prompt, "b": [f"x {prompt} "]}


@given(st.text(max_size=40))
def test_a_value_adds_no_segment_and_no_parameter_to_a_url(value: str) -> None:
    value = value.encode("utf-8", "replace").decode()
    address = filled_path("/jobs/{id}/state", {"of": "{id}"}, {"id": value})
    path, _, query = address.partition("?")
    assert (path.count("/"), query.count("&"), query.count("=")) == (3, 0, 1)
    assert "#" not in address


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("data.images.*.url", ["a", "b"]),
        ("data.images.1.url", ["b"]),
        ("data.images.7.url", []),
        ("data.images.url", []),
        ("data.*", []),
        ("data.none", []),
        ("missing.anything", []),
        ("data.images.99999999999999999999.url", []),
    ],
)
def test_a_dotted_path_finds_exactly_its_value(path: str, found: list[str]) -> None:
    assert dug({"data": {"images": [{"url": "a"}, {"url": "b"}, {}], "none": None}}, path) == found


def test_texts_are_found_in_lists_too_each_once() -> None:
    assert dug_texts({"urls": ["a", "b", "a", "", 1, None]}, "urls") == ["a", "b"]
    assert dug_texts({"url": "a"}, "url") == ["a"]
    assert dug_texts([1, 2], "url") == []


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("value", "percent"),
    [
        (42, 42.0),
        ("42%", 42.0),
        (" 7 ", 7.0),
        (-1, 0.0),
        (1000, 100.0),
        ("nan", None),
        ("soon", None),
        (True, None),
        (None, None),
    ],
)
def test_a_percent_is_read_from_the_formats_of_services(value: Any, percent: float | None) -> None:
    assert percent_of(value) == percent
