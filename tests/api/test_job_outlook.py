"""A user's view of a job while it waits, while it runs and after its end."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from callsheet.dispatch.positions import Positions
from tests.support.http.accounts import Person
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness
from tests.support.jobs.core import Member
from tests.support.waiting import until

OUTLOOK = ("queue_position", "queue_position_text", "eta_seconds")


@pytest.fixture
async def ann(worker_harness: WorkerHarness) -> Person:
    return await worker_harness.jobs_api.person("pool_2", tokens=1000)


async def expect(worker_harness: WorkerHarness, person: Person, job_id: str) -> tuple[Any, ...]:
    """Place, its text, estimate and reason."""
    job = await worker_harness.shown(person, job_id)
    why = job["why_waiting"]
    return (*(job[name] for name in OUTLOOK), why and why["code"])


async def takes(worker_harness: WorkerHarness, seconds: float) -> None:
    """As if jobs of this workflow had taken so long."""
    await worker_harness.central(
        "INSERT INTO workflow_timings (workflow_id, average_seconds, samples) VALUES ($1, $2, 9)",
        worker_harness.jobs_api.core.workflow,
        seconds,
    )


async def test_a_job_without_a_live_worker_gives_that_as_its_reason_to_wait(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    job = await worker_harness.engine_job(ann)
    assert job["why_waiting"] == {
        "code": "no_live_worker",
        "message": "No worker that can run this job is online.",
        "ahead": None,
        "retry_at": None,
    }
    assert await expect(worker_harness, ann, job["id"]) == (1, "1", None, "no_live_worker")


async def test_every_waiting_job_shows_its_position_its_estimated_time_and_its_reason(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    await takes(worker_harness, 60.0)
    worker = await worker_harness.worker()
    first, second, third = [await worker_harness.engine_job(ann) for _ in range(3)]
    urgent = await worker_harness.jobs_api.submit(ann, priority=7)
    assert await expect(worker_harness, ann, urgent["id"]) == (1, "1", 60, "next")
    assert await expect(worker_harness, ann, first["id"]) == (2, "2", 120, "ahead")
    leased = await worker.job()
    assert leased["job_id"] == urgent["id"]
    assert (await worker_harness.shown(ann, urgent["id"]))["why_waiting"] is None
    position, text, eta, why = await expect(worker_harness, ann, urgent["id"])
    assert (position, text, why) == (0, "0", None)
    assert 50 < eta <= 60
    assert await expect(worker_harness, ann, first["id"]) == (1, "1", 120, "workers_at_capacity")
    assert await expect(worker_harness, ann, third["id"]) == (3, "3", 240, "ahead")
    shown = await worker_harness.shown(ann, third["id"])
    assert shown["why_waiting"]["message"] == "2 jobs are ahead of this job."
    assert shown["why_waiting"]["ahead"] == 2
    page = (await worker_harness.jobs_api.get(ann, "/api/ai-jobs")).json()["items"]
    assert [(job["id"], job["queue_position"]) for job in page] == [
        (urgent["id"], 0),
        (third["id"], 3),
        (second["id"], 2),
        (first["id"], 1),
    ]


async def test_a_job_with_a_delayed_retry_shows_when_it_runs(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    error = {"type": "oom", "message": "Out of memory.", "retryable": True}
    assert (await worker.fail(await worker.job(), "Out of memory.", error=error)).status_code == 200
    shown = await worker_harness.shown(ann, job["id"])
    assert (shown["status"], shown["why_waiting"]["code"]) == ("queued", "retry_at")
    assert shown["why_waiting"]["retry_at"] > shown["submitted_at"]


async def test_a_job_waits_for_the_limit_of_its_provider(worker_harness: WorkerHarness, ann: Person) -> None:
    await worker_harness.worker()
    core = worker_harness.jobs_api.core
    await core.room.dispatch.limits.set(f"limit-{worker_harness.jobs_api.workflow}", 1, "test")
    limited = {"concurrency_identifier": f"limit-{worker_harness.jobs_api.workflow}", "workflow_id": core.workflow}
    pool = await worker_harness.plane.databases.pool(ann.tenant.pool)
    member = Member(ann.tenant.id, ann.user.id, pool)
    first, second = [await core.submit(member, **limited) for _ in range(2)]
    assert (await core.start()).lease.job_id == first.id
    shown = await worker_harness.shown(ann, str(second.id))
    assert shown["why_waiting"]["code"] == "provider_at_limit"
    assert shown["why_waiting"]["message"] == "The provider's limit of 1 concurrent job is reached."


async def test_a_job_waits_for_a_fleet_that_is_scaling_up(worker_harness: WorkerHarness, ann: Person) -> None:
    body = {
        "slug": worker_harness.jobs_api.workflow,
        "workflow_slugs": [worker_harness.jobs_api.workflow],
        "desired_workers": 2,
    }
    made = await worker_harness.jobs_api.post("/api/admin/fleets", body)
    assert made.status_code == 201, made.text
    job = await worker_harness.engine_job(ann)
    assert (await expect(worker_harness, ann, job["id"]))[3] == "scaling_up"


async def test_a_running_job_shows_progress_and_its_image(worker_harness: WorkerHarness, ann: Person) -> None:
    await takes(worker_harness, 1000.0)
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    leased = await worker.job()
    await worker.heartbeat(leased, run_started=True)
    assert (await worker_harness.shown(ann, job["id"]))["progress"] is None
    progress = {"percent": 50, "message": "sampling", "elapsed_ms": 20_000}
    assert (await worker.heartbeat(leased, progress=progress)).status_code == 200

    async def has_progress() -> bool:
        return (await worker_harness.shown(ann, job["id"]))["progress"] is not None

    await until(has_progress)
    shown = await worker_harness.shown(ann, job["id"])
    assert {name: shown["progress"][name] for name in progress} == progress
    assert shown["progress"]["preview_url"] is None
    # From what the worker says, not from the average.
    assert 10 < shown["eta_seconds"] <= 20
    [listed] = (await worker_harness.jobs_api.get(ann, "/api/ai-jobs")).json()["items"]
    assert listed["progress"]["percent"] == 50


@pytest.mark.parametrize("ended", ["completed", "canceled", "failed"])
async def test_an_ended_job_has_no_outlook_and_needs_no_query_to_central(
    worker_harness: WorkerHarness, ann: Person, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    leased = await worker.job()
    if ended == "completed":
        await worker.deliver(leased, OUTPUT)
        response = await worker.complete(leased, output=described(OUTPUT, "video/mp4"))
        assert response.status_code == 200, response.text
    elif ended == "failed":
        await worker.fail(leased, "It broke.")
    else:
        await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")

    async def fail_if_called(*_: object) -> None:
        raise AssertionError("central was asked")

    monkeypatch.setattr(Positions, "of_jobs", fail_if_called)
    shown = await worker_harness.shown(ann, job["id"])
    assert shown["status"] == ended
    assert all(shown[name] is None for name in (*OUTLOOK, "why_waiting", "progress"))
    assert (await worker_harness.jobs_api.get(ann, "/api/ai-jobs")).status_code == 200


async def test_a_completed_job_lists_its_outputs_with_urls_that_work(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    leased = await worker.job()
    files = {"main.mp4": ("video/mp4", OUTPUT), "still.mp4": ("video/mp4", OUTPUT + b" still")}
    outputs = await worker.deliver_named(leased, files)
    response = await worker.complete(leased, outputs=outputs)
    assert response.status_code == 200, response.text
    shown = await worker_harness.shown(ann, job["id"])
    assert [(one["name"], one["size"], one["sha256"]) for one in shown["outputs"]] == [
        (one["name"], one["size"], one["sha256"]) for one in outputs
    ]
    for one, content in zip(shown["outputs"], (OUTPUT, OUTPUT + b" still"), strict=True):
        assert (await worker_harness.client.get(one["url"])).content == content
        UUID(one["file_id"])
    [listed] = (await worker_harness.jobs_api.get(ann, "/api/ai-jobs")).json()["items"]
    assert [one["file_id"] for one in listed["outputs"]] == [one["file_id"] for one in shown["outputs"]]


async def test_cancel_and_retry_return_the_same_view(worker_harness: WorkerHarness, ann: Person) -> None:
    worker = await worker_harness.worker()
    job = await worker_harness.engine_job(ann)
    await worker.fail(await worker.job(), "It broke.")
    retried = (await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/retry")).json()
    assert (retried["status"], retried["queue_position"], retried["why_waiting"]["code"]) == ("queued", 1, "next")
    canceled = (await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{job['id']}/cancel")).json()
    assert (canceled["status"], canceled["queue_position"], canceled["why_waiting"]) == ("canceled", None, None)


async def test_jobs_of_other_users_count_in_the_queue_position_but_are_not_shown(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    """Across tenants and pools there is one queue; of it, a user sees a number."""
    bob = await worker_harness.jobs_api.person("pool_1", tokens=100)
    theirs = await worker_harness.engine_job(bob)
    job = await worker_harness.engine_job(ann)
    await worker_harness.worker()
    shown = await worker_harness.shown(ann, job["id"])
    assert (shown["queue_position"], shown["why_waiting"]["ahead"]) == (2, 1)
    assert theirs["id"] not in str(shown)


async def test_the_refusal_for_too_many_active_jobs_says_when_the_next_one_ends(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    jobs = [await worker_harness.engine_job(ann) for _ in range(5)]
    await takes(worker_harness, 120)
    api = worker_harness.jobs_api
    # None of them runs, so the time is not known.
    refused = await api.post("/api/admin/jobs", api.request(ann))
    assert_refused(refused, 429, "too_many_active_jobs")
    assert "retry-after" not in refused.headers
    worker = await worker_harness.worker()
    failed = (await worker.job())["job_id"]
    assert failed in [job["id"] for job in jobs]
    refused = await api.post("/api/admin/jobs", api.request(ann))
    problem = assert_refused(refused, 429, "too_many_active_jobs")
    seconds = int(refused.headers["retry-after"])
    assert 1 <= seconds <= 120
    assert problem["retry_after_seconds"] == seconds
    assert f"about {seconds} seconds" in problem["detail"]


async def test_the_refusal_of_a_retry_says_when_the_next_active_job_ends(
    worker_harness: WorkerHarness, ann: Person
) -> None:
    failed = await worker_harness.engine_job(ann)
    await takes(worker_harness, 120)
    worker = await worker_harness.worker()
    error = {"type": "invalid_workflow", "message": "The graph is wrong.", "retryable": False}
    assert (await worker.fail(await worker.job(), "The graph is wrong.", error=error)).status_code == 200
    for _ in range(5):
        await worker_harness.engine_job(ann)
    await worker.job()
    refused = await worker_harness.jobs_api.post_as(ann, f"/api/ai-jobs/{failed['id']}/retry")
    assert_refused(refused, 429, "too_many_active_jobs")
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    assert (await worker_harness.shown(ann, failed["id"]))["status"] == "failed"
