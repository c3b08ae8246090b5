"""Unusual behavior of workers that is not the fault of their jobs: format, time and late reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.jobs.lease.leases import INTERRUPTED
from tests.support.http.accounts import Person
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, PNG, WorkerHarness


async def send(worker: ScriptedWorker, path: str, job: dict[str, Any], **fields: Any) -> httpx.Response:
    """As Python's own json writes it, which httpx does not."""
    body = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"], **fields}
    headers = {"authorization": f"Bearer {worker.token}", "content-type": "application/json"}
    return await worker.client.post(f"/api/worker/{path}", content=json.dumps(body), headers=headers)


async def expire(worker_harness: WorkerHarness, person: Person, job_id: str) -> None:
    pool = await worker_harness.plane.databases.pool(person.tenant.pool)
    await worker_harness.jobs_api.core.rows(pool, "UPDATE ai_jobs SET deadline_at = now() WHERE id = $1", UUID(job_id))
    await worker_harness.jobs_api.core.enforce_deadlines()


async def history(worker_harness: WorkerHarness, job: dict[str, Any]) -> Any:
    [row] = await worker_harness.central("SELECT * FROM dispatch_history WHERE dispatch_id = $1", job["dispatch_id"])
    return row


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("cannot read \udcff\udcfe.png", "cannot read \ufffd\ufffd.png"),
        ("\ud83c half, whole \U0001f3ac", "\ufffd half, whole \U0001f3ac"),
        (["first", "second"], "first"),
        ([{"exception_message": "in a list"}], "in a list"),
        (137, "Processing failed."),
    ],
)
async def test_any_error_text_of_an_engine_can_be_reported(
    worker_harness: WorkerHarness, message: Any, shown: str
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    response = await send(worker, "fail", await worker.job(), error_message=message)
    assert (response.status_code, response.json().get("status")) == (200, "failed")
    assert (await worker_harness.jobs_api.full_error(person, submitted["id"]))["message"] == shown
    assert await worker_harness.balance(person) == 10


async def test_odd_elapsed_times_are_corrected_and_keep_the_lease(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    for elapsed, kept in ((1200.6, 1201), (-3, 0), (float("inf"), 0)):
        assert (await send(worker, "heartbeat", job, progress={"elapsed_ms": elapsed})).status_code == 200
        pool = await worker_harness.plane.databases.pool(person.tenant.pool)
        [row] = await worker_harness.jobs_api.core.rows(
            pool, "SELECT * FROM job_progress WHERE job_id = $1", UUID(submitted["id"])
        )
        assert row["elapsed_ms"] == kept


async def test_a_page_that_was_uploaded_as_a_page_and_reported_as_an_image_is_served_as_a_download(
    worker_harness: WorkerHarness,
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    [output] = await worker.deliver_named(job, {"a.png": ("text/html", b"<script>alert(1)</script>")})
    response = await worker.complete(job, outputs=[{**output, "mime_type": "image/png"}])
    assert response.json()["status"] == "completed", response.text
    [shown] = (await worker_harness.shown(person, submitted["id"]))["outputs"]
    served = await worker.client.get(shown["url"])
    assert (served.status_code, served.headers["content-type"]) == (200, "application/octet-stream")
    assert served.headers["content-disposition"].startswith("attachment")


async def test_names_of_outputs_are_stored_exactly_as_the_worker_sent_them(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    names = [" a.png", "a.png", "a.png ", "A.png", "é.png", "e\u0301.png", "../../a.png", "n" * 251 + ".png"]
    outputs = await worker.deliver_named(job, {name: ("image/png", PNG + name.encode()) for name in names})
    assert (await worker.complete(job, outputs=outputs)).json()["status"] == "completed"
    files = await worker_harness.files(person, submitted["id"])
    assert sorted(file["name"] for file in files) == sorted(names)
    for file in files:
        assert await worker_harness.plane.rooms.storage.read(file["path"], 1000) == PNG + file["name"].encode()


@pytest.mark.thorough
async def test_a_run_may_deliver_more_files_than_one_heartbeat_announces(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    frames = {f"frame-{number:03}.png": ("image/png", PNG) for number in range(120)}
    everything = list(frames.items())
    announced = {"name": "a.png", **described(PNG, "image/png")}
    assert_refused(await worker.heartbeat(job, outputs=[announced] * 101), 422, "invalid_request", "outputs")
    outputs = [
        *await worker.deliver_named(job, dict(everything[:100])),
        *await worker.deliver_named(job, dict(everything[100:])),
    ]
    assert (await worker.complete(job, outputs=outputs)).json()["status"] == "completed"
    result = (await worker_harness.shown(person, submitted["id"]))["result"]
    assert [output["name"] for output in result["outputs"]] == list(frames)


async def test_a_run_past_its_limit_is_not_extended_and_has_no_time_left(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
    job = await worker.job()
    await worker.heartbeat(job, run_started=True)
    over = """UPDATE ai_job_dispatches SET run_started_at = now() - interval '3700 s',
              lease_expires_at = now() - interval '100 s' WHERE dispatch_id = $1"""
    await worker_harness.central(over, job["dispatch_id"])
    response = (await worker.heartbeat(job)).json()
    assert response["lease_ttl_seconds"] == 0
    assert datetime.fromisoformat(response["lease_expires_at"]) < datetime.now(UTC)


async def test_a_poll_repeated_late_gets_urls_that_last_as_long_as_the_renewed_lease(
    worker_harness: WorkerHarness,
) -> None:
    worker = await worker_harness.worker()
    await worker_harness.engine_job(await worker_harness.jobs_api.person(tokens=10))
    job = await worker.job(poll_id="poll-1")
    long_ago = "UPDATE ai_job_dispatches SET last_leased_at = now() - interval '1000 s' WHERE dispatch_id = $1"
    await worker_harness.central(long_ago, job["dispatch_id"])
    await worker.heartbeat(job)
    again = await worker.job(poll_id="poll-1")
    assert again["lease_token"] == job["lease_token"]
    left = datetime.fromisoformat(again["lease_expires_at"]) - datetime.now(UTC)
    assert abs(left - timedelta(seconds=again["lease_ttl_seconds"])) < timedelta(seconds=30)


@pytest.mark.parametrize("retried", [1, 2])
async def test_a_report_on_an_expired_cycle_returns_expired_also_after_retries(
    worker_harness: WorkerHarness, retried: int
) -> None:
    worker, other = await worker_harness.worker(), await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=100)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await expire(worker_harness, person, submitted["id"])
    # Refused ones are in the history, too, and do not count.
    await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
    await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/retry")
    await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/retry")
    for _ in range(retried - 1):
        assert (await other.fail(await other.job(), "It broke.")).json()["status"] == "failed"
        await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/retry")
    await worker.deliver(job, OUTPUT)
    for _ in range(2):
        response = await worker.complete(job, output=described(OUTPUT, "video/mp4"))
        assert (response.status_code, response.json()["status"]) == (200, "expired")
    assert (await history(worker_harness, job))["status"] == "expired"
    assert (await worker_harness.shown(person, submitted["id"]))["status"] == "queued"


@pytest.mark.parametrize("how", ["requeue", "defer", "canceled"])
async def test_only_the_worker_of_a_lease_can_read_its_outcome(worker_harness: WorkerHarness, how: str) -> None:
    worker, other = await worker_harness.worker(), await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    if how == "defer":
        await worker.defer(job, "prediction-1", (datetime.now(UTC) + timedelta(hours=1)).isoformat())
    else:
        await worker.requeue(job, "spot interruption")
    if how == "canceled":
        await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
    status = {"requeue": "queued", "defer": "waiting"}.get(how, how)
    assert (await worker.requeue(job, "spot interruption")).json()["status"] == status
    assert_refused(await other.requeue(job, "spot interruption"), 404, "not_found")
    assert_refused(await other.heartbeat(job), 404, "not_found")


async def test_a_job_that_ends_in_the_queue_has_no_run_time(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker.requeue(job, "spot interruption")
    await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
    row = await history(worker_harness, job)
    assert (row["status"], row["duration_seconds"]) == ("canceled", None)


async def test_an_error_shows_users_no_details_of_the_machine(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    response = await send(worker, "deregister", job, reason="no room in /mnt/scratch\x07\udcff, token=abc")
    assert response.status_code == 204
    worker_harness.workers.remove(worker)
    events = await worker_harness.jobs_api.get(person, f"/api/ai-jobs/{submitted['id']}/events")
    assert events.json()["items"][-1]["reason"] == INTERRUPTED
    dispatch = await worker_harness.dispatch(job)
    assert dispatch["last_error"] == "Requeued: no room in [path] \ufffd, token=***"


async def test_a_canceled_job_of_a_worker_that_deregisters_is_counted_in_no_total(
    worker_harness: WorkerHarness,
) -> None:
    worker = await worker_harness.worker()
    person = await worker_harness.jobs_api.person(tokens=10)
    submitted = await worker_harness.engine_job(person)
    job = await worker.job()
    await worker_harness.jobs_api.post_as(person, f"/api/ai-jobs/{submitted['id']}/cancel")
    assert (await worker.deregister("spot interruption")).status_code == 204
    worker_harness.workers.remove(worker)
    session = await worker_harness.session(worker)
    assert (session["jobs_completed"], session["jobs_failed"], session["jobs_requeued"]) == (0, 0, 0)
    assert session["busy_seconds"] > 0
    assert (await history(worker_harness, job))["status"] == "canceled"
