"""What a run made is found in whatever shape a node reports it, and nothing that another run made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.providers.comfy.errors import (
    cached_nodes,
    of_execution_error,
    of_history,
    of_node_errors,
    of_refused_prompt,
)
from callsheet.providers.comfy.outputs import mime_type_of, outputs_of, public_names, remove_files
from callsheet.providers.engine import EngineLack, EngineLacks, Output
from tests.support.comfyui.replaying_engine import SAMPLES, sample

GRAPH: dict[str, Any] = {"2": {"class_type": "SaveImage", "inputs": {"filename_prefix": "callsheet/run-1/x"}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_every_recorded_shape_gives_its_files() -> None:
    shapes = sample("output_shapes")
    for name, shape in shapes.items():
        found = outputs_of(shape.get("outputs"))
        expected = [
            item["filename"]
            for node in (shape.get("outputs") or {}).values()
            for value in node.values()
            for item in value
            if isinstance(item, dict) and item["type"] == "output"
        ]
        if expected:
            assert [output.name for output in found] == expected, name


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (["a caption"], "a caption"),
        ("a caption", "a caption"),
        (["one", "two"], "one\ntwo"),
        # Nodes that show any value use lists of lists, and numbers.
        ([["one", ["two"]], 3, 0.5, True], "one\ntwo\n3\n0.5\ntrue"),
        ([None, {"a": 1}], None),
        ([[[[[["too deep"]]]]]], None),
        ([], None),
    ],
)
def test_a_text_that_a_node_shows_is_a_result_if_there_is_no_file(shown: Any, text: str | None) -> None:
    found = outputs_of({"7": {"text": shown}})
    assert [(output.name, output.text) for output in found] == ([] if text is None else [("text-7.txt", text)])
    image = {"filename": "a.png", "subfolder": "", "type": "output"}
    assert [output.name for output in outputs_of({"7": {"text": shown}, "8": {"images": [image]}})] == ["a.png"]


@pytest.mark.parametrize(("name", "beginning"), [("ProbeUI_text", "hello\nwörld"), ("PreviewAny_text", "tensor([[")])
def test_recorded_texts_are_read(name: str, beginning: str) -> None:
    [output] = outputs_of(sample("output_shapes")[name]["outputs"])
    assert (output.name, mime_type_of(output.name)) == ("text-2.txt", "text/plain")
    assert (output.text or "").startswith(beginning)


def test_every_recorded_history_is_read() -> None:
    ends = {}
    for path in sorted(SAMPLES.glob("history_*.json")):
        if path.stem == "history_states":
            continue
        [entry] = sample(path.stem).values()
        error = of_history(entry)
        ends[path.stem] = (error.type, error.retryable) if error else None
        assert cached_nodes(entry) <= set(entry["prompt"][2])
    assert ends == {
        "history_cached_no_client_id": None,
        "history_error_with_partial_outputs": ("execution_error", False),
        "history_interrupted": ("interrupted", True),
        "history_oom_error": ("out_of_memory", True),
        "history_runtime_error": ("execution_error", False),
        "history_runtime_error_builtin": ("execution_error", False),
        "history_success_no_client_id": None,
    }


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: x"),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried"),
        ("numpy._core._exceptions._ArrayMemoryError", "Unable to allocate 1.20 GiB for an array with shape (3,)"),
        ("MemoryError", ""),
        ("OSError", "[Errno 12] Cannot allocate memory"),
    ],
    ids=["torch", "torch_windows", "numpy", "python", "system"],
)
def test_a_cpu_without_memory_is_an_engine_without_memory(kind: str, message: str) -> None:
    error = of_execution_error({"exception_type": kind, "exception_message": message})
    assert (error.type, error.retryable) == ("out_of_memory", True)


def test_a_full_disk_of_the_engine_is_not_the_fault_of_the_job() -> None:
    raw = {"exception_type": "OSError", "exception_message": "[Errno 28] No space left on device: '/opt/output/x.png'"}
    error = of_execution_error(raw)
    assert (error.type, error.retryable) == ("engine_disk_full", True)
    assert error.message == "The disk of the engine is full."


def test_every_recorded_refusal_is_read_and_shows_no_choices_and_no_paths() -> None:
    for name, case in sample("prompt_cases").items():
        response = case["response"]
        if response["http_status"] in (200, 403):
            continue
        error = of_refused_prompt(response["http_status"], response["body"])
        assert (error.type, error.retryable) == ("invalid_workflow", False), name
        assert error.message, name
        assert "/opt/" not in error.message, name
        assert "'alpha'" not in error.message, name


@pytest.mark.parametrize(
    ("name", "message", "advice"),
    [
        (
            "missing_class",
            "The engine has no node of the class FancyNodeThatIsNotHere (node 2 of the workflow).",
            "custom node",
        ),
        (
            "missing_model",
            "CheckpointLoaderSimple: the engine has no ckpt_name 'not-here.safetensors'",
            "models folder",
        ),
    ],
)
def test_a_missing_node_or_model_is_named_with_what_to_install(name: str, message: str, advice: str) -> None:
    recorded = sample("output_marker_and_refusals")[name]
    error = of_refused_prompt(recorded["http_status"], recorded["body"])
    assert error.message == message
    assert advice in error.details["advice"]


def test_a_refusal_for_something_that_another_engine_may_have_says_what_it_is() -> None:
    found = {}
    for name in ("missing_class", "missing_model"):
        recorded = sample("output_marker_and_refusals")[name]
        error = of_refused_prompt(recorded["http_status"], recorded["body"])
        assert isinstance(error, EngineLacks)
        found[name] = error.lacks
    assert found["missing_class"] == (EngineLack("2", "FancyNodeThatIsNotHere"),)
    [model] = found["missing_model"]
    assert (model.node_class, model.input_name, model.value) == (
        "CheckpointLoaderSimple",
        "ckpt_name",
        "not-here.safetensors",
    )
    # Another error of the graph would fail on every engine.
    body = sample("output_marker_and_refusals")["missing_model"]["body"]
    wrong = {"class_type": "Save", "errors": [{"type": "required_input_missing", "message": "x", "details": "width"}]}
    both = {**body, "node_errors": {**body["node_errors"], "9": wrong}}
    assert not isinstance(of_refused_prompt(400, both), EngineLacks)


def test_a_model_that_only_one_output_lacks_is_named_too() -> None:
    error = of_node_errors(sample("prompt_missing_model")["body"]["node_errors"], "9")
    assert error is not None
    assert error.message == "CheckpointLoaderSimple: the engine has no ckpt_name 'nope.safetensors'"
    assert "models folder" in error.details["advice"]
    assert of_node_errors(sample("prompt_missing_model")["body"]["node_errors"], "12") is None


def test_newer_engines_name_a_missing_class_in_a_field_of_its_own() -> None:
    extra = {"node_id": "7", "class_type": "Fancy", "node_title": "My node"}
    body = {"error": {"type": "missing_node_type", "message": "Node 'My node' not found.", "details": "Node ID '#7'"}}
    body["error"]["extra_info"] = extra  # type: ignore[assignment]
    assert of_refused_prompt(400, body).message == "The engine has no node of the class Fancy (node 7 of the workflow)."


@given(JSON)
def test_any_response_of_an_engine_is_read_without_a_crash(value: Any) -> None:
    outputs = outputs_of(value)
    public_names(outputs)
    of_refused_prompt(400, value)
    of_node_errors(value, "2")
    if isinstance(value, dict):
        of_history(value)
        cached_nodes(value)
        of_history({"status": value})


def test_names_are_made_unique_and_harmless() -> None:
    names = ["a.png", "a.png", "../../b.png", "c\x00\n.png", "", "x" * 300 + ".png"]
    public = public_names([Output("1", name) for name in names])
    assert public[:4] == ["a.png", "a-2.png", "_.._b.png", "c__.png"]
    assert public[4] == "output"
    assert len(public[5]) < 200
    assert len(set(public)) == len(public)


@pytest.mark.parametrize(
    ("name", "kind"), [("A.MP4", "video/mp4"), ("x.webp", "image/webp"), ("x", "application/octet-stream")]
)
def test_the_kind_of_a_file_comes_from_its_extension(name: str, kind: str) -> None:
    assert mime_type_of(name) == kind


def test_files_below_the_engines_folders_are_removed_and_no_others(tmp_path: Path) -> None:
    for name in ("output/album/a.png", "temp/b.png", "input/c.png", "outside.png", "output-beside/d.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    outputs = [
        Output("1", "a.png", "album"),
        Output("1", "b.png", store="temp"),
        Output("1", "c.png", store="input"),
        Output("1", "outside.png", ".."),
        Output("1", "../outside.png"),
        Output("1", "d.png", "../output-beside"),
        Output("1", str(tmp_path / "outside.png")),
        Output("1", "not-there.png"),
        Output("1", "", "album"),
    ]
    remove_files(tmp_path, outputs)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png"))
    assert left == ["input/c.png", "output-beside/d.png", "outside.png"]
