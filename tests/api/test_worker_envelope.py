"""Answers of the worker protocol in `data`, for a worker that asks for it with a header."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.app import ControlPlane
from tests.support.answers import assert_refused
from tests.support.scripted_worker import described
from tests.support.workshop import OUTPUT, Workshop, open_workshop

HEADER = "x-callsheet-envelope"


@pytest.fixture
async def shop(plane: ControlPlane) -> AsyncIterator[Workshop]:
    async with open_workshop(plane) as shop:
        yield shop


def inside(answer: httpx.Response, status: int = 200) -> dict[str, Any]:
    """What `data` says, which every answer also says without it."""
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    data: dict[str, Any] = body.pop("data")
    assert body == data
    return data


async def test_every_answer_is_inside_data_and_beside_it(shop: Workshop) -> None:
    worker = await shop.worker()
    shop.workers.remove(worker)
    person = await shop.desk.person(tokens=10)
    submitted = await shop.engine_job(person)
    shop.client.headers[HEADER] = "data"
    try:
        body = {"worker_id": "enveloped", "workflow_slugs": [shop.desk.workflow]}
        secret = {"x-fleet-secret": shop.secret}
        registered = inside(await shop.client.post("/api/worker/register", json=body, headers=secret), 201)
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
        del shop.client.headers[HEADER]


async def test_an_unknown_envelope_is_refused_before_anything_is_done(shop: Workshop) -> None:
    worker = await shop.worker()
    person = await shop.desk.person(tokens=10)
    await shop.engine_job(person)
    for path in ("register", "poll", "deregister"):
        answer = await shop.client.post(
            f"/api/worker/{path}",
            json={"worker_id": "odd", "workflow_slugs": [shop.desk.workflow]},
            headers={
                HEADER: "result",
                "x-fleet-secret": shop.secret,
                "authorization": f"Bearer {worker.token}",
            },
        )
        assert_refused(answer, 422, "invalid_request", HEADER)
    assert await shop.central("SELECT 1 FROM comfyui_workers WHERE worker_id = 'odd'") == []
    assert (await worker.poll())["job"] is not None, "the refused poll took nothing"


async def test_strangers_are_told_that_first(shop: Workshop) -> None:
    answer = await shop.client.post("/api/worker/poll", json={}, headers={HEADER: "result"})
    assert_refused(answer, 401, "not_authenticated")
