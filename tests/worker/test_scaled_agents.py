"""A fleet of agents on this machine follows its queue: real processes, with Lightbox, started and ended by the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wire.fleet import CreateFleetRequest
from callsheet.wire.operate.scaling import ScalingRequest
from tests.support.database.installation import isolated_installation
from tests.support.fleets.scaling_harness import AT_ONCE
from tests.support.http.worker_harness import open_worker_harness
from tests.support.programs.commands import processes_naming
from tests.support.waiting import until

GRAPH = {
    "paint": {
        "class_type": "LightboxTextToImage",
        "inputs": {"text": "dunes", "seed": 1, "width": 64, "height": 64, "steps": 1, "batch_size": 1},
    },
    "save": {"class_type": "SaveImage", "inputs": {"images": ["paint", 0], "filename_prefix": "scaled"}},
}
PAYLOAD = {
    "workflow": GRAPH,
    "assets": [],
    "output_node_id": "save",
    "output_extension": "png",
    "output_mime_type": "image/png",
}


@pytest.fixture
async def plane(postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """One that looks at its fleets every second."""
    async with isolated_installation(postgres, templates, tmp_path) as settings:
        scaling = settings.scaling.model_copy(update={"interval_seconds": 1.0})
        worker = settings.worker.model_copy(update={"metadata_url": None})
        async with running_control_plane(settings.model_copy(update={"scaling": scaling, "worker": worker})) as plane:
            yield plane


@pytest.mark.thorough
async def test_an_agent_is_started_for_the_first_job_and_ended_when_it_is_done(plane: ControlPlane) -> None:
    async with open_worker_harness(plane) as worker_harness:
        request = CreateFleetRequest(slug="here", workflow_slugs=[worker_harness.jobs_api.workflow])
        fleet = await plane.rooms.fleet.fleets.create(request, "operator")
        options = {"lightbox": True, "leaves_with_control_plane": True}
        rules = ScalingRequest(driver="process", options=options, maximum=1, **AT_ONCE)
        assert (await plane.rooms.scaling.rules.put(fleet.id, rules, "operator")).options["host"]
        person = await worker_harness.jobs_api.person(tokens=1000)
        jobs = [await worker_harness.engine_job(person, **PAYLOAD) for _ in range(2)]

        async def are_done() -> bool:
            return [(await worker_harness.shown(person, job["id"]))["status"] for job in jobs] == ["completed"] * 2

        async def is_empty() -> bool:
            state = await plane.rooms.scaling.rules.get(fleet.id)
            assert state.driver_error is None
            return state.existing == 0 and state.wanted == 0

        await until(are_done)
        await until(is_empty)
        decisions = (await plane.rooms.scaling.rules.decisions(fleet.id, None, 50)).items
        [ended] = [each.ended for each in decisions if each.ended]
        [directory] = (plane.settings.home / "scaling" / "here.production").glob("*/")
        assert ended == [directory.name]
        assert (directory / "agent.log").exists()
        assert max(each.wanted for each in decisions) == 1
        assert await worker_harness.central("SELECT 1 FROM worker_drains") == []
        assert processes_naming(plane.settings.home / "scaling") == []
