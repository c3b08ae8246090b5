"""Texts of users and names of files reach the nodes of a real engine as they were written."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI
from tests.support.comfyui.graphs import Graph, node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.http.accounts import People
from tests.support.http.catalog_api import PRIMARY, CatalogApi
from tests.worker.harness import QUICK, open_agent_harness

PROMPT = '__INPUT_PATH__ "quoted" \\ \\n {{prompt}} {{style}} {"1": []} %width% callsheet/assets/x $1 \\g<0> 日本'
STYLE = "__INPUT_PAT"
PREFIX = "shots/%width%x%height% %date:yyyy-MM-dd% %Caption.text%"
GRAPH: Graph = {
    "load": node("LoadImage", image="__INPUT_PATH__"),
    "caption": node(
        "LightboxTextOverlay",
        image=["load", 0],
        text="{{prompt}}",
        position="bottom",
        size=0.1,
        color="#ffffff",
        opacity=1.0,
    ),
    "note": node("PrimitiveString", value="{{style}}__INPUT_PATH__"),
    "show": node("PreviewAny", source=["note", 0]),
    "save": node("SaveImage", images=["caption", 0], filename_prefix=PREFIX),
}
PROPERTIES: list[dict[str, Any]] = [
    {**PRIMARY, "type": "image"},
    *(
        {"key": key, "type": "text", "placeholder": f"{{{{{key}}}}}", "required": True, "user_configurable": True}
        for key in ("prompt", "style")
    ),
]


async def test_a_hostile_text_and_the_tokens_of_a_file_name_reach_a_real_engine_unchanged(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with (
        lightbox_here(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        catalog_api = await CatalogApi.open(plane, agent_harness.worker_harness.client, people)
        ann = await catalog_api.person()
        kind = {"output_extension": "png", "output_mime_type": "image/png", "output_node_id": "save"}
        workflow = await catalog_api.workflow(graph=GRAPH, properties=PROPERTIES, keep_metadata=True, **kind)
        effect = await catalog_api.effect(workflow["slug"])
        photo = io.BytesIO()
        Image.new("RGB", (64, 48), "navy").save(photo, "png")
        file = await catalog_api.file(ann, photo.getvalue(), "image/png", "photo.png")
        engine = ComfyUI(lightbox.url, patience=QUICK)
        agent_harness.agent(engines=[engine], workflows=(workflow["slug"],))
        values = {"prompt": PROMPT, "style": STYLE}
        job = await catalog_api.submit(ann, effect, input_file_id=file, input_payload=values)
        await agent_harness.ends(ann, job["id"])

        [result] = await agent_harness.worker_harness.files(ann, job["id"])
        content = await plane.rooms.storage.read(result["path"], 1_000_000)
        with Image.open(io.BytesIO(content)) as image:
            assert image.size == (64, 48)
            sent = json.loads(image.info["prompt"])
        assert sent["caption"]["inputs"]["text"] == PROMPT
        image_name = sent["load"]["inputs"]["image"]
        assert re.fullmatch(r"callsheet/[\w-]+/1-input\.png", image_name)
        assert sent["note"]["inputs"]["value"] == f"{STYLE}{image_name}"
        # ComfyUI replaces the size. Only its own page replaces the others, so they stay.
        assert result["name"].endswith("64x48 %date:yyyy-MM-dd% %Caption.text%_00001_.png"), result["name"]
