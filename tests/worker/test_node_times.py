"""When each node of a graph ran on a real engine, as the agent reports it and an operator sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from tests.support.comfyui.lightbox import lightbox_process
from tests.worker.harness import AgentHarness, open_agent_harness

GRAPH: dict[str, Any] = {
    "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 255}},
    "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}, "_meta": {"title": "<b>Invert</b>"}},
    "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "mine"}},
}


@pytest.fixture
async def rendering_harness(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[AgentHarness]:
    """Agents whose engine is a Lightbox that renders."""
    async with (
        lightbox_process(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        engine = ComfyUI(lightbox.url, patience=Patience(stall=60, absent=30, poll=0.2))
        agent_harness.agent(engines=[engine])
        yield agent_harness


def seconds(span: dict[str, Any]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(span["started_at"]), datetime.fromisoformat(span["ended_at"])


@pytest.mark.thorough
async def test_nodes_run_within_their_attempt_and_the_second_time_they_are_cached(
    rendering_harness: AgentHarness,
) -> None:
    person = await rendering_harness.person()
    shown = []
    for _ in range(2):
        job = await rendering_harness.ends(
            person, await rendering_harness.submit(person, workflow=GRAPH, output_node_id="3", assets=[])
        )
        shown.append(await rendering_harness.waterfall(job["id"]))
    for spans in shown:
        [attempt] = [span for span in spans if span["kind"] == "attempt"]
        parts = [span for span in spans if span["parent_id"] == attempt["id"]]
        first, last = seconds(attempt)
        assert all(first <= seconds(part)[0] <= seconds(part)[1] <= last for part in parts)
        nodes = [part for part in parts if part["kind"] == "node"]
        assert sum((b - a for a, b in map(seconds, nodes)), timedelta()) <= last - first
        assert {"run", "fetch", "upload"} <= {part["name"] for part in parts if part["kind"] == "phase"}
    cached = [{span["name"]: span["cached"] for span in spans if span["kind"] == "node"} for spans in shown]
    # The node that saves is marked with the run, so that it makes a new file each time.
    assert cached == [{"1": False, "2": False, "3": False}, {"1": True, "2": True, "3": False}]


@pytest.mark.thorough
async def test_a_node_that_fails_is_the_last_of_its_attempt(rendering_harness: AgentHarness) -> None:
    person = await rendering_harness.person()
    graph = {
        "1": GRAPH["1"],
        "2": {"class_type": "ProbeFail", "inputs": {"image": ["1", 0], "message": "torn", "kind": "RuntimeError"}},
        "3": GRAPH["3"],
    }
    job = await rendering_harness.ends(
        person, await rendering_harness.submit(person, workflow=graph, output_node_id="3", assets=[]), "failed"
    )
    nodes = [span["name"] for span in await rendering_harness.waterfall(job["id"]) if span["kind"] == "node"]
    assert nodes == ["1", "2"]
