"""From a job to the lines of the log: each event of a job has the id of the request that caused it, for operators."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.wire.identity import Role
from tests.support.http.accounts import Person
from tests.support.http.scripted_worker import described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness, engine_payload


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    return await worker_harness.jobs_api.person(tokens=100)


async def waterfall(harness: WorkerHarness, job_id: str, person: Person | None = None) -> dict[str, Any]:
    response = await harness.jobs_api.get(person or harness.jobs_api.admin, f"/api/admin/jobs/{job_id}/waterfall")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def requests_of(harness: WorkerHarness, job_id: str) -> list[tuple[str, str | None]]:
    """The status after each event, and the id of the request that caused it."""
    events = (await waterfall(harness, job_id))["events"]
    return [(event["to_status"], event["request_id"]) for event in events]


async def submit(harness: WorkerHarness, person: Person) -> tuple[str, str]:
    """A new job, and the id of the request that submitted it."""
    request = harness.jobs_api.request(person, payload=engine_payload(f"tenants/{person.tenant.id}/clip.mp4"))
    response = await harness.jobs_api.post("/api/admin/jobs", request)
    assert response.status_code == 201, response.text
    return response.json()["id"], response.headers["x-request-id"]


async def test_an_operator_finds_the_log_lines_of_the_request_of_each_event(
    worker_harness: WorkerHarness, ann: Person, logged: io.StringIO
) -> None:
    worker = await worker_harness.worker()
    job_id, submitted = await submit(worker_harness, ann)
    job = await worker.job()
    polled = worker.exchanges[-1][2]
    await worker.deliver(job, OUTPUT)
    completed = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
    ids = [submitted, polled.headers["x-request-id"], completed.headers["x-request-id"]]
    assert len(set(ids)) == 3

    assert await requests_of(worker_harness, job_id) == [
        ("pending", ids[0]),
        ("queued", ids[0]),
        ("processing", ids[1]),
        ("completed", ids[2]),
    ]
    spans = (await waterfall(worker_harness, job_id))["spans"]
    assert [(span["kind"], span["request_id"]) for span in spans] == [
        ("accepted", ids[0]),
        ("queued", ids[0]),
        ("attempt", ids[1]),
        ("ended", ids[2]),
    ]
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    for request_id, path in zip(ids, ("/api/admin/jobs", "/api/worker/poll", "/api/worker/complete"), strict=True):
        of_request = [line for line in lines if line.get("request_id") == request_id]
        assert [line["path"] for line in of_request if line["event"] == "http.request"] == [path]
        assert [line["job_id"] for line in of_request if line["event"].startswith("job.")][:1] == [job_id]


async def test_every_change_by_a_request_has_its_id(worker_harness: WorkerHarness, ann: Person) -> None:
    jobs_api = worker_harness.jobs_api
    worker = await worker_harness.worker()
    job_id, _ = await submit(worker_harness, ann)

    async def given_back(response: httpx.Response) -> tuple[str, str]:
        assert response.status_code == 200, response.text
        return response.json()["status"], response.headers["x-request-id"]

    requeued = await given_back(await worker.requeue(await worker.job(), "The machine is taken away."))
    failed = await given_back(await worker.fail(await worker.job(), "It broke."))
    assert [requeued[0], failed[0]] == ["queued", "failed"]
    retried = await jobs_api.post_as(ann, f"/api/ai-jobs/{job_id}/retry")
    canceled = await jobs_api.post_as(ann, f"/api/ai-jobs/{job_id}/cancel")
    denied = await jobs_api.post_as(ann, f"/api/ai-jobs/{job_id}/retry")
    deleted = await worker_harness.client.delete(f"/api/ai-jobs/{job_id}", headers=ann.headers)
    responses = [retried, canceled, denied, deleted]
    assert [response.status_code for response in responses] == [200, 200, 409, 204]

    found = await requests_of(worker_harness, job_id)
    by_request = [request_id for _, request_id in found]
    assert requeued in found
    assert failed in found
    for response in responses:
        assert response.headers["x-request-id"] in by_request
    assert by_request[-4:] == [responses[n].headers["x-request-id"] for n in (0, 1, 2, 3)]
    assert None not in by_request


async def test_events_of_background_loops_have_no_request(worker_harness: WorkerHarness, ann: Person) -> None:
    job_id, submitted = await submit(worker_harness, ann)
    await worker_harness.jobs_api.core.enforce_deadlines(datetime.now(UTC) + timedelta(days=365))
    assert await requests_of(worker_harness, job_id) == [
        ("pending", submitted),
        ("queued", submitted),
        ("failed", None),
    ]


async def test_requests_that_share_a_statement_keep_their_own_ids(worker_harness: WorkerHarness, ann: Person) -> None:
    bob = await worker_harness.jobs_api.person(tokens=100)
    jobs = await asyncio.gather(*(submit(worker_harness, person) for person in (ann, bob) * 5))
    ends = await asyncio.gather(
        *(worker_harness.jobs_api.post(f"/api/admin/jobs/{job_id}/cancel", {}) for job_id, _ in jobs)
    )
    for (job_id, submitted), canceled in zip(jobs, ends, strict=True):
        assert canceled.status_code == 200, canceled.text
        assert await requests_of(worker_harness, job_id) == [
            ("pending", submitted),
            ("queued", submitted),
            ("canceled", canceled.headers["x-request-id"]),
        ]


async def test_events_have_the_e_mail_of_the_user_who_acted(worker_harness: WorkerHarness, ann: Person) -> None:
    job_id, _ = await submit(worker_harness, ann)
    await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{job_id}/cancel")
    operator = worker_harness.jobs_api.admin
    events = (await waterfall(worker_harness, job_id))["events"]
    assert [(event["actor"], event["actor_email"]) for event in events] == [
        (f"admin:{operator.user.id}", operator.user.email),
        ("relay", None),
        (f"user:{ann.user.id}", ann.user.email),
    ]
    # Admins of the tenant see their own users, and not which operator it was.
    tenant_admin = await worker_harness.jobs_api.people.user(ann.tenant, Role.TENANT_ADMIN)
    events = (await waterfall(worker_harness, job_id, tenant_admin))["events"]
    assert [(event["actor"], event["actor_email"]) for event in events] == [
        ("admin", None),
        ("relay", None),
        (f"user:{ann.user.id}", ann.user.email),
    ]
    # An actor that is no longer a user keeps its id.
    pool = await worker_harness.plane.databases.pool(ann.tenant.pool)
    gone = "UPDATE job_events SET actor = 'admin:00000000-0000-7000-8000-000000000000' WHERE job_id = $1 AND seq = 1"
    await worker_harness.jobs_api.core.rows(pool, gone, UUID(job_id))
    [first, *_] = (await waterfall(worker_harness, job_id))["events"]
    assert (first["actor"], first["actor_email"]) == ("admin:00000000-0000-7000-8000-000000000000", None)


async def test_only_operators_see_ids_of_requests(worker_harness: WorkerHarness, ann: Person) -> None:
    job_id, submitted = await submit(worker_harness, ann)
    tenant_admin = await worker_harness.jobs_api.people.user(ann.tenant, Role.TENANT_ADMIN)
    shown = await waterfall(worker_harness, job_id, tenant_admin)
    assert [event["request_id"] for event in shown["events"]] == [None, None]
    assert submitted not in json.dumps(shown)
    own = await worker_harness.jobs_api.get(ann, f"/api/ai-jobs/{job_id}/events")
    assert own.status_code == 200
    assert len(own.json()["items"]) == 2
    assert "request_id" not in own.text
