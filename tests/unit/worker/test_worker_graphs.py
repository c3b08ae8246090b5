"""Graphs are changed as values, never as text; what would hurt an engine is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.providers.comfy.graphs import (
    MAX_CHAIN_LENGTH,
    checked_extra_data,
    checked_graph,
    marked_nodes,
    needed_by,
    refuse_foreign_files,
    refuse_shared_files,
    with_files,
    with_marks,
    with_own_outputs,
)
from callsheet.providers.engine import EngineError


def node(**inputs: Any) -> dict[str, Any]:
    return {"class_type": "LoadImage", "inputs": inputs}


def test_a_placeholder_is_replaced_wherever_a_text_has_it_and_nowhere_else() -> None:
    graph = {"1": node(image="__IN__", nested={"a": ["x __IN__", 1]}, __IN__=3, link=["__IN__", 0])}
    [changed] = with_files(graph, {"__IN__": "callsheet/r/1.png"}).values()
    assert changed["inputs"] == {
        "image": "callsheet/r/1.png",
        "nested": {"a": ["x callsheet/r/1.png", 1]},
        "__IN__": 3,
        "link": ["callsheet/r/1.png", 0],
    }
    assert graph["1"]["inputs"]["image"] == "__IN__"


def test_the_longest_placeholder_wins_and_what_was_put_in_is_not_looked_at_again() -> None:
    names = {"__A__": "one", "__A__B__": "__A__"}
    assert with_files({"1": node(image="__A__B__")}, names)["1"]["inputs"]["image"] == "__A__"


@given(st.text(), st.text(min_size=1))
def test_a_file_name_never_changes_the_shape_of_a_graph(name: str, placeholder: str) -> None:
    graph = {"1": node(image=placeholder, other=4)}
    changed = with_files(graph, {placeholder: name})
    assert changed["1"]["inputs"] == {"image": name, "other": 4}


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("ComfyUI", "ComfyUI"),
        ("video/ComfyUI", "ComfyUI"),
        ("../../evil", "evil"),
        ("C:\\temp\\x", "x"),
        ("a..b", "a.b"),
        ("bn_%batch_num%", "bn_%batch_num%"),
        ("%width%x%height%", "%width%x%height%"),
        ("shots/%date:yyyy-MM-dd% %Empty Latent Image.width%", "%date:yyyy-MM-dd% %Empty Latent Image.width%"),
        ("%Prompt 1.text%_%year%-%month%-%day%", "%Prompt 1.text%_%year%-%month%-%day%"),
        ("a (b) [c] 'd' #1 & more!", "a (b) [c] 'd' #1 & more!"),
        ("%width%/..", "output"),
        ("a\x00b\n", "a-b-"),
        ("\N{GRINNING FACE}" * 80, "\N{GRINNING FACE}" * 50),
        ("", "output"),
        ("日本", "日本"),
    ],
)
def test_outputs_go_into_the_runs_own_folder_whatever_the_workflow_says(prefix: str, expected: str) -> None:
    changed = with_own_outputs({"9": {"class_type": "SaveImage", "inputs": {"filename_prefix": prefix}}}, "run-1")
    assert changed["9"]["inputs"]["filename_prefix"] == f"callsheet/run-1/{expected}"


def test_a_prefix_that_another_node_makes_stays_a_link() -> None:
    graph = {"9": {"class_type": "SaveImage", "inputs": {"filename_prefix": ["3", 0]}}}
    assert with_own_outputs(graph, "run-1") == graph


@pytest.mark.parametrize(
    "workflow",
    [
        None,
        [],
        {},
        "text",
        {"1": None},
        {"1": {"inputs": {}}},
        {"1": {"class_type": "A"}},
        {"1": {"class_type": "A", "inputs": []}},
    ],
)
def test_a_graph_that_would_end_the_engine_is_refused(workflow: object) -> None:
    with pytest.raises(EngineError) as refused:
        checked_graph(workflow)
    assert (refused.value.type, refused.value.retryable) == ("invalid_workflow", False)


def chain(length: int) -> dict[str, Any]:
    return {str(at): {"class_type": "A", "inputs": {"x": [str(at + 1), 0]}} for at in range(length)}


def test_a_chain_too_long_for_the_engines_recursion_is_refused_also_where_no_output_reaches_it() -> None:
    checked_graph(chain(MAX_CHAIN_LENGTH))
    with pytest.raises(EngineError):
        checked_graph(chain(MAX_CHAIN_LENGTH + 1))
    with pytest.raises(EngineError):
        checked_graph(dict(reversed(chain(MAX_CHAIN_LENGTH + 1).items())))


def test_a_circle_is_refused_with_its_nodes() -> None:
    """ComfyUI says only that the outputs failed validation."""
    graph: dict[str, dict[str, Any]] = {
        "1": {"class_type": "A", "inputs": {"x": ["2", 0]}},
        "2": {"class_type": "A", "inputs": {"x": ["1", 0]}},
        "3": {"class_type": "B", "inputs": {"x": ["1", 0]}},
    }
    with pytest.raises(EngineError, match="cycle of the nodes") as refused:
        checked_graph(graph)
    assert sorted(refused.value.details["node_ids"]) == ["1", "2"]
    graph["2"]["inputs"] = {"x": ["2", 0]}
    with pytest.raises(EngineError, match="cycle of the nodes 2\\."):
        checked_graph(graph)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.png", "a/../../x", "..\\x", "C:/x", "~/x", " /etc/passwd"])
def test_a_loader_that_names_a_file_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(EngineError):
        refuse_foreign_files({"1": node(image=name)})


@pytest.mark.parametrize(
    "value",
    [
        "callsheet/assets/x.png",
        " ./callsheet//assets/x.png [input]",
        "Callsheet\\Assets\\x.png",
        "callsheet/run-1/../assets/x.png",
        "callsheet/assets",
        "callsheet/assets/__X__",
        {"files": ["a", "callsheet/assets/x.png"]},
    ],
)
def test_a_graph_that_names_a_file_of_other_jobs_is_refused(value: Any) -> None:
    with pytest.raises(EngineError, match="Node 1 names a file of other jobs") as refused:
        refuse_shared_files({"1": {"class_type": "AnyNode", "inputs": {"path": value}}})
    assert (refused.value.type, refused.value.retryable) == ("invalid_workflow", False)


@pytest.mark.parametrize("value", ["__X__", "callsheet/assetsx", "a callsheet/assets/ in a prompt", 7, ["1", 0], None])
def test_a_graph_that_names_no_shared_file_is_accepted(value: Any) -> None:
    inputs = {"path": value, "filename_prefix": "callsheet/assets/mine"}
    refuse_shared_files({"1": {"class_type": "AnyNode", "inputs": inputs}})


def test_a_prompt_may_say_anything() -> None:
    refuse_foreign_files(
        {
            "1": node(image="sub/x.png"),
            "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "/../"}},
            "3": {"class_type": "UnloadModels", "inputs": {"text": "/../"}},
        }
    )
    refuse_shared_files({"1": {"class_type": "CLIPTextEncode", "inputs": {"text": "callsheet/assets/x.png"}}})


def test_a_text_that_another_node_uses_as_a_path_is_checked_too() -> None:
    graph = {
        "1": {"class_type": "PrimitiveString", "inputs": {"value": "callsheet/assets/x.png"}},
        "2": {"class_type": "AnyNode", "inputs": {"path": ["1", 0], "gone": ["9", 0]}},
    }
    with pytest.raises(EngineError, match="Node 1 names a file of other jobs"):
        refuse_shared_files(graph)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, {}),
        ("text", {}),
        ({"a": 1}, {"a": 1}),
        ({"extra_pnginfo": None, "a": 1}, {"a": 1}),
        ({"extra_pnginfo": {"b": 1}}, {"extra_pnginfo": {"b": 1}}),
    ],
)
def test_extra_data_that_breaks_the_engines_job_list_is_left_out(value: object, expected: dict[str, Any]) -> None:
    assert checked_extra_data(value) == expected


def test_every_node_that_may_write_a_result_carries_the_runs_id() -> None:
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "x.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
        "3": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        "4": {"class_type": "PassOn", "inputs": {"images": ["1", 0]}},
        "5": {"class_type": "SaveVideo", "inputs": {"images": ["4", 0], "filename_prefix": ["6", 0]}},
        "6": {"class_type": "PrimitiveString", "inputs": {"value": "x"}},
    }

    def marked(output_node: str | None, refusing: tuple[str, ...] = ()) -> set[str]:
        sent = with_marks(graph, "run-1", output_node, refusing)
        found = marked_nodes([0, "run-1", sent], "run-1")
        assert {node_id for node_id, node in sent.items() if node != graph[node_id]} == found
        return found

    assert marked(None) == {"2", "3", "5"}
    assert marked("4") == {"2", "3", "4", "5"}
    assert marked("2", ("PreviewImage",)) == {"2", "5"}
    assert marked_nodes([0, "run-1", with_marks(graph, "run-2", None, ())], "run-1") == set()


@pytest.mark.parametrize("prompt", [None, [], [0, "x"], [0, "x", None], [0, "x", {"1": None, "2": {"inputs": None}}]])
def test_a_history_entry_may_have_any_value_as_its_prompt(prompt: object) -> None:
    assert marked_nodes(prompt, "run-1") == set()


def test_a_node_needs_everything_before_it_also_in_a_circle() -> None:
    graph: dict[str, dict[str, Any]] = {
        "1": {"class_type": "A", "inputs": {"x": ["2", 0]}},
        "2": {"class_type": "B", "inputs": {"x": ["1", 0]}},
        "3": {"class_type": "C", "inputs": {}},
    }
    assert needed_by(graph, "1").keys() == {"1", "2"}
    assert needed_by(graph, "9") == {}
