"""Providers that call back, over HTTP: a worker that submits, a provider that calls, a user and an admin who watch.

The worker is scripted from docs/protocol.md; the provider is the tests' Replicate.
"""

from __future__ import annotations

import collections
import io
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.api.conftest import shared_plane
from tests.api.test_worker_requests import spied, without_queue_reads
from tests.support.http.accounts import Person
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, in_an_hour
from tests.support.http.worker_harness import WorkerHarness, open_worker_harness
from tests.support.jobs.core import Member
from tests.support.providers.provider_services import LOCAL, service_settings
from tests.support.providers.replicate_files import content_of
from tests.support.providers.replicate_server import TOKEN, ReplicateServer, Scenario, replicate_server
from tests.support.waiting import until

Json = dict[str, Any]
PROVIDER = "replicate"
DOWN = {"type": "provider_unavailable", "message": "It answered 503.", "retryable": True}


@pytest.fixture(scope="module")
async def running_replicate() -> AsyncIterator[ReplicateServer]:
    async with replicate_server() as server:
        yield server


@pytest.fixture
def replicate(running_replicate: ReplicateServer) -> ReplicateServer:
    """A provider without any requests so far. It holds its predictions and sends no callbacks."""
    running_replicate.forget()
    running_replicate.scenario, running_replicate.deliver = Scenario(held=True), "never"
    return running_replicate


@dataclass(slots=True)
class CallbackHarness:
    """Where jobs of the provider are handed out and called about."""

    worker_harness: WorkerHarness
    replicate: ReplicateServer
    worker: ScriptedWorker
    ann: Person

    @property
    def jobs_api(self) -> JobsApi:
        return self.worker_harness.jobs_api

    async def submit(self, person: Person | None = None) -> UUID:
        """Not over HTTP: there, the provider comes with an actor's plan."""
        new = self.jobs_api.core.new_job(await self.member(person), provider=PROVIDER, kind="task", cost=7)
        return (await self.worker_harness.plane.rooms.jobs.submission.submit(new)).job.id

    async def member(self, person: Person | None = None) -> Member:
        person = person or self.ann
        pool = await self.worker_harness.plane.databases.pool(person.tenant.pool)
        return Member(person.tenant.id, person.user.id, pool)

    async def down_for(self, *people: Person) -> None:
        """A job of each of them failed, because the provider did not respond."""
        for person in people:
            await self.submit(person)
            response = await self.worker.fail(await self.take(), "It answered 503.", error=DOWN)
            assert response.json()["status"] == "queued"

    async def take(self) -> Json:
        return await self.worker.job(wait_seconds=10)

    async def call(self, job: Json) -> str:
        """What the actor of Replicate does with the URL that it gets."""
        body = {"version": "1", "input": {}, "webhook": job["callback"]["url"]}
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            headers = {"authorization": f"Bearer {TOKEN}"}
            response = await client.post(f"{self.replicate.url}/predictions", json=body, headers=headers)
        return str(response.json()["id"])

    async def waiting(self) -> tuple[UUID, Json, str]:
        job_id = await self.submit()
        job = await self.take()
        prediction_id = await self.call(job)
        response = await self.worker.defer(job, prediction_id, in_an_hour())
        assert response.json()["status"] == "waiting"
        return job_id, job, prediction_id

    async def becomes(self, job_id: UUID, status: str) -> Json:
        async def has() -> bool:
            return bool((await self.worker_harness.shown(self.ann, str(job_id)))["status"] == status)

        await until(has)
        return await self.worker_harness.shown(self.ann, str(job_id))

    async def providers(self) -> dict[str, Json]:
        response = await self.jobs_api.client.get("/api/admin/providers", headers=self.jobs_api.admin.headers)
        return {each["name"]: each for each in response.json()["providers"]}


@pytest.fixture(scope="module")
async def callback_plane(
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    running_replicate: ReplicateServer,
) -> AsyncIterator[ControlPlane]:
    """A control plane that may call the tests' Replicate and gets its callbacks."""
    sections: dict[str, Any] = {
        "providers": dict(service_settings(running_replicate)),
        "outgoing": {"allow_networks": (LOCAL,)},
        "webhooks": {"breaker_failures": 2, "breaker_pause_seconds": 600.0},
        "tasks": {"in_process": 2, "costs": {"replicate/txt2img": 3}},
    }
    async with shared_plane(postgres, templates, tmp_path_factory.mktemp("webhooks"), **sections) as plane:
        yield plane


@pytest.fixture
async def worker_harness(callback_plane: ControlPlane, replicate: ReplicateServer) -> AsyncIterator[WorkerHarness]:
    """Where no call is under way, and no provider is paused."""
    async with open_worker_harness(callback_plane) as worker_harness:
        await worker_harness.central("DELETE FROM provider_calls")
        assert (await worker_harness.jobs_api.post(f"/api/admin/providers/{PROVIDER}/reset", {})).status_code == 200
        yield worker_harness


