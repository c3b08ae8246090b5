"""A sampler draws previews if the client asks for them, and only then."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.engine import EngineRun
from tests.support.comfyui.engine_setups import RecordingWatcher
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import lightbox_here

GRAPH = {
    "1": node("LightboxTextToImage", text="a lake", seed=1, width=64, height=64, steps=4),
    "2": node("PreviewImage", images=["1", 0]),
}


@pytest.mark.parametrize(
    ("setting", "extra_data", "are_drawn"),
    [
        ({}, {}, True),
        ({"previews": "none"}, {}, False),
        # What the workflow says counts.
        ({}, {"preview_method": "none"}, False),
        ({"previews": "none"}, {"preview_method": "latent2rgb"}, True),
    ],
)
async def test_previews_are_sent_if_the_setting_or_the_workflow_requires_them(
    tmp_path: Path, setting: dict[str, Any], extra_data: dict[str, Any], are_drawn: bool
) -> None:
    async with lightbox_here(tmp_path) as lightbox:
        engine, seen = ComfyUI(lightbox.url, **setting), RecordingWatcher()
        await engine.run(EngineRun(str(uuid.uuid4()), GRAPH, "2", extra_data), seen)
        await engine.close()
    assert bool(seen.previews) is are_drawn
