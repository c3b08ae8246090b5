"""`POST /api/worker/environment`, and what people are told of workers that lack something."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.wire.environment import MOST_NODE_CLASSES
from tests.support.people import Person
from tests.support.scripted_worker import ScriptedWorker
from tests.support.workshop import Workshop

GRAPH = {
    "1": {"class_type": "VHS_LoadVideo", "inputs": {"video": "none"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}


@pytest.fixture
async def ann(shop: Workshop) -> Person:
    return await shop.desk.person("pool_2", tokens=1000)


async def change(shop: Workshop, **body: Any) -> dict[str, Any]:
    path = f"/api/admin/workflows/{shop.desk.workflow}"
    answer = await shop.client.patch(path, json=body, headers=shop.desk.admin.headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def report(shop: Workshop, worker: ScriptedWorker, **environment: Any) -> dict[str, Any]:
    shop.plane.fleet.registry._reported.clear()
    answer = await shop.client.post(
        "/api/worker/environment", json=environment, headers={"authorization": f"Bearer {worker.token}"}
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_job_waits_for_a_worker_that_can_run_it_and_says_what_is_missing(shop: Workshop, ann: Person) -> None:
    shown = await change(shop, graph=GRAPH)
    assert shown["required"]["node_classes"] == ["SaveImage", "VHS_LoadVideo"]
    worker = await shop.worker(environment={"node_classes": ["SaveImage"]})
    job = await shop.engine_job(ann)
    assert (await worker.poll())["reason"] == "no_workflows"
    why = (await shop.shown(ann, job["id"]))["why_waiting"]
    assert (why["code"], why["message"]) == ("workers_lack", "No worker has the node class VHS_LoadVideo.")
    alerts = (await shop.desk.get(shop.desk.admin, "/api/admin/alerts")).json()
    assert "VHS_LoadVideo" in str(alerts)
    answer = await report(shop, worker, node_classes=["SaveImage", "VHS_LoadVideo"])
    assert answer == {"cannot_run": []}
    assert (await worker.job())["job_id"] == job["id"]


async def test_a_worker_hears_what_it_lacks(shop: Workshop) -> None:
    await change(shop, graph=GRAPH, requirements={"from_graph": False, "engine_version": ">=0.8"})
    worker = await shop.worker()
    answer = await report(shop, worker, engine_versions=["0.7.0"])
    lack = {"kind": "engine_version", "name": ">=0.8"}
    assert answer == {"cannot_run": [{"workflow": shop.desk.workflow, "lacks": [lack]}]}
    path = f"/api/admin/workers/{worker.worker_id}"
    shown = (await shop.desk.get(shop.desk.admin, path)).json()
    assert (shown["workflows"], shown["cannot_run"]) == ([], answer["cannot_run"])


@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({"node_classes": ["x" * 301]}, "node_classes.0"),
        ({"node_classes": ["A\u0000"]}, "node_classes.0"),
        ({"node_classes": ["A"] * (MOST_NODE_CLASSES + 1)}, "node_classes"),
        ({"models": [{"name": "a.pt", "sha256": "ABC"}]}, "models.0.sha256"),
        ({"models": ["a.pt"]}, "models.0"),
        ({"engine_versions": "0.7"}, "engine_versions"),
    ],
)
async def test_a_report_that_cannot_be_read_is_refused_by_its_field(
    shop: Workshop, environment: dict[str, Any], field: str
) -> None:
    worker = await shop.worker()
    answer = await shop.client.post(
        "/api/worker/environment", json=environment, headers={"authorization": f"Bearer {worker.token}"}
    )
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


async def test_requirements_that_cannot_be_read_are_refused_by_their_field(shop: Workshop) -> None:
    path = f"/api/admin/workflows/{shop.desk.workflow}"
    for requirements, field in (
        ({"engine_version": "new"}, "requirements.engine_version"),
        ({"models": [{"name": ""}]}, "requirements.models.0.name"),
        ({"nodes": []}, "requirements.nodes"),
    ):
        answer = await shop.client.patch(path, json={"requirements": requirements}, headers=shop.desk.admin.headers)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
