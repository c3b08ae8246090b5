"""Lightbox with the delays of a real ComfyUI, as they were recorded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from callsheet.settings.machines import LightboxSettings
from callsheet_lightbox.server import running_lightbox
from callsheet_lightbox.timing import RECORDED_MS, Timing
from tests.support.comfyui.lightbox import render
from tests.support.comfyui.replaying_engine import SAMPLES, sample


def recorded_gaps(before: str, after: str) -> list[float]:
    """The milliseconds between these two messages wherever one follows the other."""
    found = []
    for path in SAMPLES.glob("ws_*.json"):
        recorded = sample(path.stem)
        messages = recorded["messages"] if isinstance(recorded, dict) else []
        for one, other in pairwise(messages):
            if (one["msg"].get("type"), other["msg"].get("type")) == (before, after):
                found.append(1000 * (other["t"] - one["t"]))
    return found


@pytest.mark.parametrize(
    ("gap", "before", "after"),
    [
        ("started", "status", "execution_start"),
        ("recorded", "execution_success", "status"),
        ("ended", "status", "executing"),
    ],
)
def test_the_delays_are_those_of_the_recordings(gap: str, before: str, after: str) -> None:
    gaps, used = recorded_gaps(before, after), RECORDED_MS[gap]  # type: ignore[index]
    assert max(used) <= max(gaps) + 0.1
    assert sum(used) / len(used) == pytest.approx(sum(gaps) / len(gaps), abs=0.3)


def test_without_the_mode_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("callsheet_lightbox.timing.time.sleep", waits.append)
    Timing().wait("taken")
    assert waits == []
    Timing(is_recorded=True).wait("taken")
    assert waits == [RECORDED_MS["taken"][0] / 1000]


async def test_a_graph_is_rendered_with_the_delays_of_a_comfyui(tmp_path: Path) -> None:
    graph = {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
    }
    settings = LightboxSettings(port=0, comfyui_timing=True)
    async with (
        running_lightbox(settings, tmp_path) as running,
        httpx.AsyncClient(base_url=running.url, trust_env=False) as client,
    ):
        entry = await render(client, graph)
    assert entry["status"]["status_str"] == "success"
