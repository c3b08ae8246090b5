"""Responses of the worker protocol in `data`, for a worker that asks for it with a header."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness, open_worker_harness

HEADER = "x-callsheet-envelope"


@pytest.fixture
async def worker_harness(plane: ControlPlane) -> AsyncIterator[WorkerHarness]:
    async with open_worker_harness(plane) as worker_harness:
        yield worker_harness


def inside(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """What `data` says, which every answer also says without it."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    data: dict[str, Any] = body.pop("data")
    assert body == data
    return data


async def test_every_response_has_its_fields_inside_data_and_at_the_top_level(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    worker_harness.workers.remove(worker)
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    worker_harness.client.headers[HEADER] = "data"
    try:
        body = {"worker_id": "enveloped", "workflow_slugs": [worker_harness.jobs_api.workflow]}
        secret = {"x-fleet-secret": worker_harness.secret}
        registered = inside(await worker_harness.client.post("/api/worker/register", json=body, headers=secret), 201)
        assert registered["worker_id"] == "enveloped"
        worker.token = registered["token"]
        job = inside(await worker.post("/api/worker/poll", {}))["job"]
        assert job["job_id"] == submitted["id"]
        assert inside(await worker.heartbeat(job))["cancel_requested"] is False
        await worker.deliver(job, OUTPUT)
        done = inside(await worker.complete(job, output=described(OUTPUT, "video/mp4")))
        assert done == {"job_id": submitted["id"], "status": "completed"}
        assert inside(await worker.fail(job, "too late"))["status"] == "completed"
        assert inside(await worker.requeue(job, "too late"))["status"] == "completed"
        assert inside(await worker.deregister("bye")) == {}
    finally:
        del worker_harness.client.headers[HEADER]


async def test_an_unknown_envelope_is_refused_before_anything_is_done(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    await worker_harness.engine_job(person)
    for path in ("register", "poll", "deregister"):
        response = await worker_harness.client.post(
            f"/api/worker/{path}",
            json={"worker_id": "odd", "workflow_slugs": [worker_harness.jobs_api.workflow]},
            headers={
                HEADER: "result",
                "x-fleet-secret": worker_harness.secret,
                "authorization": f"Bearer {worker.token}",
            },
        )
        assert_refused(response, 422, "invalid_request", HEADER)
    assert await worker_harness.central("SELECT 1 FROM comfyui_workers WHERE worker_id = 'odd'") == []
    assert (await worker.poll())["job"] is not None, "the refused poll took nothing"


async def test_an_unauthenticated_request_gets_401_first(worker_harness: WorkerHarness) -> None:
    response = await worker_harness.client.post("/api/worker/poll", json={}, headers={HEADER: "result"})
    assert_refused(response, 401, "not_authenticated")
