"""Effects of the provider `cloud`: only a worker with a key of Comfy Cloud gets their jobs, and renders them there."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from callsheet.app.control_plane import ControlPlane
from callsheet.cli.fleet.worker_engines import engines_of
from callsheet.settings import load_settings
from callsheet.wire.worker.protocol import MAX_ANNOUNCED
from callsheet.worker.agent.agent import Agent
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.http.accounts import People
from tests.support.http.catalog_api import CatalogApi
from tests.support.waiting import until
from tests.worker.harness import AgentHarness, open_agent_harness

KEY = "the-key-of-the-account"
GRAPH = {
    "1": node("LoadImage", image="__INPUT_PATH__"),
    "3": node("ImageInvert", image=["1", 0]),
    "2": node("SaveImage", images=["3", 0], filename_prefix="inverted"),
}
PRIMARY = {"key": "input", "type": "image", "placeholder": "__INPUT_PATH__", "is_primary_input": True}


@dataclass
class CloudSetup:
    """A Lightbox that responds as Comfy Cloud, agents, and a workflow that is rendered there."""

    agent_harness: AgentHarness
    url: str
    catalog_api: CatalogApi
    workflow: str

    def worker(self, monkeypatch: pytest.MonkeyPatch, key: str = KEY) -> Agent:
        """As `callsheet worker` makes it of its environment."""
        monkeypatch.setenv("COMFY_CLOUD_API_KEY", key)
        settings = load_settings(worker={"cloud_url": self.url})
        directory = self.agent_harness.directory / "cloud"
        return self.agent_harness.agent(engines=engines_of(settings), workflows=(self.workflow,), directory=directory)

    async def effect(self, **changes: Any) -> dict[str, Any]:
        return await self.catalog_api.effect(self.workflow, **changes)

    async def account(self, path: str) -> Any:
        async with httpx.AsyncClient(
            base_url=self.url, headers={"X-API-Key": KEY}, trust_env=False, timeout=60
        ) as client:
            return (await client.get(path)).json()


@pytest.fixture
async def cloud_setup(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[CloudSetup]:
    """A Lightbox that responds as Comfy Cloud, with agents."""
    async with (
        lightbox_here(tmp_path / "lightbox", as_cloud=True, cloud_api_key=KEY) as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        catalog_api = await CatalogApi.open(
            plane, agent_harness.worker_harness.client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        made = await catalog_api.workflow(graph=GRAPH, properties=[PRIMARY], output_node_id="2")
        yield CloudSetup(agent_harness, lightbox.url, catalog_api, made["slug"])


def png(colour: tuple[int, int, int]) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (32, 32), colour).save(content, "PNG")
    return content.getvalue()


@pytest.mark.thorough
async def test_a_cloud_job_is_rendered_in_the_cloud_and_never_by_a_worker_with_an_engine_of_its_own(
    cloud_setup: CloudSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_harness, catalog_api = cloud_setup.agent_harness, cloud_setup.catalog_api
    person = await catalog_api.person()
    # It asks for work of the same workflow all the time.
    agent_harness.agent(workflows=(cloud_setup.workflow,), worker_id="own-engine", wait_seconds=0.1)
    await until(lambda: (agent_harness.directory / "token.json").exists())
    effect, file_id = (
        await cloud_setup.effect(provider="cloud"),
        await catalog_api.file(person, png((10, 20, 200)), "image/png"),
    )
    job = await catalog_api.submit(person, effect, input_file_id=file_id, input_payload={})
    here = await catalog_api.submit(person, await cloud_setup.effect(), input_file_id=file_id, input_payload={})
    await agent_harness.ends(person, here["id"])
    assert (await agent_harness.worker_harness.shown(person, job["id"]))["status"] == "queued"
    cloud_setup.worker(monkeypatch)
    await agent_harness.ends(person, job["id"])
    [file] = await agent_harness.worker_harness.files(person, job["id"])
    content = await agent_harness.worker_harness.plane.rooms.storage.read(file["path"], 1_000_000)
    with Image.open(io.BytesIO(content)) as result:
        assert result.getpixel((5, 5)) == (245, 235, 55)
    name = (await agent_harness.worker_harness.row(person, job["id"]))["provider_job_id"]
    assert (await cloud_setup.account(f"/api/jobs/{name}"))["status"] == "completed"
    assert len(agent_harness.engine.called("/prompt")) == 1
    own = (await agent_harness.worker_harness.row(person, here["id"]))["provider_job_id"]
    assert own == agent_harness.engine.called("/prompt")[0]["prompt_id"]


@pytest.mark.thorough
async def test_a_canceled_cloud_job_is_stopped_in_the_cloud(
    cloud_setup: CloudSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = node("ProbeSleep", image=["1", 0], seconds=60.0, steps=1200, preview=False)
    graph = GRAPH | {"3": sleep}
    made = await cloud_setup.catalog_api.workflow(graph=graph, properties=[PRIMARY], output_node_id="2")
    cloud_setup.workflow = made["slug"]
    person = await cloud_setup.catalog_api.person()
    file_id = await cloud_setup.catalog_api.file(person, png((1, 2, 3)), "image/png")
    cloud_setup.worker(monkeypatch)
    job = await cloud_setup.catalog_api.submit(
        person, await cloud_setup.effect(provider="cloud"), input_file_id=file_id, input_payload={}
    )

    async def runs() -> bool:
        return bool((await cloud_setup.account("/api/queue"))["queue_running"])

    await until(runs)
    await cloud_setup.agent_harness.worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{job['id']}/cancel")

    async def is_idle() -> bool:
        return not await runs()

    await until(is_idle)
    [listed] = (await cloud_setup.account("/api/jobs"))["jobs"]
    assert listed["status"] == "cancelled"


@pytest.mark.thorough
async def test_more_outputs_than_one_heartbeat_announces_are_all_delivered(
    cloud_setup: CloudSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = MAX_ANNOUNCED + 30
    graph = {
        "1": node("LoadImage", image="__INPUT_PATH__"),
        "3": node("RepeatImageBatch", image=["1", 0], amount=count),
        "2": node("SaveImage", images=["3", 0], filename_prefix="frame"),
    }
    made = await cloud_setup.catalog_api.workflow(graph=graph, properties=[PRIMARY], output_node_id="2")
    cloud_setup.workflow = made["slug"]
    person = await cloud_setup.catalog_api.person()
    file_id = await cloud_setup.catalog_api.file(person, png((9, 8, 7)), "image/png")
    cloud_setup.worker(monkeypatch)
    job = await cloud_setup.catalog_api.submit(
        person, await cloud_setup.effect(provider="cloud"), input_file_id=file_id, input_payload={}
    )
    await cloud_setup.agent_harness.ends(person, job["id"])
    files = await cloud_setup.agent_harness.worker_harness.files(person, job["id"])
    assert sorted(file["name"] for file in files) == [f"frame_{number:05}_.png" for number in range(1, count + 1)]
    assert (
        len(await cloud_setup.agent_harness.worker_harness.plane.rooms.storage.read(files[-1]["path"], 1_000_000))
        == files[-1]["size"]
    )
