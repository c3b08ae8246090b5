"""What workers say about the times of a run: kept where it can be read, and never a reason to refuse a report."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from callsheet.wire.worker.protocol import CompleteRequest, FailRequest, RequeueRequest, RunEnd
from callsheet.wire.worker.traces import MAX_NODE_ID_LENGTH, MAX_NODES, MAX_PHASES, UnreadableTrace
from callsheet.worker.agent.run_trace import RunTrace

LEASE = {"dispatch_id": 1, "lease_token": str(uuid4())}
NODE = {"node_id": "3", "start_ms": 5, "end_ms": 9}
PHASE = {"name": "run", "start_ms": 0, "end_ms": 9}
PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text()


def read(trace: object) -> Any:
    return CompleteRequest.model_validate({**LEASE, "trace": trace}).trace


@pytest.mark.parametrize("model", [CompleteRequest, FailRequest, RequeueRequest])
def test_each_end_of_a_run_may_carry_a_trace(model: type[RunEnd]) -> None:
    trace = model.model_validate({**LEASE, "trace": {"phases": [PHASE], "nodes": [{**NODE, "cached": True}]}}).trace
    assert trace is not None
    assert trace.as_json() == {"phases": [PHASE], "nodes": [{**NODE, "cached": True}]}
    assert model.model_validate({**LEASE, "trace": None}).trace is None
    assert model.model_validate(LEASE).trace is None


@pytest.mark.parametrize(
    ("trace", "field"),
    [
        ("soon", "trace"),
        ([], "trace"),
        ({"nodes": {}}, "trace.nodes"),
        ({"nodes": [{**NODE, "end_ms": 4}]}, "trace.nodes.0"),
        ({"nodes": [NODE, {**NODE, "start_ms": -1}]}, "trace.nodes.1.start_ms"),
        ({"nodes": [{**NODE, "end_ms": 10**12}]}, "trace.nodes.0.end_ms"),
        ({"nodes": [{**NODE, "start_ms": float("nan")}]}, "trace.nodes.0.start_ms"),
        ({"nodes": [{**NODE, "node_id": ""}]}, "trace.nodes.0.node_id"),
        ({"nodes": [{**NODE, "node_id": None}]}, "trace.nodes.0.node_id"),
        ({"phases": [{**PHASE, "name": "<b>"}]}, "trace.phases.0.name"),
        ({"nodes_left_out": -1}, "trace.nodes_left_out"),
        ({"nodes": [NODE] * (MAX_NODES + 1)}, "trace.nodes"),
        ({"phases": [PHASE] * (MAX_PHASES + 1)}, "trace.phases"),
    ],
    ids=str,
)
def test_a_trace_that_cannot_be_read_is_dropped_with_the_name_of_its_field(trace: object, field: str) -> None:
    dropped = read(trace)
    assert isinstance(dropped, UnreadableTrace)
    assert dropped.reason.startswith(f"{field}: ")


def test_the_page_names_the_limits() -> None:
    assert f"| `trace` | {MAX_PHASES} phases, {MAX_NODES:,} nodes;" in PAGE
    assert not isinstance(read({"nodes": [NODE] * MAX_NODES, "phases": [PHASE] * MAX_PHASES}), UnreadableTrace)


def test_ids_of_nodes_become_texts_that_a_database_can_hold() -> None:
    ids = [17, "57:3", "a\0b\n", "x" * 500]
    trace = read({"nodes": [{**NODE, "node_id": each} for each in ids], "unknown": 1})
    assert [node.node_id for node in trace.nodes] == ["17", "57:3", "a\ufffdb\ufffd", "x" * MAX_NODE_ID_LENGTH]


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        self.now += 0.010
        return self.now


def test_the_agent_measures_phases_and_nodes_from_its_lease() -> None:
    clock = Seconds()
    trace = RunTrace(clock)
    with trace.phase("download"):
        clock.now += 1
    with trace.at_engine():
        clock.now += 2
        trace.run_started()
        trace.run_started()
        trace.at_node("1", "cached")
        trace.at_node("3", "started")
        clock.now += 3
        trace.at_node("3", "finished")
        trace.at_node("3", "finished")
        trace.at_node("9", "started")
    with trace.phase("upload"):
        report = trace.as_report()
    assert [phase["name"] for phase in report["phases"]] == ["download", "engine_queue", "run", "upload"]
    assert all(one["end_ms"] <= other["start_ms"] for one, other in pairwise(report["phases"]))
    cached, sampled, unfinished = report["nodes"]
    assert cached == {"node_id": "1", "start_ms": cached["start_ms"], "end_ms": cached["start_ms"], "cached": True}
    assert 3000 <= sampled["end_ms"] - sampled["start_ms"] < 3100
    # The run was stopped in it.
    assert unfinished["end_ms"] == report["phases"][-1]["end_ms"]
    assert not isinstance(read(report), UnreadableTrace)


def test_a_graph_of_any_size_makes_a_report_of_bounded_size() -> None:
    trace = RunTrace(Seconds())
    for number in range(MAX_NODES + 500):
        trace.at_node(str(number), "started")
        trace.at_node(str(number), "finished")
    for _ in range(MAX_PHASES + 5):
        with trace.phase("upload"):
            pass
    report = trace.as_report()
    assert (len(report["nodes"]), report["nodes_left_out"], len(report["phases"])) == (MAX_NODES, 500, MAX_PHASES)
    assert not isinstance(read(report), UnreadableTrace)
