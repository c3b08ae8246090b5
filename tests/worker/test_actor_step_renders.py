"""Steps of both kinds in one run, on a real renderer: an actor paints, an agent grades, an actor paints over it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from PIL import Image

from callsheet.app.control_plane import running_control_plane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.settings import Settings
from callsheet.settings.tasks import COSTS
from tests.support.comfyui.graphs import Graph, image_graph
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.database.installation import changed
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.waiting import until
from tests.worker.harness import open_agent_harness

GRADE = {"brightness": 1.5, "contrast": 1.0, "gamma": 1.0, "saturation": 1.0, "warmth": 0.0}
FIX: Graph = image_graph("{{parent_image_path}}", ("LightboxColorGrade", GRADE))
LIGHTBOX = {"provider": "lightbox", "prompt": "{{prompt}}, {{style}}"}
SIZE = {"width": "{{width}}", "height": 32, "batch_size": 2, "steps": 1, "seed": "{{seed}}"}
OVER = {"image_url": "{{parent_image_path}}", "strength": 0.5, "steps": 1, "seed": "{{seed}}"}
WORDS = {"workflow": "actor:media", "needs_run_prompt": True, "needs_run_variables": True, "max_children": 1}


@pytest.mark.thorough
async def test_actors_and_workflows_take_each_others_images(settings: Settings, tmp_path: Path) -> None:
    async with lightbox_here(tmp_path / "lightbox") as lightbox:
        provider = settings.providers.lightbox.model_copy(update={"url": lightbox.url})
        # No private network is allowed: the image comes from our own storage, wherever that is.
        chosen = changed(
            settings,
            providers={"lightbox": provider},
            tasks={"in_process": 2, "costs": {**COSTS, "media": 4}},
        )
        async with (
            running_control_plane(chosen) as plane,
            open_agent_harness(plane, tmp_path / "agent") as agent_harness,
        ):
            catalog_api = await CatalogApi.open(
                plane,
                agent_harness.worker_harness.client,
                People(plane.rooms.identity.accounts, plane.rooms.identity.keys),
            )
            ann = await catalog_api.person(tokens=1000)
            slug = await catalog_api.sold_image_workflow(FIX)
            engine = ComfyUI(lightbox.url, patience=Patience(stall=60, absent=30, poll=0.1))
            agent_harness.agent(engines=[engine], workflows=(slug,), max_concurrency=2)
            steps: list[dict[str, Any]] = [
                {"name": "Paint", **WORDS, "payload": {**LIGHTBOX, "action_type": "txt2img", "params": SIZE}},
                {"name": "Grade", "workflow": slug, "needs_parent_image_path": True, "max_children": 1},
                {
                    "name": "Over",
                    **WORDS,
                    "payload": {**LIGHTBOX, "action_type": "img2img", "params": OVER},
                    "needs_parent_image_path": True,
                },
            ]
            await catalog_api.made("/api/pipelines", {"slug": "mixed", "name": "Mixed", "steps": steps}, person=ann)
            wanted = {"name": "Mixed", "prompt": "a gym", "budget": 100, "target_leaves": 2, "seed": 7}
            variables = {"style": "at dawn", "width": 48}
            run = await catalog_api.made("/api/pipelines/mixed/runs", {**wanted, "variables": variables}, person=ann)

            async def is_over() -> bool:
                shown = await catalog_api.shown(ann, f"/api/runs/{run['id']}")
                return bool(shown["status"] != "active" or shown["reason"])

            await until(is_over, 120)
            shown = await catalog_api.shown(ann, f"/api/runs/{run['id']}")
            assert (shown["status"], shown["reason"]) == ("completed", "target_reached"), shown
            # One job makes two bases; each has a child by the agent and a leaf by the actor.
            assert [step["active"] for step in shown["steps"]] == [2, 2, 2]
            assert (shown["draws"], shown["spent"]) == (5, 4 + 2 * 5 + 2 * 4)
            assert await agent_harness.worker_harness.balance(ann) == 1000 - 22
            await _check_images(catalog_api, ann, run["id"])
            await _check_replay(catalog_api, ann, run["id"])


async def _check_images(catalog_api: CatalogApi, ann: Person, run_id: str) -> None:
    candidates = (await catalog_api.shown(ann, f"/api/runs/{run_id}/candidates"))["items"]
    contents = [(await catalog_api.client.get(one["file"]["url"])).content for one in candidates]
    for content in contents:
        with Image.open(BytesIO(content)) as image:
            assert image.size == (48, 32)
    assert len(set(contents)) == len(candidates)

    async def have_thumbnails() -> bool:
        page = await catalog_api.shown(ann, f"/api/runs/{run_id}/candidates")
        return all(one["thumbnail"] is not None for one in page["items"])

    await until(have_thumbnails)
    export = await catalog_api.call("GET", f"/api/runs/{run_id}/export", person=ann)
    with ZipFile(BytesIO(export.content)) as archive:
        assert sum(name.endswith(".png") for name in archive.namelist()) == len(candidates)


async def _check_replay(catalog_api: CatalogApi, ann: Person, run_id: str) -> None:
    """The same payload, seed and parent make the same image."""
    leaf = (await catalog_api.shown(ann, f"/api/runs/{run_id}/candidates?step=over"))["items"][0]
    job = await catalog_api.made(f"/api/candidates/{leaf['id']}/replay", {}, person=ann)

    async def has_ended() -> bool:
        return bool((await catalog_api.shown(ann, f"/api/ai-jobs/{job['id']}"))["completed_at"])

    await until(has_ended)
    [output] = (await catalog_api.shown(ann, f"/api/ai-jobs/{job['id']}"))["outputs"]
    made, again = [(await catalog_api.client.get(url)).content for url in (leaf["file"]["url"], output["url"])]
    with Image.open(BytesIO(made)) as one, Image.open(BytesIO(again)) as other:
        assert one.tobytes() == other.tobytes()