@pytest.fixture
async def callback_harness(worker_harness: WorkerHarness, replicate: ReplicateServer) -> CallbackHarness:
    """A worker, a user and the tests' Replicate."""
    worker = await worker_harness.worker(providers=[PROVIDER, "self_hosted"])
    return CallbackHarness(worker_harness, replicate, worker, await worker_harness.jobs_api.person(tokens=100))


async def test_a_job_of_a_webhook_provider_goes_from_submit_to_the_delivered_file(
    callback_harness: CallbackHarness, logged: io.StringIO
) -> None:
    job_id, job, prediction_id = await callback_harness.waiting()
    assert job["callback"]["may_exist"] is False
    assert job["callback"]["url"].startswith(
        f"{callback_harness.worker_harness.plane.settings.public_url}/api/webhooks/replicate/"
    )
    callback_harness.replicate.end(prediction_id, Scenario())
    response = await callback_harness.replicate.call_back(prediction_id)
    assert (response.status_code, response.content) == (204, b"")
    shown = await callback_harness.becomes(job_id, "completed")
    [output] = shown["outputs"]
    assert await callback_harness.worker.download(output["url"]) == content_of("picture.png")
    assert await callback_harness.worker_harness.balance(callback_harness.ann) == 93
    assert job["callback"]["url"].rpartition("/")[2] not in logged.getvalue()
    # Once more, as providers do.
    assert (await callback_harness.replicate.call_back(prediction_id)).status_code == 204
    assert await callback_harness.worker_harness.balance(callback_harness.ann) == 93


async def test_callbacks_that_are_not_valid_all_get_the_same_response(callback_harness: CallbackHarness) -> None:
    job_id, job, prediction_id = await callback_harness.waiting()
    callback_harness.replicate.end(prediction_id, Scenario())
    url = job["callback"]["url"]
    path, _, callback_id = url.rpartition("/")
    responses = [
        await callback_harness.replicate.call_back(prediction_id, url=f"{path}/{'A' * 43}"),
        await callback_harness.replicate.call_back(prediction_id, url=f"{path}/{callback_id[:-1]}"),
        await callback_harness.replicate.call_back(prediction_id, url=url.replace("/replicate/", "/nobody/")),
        await callback_harness.replicate.call_back(prediction_id, secret="whsec_c29tZWJvZHkgZWxzZQ=="),
        await callback_harness.replicate.call_back(prediction_id, age_seconds=3600),
        await callback_harness.replicate.call_back(prediction_id, headers={"webhook-signature": None}),
        await callback_harness.replicate.call_back(prediction_id, body=b"[" * 50_000),
    ]
    for response in responses:
        assert_refused(response, 404, "not_found")
    assert len({str({**response.json(), "request_id": None}) for response in responses}) == 1
    assert (await callback_harness.worker_harness.shown(callback_harness.ann, str(job_id)))["status"] == "processing"
    large = await callback_harness.replicate.call_back(prediction_id, body=b" " * 2_000_000)
    assert_refused(large, 413, "body_too_large", "body")
    assert (await callback_harness.worker_harness.client.get(url)).status_code == 405
    assert await callback_harness.worker_harness.balance(callback_harness.ann) == 93


async def test_a_canceled_job_is_canceled_at_the_provider_and_its_late_callback_changes_nothing(
    callback_harness: CallbackHarness,
) -> None:
    job_id, _, prediction_id = await callback_harness.waiting()
    assert (await callback_harness.jobs_api.post_as(callback_harness.ann, f"/api/ai-jobs/{job_id}/cancel")).is_success
    await until(lambda: callback_harness.replicate.predictions[prediction_id]["status"] == "canceled")
    callback_harness.replicate.end(prediction_id, Scenario())
    assert (await callback_harness.replicate.call_back(prediction_id)).status_code == 204
    assert (await callback_harness.worker_harness.shown(callback_harness.ann, str(job_id)))["status"] == "canceled"
    assert await callback_harness.worker_harness.balance(callback_harness.ann) == 100


async def test_a_prediction_of_an_overtaken_worker_is_canceled_at_the_provider(
    callback_harness: CallbackHarness,
) -> None:
    callback_harness.replicate.scenario = Scenario(held=True)
    job_id = await callback_harness.submit()
    first = await callback_harness.take()
    await callback_harness.jobs_api.core.expire_lease(first["dispatch_id"])
    await callback_harness.jobs_api.core.reap()
    second = await callback_harness.take()
    kept = await callback_harness.call(second)
    assert (await callback_harness.worker.defer(second, kept, in_an_hour())).json()["status"] == "waiting"
    stray = await callback_harness.call(first)
    assert_refused(await callback_harness.worker.defer(first, stray, in_an_hour()), 409, "lease_lost")
    await until(lambda: callback_harness.replicate.predictions[stray]["status"] == "canceled")
    # The answer to the second was lost, and it says so once more: that one is wanted.
    assert (await callback_harness.worker.defer(second, kept, in_an_hour())).json()["status"] == "waiting"
    callback_harness.replicate.end(kept, Scenario())
    assert (await callback_harness.replicate.call_back(kept)).status_code == 204
    await callback_harness.becomes(job_id, "completed")
    assert await callback_harness.worker_harness.balance(callback_harness.ann) == 93


