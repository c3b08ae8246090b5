"""The whole way of warm models: an agent says what its engine has loaded, and is given a job that needs just that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from tests.support.comfyui.lightbox import lightbox_process
from tests.support.waiting import until
from tests.worker.harness import AgentHarness, open_agent_harness


def graph(model: str) -> dict[str, Any]:
    """Lightbox loads no models, and ignores inputs that a node does not know, as ComfyUI does."""
    image = {"width": 8, "height": 8, "batch_size": 1, "color": 0, "ckpt_name": model}
    return {
        "4": {"class_type": "EmptyImage", "inputs": image},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["4", 0], "filename_prefix": "mine"}},
    }


async def workflow(agent_harness: AgentHarness, slug: str, model: str) -> None:
    body = {
        "slug": slug,
        "name": slug,
        "graph": graph(model),
        "output_node_id": "2",
        "output_extension": "png",
        "output_mime_type": "image/png",
        "requirements": {"from_graph": False},
    }
    response = await agent_harness.worker_harness.client.post(
        "/api/admin/workflows", json=body, headers=agent_harness.worker_harness.jobs_api.admin.headers
    )
    assert response.status_code == 201, response.text


@pytest.mark.thorough
async def test_an_agent_is_given_the_job_whose_models_its_engine_has_loaded(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with (
        lightbox_process(tmp_path / "lightbox") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        for slug, model in (("warm-one", "one.safetensors"), ("warm-two", "two.safetensors")):
            await workflow(agent_harness, slug, model)
        person = await agent_harness.person()

        async def submit(slug: str, model: str) -> str:
            payload = {"workflow": graph(model), "output_node_id": "2", "assets": []}
            return str(
                (await agent_harness.worker_harness.jobs_api.submit(person, workflow=slug, payload=payload, cost=1))[
                    "id"
                ]
            )

        engine = ComfyUI(lightbox.url, patience=Patience(stall=60, absent=30, poll=0.2))
        agent_harness.agent(engines=[engine], workflows=("warm-one", "warm-two"), prefetch=False)
        await until(agent_harness.workers)
        await agent_harness.ends(person, await submit("warm-one", "one.safetensors"))
        worker_id = (await agent_harness.workers())[0]["worker_id"]
        # While it is drained the next jobs come, the cold ones first.
        await plane.rooms.fleet.workers.drain(worker_id, "operator")
        colds = [await submit("warm-two", "two.safetensors") for _ in range(2)]
        warm = await submit("warm-one", "one.safetensors")
        await plane.rooms.fleet.workers.undrain(worker_id, "operator")
        for job_id in (*colds, warm):
            await agent_harness.ends(person, job_id)
        started = await agent_harness.worker_harness.central(
            "SELECT tenant_job_id FROM dispatch_history ORDER BY last_leased_at DESC LIMIT 3"
        )
        assert [str(row["tenant_job_id"]) for row in reversed(started)] == [warm, *colds]
        assert plane.rooms.jobs.dispatch.queue.warm.preferred >= 1
