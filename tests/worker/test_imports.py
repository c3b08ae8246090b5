"""The import of a workflow knows what the engines of online workers declare, also about custom nodes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI
from tests.support.comfyui.graphs import Graph, node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.http.accounts import People
from tests.support.http.catalog_api import CatalogApi
from tests.support.waiting import until
from tests.worker.harness import QUICK, open_agent_harness

# As a person exports it, with a placeholder in a number input.
GRAPH: Graph = {
    "1": {**node("LoadImage", image="photo.png"), "_meta": {"title": "Customer photo"}},
    "2": {
        **node(
            "LightboxTextOverlay",
            image=["1", 0],
            text="Sale",
            position="top",
            size="{{amount}}",
            color="#ffffff",
            opacity=0.5,
        ),
        "_meta": {"title": "Caption"},
    },
    "3": node("SaveImage", images=["2", 0], filename_prefix="card"),
}


async def test_an_import_takes_types_and_limits_from_the_engine_and_a_number_stays_a_number(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with (
        lightbox_here(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        catalog_api = await CatalogApi.open(plane, agent_harness.worker_harness.client, people)
        ann = await catalog_api.person()
        path = "/api/admin/workflows/proposals"
        before = (await catalog_api.call("POST", path, {"graph": GRAPH})).json()
        assert (before["is_declared"], before["warnings"]) == (False, [])
        assert {each["key"]: each["type"] for each in before["properties"]} == {"input": "image", "amount": "text"}

        agent = agent_harness.agent(engines=[ComfyUI(lightbox.url, patience=QUICK)])
        await until(agent_harness.workers)
        found = (await catalog_api.call("POST", path, {"graph": GRAPH, "everything": True})).json()
        assert (found["is_declared"], found["warnings"], found["left_out"]) == (True, [], 0)
        shown = {each["key"]: (each["type"], each["label"], each["default"]) for each in found["properties"]}
        assert shown == {
            "input": ("image", "Customer photo", None),
            "amount": ("number", "Amount", 0.08),
            "text": ("text", "Caption: Text", "Sale"),
            "position": ("choice", "Caption: Position", "top"),
            "opacity": ("number", "Caption: Opacity", 0.5),
        }
        limits = {each["key"]: each["limits"] for each in found["properties"]}
        assert (limits["amount"]["min"], limits["opacity"]["max"]) == (0.01, 1.0)
        assert "bottom-right" in limits["position"]["choices"]

        unknown = {
            **GRAPH,
            "4": node("VHS_LoadVideo", video="x.mp4"),
            "5": node("VAELoader", vae_name="none.safetensors"),
        }
        [warning] = (await catalog_api.call("POST", path, {"graph": unknown})).json()["warnings"]
        assert warning == (
            "No worker has the node class VHS_LoadVideo, the model none.safetensors or the node class VAELoader. "
            "Its jobs wait until a worker can run it."
        )

        kind = {"output_extension": "png", "output_mime_type": "image/png", "output_node_id": "3"}
        lacking = await catalog_api.workflow(graph=unknown, properties=[], **kind)
        assert lacking["warnings"] == [warning]
        workflow = await catalog_api.workflow(
            graph=found["graph"], properties=found["properties"], keep_metadata=True, **kind
        )
        assert workflow["warnings"] == []
        await agent_harness.leave(agent)
        agent_harness.agent(engines=[ComfyUI(lightbox.url, patience=QUICK)], workflows=(workflow["slug"],))
        effect = await catalog_api.effect(workflow["slug"])
        photo = io.BytesIO()
        Image.new("RGB", (64, 48), "navy").save(photo, "png")
        file = await catalog_api.file(ann, photo.getvalue(), "image/png", "photo.png")
        job = await catalog_api.submit(ann, effect, input_file_id=file, input_payload={"amount": 0.25})
        await agent_harness.ends(ann, job["id"])
        [result] = await agent_harness.worker_harness.files(ann, job["id"])
        with Image.open(io.BytesIO(await plane.rooms.storage.read(result["path"], 1_000_000))) as image:
            sent: dict[str, Any] = json.loads(image.info["prompt"])
        assert (sent["2"]["inputs"]["size"], sent["2"]["inputs"]["position"]) == (0.25, "top")
