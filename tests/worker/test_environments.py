"""An agent reports what its engine has: a job waits until some engine can run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from callsheet.app import ControlPlane
from callsheet.providers.comfy.self_hosted import ComfyUI, Patience
from tests.support.lightbox import lightbox_process
from tests.support.waiting import until
from tests.worker.harness import open_agent_harness

PROBED = {
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
