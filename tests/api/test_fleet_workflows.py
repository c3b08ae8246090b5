"""The workflows that a fleet can run, its waiting jobs, and the progress of the jobs that its workers hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http.accounts import Person
from tests.support.http.responses import assert_refused
from tests.support.http.worker_harness import WorkerHarness

GRAPH = {
    "1": {"class_type": "VHS_LoadVideo", "inputs": {"video": "none"}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
}


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    return await worker_harness.jobs_api.person("pool_2", tokens=1000)


async def admin(worker_harness: WorkerHarness, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    headers = worker_harness.jobs_api.admin.headers
    response = await worker_harness.client.request(method, f"/api/admin/{path}", json=body, headers=headers)
    assert response.is_success, response.text
    return response.json()


async def new_fleet(worker_harness: WorkerHarness, stage: str = "production") -> Any:
    workflow = worker_harness.jobs_api.workflow
    return await admin(
        worker_harness, "POST", "fleets", {"slug": workflow, "stage": stage, "workflow_slugs": [workflow]}
    )


async def workflow_of(worker_harness: WorkerHarness, fleet: Any) -> Any:
    [found] = await admin(worker_harness, "GET", f"fleets/{fleet['id']}/workflows")
    assert found["workflow"] == worker_harness.jobs_api.workflow
    return found


async def test_a_fleet_shows_which_workers_can_run_a_workflow_and_what_the_others_lack(
    worker_harness: WorkerHarness,
) -> None:
    await admin(worker_harness, "PATCH", f"workflows/{worker_harness.jobs_api.workflow}", {"graph": GRAPH})
    fleet, other = await new_fleet(worker_harness), await new_fleet(worker_harness, "staging")
    place = {"workflow_slugs": None, "fleet_slug": fleet["slug"]}
    empty = await workflow_of(worker_harness, fleet)
    assert (empty["is_active"], empty["live"], empty["able"], empty["groups"]) == (True, 0, 0, [])
    able = await worker_harness.worker(**place, environment={"node_classes": ["SaveImage", "VHS_LoadVideo"]})
    unable = await worker_harness.worker(**place, environment={"node_classes": ["SaveImage"]})
    silent = await worker_harness.worker(**place)
    await admin(worker_harness, "POST", f"workers/{unable.worker_id}/drain")
    shown = await workflow_of(worker_harness, fleet)
    assert (shown["live"], shown["able"]) == (3, 2)
    groups = {tuple(group.pop("worker_ids")): group for group in shown["groups"]}
    assert groups == {
        (able.worker_id,): {"workers": 1, "draining": 0, "has_reported": True, "lacks": []},
        (silent.worker_id,): {"workers": 1, "draining": 0, "has_reported": False, "lacks": []},
        (unable.worker_id,): {
            "workers": 1,
            "draining": 1,
            "has_reported": True,
            "lacks": [{"kind": "node_class", "name": "VHS_LoadVideo"}],
        },
    }
    assert shown["groups"][-1]["lacks"] != []
    # The other fleet has the same workflow, and no workers.
    assert (await workflow_of(worker_harness, other))["live"] == 0


async def test_a_fleet_counts_only_the_queue_of_its_own_stage(worker_harness: WorkerHarness, ann: Person) -> None:
    fleet, other = await new_fleet(worker_harness), await new_fleet(worker_harness, "staging")
    idle = await workflow_of(worker_harness, fleet)
    assert (idle["queued"], idle["delayed"], idle["running"], idle["oldest_wait_seconds"]) == (0, 0, 0, None)
    for _ in range(3):
        await worker_harness.engine_job(ann)
    waiting = await workflow_of(worker_harness, fleet)
    assert (waiting["queued"], waiting["delayed"], waiting["running"]) == (3, 0, 0)
    assert waiting["oldest_wait_seconds"] >= 0
    elsewhere = await workflow_of(worker_harness, other)
    assert (elsewhere["queued"], elsewhere["oldest_wait_seconds"]) == (0, None)
    worker = await worker_harness.worker(workflow_slugs=None, fleet_slug=fleet["slug"], max_concurrency=2)
    first = await worker.job()
    error = {"type": "oom", "message": "Out of memory.", "retryable": True}
    assert (await worker.fail(first, "Out of memory.", error=error)).status_code == 200
    await worker.job()
    working = await workflow_of(worker_harness, fleet)
    assert (working["queued"], working["delayed"], working["running"]) == (1, 1, 1)


async def test_an_unknown_fleet_has_no_workflows(worker_harness: WorkerHarness) -> None:
    headers = worker_harness.jobs_api.admin.headers
    response = await worker_harness.client.get("/api/admin/fleets/999999999/workflows", headers=headers)
    assert_refused(response, 404, "not_found")


async def test_the_list_of_workers_has_the_progress_of_running_jobs_in_all_pools(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    bob = await worker_harness.jobs_api.person("pool_1", tokens=1000)
    fleet = await new_fleet(worker_harness)
    worker = await worker_harness.worker(workflow_slugs=None, fleet_slug=fleet["slug"], max_concurrency=5)
    idle = await worker_harness.worker(workflow_slugs=None, fleet_slug=fleet["slug"])
    submitted = [await worker_harness.engine_job(person) for person in (ann, bob, ann, bob)]
    leased = [await worker.job(current_load=load) for load in range(4)]
    for job, percent in zip(leased, (25, 50), strict=False):
        progress = {"percent": percent, "message": f"Sampling {percent}"}
        assert (await worker.heartbeat(job, run_started=True, progress=progress)).status_code == 200
    page = await admin(worker_harness, "GET", f"workers?fleet={fleet['slug']}")
    shown = {each["worker_id"]: each for each in page["items"]}
    assert shown[idle.worker_id]["leases"] == []
    leases = shown[worker.worker_id]["leases"]
    # A list has three at most; the page of one worker has all.
    assert shown[worker.worker_id]["current_load"] == 4
    assert [(lease["percent"], lease["message"]) for lease in leases] == [
        (25, "Sampling 25"),
        (50, "Sampling 50"),
        (None, None),
    ]
    assert [lease["job_id"] for lease in leases] == [job["job_id"] for job in leased[:3]]
    details = await admin(worker_harness, "GET", f"workers/{worker.worker_id}")
    assert details["leases"][:3] == leases
    assert {lease["job_id"] for lease in details["leases"]} == {job["id"] for job in submitted}


async def test_the_drivers_that_can_scale_fleets_are_listed_with_their_options(worker_harness: WorkerHarness) -> None:
    drivers = {each["name"]: each for each in await admin(worker_harness, "GET", "scaling-drivers")}
    assert list(drivers) == ["aws_asg", "command", "kubernetes", "process"]
    assert drivers["aws_asg"]["options"]["required"] == ["group"]
    assert "Name of the Auto Scaling group" in str(drivers["aws_asg"]["options"]["properties"]["group"])
    assert all(each["about"].endswith(".") for each in drivers.values())
    # The options of the schema are those that the rules take.
    fleet = await new_fleet(worker_harness)
    options = {
        name: field["default"]
        for name, field in drivers["process"]["options"]["properties"].items()
        if "default" in field
    }
    saved = await admin(
        worker_harness, "PUT", f"fleets/{fleet['id']}/scaling", {"driver": "process", "options": options}
    )
    assert saved["options"].keys() == drivers["process"]["options"]["properties"].keys()
    headers = worker_harness.jobs_api.admin.headers
    removed = await worker_harness.client.delete(f"/api/admin/fleets/{fleet['id']}/scaling", headers=headers)
    assert removed.status_code == 204, removed.text
