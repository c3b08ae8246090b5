"""`POST /api/worker/environment`, and what users see of workers that lack something."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.providers.comfy.node_forms import forms_of_object_info, packed
from callsheet.wire.worker.environment import MAX_NODE_CLASSES
from tests.support.http.accounts import Person
from tests.support.http.scripted_worker import ScriptedWorker
from tests.support.http.worker_harness import WorkerHarness

GRAPH = {
    "1": {"class_type": "VHS_LoadVideo", "inputs": {"video": "none"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    return await worker_harness.jobs_api.person("pool_2", tokens=1000)


async def change(worker_harness: WorkerHarness, **body: Any) -> dict[str, Any]:
    path = f"/api/admin/workflows/{worker_harness.jobs_api.workflow}"
    response = await worker_harness.client.patch(path, json=body, headers=worker_harness.jobs_api.admin.headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def report(worker_harness: WorkerHarness, worker: ScriptedWorker, **environment: Any) -> dict[str, Any]:
    worker_harness.plane.rooms.fleet.registry._reported.clear()
    response = await worker_harness.client.post(
        "/api/worker/environment", json=environment, headers={"authorization": f"Bearer {worker.token}"}
    )
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_a_job_waits_for_a_worker_that_can_run_it_and_says_what_is_missing(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    shown = await change(worker_harness, graph=GRAPH)
    assert shown["required"]["node_classes"] == ["SaveImage", "VHS_LoadVideo"]
    worker = await worker_harness.worker(environment={"node_classes": ["SaveImage"]})
    job = await worker_harness.engine_job(ann)
    assert (await worker.poll())["reason"] == "no_workflows"
    why = (await worker_harness.shown(ann, job["id"]))["why_waiting"]
    assert (why["code"], why["message"]) == ("workers_lack", "No worker has the node class VHS_LoadVideo.")
    alerts = (await worker_harness.jobs_api.get(worker_harness.jobs_api.admin, "/api/admin/alerts")).json()
    assert "VHS_LoadVideo" in str(alerts)
    response = await report(worker_harness, worker, node_classes=["SaveImage", "VHS_LoadVideo"])
    assert response == {"cannot_run": []}
    assert (await worker.job())["job_id"] == job["id"]


async def test_the_outputs_of_an_import_are_those_that_online_engines_declare(worker_harness: WorkerHarness) -> None:
    """Names of classes decide only as long as no engine is known."""
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "a.png"}},
        # By its name a saver of images, and by its name nothing.
        "2": {"class_type": "ImageCombine", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "Publish", "inputs": {"pixels": ["2", 0]}},
        "4": {"class_type": "Publish", "inputs": {"latent": ["2", 0]}},
    }

    async def outputs() -> list[tuple[str, str, str]]:
        headers = worker_harness.jobs_api.admin.headers
        path = "/api/admin/workflows/proposals"
        response = await worker_harness.client.post(path, json={"graph": graph}, headers=headers)
        assert response.status_code == 200, response.text
        return [(each["node_id"], each["extension"], each["mime_type"]) for each in response.json()["outputs"]]

    assert await outputs() == [("2", "png", "image/png")]
    info = {"LoadImage": {}, "ImageCombine": {"output_node": False}, "Publish": {"output_node": True}}
    forms = packed(forms_of_object_info(info))
    await worker_harness.worker(environment={"node_classes": sorted(info), "node_forms": forms})
    assert await outputs() == [("3", "png", "image/png"), ("4", "bin", "application/octet-stream")]


async def test_a_worker_gets_the_list_of_its_missing_requirements(worker_harness: WorkerHarness) -> None:
    await change(worker_harness, graph=GRAPH, requirements={"from_graph": False, "engine_version": ">=0.8"})
    worker = await worker_harness.worker()
    response = await report(worker_harness, worker, engine_versions=["0.7.0"])
    lack = {"kind": "engine_version", "name": ">=0.8"}
    assert response == {"cannot_run": [{"workflow": worker_harness.jobs_api.workflow, "lacks": [lack]}]}
    path = f"/api/admin/workers/{worker.worker_id}"
    shown = (await worker_harness.jobs_api.get(worker_harness.jobs_api.admin, path)).json()
    assert (shown["workflows"], shown["cannot_run"]) == ([], response["cannot_run"])


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({"node_classes": ["x" * 301]}, "node_classes.0"),
        ({"node_classes": ["A\u0000"]}, "node_classes.0"),
        ({"node_classes": ["A"] * (MAX_NODE_CLASSES + 1)}, "node_classes"),
        ({"models": [{"name": "a.pt", "sha256": "ABC"}]}, "models.0.sha256"),
        ({"models": ["a.pt"]}, "models.0"),
        ({"engine_versions": "0.7"}, "engine_versions"),
    ],
)
async def test_a_report_that_cannot_be_read_is_refused_by_its_field(
    worker_harness: WorkerHarness, environment: dict[str, Any], field: str
) -> None:
    worker = await worker_harness.worker()
    response = await worker_harness.client.post(
        "/api/worker/environment", json=environment, headers={"authorization": f"Bearer {worker.token}"}
    )
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)


async def test_requirements_that_cannot_be_read_are_refused_by_their_field(worker_harness: WorkerHarness) -> None:
    path = f"/api/admin/workflows/{worker_harness.jobs_api.workflow}"
    for requirements, field in (
        ({"engine_version": "new"}, "requirements.engine_version"),
        ({"models": [{"name": ""}]}, "requirements.models.0.name"),
        ({"nodes": []}, "requirements.nodes"),
    ):
        response = await worker_harness.client.patch(
            path, json={"requirements": requirements}, headers=worker_harness.jobs_api.admin.headers
        )
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, field)
