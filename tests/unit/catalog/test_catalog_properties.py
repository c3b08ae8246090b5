"""Properties: each problem is found when a workflow or effect is written, and names its field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from callsheet.catalog.properties import (
    Unfit,
    check_output,
    check_overrides,
    check_properties,
    fit,
    input_placeholder,
)
from callsheet.wire.catalog import Property
from tests.support.http.catalog_api import GRAPH, PRIMARY, PROMPT, SEED, STRENGTH, STYLE, TILED, overlay

ASSET = "0190b3a0-0000-7000-8000-000000000001"
ALL = [PRIMARY, PROMPT, STYLE, SEED, STRENGTH, TILED, overlay(ASSET)]


def properties(changes: dict[int, dict[str, Any]] | None = None) -> list[Property]:
    chosen = [{**each, **(changes or {}).get(number, {})} for number, each in enumerate(ALL)]
    return [Property.model_validate(each) for each in chosen]


def graph(**texts: str) -> dict[str, Any]:
    """The graph with one more node, with these inputs."""
    return {**copy.deepcopy(GRAPH), "20": {"class_type": "Note", "inputs": texts}}


def problems(changes: dict[int, dict[str, Any]], in_graph: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    return [(found.field, found.reason) for found in check_properties(properties(changes), in_graph or GRAPH)]


def test_properties_of_every_type_fit_together() -> None:
    assert problems({}) == []
    assert check_properties([], {"1": {"class_type": "A", "inputs": {}}}) == []


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({2: {"key": "prompt"}}, "properties.2.key", "Another property"),
        ({2: {"placeholder": "{{prompt}}"}}, "properties.2.placeholder", "The property 'prompt' has the same"),
        ({2: {"placeholder": "prompt"}}, "properties.2.placeholder", "a part of {{prompt}}"),
        ({2: {"placeholder": "{{nowhere}}"}}, "properties.2.placeholder", "No input of the graph"),
        ({6: {"is_primary_input": True, "default": None}}, "properties.6.is_primary_input", "already"),
        (
            {0: {"is_primary_input": False, "required": True}, 1: {"is_primary_input": True}},
            "properties.1.is_primary_input",
            "Only an image, a video or an audio file",
        ),
        ({0: {"default": ASSET}}, "properties.0.default", "user's own file"),
        ({1: {"placeholder": "__INPUT_PATH__"}}, "properties.1.placeholder", "reserved for a file"),
        ({1: {"placeholder": "PATH"}}, "properties.1.placeholder", "reserved for a file"),
        ({1: {"default": 5}}, "properties.1.default", "a text"),
        ({1: {"default": "ab", "limits": {"max_length": 1}}}, "properties.1.default", "at most 1 character"),
        ({2: {"default": "other"}}, "properties.2.default", "one of: noir, pastel, 1920s"),
        ({2: {"default": None}}, "properties.2.default", "needs a default"),
        ({2: {"limits": {}}}, "properties.2.limits.choices", "needs a list"),
        ({2: {"default": "a", "limits": {"choices": ["a", "a"]}}}, "properties.2.limits.choices", "different"),
        ({2: {"default": "a", "limits": {"choices": ["a", True]}}}, "properties.2.limits.choices", "boolean"),
        ({3: {"default": 7.5}}, "properties.3.default", "whole"),
        ({3: {"default": -1}}, "properties.3.default", "0 or more"),
        ({3: {"default": True}}, "properties.3.default", "a number"),
        ({3: {"default": "7"}}, "properties.3.default", "a number"),
        ({4: {"default": 10.5}}, "properties.4.default", "10 or less"),
        ({4: {"default": 7.3}}, "properties.4.default", "a multiple of 0.5"),
        ({4: {"limits": {"min": 5, "max": 1}, "default": 5}}, "properties.4.limits.max", "less than the minimum"),
        ({4: {"limits": {"max_length": 5}}}, "properties.4.limits.max_length", "type number"),
        ({5: {"default": 1}}, "properties.5.default", "true or false"),
        ({5: {"default": None}}, "properties.5.default", "needs a default"),
        ({6: {"default": "not-an-id"}}, "properties.6.default", "an id"),
        ({6: {"default": None}}, "properties.6.default", "needs a default"),
        ({6: {"type": "text", "default": "x"}}, "properties.6.placeholder", "names a file"),
        ({0: {"placeholder": "__OVERLAY__X"}}, "properties.6.placeholder", "a part of"),
    ],
)
def test_a_wrong_property_is_named_by_its_field(changes: dict[int, dict[str, Any]], field: str, words: str) -> None:
    found = [reason for name, reason in problems(changes) if name == field]
    assert any(words in reason for reason in found), problems(changes)


def test_every_problem_is_named_at_once() -> None:
    found = problems({1: {"default": 5}, 3: {"default": "x"}, 5: {"default": 0}})
    assert [field for field, _ in found] == ["properties.1.default", "properties.3.default", "properties.5.default"]


@pytest.mark.parametrize(
    ("class_type", "name"),
    [("LoadImage", "image"), ("SaveImage", "filename_prefix"), ("VHS_LoadVideoPath", "video"), ("X", "some_path")],
)
def test_free_text_never_goes_where_a_file_is_named(class_type: str, name: str) -> None:
    changed = {**copy.deepcopy(GRAPH), "20": {"class_type": class_type, "inputs": {name: "dir/{{prompt}}"}}}
    [(field, reason)] = problems({}, changed)
    assert field == "properties.1.placeholder"
    assert name in reason
    # A choice is the admin's own words.
    changed["20"]["inputs"] = {name: "{{style}}"}
    assert problems({}, changed) == []


@pytest.mark.parametrize(
    ("class_type", "name"), [("SaveImage", "filename_prefix"), ("LoadImage", "image"), ("LoraLoader", "lora_name")]
)
def test_free_text_reaches_no_file_name_by_links_either(class_type: str, name: str) -> None:
    linked = {
        **copy.deepcopy(GRAPH),
        "20": {"class_type": "PrimitiveString", "inputs": {"value": "../{{prompt}}"}},
        "21": {"class_type": "StringConcatenate", "inputs": {"string_a": "x", "string_b": ["20", 0]}},
        "22": {"class_type": class_type, "inputs": {name: ["21", 0]}},
    }
    [(field, reason)] = problems({}, linked)
    assert field == "properties.1.placeholder"
    assert "node 20 (PrimitiveString), which is linked to the name of a file" in reason
    # An image that was made from the text is not a file name.
    linked["22"] = {"class_type": "ImageScale", "inputs": {"image": ["21", 0], "upscale_method": "area"}}
    assert problems({}, linked) == []


def test_a_placeholder_cannot_replace_a_link_between_nodes() -> None:
    [(field, reason)] = problems({}, graph(x=["{{prompt}}", "{{seed}}"]))[:1]
    assert (field, "a link between nodes" in reason) == ("properties.1.placeholder", True)
    assert problems({}, graph(x=["{{prompt}}", "{{seed}}", "c"])) == []


def test_placeholders_must_not_overlap_in_an_input() -> None:
    changes = {1: {"placeholder": "__A__"}, 2: {"placeholder": "__B__"}}
    plain = graph(x="__A__ __B__")
    assert problems(changes, plain) == []
    [(field, reason)] = problems(changes, graph(x="__A__ __B__", y="__A__B__"))
    assert (field, "node 20, input y" in reason) == ("properties.1.placeholder", True)


def test_the_input_of_the_graph_needs_a_property() -> None:
    others = [each for each in properties() if not each.is_primary_input]
    assert [found.field for found in check_properties(others, GRAPH)] == ["properties"]


@pytest.mark.parametrize(
    ("node", "extension", "mime_type", "fields"),
    [
        ("9", "mp4", "video/mp4", []),
        ("9", "xyz", "video/x-strange", []),
        (None, "mp4", "video/mp4", []),
        ("77", "mp4", "video/mp4", ["output_node_id"]),
        ("9", "mp4", "image/png", ["output_mime_type"]),
        ("77", "png", "video/mp4", ["output_node_id", "output_mime_type"]),
    ],
)
def test_the_output_is_a_node_and_a_type_that_fits_its_extension(
    node: str | None, extension: str, mime_type: str, fields: list[str]
) -> None:
    assert [found.field for found in check_output(GRAPH, node, extension, mime_type)] == fields


@pytest.mark.parametrize(
    ("number", "value", "expected"),
    [
        (3, 5.0, 5),
        (3, 2**63, 2**63),
        (4, 0.5, 0.5),
        (4, 10, 10),
        (2, "noir", "noir"),
        (5, True, True),
        (6, ASSET.upper(), ASSET),
        (1, "", ""),
    ],
)
def test_a_valid_value_keeps_its_type(number: int, value: Any, expected: Any) -> None:
    fitted = fit(properties()[number], value)
    assert (fitted, type(fitted)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (1, None), (1, 1), (2, "Noir"), (2, 1), (3, 0.5), (3, "1"), (3, True), (3, None), (4, 0.25), (5, "true"),
        (5, 0), (6, "x"), (6, 5), (6, None),
    ],
)  # fmt: skip
def test_an_invalid_value_is_refused(number: int, value: Any) -> None:
    with pytest.raises(Unfit):
        fit(properties()[number], value)


def test_a_step_that_is_too_small_to_count_causes_no_error() -> None:
    tiny = Property.model_validate({**STRENGTH, "limits": {"step": 1e-300}, "default": 1})
    assert fit(tiny, 1.8e19) == 1.8e19


def test_steps_count_from_the_minimum_and_tolerate_rounding_errors() -> None:
    third = Property.model_validate({**STRENGTH, "limits": {"min": 0.1, "step": 0.1}, "default": 0.3})
    assert fit(third, 0.1 + 0.2) == 0.1 + 0.2
    with pytest.raises(Unfit, match=r"0\.1 plus a multiple of 0\.1"):
        fit(third, 0.35)


def test_choices_distinguish_texts_from_numbers() -> None:
    mixed = Property.model_validate({**STYLE, "limits": {"choices": [512, "1024", 1]}, "default": 512})
    assert fit(mixed, 512) == 512
    for wrong in ("512", 1024, True):
        with pytest.raises(Unfit):
            fit(mixed, wrong)


@pytest.mark.parametrize(
    ("overrides", "fields"),
    [
        ({}, []),
        ({"strength": 3, "prompt": "a dog", "seed": 1, "overlay": ASSET}, []),
        ({"strength": 11}, ["overrides.strength"]),
        ({"nothing": 1}, ["overrides.nothing"]),
        ({"input": ASSET}, ["overrides.input"]),
        ({"prompt": "__OVERLAY__"}, []),
        ({"overlay": 5, "tiled": "x"}, ["overrides.overlay", "overrides.tiled"]),
    ],
)
def test_an_effects_values_are_checked_like_defaults(overrides: dict[str, Any], fields: list[str]) -> None:
    assert [found.field for found in check_overrides(properties(), overrides)] == fields


def test_a_required_property_that_users_cannot_set_must_be_set_by_the_effect() -> None:
    hidden = properties({3: {"required": True, "default": None}})
    assert [found.field for found in check_overrides(hidden, {})] == ["overrides.seed"]
    assert check_overrides(hidden, {"seed": 3}) == []


def test_the_placeholder_of_the_input_is_the_primary_propertys() -> None:
    assert input_placeholder(properties({0: {"placeholder": "{{clip}}"}})) == "{{clip}}"
    assert input_placeholder([]) == "__INPUT_PATH__"
