"""Below the reserve of a disk, new uploads and new jobs are refused, while accepted jobs finish and are paid."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.api.conftest import Started
from tests.support.http.accounts import Person
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness, open_worker_harness

# No disk has this much free.
FULL = {"disk": {"reserve_bytes": 2**59, "warning_bytes": 2**60}}
NOW = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class FullDisk:
    """A control plane whose disk has less free than its reserve, and another one of the same installation without a
    reserve, on which work was accepted before.
    """

    before: WorkerHarness
    plane: ControlPlane
    client: httpx.AsyncClient

    async def post(self, person: Person, path: str, body: dict[str, Any]) -> httpx.Response:
        return await self.client.post(path, json=body, headers=person.headers)


@pytest.fixture
async def full_disk(started: Started) -> AsyncIterator[FullDisk]:
    async with started() as (plane, _), open_worker_harness(plane) as before, started(**FULL) as (low, client):
        await low.rooms.media.free_space.tick(NOW)
        yield FullDisk(before, low, client)


async def test_new_uploads_and_jobs_are_refused_and_nothing_is_charged(full_disk: FullDisk) -> None:
    person = await full_disk.before.jobs_api.person(tokens=30)
    declared = {"name": "clip.mp4", "mime_type": "video/mp4", "size": len(CLIP)}
    upload = await full_disk.post(person, "/api/videos/uploads", declared)
    asset = await full_disk.post(full_disk.before.jobs_api.admin, "/api/admin/assets", {**declared, "name": "overlay"})
    job = await full_disk.post(
        full_disk.before.jobs_api.admin,
        "/api/admin/jobs",
        full_disk.before.jobs_api.request(person, idempotency_key="late"),
    )
    for response in (upload, asset, job):
        problem = assert_refused(response, 507, "insufficient_storage")
        assert response.headers["retry-after"] == "60"
        assert "free disk space" in problem["title"]
        assert "Jobs that were accepted before go on." in problem["detail"]
    assert await full_disk.before.balance(person) == 30
    shown = await full_disk.client.get("/api/ai-jobs", headers=person.headers)
    assert shown.json()["items"] == []


async def test_a_job_that_was_accepted_before_is_delivered_and_paid(full_disk: FullDisk) -> None:
    person = await full_disk.before.jobs_api.person(tokens=7)
    submitted = await full_disk.before.engine_job(person)
    worker = ScriptedWorker(full_disk.client, "on-a-full-disk")
    await worker.register(full_disk.before.secret, workflow_slugs=[full_disk.before.jobs_api.workflow])
    job = await worker.job()
    await worker.deliver(job, OUTPUT)
    assert (await worker.complete(job, output=described(OUTPUT, "video/mp4"))).status_code == 200
    assert (await full_disk.before.shown(person, submitted["id"]))["status"] == "completed"
    assert await full_disk.before.balance(person) == 0
    await worker.deregister("the test is over")


async def test_an_upload_that_was_promised_before_does_not_use_the_reserve(full_disk: FullDisk) -> None:
    async with MediaApi.opened(full_disk.before.plane) as api:
        created = (await api.create()).json()
        upload = created["upload"]
        url = upload["url"].replace(full_disk.before.plane.settings.public_url, full_disk.plane.settings.public_url)
        response = await full_disk.client.put(url, content=CLIP, headers=upload["headers"])
        assert_refused(response, 507, "insufficient_storage")
        assert await api.paths() == set()
        # The same URL works when there is room again.
        assert (await api.send(created)).status_code == 200
        # What is stored already may be confirmed: this takes no space.
        confirm = f"/api/videos/uploads/{created['file']['id']}/confirm"
        assert (await full_disk.client.post(confirm, headers=api.person.headers)).status_code == 200


async def test_a_repeated_submit_returns_the_earlier_job_and_a_retry_is_refused(full_disk: FullDisk) -> None:
    jobs_api = full_disk.before.jobs_api
    person = await jobs_api.person(tokens=30)
    first = await jobs_api.submit(person, idempotency_key="once")
    again = await full_disk.post(jobs_api.admin, "/api/admin/jobs", jobs_api.request(person, idempotency_key="once"))
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    await jobs_api.core.fail(await jobs_api.start())
    retried = await full_disk.post(person, f"/api/ai-jobs/{first['id']}/retry", {})
    assert_refused(retried, 507, "insufficient_storage")
    assert (await full_disk.before.shown(person, first["id"]))["status"] == "failed"
    assert await full_disk.before.balance(person) == 30


async def test_operators_see_it_as_metric_alert_and_finding(full_disk: FullDisk) -> None:
    metrics = (await full_disk.client.get("/metrics")).text
    assert 'callsheet_disk_free_bytes{place="home"}' in metrics
    assert 'callsheet_disk_size_bytes{place="storage"}' in metrics
    admin = full_disk.before.jobs_api.admin
    [alerts] = [loop for loop in full_disk.plane.loops if loop.name == "alerts"]
    await alerts.tick(NOW)
    listed = (await full_disk.client.get("/api/admin/alerts", headers=admin.headers)).json()["alerts"]
    [alert] = [each for each in listed if each["code"] == "low_disk"]
    assert alert["severity"] == "critical"
    assert "New uploads and new jobs are refused" in alert["message"]
    findings = (await full_disk.client.get("/api/admin/health", headers=admin.headers)).json()["findings"]
    [finding] = [each for each in findings if each["part"] == "disk"]
    assert (finding["status"], finding["message"]) == ("problem", alert["message"])