async def counted(callback_harness: CallbackHarness) -> collections.Counter[str]:
    text = (await callback_harness.worker_harness.client.get("/metrics")).text
    found = re.findall(r"^(callsheet_provider_call(?:back)?s_total\{.*\}) (\S+)$", text, re.MULTILINE)
    return collections.Counter({labels: int(float(value)) for labels, value in found})


async def test_calls_and_callbacks_are_counted_in_the_metrics(callback_harness: CallbackHarness) -> None:
    before = await counted(callback_harness)
    job_id, job, prediction_id = await callback_harness.waiting()
    callback_harness.replicate.end(prediction_id, Scenario())
    for _ in range(2):
        assert (await callback_harness.replicate.call_back(prediction_id)).status_code == 204
    await callback_harness.replicate.call_back(prediction_id, age_seconds=3600)
    await callback_harness.replicate.call_back(prediction_id, url=job["callback"]["url"].replace("/replicate/", "/x1/"))
    await callback_harness.becomes(job_id, "completed")
    added = await counted(callback_harness) - before
    # A call of the previous test may have had its response just now.
    assert added.pop('callsheet_provider_calls_total{outcome="answered",provider="replicate"}') >= 1
    assert added == {
        'callsheet_provider_callbacks_total{outcome="taken",provider="replicate"}': 1,
        'callsheet_provider_callbacks_total{outcome="duplicate",provider="replicate"}': 1,
        'callsheet_provider_callbacks_total{outcome="refused",provider="replicate"}': 1,
        'callsheet_provider_callbacks_total{outcome="refused",provider="unknown"}': 1,
    }


async def test_a_repeated_poll_says_that_the_provider_may_have_the_job(
    callback_harness: CallbackHarness,
) -> None:
    await callback_harness.submit()
    first = await callback_harness.worker.job(poll_id="poll-1")
    again = await callback_harness.worker.job(poll_id="poll-1", current_load=1)
    assert again["lease_token"] == first["lease_token"]
    assert again["callback"] == {"url": first["callback"]["url"], "may_exist": True}


async def test_an_unavailable_provider_is_paused_until_an_admin_ends_the_pause(
    callback_harness: CallbackHarness,
) -> None:
    await callback_harness.down_for(await callback_harness.jobs_api.person(tokens=10), callback_harness.ann)
    job_id = await callback_harness.submit()
    assert (await callback_harness.worker.poll())["reason"] == "empty"

    shown = await callback_harness.worker_harness.shown(callback_harness.ann, str(job_id))
    assert (shown["status"], shown["why_waiting"]["code"]) == ("queued", "provider_paused")
    assert "does not respond" in shown["why_waiting"]["message"]
    assert datetime.fromisoformat(shown["why_waiting"]["retry_at"]) > datetime.now(UTC)
    provider = (await callback_harness.providers())[PROVIDER]
    assert (provider["state"], provider["failures"], provider["last_error"]) == ("open", 2, "It answered 503.")
    alerts = (
        await callback_harness.jobs_api.client.get("/api/admin/alerts", headers=callback_harness.jobs_api.admin.headers)
    ).json()["alerts"]
    assert [alert["subject"] for alert in alerts if alert["code"] == "provider_paused"] == [PROVIDER]
    # Never handed over, never charged, never called.
    assert callback_harness.replicate.calls == []
    assert await callback_harness.jobs_api.core.steps(await callback_harness.member(), job_id) == [
        ">pending",
        "pending>queued",
    ]

    reset = await callback_harness.jobs_api.post(f"/api/admin/providers/{PROVIDER}/reset", {})
    assert reset.json()["state"] == "closed"
    assert await callback_harness.take()
    assert_refused(await callback_harness.jobs_api.post("/api/admin/providers/nobody/reset", {}), 404, "not_found")


