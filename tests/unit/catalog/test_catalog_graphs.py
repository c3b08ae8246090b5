"""Graphs: which ones are refused before an engine gets them, and where their texts are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.catalog.graphs import check_graph, normalized, texts_of
from callsheet.catalog.proposing.known_nodes import OUTPUTS
from callsheet.catalog.proposing.reachable_nodes import check_reach
from callsheet.providers.comfy.file_inputs import takes_file
from callsheet_lightbox.nodes import build_registry
from tests.support.http.catalog_api import GRAPH

NODE: dict[str, Any] = {"class_type": "EmptyImage", "inputs": {}}


def linked_to(output: float, class_type: str = "EmptyImage") -> dict[str, Any]:
    return {
        "0": {"class_type": class_type, "inputs": {}},
        "1": {"class_type": "SaveImage", "inputs": {"image": ["0", output]}},
    }


def problem(graph: dict[str, Any]) -> tuple[str, str]:
    [found] = check_graph(graph)
    return found.field, found.reason


def test_a_real_graph_is_accepted() -> None:
    assert check_graph(GRAPH) == []


def test_the_ui_format_is_refused_with_the_steps_to_export_the_api_format() -> None:
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
        ({"1": {"class_type": "A", "inputs": {"image": ["1", 0]}}}, "graph", "cycle"),
        (linked_to(-1), "graph.1.inputs.image", "output -1"),
        (linked_to(0.5), "graph.1.inputs.image", "output 0.5"),
        (linked_to(True), "graph.1.inputs.image", "output True"),
        (linked_to(10**5000), "graph.1.inputs.image", "The limit is 500"),
        (linked_to(-(10**5000)), "graph.1.inputs.image", "The limit is 500"),
        (linked_to(float("nan")), "graph.1.inputs.image", "The limit is 500"),
        (linked_to(500, "Unknown"), "graph.1.inputs.image", "The limit is 500"),
        (linked_to(1), "graph.1.inputs.image", "node '0' (EmptyImage), which has 1 output, numbered from 0"),
        (linked_to(2, "LoadImage"), "graph.1.inputs.image", "which has 2 outputs"),
        (linked_to(0, "SaveImage"), "graph.1.inputs.image", "which has no outputs"),
        ({str(number): NODE for number in range(5001)}, "graph", "5001 nodes. The limit is 5000."),
        (
            {
                "a": {"class_type": "A", "inputs": {"x": ["b", 0]}},
                "b": {"class_type": "B", "inputs": {"x": ["a", 0]}},
                "c": NODE,
            },
            "graph",
            "wait for one another: a, b",
        ),
        ({"1": {"class_type": "A", "inputs": {"x": json.loads("[" * 40 + "]" * 40)}}}, "graph.1.inputs", "levels"),
    ],
)
def test_a_graph_that_an_engine_would_refuse_or_crash_on_is_refused_by_its_field(
    graph: dict[str, Any], field: str, words: str
) -> None:
    found, reason = problem(graph)
    assert found == field
    assert words in reason


@pytest.mark.parametrize(("output", "class_type"), [(0, "EmptyImage"), (1, "LoadImage"), (30, "Context Big (rgthree)")])
def test_a_link_to_an_output_that_exists_or_may_exist_is_accepted(output: int, class_type: str) -> None:
    assert check_graph(linked_to(output, class_type)) == []


def test_known_numbers_of_outputs_are_those_of_the_nodes_themselves() -> None:
    nodes = build_registry().nodes
    assert {name: len(nodes[name].outputs) for name in OUTPUTS if name in nodes} == {
        name: count for name, count in OUTPUTS.items() if name in nodes
    }


def with_unused(count: int, class_type: str = "EmptyImage") -> dict[str, Any]:
    unused = {f"unused-{number}": {"class_type": class_type, "inputs": {}} for number in range(count)}
    return {**linked_to(0), **unused}


def test_many_nodes_that_lead_to_no_output_are_refused() -> None:
    assert check_reach(with_unused(100), "1") == []
    [found] = check_reach(with_unused(1200), "1")
    assert found.field == "graph"
    assert "1200 nodes that lead to no output, for example unused-0" in found.reason


def test_nodes_that_lead_to_any_output_are_used() -> None:
    """A graph may have more outputs than the one that is the result."""
    previews = {f"p{number}": {"class_type": "PreviewImage", "inputs": {"images": ["0", 0]}} for number in range(300)}
    assert check_reach({**linked_to(0), **previews}, "1") == []
    # What the result is made by counts as an output, whatever its class is called.
    odd = {str(number): {"class_type": "A", "inputs": {"x": [str(number - 1), 0]}} for number in range(1, 300)}
    assert check_reach({"0": NODE, **odd}, "299") == []
    assert check_reach({"0": NODE, **odd}, "1") != []


def chain(length: int) -> dict[str, Any]:
    linked = {str(i): {"class_type": "A", "inputs": {"x": [str(i - 1), 0]}} for i in range(1, length)}
    return {"0": NODE, **linked}


def test_a_chain_that_exceeds_the_engines_recursion_is_refused() -> None:
    assert check_graph(chain(500)) == []
    assert "chain" in problem(chain(501))[1]


def test_a_graph_from_an_image_loses_fields_that_hide_a_changed_file() -> None:
    graph = {"1": {**NODE, "is_changed": ["abc"], "_meta": {"title": "x"}}}
    assert normalized(graph) == {"1": {**NODE, "_meta": {"title": "x"}}}
    assert "is_changed" in graph["1"]


def test_a_graph_loses_the_url_of_the_player_of_a_sound() -> None:
    """An engine would refuse it as a file outside of its folders."""
    inputs = {"audio": "a.mp3", "audioUI": "/api/view?filename=a.mp3&type=input"}
    graph = {"1": {"class_type": "LoadAudio", "inputs": inputs, "_meta": {"audioUI": "x"}}}
    assert normalized(graph) == {
        "1": {"class_type": "LoadAudio", "inputs": {"audio": "a.mp3"}, "_meta": {"audioUI": "x"}}
    }
    assert "audioUI" in inputs


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
def test_inputs_that_name_files_are_recognized(class_type: str, name: str, expected: bool) -> None:
    assert takes_file(class_type, name) is expected
