"""Worker programs of the source design run unmodified: they look for responses in `data`, and upload one file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.comfyui.replaying_engine import PNG
from tests.support.database.installation import installation, isolate
from tests.support.waiting import until
from tests.worker.harness import AgentHarness, open_agent_harness

PROGRAM = Path(__file__).parents[1] / "support" / "http" / "source_design_worker.py"


@pytest.fixture(scope="module")
async def enveloped_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """All that an operator does for such programs is one setting."""
    directory = tmp_path_factory.mktemp("enveloped")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with installation(postgres, templates, directory / "home") as settings:
            fleet = settings.fleet.model_copy(update={"response_envelope": "data"})
            async with running_control_plane(settings.model_copy(update={"fleet": fleet})) as plane:
                yield plane


@pytest.fixture
async def agent_harness(enveloped_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[AgentHarness]:
    """The same with the control plane that wraps its responses."""
    async with open_agent_harness(enveloped_plane, tmp_path / "agent") as agent_harness:
        yield agent_harness


@asynccontextmanager
async def program(agent_harness: AgentHarness, **environment: str) -> AsyncIterator[Process]:
    """Stopped as a machine that is taken away stops it; it must have left in good order."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        env={
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "API_BASE_URL": agent_harness.worker_harness.plane.settings.public_url,
            "COMFYUI_BASE_URL": agent_harness.engine.url,
            "FLEET_SECRET": agent_harness.worker_harness.secret,
            "WORKER_ID": "i-0source",
            "WORKFLOW_SLUGS": agent_harness.worker_harness.jobs_api.workflow,
            "POLL_SECONDS": "0.05",
            "HEARTBEAT_INTERVAL_SECONDS": "0.1",
            **environment,
        },
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    assert await agent_harness.workers() == []


async def test_a_source_design_worker_completes_jobs_and_names_outputs_by_their_type(
    agent_harness: AgentHarness,
) -> None:
    async with program(agent_harness):
        person = await agent_harness.person()
        for _ in range(2):
            # The workflow says mp4; what its node makes is an image.
            job = await agent_harness.ends(person, await agent_harness.submit(person))
            [output] = job["result"]["outputs"]
            assert (output["name"], output["mime_type"], output["size"]) == ("output.png", "image/png", len(PNG))
            [file] = await agent_harness.worker_harness.files(person, job["id"])
            assert file["path"].endswith(".png")
            assert await agent_harness.worker_harness.plane.rooms.storage.read(file["path"], 1_000_000) == PNG
        assert await agent_harness.worker_harness.balance(person) == 1000 - 2 * 7
        # It sends no trace: its attempt is shown without parts.
        spans = await agent_harness.waterfall(job["id"])
        assert [span["kind"] for span in spans] == ["accepted", "queued", "attempt", "ended"]
        assert spans[2]["worker_id"] == "i-0source"


async def test_a_source_design_worker_keeps_its_lease_and_requeues_the_job_when_it_is_stopped(
    agent_harness: AgentHarness,
) -> None:
    agent_harness.engine.scenario = "held"
    person = await agent_harness.person()
    async with program(agent_harness):
        job_id = await agent_harness.submit(person)

        async def has_heartbeat() -> bool:
            query = "SELECT 1 FROM ai_job_dispatches WHERE status = 'leased' AND heartbeat_at IS NOT NULL"
            return bool(await agent_harness.worker_harness.central(query))

        await until(has_heartbeat)
    [dispatch] = await agent_harness.worker_harness.central("SELECT status, attempts, requeues FROM ai_job_dispatches")
    assert (dispatch["status"], dispatch["attempts"], dispatch["requeues"]) == ("queued", 0, 1)
    assert (await agent_harness.worker_harness.shown(person, job_id))["status"] == "queued"
    assert (
        await agent_harness.worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{job_id}/cancel")
    ).status_code == 200


@pytest.mark.thorough
async def test_a_failed_run_fails_the_job_with_its_message(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "SaveImage_batch3"
    person = await agent_harness.person()
    async with program(agent_harness):
        job_id = await agent_harness.submit(person, output_node_id="77")
        job = await agent_harness.ends(person, job_id, "failed")
    assert await agent_harness.reported(person, job) == "Node 77 made no file."
    assert await agent_harness.worker_harness.balance(person) == 1000


@pytest.mark.thorough
async def test_current_agents_work_beside_a_source_design_worker(agent_harness: AgentHarness) -> None:
    agent_harness.engine.scenario = "SaveImage_batch3"
    agent = agent_harness.agent()
    person = await agent_harness.person()
    await agent_harness.ends(person, await agent_harness.submit(person))
    await agent_harness.leave(agent)
