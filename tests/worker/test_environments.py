"""An agent reports what its engine has: a job waits until some engine can run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from tests.support.comfyui.lightbox import lightbox_process
from tests.support.waiting import until
from tests.worker.harness import open_agent_harness

PROBED: dict[str, Any] = {
    "4": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0}},
    "3": {"class_type": "ProbeSleep", "inputs": {"image": ["4", 0], "seconds": 0.0, "steps": 1, "preview": False}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "mine"}},
}


@pytest.mark.thorough
async def test_a_job_waits_until_the_node_is_installed_and_the_engine_restarted(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with (
        lightbox_process(tmp_path / "lightbox", probes=False) as lightbox,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        worker_harness = agent_harness.worker_harness
        path = f"/api/admin/workflows/{worker_harness.jobs_api.workflow}"
        changed = await worker_harness.client.patch(
            path, json={"graph": PROBED}, headers=worker_harness.jobs_api.admin.headers
        )
        assert changed.status_code == 200, changed.text
        person = await agent_harness.person()
        agent_harness.agent(engines=[ComfyUI(lightbox.url, patience=Patience(stall=60, absent=30, poll=0.2))])
        await until(agent_harness.workers)
        job_id = await agent_harness.submit(person, workflow=PROBED, assets=[])
        why = (await worker_harness.shown(person, job_id))["why_waiting"]
        assert why["message"] == "No worker has the node class ProbeSleep."
        # As when an operator installs the package and restarts ComfyUI.
        await lightbox.kill()
        lightbox.probes = True
        await lightbox.start()
        await agent_harness.ends(person, job_id)
        [worker] = await agent_harness.workers()
        shown = (
            await worker_harness.jobs_api.get(
                worker_harness.jobs_api.admin, f"/api/admin/workers/{worker['worker_id']}"
            )
        ).json()
        assert shown["cannot_run"] == []


def with_model(name: str) -> dict[str, Any]:
    loader = {"class_type": "ProbeModel", "inputs": {"image": ["4", 0], "model_name": name}}
    return {**PROBED, "3": loader}


@pytest.mark.thorough
async def test_jobs_of_an_engine_that_lost_a_model_go_to_the_one_that_has_it_and_wait_for_none(
    plane: ControlPlane, tmp_path: Path
) -> None:
    graph = with_model("sd15.safetensors")
    folders = [tmp_path / name / "models" for name in ("losing", "keeping")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "sd15.safetensors").write_bytes(b"weights")
    async with (
        lightbox_process(tmp_path / "losing") as losing,
        lightbox_process(tmp_path / "keeping") as keeping,
        open_agent_harness(plane, tmp_path / "agent") as agent_harness,
    ):
        worker_harness = agent_harness.worker_harness
        path = f"/api/admin/workflows/{worker_harness.jobs_api.workflow}"
        admin = worker_harness.jobs_api.admin
        changed = await worker_harness.client.patch(path, json={"graph": graph}, headers=admin.headers)
        assert changed.status_code == 200, changed.text
        person = await agent_harness.person()
        patience = Patience(stall=60, absent=30, poll=0.2)
        agents = []
        for number, engine in enumerate((losing, keeping)):
            directory = tmp_path / f"agent-{number}"
            agents.append(agent_harness.agent(engines=[ComfyUI(engine.url, patience=patience)], directory=directory))
        await agent_harness.polls(2)
        (folders[0] / "sd15.safetensors").unlink()
        jobs = [await agent_harness.submit(person, workflow=graph, assets=[]) for _ in range(6)]
        for job_id in jobs:
            await agent_harness.ends(person, job_id)
            closed = await agent_harness.closed(job_id)
            assert (closed["attempts"], closed["status"]) == (1, "completed")
        # The last worker that can run it leaves: the job waits and names what is missing.
        await agent_harness.leave(agents[1])
        waiting = await agent_harness.submit(person, workflow=graph, assets=[])

        async def names_the_model() -> bool:
            why = (await worker_harness.shown(person, waiting))["why_waiting"]
            return why is not None and why["message"] == "No worker has the model sd15.safetensors."

        await until(names_the_model)
        (folders[0] / "sd15.safetensors").write_bytes(b"weights")
        agents[0]._environment.request_reading()
        await agent_harness.ends(person, waiting)
