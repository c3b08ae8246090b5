"""Users read the sentence of an error's type. Only operators read what a worker or a provider reported, masked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callsheet.jobs.lease.leases import INTERRUPTED, RETRIED
from callsheet.wire.identity import Role
from callsheet.wire.job_errors import SENTENCES
from tests.support.http.accounts import Person
from tests.support.http.event_stream import opened
from tests.support.http.worker_harness import WorkerHarness

REPORTED = "db password is hunter2 at 10.0.0.5:5432"
MASKED = "db password is *** at 10.0.0.5:5432"
SENTENCE = SENTENCES["execution_error"]


async def test_no_page_of_users_shows_the_text_that_a_worker_reported(worker_harness: WorkerHarness) -> None:
    person = await worker_harness.jobs_api.person(tokens=10)
    tenant_admin = await worker_harness.jobs_api.people.user(person.tenant, Role.TENANT_ADMIN)
    job_id = await failed_job(worker_harness, person)

    seen = {path: await text_of(worker_harness, person, path) for path in of_user(job_id)}
    seen |= {path: await text_of(worker_harness, tenant_admin, path) for path in of_tenant(person, job_id)}
    async with opened(worker_harness.client, person, f"/api/ai-jobs/{job_id}/stream") as stream:
        seen["stream"] = str([event.data for event in await stream.next(6)])

    assert [path for path, text in seen.items() if "10.0.0.5" in text or "hunter2" in text] == []
    shown = await worker_harness.shown(person, job_id)
    assert shown["error"] == {"type": "execution_error", "message": SENTENCE}
    events = (await worker_harness.jobs_api.get(person, f"/api/ai-jobs/{job_id}/events")).json()["items"]
    reasons = [event["reason"] for event in events if event["actor"] == "worker" and event["reason"]]
    assert reasons == [INTERRUPTED, f"{RETRIED} {SENTENCE}", SENTENCE]


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.VIEWER])
async def test_operators_and_viewers_read_the_reported_text_with_its_secrets_masked(
    worker_harness: WorkerHarness, role: Role
) -> None:
    person = await worker_harness.jobs_api.person(tokens=10)
    reader = await worker_harness.jobs_api.people.user(role=role)
    job_id = await failed_job(worker_harness, person)

    job = await json_of(worker_harness, reader, f"/api/admin/tenants/{person.tenant.id}/jobs/{job_id}")
    listed = await json_of(worker_harness, reader, f"/api/admin/jobs?job_id={job_id}")
    found = await json_of(worker_harness, reader, f"/api/admin/jobs?q=10.0.0.5&user_id={person.user.id}")
    group = await json_of(worker_harness, reader, f"/api/admin/jobs/{job_id}/error-group")
    waterfall = await json_of(worker_harness, reader, f"/api/admin/jobs/{job_id}/waterfall")

    assert job["error"]["message"] == listed["items"][0]["error"]["message"] == group["example"]["message"] == MASKED
    assert [each["id"] for each in found["items"]] == [job_id]
    assert (job["full_error"] or {}).get("message") == (MASKED if role is Role.OPERATOR else None)
    reasons = [event["reason"] for event in waterfall["events"] if event["reason"]]
    assert [f"Requeued: {MASKED}", f"{RETRIED} {MASKED}", MASKED] == reasons[-3:]
    assert "hunter2" not in str([job, listed, group, waterfall])


async def failed_job(worker_harness: WorkerHarness, person: Person) -> str:
    """A job that its worker gave back, failed, and failed for good, each time with the same text."""
    worker = await worker_harness.worker()
    submitted = await worker_harness.engine_job(person)
    assert (await worker.requeue(await worker.job(), REPORTED)).status_code == 200
    for retryable in (True, False):
        error = {"type": "execution_error", "message": REPORTED, "traceback": REPORTED, "retryable": retryable}
        assert (await worker.fail(await worker.job(), REPORTED, error=error)).status_code == 200
        await worker_harness.plane.rooms.jobs.dispatch.queue.promote(datetime.now(UTC) + timedelta(days=1))
    return str(submitted["id"])


def of_user(job_id: str) -> list[str]:
    job = f"/api/ai-jobs/{job_id}"
    return [job, f"{job}/events", "/api/ai-jobs", f"/api/library/jobs/{job_id}", "/api/library/jobs"]


def of_tenant(person: Person, job_id: str) -> list[str]:
    jobs = f"/api/admin/tenants/{person.tenant.id}/jobs"
    waterfall = f"/api/admin/jobs/{job_id}/waterfall"
    return [jobs, f"{jobs}/{job_id}", waterfall, f"/api/admin/users/{person.user.id}/jobs"]


async def text_of(worker_harness: WorkerHarness, person: Person, path: str) -> str:
    response = await worker_harness.jobs_api.get(person, path)
    assert response.status_code == 200, (path, response.text)
    return response.text


async def json_of(worker_harness: WorkerHarness, person: Person, path: str) -> Any:
    response = await worker_harness.jobs_api.get(person, path)
    assert response.status_code == 200, (path, response.text)
    return response.json()
