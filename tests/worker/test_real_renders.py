"""Real media in, real media out: the agent, a control plane and Lightbox as a process of its own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import av
import numpy as np
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.cloud import ComfyCloud
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from callsheet.providers.engine import Engine
from tests.support.comfyui.graphs import video_graph
from tests.support.comfyui.lightbox import LightboxProcess, lightbox_process
from tests.support.http.accounts import Person
from tests.support.media.clips import make_clip
from tests.support.waiting import until
from tests.worker.harness import AgentHarness, open_agent_harness

PATIENCE = Patience(stall=60, absent=30, poll=0.2)


@dataclass
class RenderSetup:
    agent_harness: AgentHarness
    lightbox: LightboxProcess
    engine: Engine
    clip: Path

    async def submit(self, person: Person, graph: dict[str, Any]) -> str:
        content = self.clip.read_bytes()
        path = f"tenants/{person.tenant.id}/uploads/real/clip.mp4"
        storage = self.agent_harness.worker_harness.plane.rooms.storage
        await storage.put(path, content, content_type="video/mp4")
        asset = {
            "key": "video",
            "placeholder": "__INPUT_PATH__",
            "path": path,
            "content_hash": hashlib.sha256(content).hexdigest(),
            "is_primary_input": True,
        }
        payload = {"workflow": graph, "assets": [asset], "output_node_id": "save"}
        return await self.agent_harness.submit(person, **payload)

    async def result(self, person: Person, job_id: str, target: Path) -> Path:
        [file] = await self.agent_harness.worker_harness.files(person, job_id)
        assert (file["mime_type"], file["name"].endswith(".mp4")) == ("video/mp4", True)
        content = await self.agent_harness.worker_harness.plane.rooms.storage.read(file["path"], 100_000_000)
        await asyncio.to_thread(target.write_bytes, content)
        return target


@pytest.fixture(params=["self_hosted", pytest.param("cloud", marks=pytest.mark.thorough)])
async def setup(request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path) -> AsyncIterator[RenderSetup]:
    clip = tmp_path / "clip.mp4"
    make_clip(clip)
    async with (
        lightbox_process(tmp_path / "lightbox", as_cloud=request.param == "cloud") as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        engine: Engine = ComfyUI(lightbox.url, patience=PATIENCE, directory=tmp_path / "lightbox")
        if lightbox.as_cloud:
            engine = ComfyCloud(lightbox.url, "lightbox", patience=PATIENCE)
            # All jobs of the harness are for this workflow.
            engine.provider = "self_hosted"
        yield RenderSetup(agent_harness, lightbox, engine, clip)


def frames_of(path: Path) -> list[np.ndarray[Any, Any]]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


async def test_a_video_comes_back_inverted_with_every_frame_and_its_sound(setup: RenderSetup, tmp_path: Path) -> None:
    setup.agent_harness.agent(engines=[setup.engine])
    person = await setup.agent_harness.person()
    job_id = await setup.submit(person, video_graph("__INPUT_PATH__", ("ImageInvert", {})))
    await setup.agent_harness.ends(person, job_id)
    result = await setup.result(person, job_id, tmp_path / "result.mp4")
    before, after = frames_of(setup.clip), frames_of(result)
    assert len(after) == len(before)
    assert all(np.abs((255 - a.astype(int)) - b).mean() < 6 for a, b in zip(before, after, strict=True))
    with av.open(str(result)) as container:
        assert len(container.streams.audio) == 1
    await until(lambda: setup.agent_harness.left_over() == [])
    if not setup.lightbox.as_cloud:
        left = [path for store in ("input", "output") for path in (setup.lightbox.directory / store).rglob("*.mp4")]
        assert left == []


@pytest.mark.thorough
async def test_the_same_job_twice_is_rendered_twice(setup: RenderSetup) -> None:
    setup.agent_harness.agent(engines=[setup.engine])
    person = await setup.agent_harness.person()
    for _ in range(2):
        job_id = await setup.submit(person, video_graph("__INPUT_PATH__", ("ImageInvert", {})))
        await setup.agent_harness.ends(person, job_id)


@pytest.mark.thorough
async def test_a_failing_node_fails_the_job_with_its_message(setup: RenderSetup) -> None:
    setup.agent_harness.agent(engines=[setup.engine])
    person = await setup.agent_harness.person()
    graph = video_graph("__INPUT_PATH__", ("ProbeFail", {"message": "the film tore", "kind": "RuntimeError"}))
    job = await setup.agent_harness.ends(person, await setup.submit(person, graph), "failed")
    assert await setup.agent_harness.reported(person, job) == "the film tore"


@pytest.mark.thorough
@pytest.mark.parametrize("setup", ["self_hosted"], indirect=True)
async def test_a_job_that_is_interrupted_before_it_was_submitted_leaves_no_file_at_the_engine(
    setup: RenderSetup,
) -> None:
    def at_engine() -> list[Path]:
        return list((setup.lightbox.directory / "input").rglob("*.mp4"))

    agent = setup.agent_harness.agent(engines=[setup.engine])
    person = await setup.agent_harness.person()
    # Longer than the test takes. The second one is prepared meanwhile.
    graph = video_graph("__INPUT_PATH__", ("ProbeSleep", {"seconds": 600.0, "steps": 6000, "preview": False}))
    for _ in range(2):
        await setup.submit(person, graph)
    await until(lambda: len(at_engine()) == 2)
    await setup.agent_harness.leave(agent)
    assert at_engine() == []


@pytest.mark.thorough
async def test_an_engine_that_was_killed_loses_no_job(setup: RenderSetup) -> None:
    setup.agent_harness.agent(engines=[setup.engine])
    person = await setup.agent_harness.person()
    # Longer than a test needs to kill it.
    graph = video_graph("__INPUT_PATH__", ("ProbeSleep", {"seconds": 600.0, "steps": 6000, "preview": True}))
    job_id = await setup.submit(person, graph)

    async def renders() -> bool:
        progress = (await setup.agent_harness.worker_harness.shown(person, job_id)).get("progress") or {}
        return bool(progress.get("message"))

    await until(renders)
    await setup.lightbox.kill()
    await setup.lightbox.start()

    async def is_queued_again() -> bool:
        rows = await setup.agent_harness.worker_harness.central("SELECT status, attempts FROM ai_job_dispatches")
        return [(row["status"], row["attempts"]) for row in rows] == [("queued", 1)]

    await until(is_queued_again)
    pool = await setup.agent_harness.worker_harness.plane.databases.pool(person.tenant.pool)
    quick = """UPDATE ai_jobs SET payload = jsonb_set(
        payload, '{workflow,step0,inputs}', payload #> '{workflow,step0,inputs}' || '{"seconds": 0.1, "steps": 1}'
    ) WHERE id = $1"""
    await setup.agent_harness.worker_harness.jobs_api.core.rows(pool, quick, UUID(job_id))
    await setup.agent_harness.ends(person, job_id, hurry=True)
