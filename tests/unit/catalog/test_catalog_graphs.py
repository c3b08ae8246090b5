"""Graphs: what is refused before an engine sees it, and where texts stand in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.catalog.graphs import check_graph, normalized, takes_file, texts_of
from tests.support.catalog import GRAPH

NODE: dict[str, Any] = {"class_type": "EmptyImage", "inputs": {}}


def problem(graph: dict[str, Any]) -> tuple[str, str]:
    [found] = check_graph(graph)
    return found.field, found.reason


def test_a_real_graph_is_fine() -> None:
    assert check_graph(GRAPH) == []


def test_the_ui_format_is_refused_with_the_way_to_the_right_one() -> None:
    field, reason = problem({"nodes": [{"id": 1, "type": "SaveImage"}], "links": [], "version": 0.4})
    assert field == "graph"
    assert "Export (API)" in reason


@pytest.mark.parametrize(
    ("graph", "field", "words"),
    [
        ({}, "graph", "no nodes"),
        ({"prompt": GRAPH, "client_id": "x"}, "graph", "`prompt`"),
        ({"1": "node"}, "graph.1", "class_type and inputs"),
        ({"1": {"inputs": {}}}, "graph.1.class_type", "class"),
        ({"1": {"class_type": "", "inputs": {}}}, "graph.1.class_type", "class"),
        ({"1": {"class_type": 5, "inputs": {}}}, "graph.1.class_type", "class"),
        ({"1": {"class_type": "EmptyImage"}}, "graph.1.inputs", "object"),
        ({"1": {"class_type": "EmptyImage", "inputs": []}}, "graph.1.inputs", "object"),
        ({"1": {"class_type": "A", "inputs": {"image": ["7", 0]}}}, "graph.1.inputs.image", "node '7'"),
        ({"1": {"class_type": "A", "inputs": {"image": ["1", 0]}}}, "graph", "circle"),
        (
            {
                "a": {"class_type": "A", "inputs": {"x": ["b", 0]}},
                "b": {"class_type": "B", "inputs": {"x": ["a", 0]}},
                "c": NODE,
            },
            "graph",
            "wait for one another: a, b",
        ),
        ({"1": {"class_type": "A", "inputs": {"x": json.loads("[" * 40 + "]" * 40)}}}, "graph.1.inputs", "deeply"),
    ],
)
def test_what_an_engine_would_refuse_or_die_of_is_named(graph: dict[str, Any], field: str, words: str) -> None:
    found, reason = problem(graph)
    assert found == field
    assert words in reason


def chain(length: int) -> dict[str, Any]:
    linked = {str(i): {"class_type": "A", "inputs": {"x": [str(i - 1), 0]}} for i in range(1, length)}
    return {"0": NODE, **linked}


def test_a_chain_that_exceeds_the_engines_recursion_is_refused() -> None:
    assert check_graph(chain(500)) == []
    assert "chain" in problem(chain(501))[1]


def test_a_graph_of_a_picture_loses_what_hides_a_changed_file() -> None:
    graph = {"1": {**NODE, "is_changed": ["abc"], "_meta": {"title": "x"}}}
    assert normalized(graph) == {"1": {**NODE, "_meta": {"title": "x"}}}
    assert "is_changed" in graph["1"]


def test_texts_are_found_at_any_depth_but_not_in_keys_titles_or_classes() -> None:
    graph = {
        "1": {
            "class_type": "A",
            "inputs": {"a": "one", "b": [["two", "three", "four"], {"key": "five"}], "c": ["1", 0], "d": 5},
            "_meta": {"title": "no"},
        }
    }
    found = [(text.input, text.text, text.in_pair) for text in texts_of(graph)]
    assert found == [
        ("a", "one", False),
        ("b", "two", False),
        ("b", "three", False),
        ("b", "four", False),
        ("b", "five", False),
        ("c", "1", True),
    ]


@pytest.mark.parametrize(
    ("class_type", "name", "expected"),
    [
        ("LoadImage", "image", True),
        ("VHS_LoadVideo", "video", True),
        ("CheckpointLoaderSimple", "ckpt_name", True),
        ("SaveImage", "filename_prefix", True),
        ("ImageFromUrl", "url", True),
        ("SomeNode", "mask_path", True),
        ("SomeNode", "file_name", True),
        ("SomeNode", "filepath", True),
        ("SomeNode", "imagePath", True),
        ("SomeNode", "image_name", True),
        ("SomeNode", "output_filename_prefix", True),
        ("SomeNode", "profile", False),
        ("UnloadModel", "value", False),
        ("CLIPTextEncode", "text", False),
        ("ApiNode", "image_prompt", False),
        ("KSampler", "seed", False),
    ],
)
def test_inputs_that_name_files_are_known(class_type: str, name: str, expected: bool) -> None:
    assert takes_file(class_type, name) is expected