async def test_failing_jobs_of_one_tenant_do_not_delay_other_tenants(callback_harness: CallbackHarness) -> None:
    bob = await callback_harness.jobs_api.person(tokens=100)
    await callback_harness.down_for(callback_harness.ann, callback_harness.ann)
    provider = (await callback_harness.providers())[PROVIDER]
    assert (provider["state"], provider["open_for"]) == ("open", str(callback_harness.ann.tenant.id))
    alerts = (
        await callback_harness.jobs_api.client.get("/api/admin/alerts", headers=callback_harness.jobs_api.admin.headers)
    ).json()["alerts"]
    [alert] = [alert for alert in alerts if alert["code"] == "provider_paused"]
    assert (
        f"the jobs of tenant {callback_harness.ann.tenant.id}, the only tenant whose calls failed, wait"
        in alert["message"]
    )

    # Ann's job waits, though it is the first in the queue.
    waiting, served = await callback_harness.submit(), await callback_harness.submit(bob)
    job = await callback_harness.worker.job()
    assert job["job_id"] == str(served)
    shown = await callback_harness.worker_harness.shown(callback_harness.ann, str(waiting))
    assert (shown["status"], shown["why_waiting"]["code"]) == ("queued", "provider_paused")
    await callback_harness.worker.defer(job, "prediction-1", in_an_hour())

    # As soon as another tenant's call fails too, it is the provider.
    await callback_harness.down_for(bob)
    provider = (await callback_harness.providers())[PROVIDER]
    assert (provider["state"], provider["open_for"]) == ("open", None)
    await callback_harness.submit(bob)
    assert (await callback_harness.worker.poll())["reason"] == "empty"


async def test_a_job_that_always_fails_counts_as_one_failure_of_the_provider(callback_harness: CallbackHarness) -> None:
    await callback_harness.submit()
    for _ in range(2):
        await callback_harness.worker.fail(await callback_harness.take(), "It answered 503.", error=DOWN)
        await callback_harness.worker_harness.central(
            "UPDATE ai_job_dispatches SET not_before = now() WHERE not_before IS NOT NULL"
        )
        await callback_harness.worker_harness.plane.rooms.jobs.dispatch.lane_keeper.tick(datetime.now(UTC))
    provider = (await callback_harness.providers())[PROVIDER]
    assert (provider["state"], provider["failures"]) == ("closed", 1)


async def test_a_waiting_worker_is_woken_when_the_pause_is_over(callback_harness: CallbackHarness) -> None:
    await callback_harness.down_for(await callback_harness.jobs_api.person(tokens=10), callback_harness.ann)
    await callback_harness.submit()
    await callback_harness.worker_harness.central(
        "UPDATE provider_breakers SET open_until = clock_timestamp() + interval '1 s'"
    )
    job = await callback_harness.take()
    assert (await callback_harness.providers())[PROVIDER]["state"] == "half_open"
    await callback_harness.worker.defer(job, "prediction-1", in_an_hour())
    assert (await callback_harness.providers())[PROVIDER]["state"] == "closed"


async def test_provider_calls_need_extra_statements_and_jobs_of_engines_do_not(
    callback_harness: CallbackHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = spied(monkeypatch)
    await callback_harness.submit()
    callback_harness.worker_harness.client.headers["x-request-id"] = "counted"
    job = await callback_harness.take()
    assert without_queue_reads(statements) == [
        "authenticate",
        "take",
        "start_jobs",
        "paused_seconds",
        "record_intent",
        "record_events",
    ]
    statements.clear()
    await callback_harness.worker.defer(job, "prediction-1", in_an_hour())
    assert statements == ["authenticate", "find", "wait", "schedule_first_poll", "count_success", "record_events"]


@pytest.mark.thorough
async def test_a_media_task_run_by_the_control_plane_itself_ends_by_the_callback(
    worker_harness: WorkerHarness, replicate: ReplicateServer
) -> None:
    """Nothing is scripted but the provider: its callbacks come when they come, maybe before the worker said so."""
    replicate.scenario, replicate.deliver = Scenario(), "twice"
    ann = await worker_harness.jobs_api.person(tokens=10)
    payload = {"provider": PROVIDER, "action_type": "txt2img", "prompt": "a cat"}
    tasks = []
    for _ in range(3):
        response = await worker_harness.client.post(
            "/api/task", json={"actor": "media", "payload": payload}, headers=ann.headers
        )
        assert response.status_code in (200, 201, 202), response.text
        tasks.append(response.json()["task_id"])

    async def shown(task_id: str) -> Json:
        response = await worker_harness.client.get(f"/api/task/{task_id}", headers=ann.headers)
        found: Json = response.json()
        return found

    for task_id in tasks:

        async def has_ended(task_id: str = task_id) -> bool:
            return (await shown(task_id))["status"] in ("completed", "failed", "expired")

        await until(has_ended)
        task = await shown(task_id)
        assert task["status"] == "completed", task
        [url] = task["result"]["urls"]
        assert (await worker_harness.client.get(url)).content == content_of("picture.png")
        assert task["cost"] == 3
    assert len(replicate.submitted) == 3
    await until(lambda: len(replicate.delivered) == 6)
    await worker_harness.jobs_api.core.check()
