"""What counts as a run's own result, by the responses of a real ComfyUI 0.7.0."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.providers.comfy.errors import cached_nodes
from callsheet.providers.comfy.marks import EarlierOutputs, Marks
from callsheet.providers.comfy.outputs import outputs_of
from callsheet.providers.engine import EngineError, EngineRun, FetchedOutput
from tests.support.comfyui.graphs import node
from tests.support.comfyui.replaying_engine import sample

GRAPH = {"1": node("EmptyImage"), "2": node("PreviewImage", images=["1", 0])}
FETCHED = FetchedOutput(3, "a" * 64)


def recorded(name: str) -> list[tuple[EngineRun, list[Any], set[str]]]:
    """The runs of that name: their outputs, and which nodes came from the cache."""
    return [
        (EngineRun(each["prompt_id"], GRAPH, "2"), outputs_of(each["outputs"], "2"), cached_nodes(each))
        for each in sample("output_marker_and_refusals")[name]
    ]


@pytest.mark.parametrize("name", ["preview_marked", "save_marked_same_prefix", "linked_prefix_marked"])
def test_outputs_of_a_marked_node_are_taken(name: str) -> None:
    earlier, names = EarlierOutputs(), set()
    for run, outputs, cached in recorded(name):
        assert cached, "what comes before the output was computed once"
        earlier.check(outputs, run, cached)
        names |= {output.name for output in outputs}
    assert len(names) == 2


def test_a_cached_output_of_an_unmarked_node_is_taken_only_if_it_was_seen_before() -> None:
    (first, outputs, cached), (second, same, from_cache) = recorded("preview_plain")
    assert same == outputs
    with pytest.raises(EngineError, match="cache"):
        EarlierOutputs().check(same, second, from_cache)
    earlier = EarlierOutputs()
    earlier.check(outputs, first, cached)
    earlier.fetched(outputs[0], FETCHED)
    earlier.check(same, second, from_cache)
    earlier.fetched(same[0], FETCHED)
    with pytest.raises(EngineError, match="cache"):
        earlier.fetched(same[0], FetchedOutput(3, "b" * 64))
    # The same name, made of something else.
    other = EngineRun("another", GRAPH | {"1": node("EmptyImage", color=1)}, "2")
    with pytest.raises(EngineError, match="cache"):
        earlier.check(same, other, from_cache)


def node_error(details: str) -> dict[str, Any]:
    return {"node_errors": {"2": {"errors": [{"details": details}]}}}


@pytest.mark.parametrize(
    ("message", "details", "is_refusal"),
    [
        ("f() got an unexpected keyword argument 'callsheet_run'", {"node_id": "2"}, True),
        ("no", node_error("callsheet_run"), True),
        ("no", node_error("images"), False),
        ("callsheet_run", {"node_id": "9", "node_errors": {"2": None}}, False),
        ("A node failed.", {"node_id": "2"}, False),
    ],
)
def test_a_class_that_refuses_the_mark_is_distinguished_from_other_failures(
    message: str, details: dict[str, Any], is_refusal: bool
) -> None:
    marks, error = Marks(), EngineError("execution_error", message, details=details)
    assert marks.learn(error, GRAPH) is is_refusal
    assert marks.refusing == ({"PreviewImage"} if is_refusal else set())
    # Only once: without the mark it failed for another reason.
    assert not marks.learn(error, GRAPH)
