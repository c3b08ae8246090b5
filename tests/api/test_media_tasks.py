"""Media tasks over HTTP with the providers that ship: asked for by a user, run by the control plane or a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.providers.config import ProvidersConfig
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.database.installation import changed, installation, isolate
from tests.support.http.accounts import People, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import MP4
from tests.support.http.fleet_api import FleetApi
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker
from tests.support.providers.media_providers import HERE, service_table
from tests.support.providers.media_service import HTML, PNG, SECRET, MediaService, media_service, responding
from tests.support.waiting import until

COST = 4


@pytest.fixture(scope="module")
async def running_service() -> AsyncIterator[MediaService]:
    async with media_service() as service:
        yield service


@pytest.fixture
def service(running_service: MediaService) -> MediaService:
    running_service.outputs = [running_service.file("picture.png", PNG)]
    running_service.faults.clear()
    running_service.requests.clear()
    return running_service


@pytest.fixture(scope="module")
async def configured_actor_harness(
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    running_service: MediaService,
) -> AsyncIterator[ActorHarness]:
    """A control plane with the registry that its settings describe, which runs tasks itself."""
    directory = tmp_path_factory.mktemp("media-tasks")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with (
            lightbox_here(directory / "engine") as engine,
            installation(postgres, templates, directory / "home") as settings,
        ):
            providers = ProvidersConfig.model_validate(
                {"http": {"leonardo": service_table("leonardo", running_service)}, "lightbox": {"url": engine.url}}
            )
            chosen = changed(
                settings,
                providers=dict(providers),
                outgoing={"allow_networks": HERE},
                tasks={"in_process": 4, "costs": {"media": COST}},
            )
            async with (
                running_control_plane(chosen) as plane,
                httpx.AsyncClient(base_url=chosen.public_url, trust_env=False, timeout=60) as client,
            ):
                await until(lambda: plane.rooms.task_runner is not None and plane.rooms.task_runner.is_ready)
                yield ActorHarness(
                    plane,
                    client,
                    await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)),
                    {},
                )


@pytest.fixture
async def ann(configured_actor_harness: ActorHarness) -> Person:
    return await configured_actor_harness.person("pool_2")


def request_of(provider: str, **payload: Any) -> dict[str, Any]:
    return {"provider": provider, "action_type": "txt2img", "prompt": "a lighthouse", **payload}


@pytest.mark.parametrize("provider", ["leonardo", "lightbox"])
async def test_an_image_task_delivers_a_file_of_the_user(
    configured_actor_harness: ActorHarness, ann: Person, service: MediaService, provider: str
) -> None:
    params = {"width": 512, "height": 512}
    task = await configured_actor_harness.submit(
        ann, "media", request_of(provider, params=params, workflow_run_id="run-1")
    )
    shown = await configured_actor_harness.ended(ann, task)
    result = shown["result"]
    assert (result["data"]["provider"], result["data"]["action"]) == (provider, "txt2img")
    assert params.items() <= result["data"]["details"]["params"].items()
    [content_id], [url] = result["content_ids"], result["urls"]
    assert content_id
    response = await configured_actor_harness.client.get(url)
    assert (response.status_code, response.headers["content-type"]) == (200, "image/png")
    assert response.content.startswith(PNG[:8])
    assert await configured_actor_harness.balance(ann) == 100 - COST
    assert SECRET not in str(shown)


async def test_the_actor_media_accepts_the_name_that_older_clients_send(
    configured_actor_harness: ActorHarness, ann: Person, service: MediaService
) -> None:
    payload = {"provider": "leonardo", "action_type": "txt2img", "prompt": "a lighthouse"}
    body = {"payload": payload, "idempotency_key": "alias"}
    request_of = await configured_actor_harness.ask(ann, "POST", "/api/task", {**body, "task_type": "media_generation"})
    assert (request_of.status_code, request_of.json()["actor"], request_of.json()["cost"]) == (201, "media", COST)
    # The alias and the name mean the same actor, in either field.
    for names in (
        {"actor": "media", "task_type": "media_generation"},
        {"actor": "media_generation"},
        {"actor": "media_generation", "task_type": "media"},
    ):
        again = await configured_actor_harness.ask(ann, "POST", "/api/task", {**body, **names})
        assert (again.status_code, again.json()["task_id"]) == (200, request_of.json()["task_id"])
    listed = (await configured_actor_harness.ask(ann, "GET", "/api/task?actor=media_generation")).json()["items"]
    assert request_of.json()["task_id"] in [task["task_id"] for task in listed]
    other = await configured_actor_harness.ask(
        ann, "POST", "/api/task", {**body, "actor": "copy", "task_type": "media_generation"}
    )
    assert_refused(other, 422, "invalid_request", "task_type")


@pytest.mark.thorough
async def test_a_busy_service_is_retried_and_the_task_is_charged_once(
    configured_actor_harness: ActorHarness, ann: Person, service: MediaService
) -> None:
    service.faults["submit"] = [responding(503, {"error": "busy"})]
    shown = await configured_actor_harness.ended(
        ann, await configured_actor_harness.submit(ann, "media", request_of("leonardo"))
    )
    assert (shown["retry_count"], service.count("submit")) == (1, 2)
    assert await configured_actor_harness.balance(ann) == 100 - COST


async def test_a_page_instead_of_an_image_fails_the_task_and_gives_the_tokens_back(
    configured_actor_harness: ActorHarness, ann: Person, service: MediaService
) -> None:
    service.outputs = [service.file("picture.png", HTML)]
    shown = await configured_actor_harness.ended(
        ann, await configured_actor_harness.submit(ann, "media", request_of("leonardo")), "failed"
    )
    assert (shown["error"]["type"], shown["retry_count"]) == ("output_not_media", 0)
    full = await configured_actor_harness.jobs_api.full_error(ann, shown["job_id"])
    assert full["message"].startswith("leonardo returned something else")
    admin = configured_actor_harness.jobs_api.admin
    job = (await configured_actor_harness.ask(admin, "GET", f"/api/admin/jobs/{shown['job_id']}")).json()
    assert job["provider_job_id"] == full["details"]["provider_job_id"] is not None
    assert await configured_actor_harness.balance(ann) == 100


async def test_g10_a_payload_that_no_provider_takes_is_refused_by_field_and_costs_nothing(
    configured_actor_harness: ActorHarness, ann: Person
) -> None:
    for payload, field in (
        ({}, "payload.action_type"),
        (request_of("nobody"), "payload.provider"),
        (request_of("replicate", action_type="sing"), "payload.action_type"),
        (request_of("leonardo", params={"width": 1}), "payload.params.width"),
        (request_of("comfyui", action_type="effect", params={"effect": "nothing-like-it"}), "payload.params.effect"),
    ):
        problem = (await configured_actor_harness.try_submit(ann, "media", payload)).json()
        assert (problem["status"], problem["errors"][0]["field"]) == (422, field), problem
    assert await configured_actor_harness.balance(ann) == 100


async def test_a_comfyui_task_becomes_the_job_of_an_effect_for_an_engine_worker(
    configured_actor_harness: ActorHarness, ann: Person
) -> None:
    catalog_api = await configured_actor_harness.catalog_api()
    effect = await catalog_api.effect(credits_cost=7)
    params = {"effect": effect["slug"], "style": "pastel", "input_file_id": await catalog_api.file(ann)}
    for wrong, field in (
        ({"prompt": ""}, "payload.prompt"),
        ({"params": {**params, "style": "baroque"}}, "payload.params.style"),
        ({"params": {**params, "input_file_id": None}}, "payload.params.input_file_id"),
    ):
        payload = request_of("comfyui", action_type="effect", params=params) | wrong
        assert_refused(await configured_actor_harness.try_submit(ann, "media", payload), 422, "invalid_request", field)
    task = await configured_actor_harness.submit(
        ann, "media", request_of("comfyui", action_type="effect", params=params)
    )
    assert task["cost"] == 7
    secret = FleetApi(configured_actor_harness.plane, configured_actor_harness.jobs_api).secret["x-fleet-secret"]
    worker = await ScriptedWorker(configured_actor_harness.client, "engine-1").register(
        secret, workflow_slugs=[effect["workflow"]]
    )
    job = await worker.job(wait_seconds=10)
    assert job["input_payload"]["workflow"]["3"]["inputs"]["text"] == "a lighthouse, in a pastel look"
    assert (await worker.upload(job["output_url"], job["output_headers"], MP4)).is_success
    done = await worker.complete(job, output={"size": len(MP4), "mime_type": "video/mp4"})
    assert done.status_code == 200, done.text
    [url] = (await configured_actor_harness.ended(ann, task))["result"]["urls"]
    assert (await configured_actor_harness.client.get(url)).content == MP4
    assert await configured_actor_harness.balance(ann) == 93
    await worker.deregister()
