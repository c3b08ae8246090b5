"""A pipeline of four steps on a real renderer, by a real agent, to its leaves without help."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from callsheet.app.control_plane import running_control_plane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.settings import Settings
from tests.support.comfyui.graphs import Graph, image_graph, node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.database.installation import changed
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.waiting import until
from tests.worker.harness import open_agent_harness

LEAVES = 10
PARENT = "{{parent_image_path}}"
BASE: Graph = {
    "paint": node("LightboxTextToImage", text="{{prompt}}", seed="{{seed}}", width=48, height=32, steps=1),
    "save": node("SaveImage", images=["paint", 0], filename_prefix="base"),
}
GRADE = {"brightness": "{{brightness}}", "contrast": 1.0, "gamma": 1.0, "saturation": 1.0, "warmth": 0.0}
FIX = image_graph(PARENT, ("LightboxColorGrade", GRADE))
UPSCALE = image_graph(PARENT, ("ImageScaleBy", {"upscale_method": "bilinear", "scale_by": 2.0}))
NEEDS: dict[str, dict[str, Any]] = {
    "base": {"needs_run_prompt": True},
    "face fix": {"needs_parent_image_path": True, "needs_run_variables": True},
    "hand fix": {"needs_parent_image_path": True, "needs_run_variables": True},
    "upscale": {"needs_parent_image_path": True},
}


@pytest.mark.thorough
async def test_a_run_of_four_steps_reaches_ten_leaves_without_intervention(settings: Settings, tmp_path: Path) -> None:
    chosen = changed(settings, pipelines={"jobs_per_run": 2, "jobs_in_total": 2})
    async with (
        running_control_plane(chosen) as plane,
        lightbox_here(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        catalog_api = await CatalogApi.open(
            plane, agent_harness.worker_harness.client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        ann = await catalog_api.person(tokens=1000)
        slugs = [await catalog_api.sold_image_workflow(graph) for graph in (BASE, FIX, FIX, UPSCALE)]
        engine = ComfyUI(lightbox.url, patience=Patience(stall=60, absent=30, poll=0.1))
        agent_harness.agent(engines=[engine], workflows=tuple(slugs), max_concurrency=2)
        steps = [
            {"name": name, "workflow": slug, "max_children": 1, **needs}
            for slug, (name, needs) in zip(slugs, NEEDS.items(), strict=True)
        ]
        await catalog_api.made("/api/pipelines", {"slug": "gym", "name": "Gym", "steps": steps}, person=ann)
        wanted = {"name": "Gym shoot", "prompt": "a gym at dawn", "variables": {"brightness": 1.5}, "budget": 300}
        request = {**wanted, "target_leaves": LEAVES, "target_folder": "gym-shoot"}
        run = await catalog_api.made("/api/pipelines/gym/runs", request, person=ann)

        async def is_over() -> bool:
            shown = await catalog_api.shown(ann, f"/api/runs/{run['id']}")
            return bool(shown["status"] != "active" or shown["reason"])

        await until(is_over)
        shown = await catalog_api.shown(ann, f"/api/runs/{run['id']}")
        assert (shown["status"], shown["reason"]) == ("completed", "target_reached")
        assert [step["active"] for step in shown["steps"]] == [LEAVES] * 4
        assert (shown["draws"], shown["spent"], shown["candidates"]) == (40, 200, 40)
        assert await agent_harness.worker_harness.balance(ann) == 800
        tree = (await catalog_api.shown(ann, f"/api/runs/{run['id']}/tree"))["items"]
        assert all(one["child_count"] == (0 if one["position"] == 4 else 1) for one in tree)
        await _check_images(catalog_api, ann, run["id"])


async def _check_images(catalog_api: CatalogApi, ann: Person, run_id: str) -> None:
    """Leaves are twice as large as bases, and no two are the same: each has a seed of its own."""
    seen = set()
    for step, size in (("base", (48, 32)), ("upscale", (96, 64))):
        page = await catalog_api.shown(ann, f"/api/runs/{run_id}/candidates?step={step}")
        assert len(page["items"]) == LEAVES
        for candidate in page["items"]:
            content = (await catalog_api.client.get(candidate["file"]["url"])).content
            with Image.open(BytesIO(content)) as image:
                assert image.size == size
            seen.add(content)
    assert len(seen) == 2 * LEAVES
