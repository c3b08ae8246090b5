"""Tasks over HTTP: submitted, run by the control plane's own worker, watched, ended; and hidden from other users."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.providers.errors import ProviderError
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.job_errors import UNKNOWN
from callsheet.wire.tasks import task_id_of
from tests.support.http.accounts import Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import MP4
from tests.support.http.event_stream import opened
from tests.support.http.fleet_api import FleetApi
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker
from tests.support.waiting import until


@pytest.fixture
async def ann(actor_harness: ActorHarness) -> Person:
    return await actor_harness.person("pool_2")


async def test_a_task_is_submitted_run_and_returned_with_its_result(actor_harness: ActorHarness, ann: Person) -> None:
    task = await actor_harness.submit(ann, "echo", {"word": "hello", "workflow_run_id": "run-1"}, max_retries=2)
    assert task["task_id"].startswith("tq_")
    expected = {
        "actor": "echo",
        "task_type": "echo",
        "queue_name": "default",
        "cost": 3,
        "payload": {"word": "hello", "workflow_run_id": "run-1"},
        "workflow_run_id": "run-1",
        "retry_count": 0,
        "max_retries": 2,
    }
    assert {name: task[name] for name in expected} == expected
    shown = await actor_harness.ended(ann, task)
    responded = {"payload": expected["payload"], "attempt": 1}
    assert shown["result"] == {"metadata_id": None, "content_ids": [], "urls": [], "outputs": [], "data": responded}
    assert (shown["progress"]["percent"], shown["progress"]["message"]) == (100, "Completed")
    assert shown["error"] is None
    assert await actor_harness.balance(ann) == 97
    [listed] = (await actor_harness.ask(ann, "GET", "/api/task?workflow_run_id=run-1")).json()["items"]
    assert listed == {**shown, "payload": None}, "lists have no payloads"
    # It is a job like every other.
    job = (await actor_harness.ask(ann, "GET", f"/api/ai-jobs/{task['job_id']}")).json()
    assert (job["kind"], job["status"]) == ("task", "completed")


async def test_files_that_a_task_made_have_urls_signed_at_each_request(
    actor_harness: ActorHarness, ann: Person
) -> None:
    actor_harness.actors["painter"].gate.clear()
    task = await actor_harness.submit(ann, "painter", {})

    async def has_progress() -> bool:
        return (await actor_harness.get(ann, task))["progress"]["percent"] == 40

    await until(has_progress)
    running = await actor_harness.get(ann, task)
    assert (running["status"], running["progress"]["message"]) == ("processing", "Mixing colours")
    assert running["progress"]["updated_at"] is not None
    actor_harness.actors["painter"].gate.set()
    result = (await actor_harness.ended(ann, task))["result"]
    assert (result["data"], result["metadata_id"]) == ({"style": "cubist"}, task["job_id"])
    [file_id] = result["content_ids"]
    [url] = result["urls"]
    assert (await actor_harness.client.get(url)).content.startswith(b"\x89PNG")
    file = (await actor_harness.ask(ann, "GET", f"/api/files/{file_id}")).json()
    assert (file["name"], file["mime_type"]) == ("picture.png", "image/png")


async def test_g9_closing_the_stream_changes_nothing_and_reconnecting_resumes(
    actor_harness: ActorHarness, ann: Person
) -> None:
    actor_harness.actors["echo"].gate.clear()
    task = await actor_harness.submit(ann, "echo", {"word": "hello"})
    address = f"/api/task/{task['task_id']}/stream"
    async with opened(actor_harness.client, ann, address) as stream:
        seen = await stream.next(3)
    actor_harness.actors["echo"].gate.set()
    await actor_harness.ended(ann, task)
    async with opened(actor_harness.client, ann, address, last_event_id=seen[-1].id) as stream:
        seen += await stream.rest()
    statuses = [event.to_status for event in seen if event.id is not None]
    assert statuses == ["pending", "queued", "processing", "completed"]
    assert {event.data["task_id"] for event in seen} == {task["task_id"]}
    async with opened(actor_harness.client, ann, address, last_event_id=seen[-1].id) as stream:
        assert stream.response.status_code == 204


async def test_users_see_the_error_and_admins_also_its_traceback(actor_harness: ActorHarness, ann: Person) -> None:
    task = await actor_harness.submit(ann, "broken", {})
    shown = await actor_harness.ended(ann, task, "failed")
    assert shown["error"] == {"type": "bad_weather", "message": UNKNOWN}
    assert (shown["progress"]["message"], shown["result"]) == ("Failed", None)
    full = await actor_harness.jobs_api.full_error(ann, task["job_id"])
    assert (full["message"], full["details"]["cloud"]) == ("It rained.", 9)
    assert full["traceback"] == "Traceback of the cloud"


@pytest.mark.parametrize("error", [ProviderError("too_dark", "It is dark."), InvalidRequest("Bring a lamp.")])
async def test_an_expected_error_keeps_its_stack_trace_and_its_attempts_for_operators(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def find_the_lamp(task: Any) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(actor_harness.actors["echo"], "response", find_the_lamp)
    task = await actor_harness.submit(ann, "echo", {}, max_retries=2)
    shown = await actor_harness.ended(ann, task, "failed")
    full = await actor_harness.jobs_api.full_error(ann, task["job_id"])
    assert "in find_the_lamp" in full["traceback"]
    assert (full["details"]["attempts"], full["details"]["max_attempts"]) == (1, 3)
    assert "find_the_lamp" not in str(shown)


async def test_operators_find_a_task_by_its_own_id(actor_harness: ActorHarness, ann: Person) -> None:
    admin = actor_harness.jobs_api.admin
    task = await actor_harness.submit(ann, "broken", {})
    await actor_harness.ended(ann, task, "failed")
    by_id = f"/api/admin/jobs/{task['task_id']}"
    of_tenant = f"/api/admin/tenants/{ann.tenant.id}/jobs/{task['task_id']}"
    for path in (by_id, of_tenant):
        assert (await actor_harness.ask(admin, "GET", path)).json()["id"] == task["job_id"]
    assert (await actor_harness.ask(admin, "GET", f"{by_id}/waterfall")).json()["job_id"] == task["job_id"]
    assert (await actor_harness.ask(admin, "GET", f"{by_id}/error-group")).json()["example"]["job_id"]
    listed = (await actor_harness.ask(admin, "GET", f"/api/admin/jobs?job_id={task['task_id']}")).json()["items"]
    assert [each["task_id"] for each in listed] == [task["task_id"]]
    assert (await actor_harness.ask(admin, "POST", f"{by_id}/retry")).json()["id"] == task["job_id"]
    await actor_harness.ended(ann, task, "failed")
    assert_refused(await actor_harness.ask(admin, "POST", f"{of_tenant}/cancel"), 409, "invalid_transition")
    assert_refused(await actor_harness.ask(admin, "GET", "/api/admin/jobs/tq_1"), 422, "invalid_request", "path.job_id")


async def test_a_failed_task_is_retried_and_the_retry_is_counted(actor_harness: ActorHarness, ann: Person) -> None:
    task = await actor_harness.submit(ann, "broken", {})
    await actor_harness.ended(ann, task, "failed")
    response = await actor_harness.ask(ann, "POST", f"/api/task/{task['task_id']}/retry")
    assert response.status_code == 200, response.text
    assert response.json()["retry_count"] == 1
    await actor_harness.ended(ann, task, "failed")
    assert len(actor_harness.actors["broken"].tasks) == 2


async def test_canceling_a_task_stops_its_actor(actor_harness: ActorHarness, ann: Person) -> None:
    echo = actor_harness.actors["echo"]
    echo.gate.clear()
    task = await actor_harness.submit(ann, "echo", {})
    await until(lambda: echo.tasks)
    canceled = (await actor_harness.ask(ann, "POST", f"/api/task/{task['task_id']}/cancel")).json()
    assert (canceled["status"], await actor_harness.balance(ann)) == ("canceled", 100)
    again = await actor_harness.ask(ann, "POST", f"/api/task/{task['task_id']}/cancel")
    assert_refused(again, 409, "invalid_transition")


async def test_a_waiting_task_shows_why_it_waits(actor_harness: ActorHarness, ann: Person) -> None:
    limited = actor_harness.actors["limited"]
    limited.gate.clear()
    payload = {"identifier": f"one-at-a-time-{uuid7()}", "limit": 1}
    first = await actor_harness.submit(ann, "limited", payload)
    await until(lambda: limited.tasks)
    second = await actor_harness.submit(ann, "limited", payload)
    assert second["status"] == "queued"
    assert (second["progress"]["percent"], second["progress"]["message"]) == (0, "Queued")
    assert second["why_waiting"]["code"] == "provider_at_limit"
    limited.gate.set()
    await actor_harness.ended(ann, first)
    await actor_harness.ended(ann, second)


async def test_g5_a_repeated_key_returns_the_same_task_and_charges_once(
    actor_harness: ActorHarness, ann: Person
) -> None:
    key = {"idempotency_key": "key-1"}
    responses = await asyncio.gather(*(actor_harness.try_submit(ann, "echo", {"n": 1}, **key) for _ in range(5)))
    assert sorted(response.status_code for response in responses) == [200, 200, 200, 200, 201]
    replayed = [response.headers.get("idempotent-replayed") for response in responses]
    assert (replayed.count("true"), replayed.count(None)) == (4, 1)
    assert len({response.json()["task_id"] for response in responses}) == 1
    assert await actor_harness.balance(ann) == 97
    # `task_type` is the same request; another payload is not.
    same = await actor_harness.ask(ann, "POST", "/api/task", {"task_type": "echo", "payload": {"n": 1}, **key})
    assert (same.status_code, same.json()["task_id"]) == (200, responses[0].json()["task_id"])
    assert_refused(
        await actor_harness.try_submit(ann, "echo", {"n": 2}, **key), 422, "idempotency_key_reused", "payload.n"
    )


async def test_tasks_are_listed_by_run_status_actor_and_queue(actor_harness: ActorHarness, ann: Person) -> None:
    run = {"workflow_run_id": "the run"}
    made = [await actor_harness.submit(ann, "echo", run) for _ in range(3)]
    made.append(await actor_harness.submit(ann, "picky", {**run, "word": "a"}, queue_name="fast"))
    other = await actor_harness.submit(ann, "echo", {"workflow_run_id": "another"})
    for task in (*made, other):
        await actor_harness.ended(ann, task)
    bob = await actor_harness.person(tenant_of=ann)
    await actor_harness.submit(bob, "echo", run)

    async def listed(query: str) -> list[str]:
        page = (await actor_harness.ask(ann, "GET", f"/api/task?{query}")).json()
        return [task["task_id"] for task in page["items"]]

    ids = [task["task_id"] for task in reversed(made)]
    assert await listed("workflow_run_id=the%20run") == ids
    assert await listed("workflow_run_id=the%20run&actor=echo") == ids[1:]
    assert await listed("workflow_run_id=the%20run&task_type=echo") == ids[1:]
    assert await listed("actor=echo&task_type=echo") == [other["task_id"], *ids[1:]]
    assert_refused(
        await actor_harness.ask(ann, "GET", "/api/task?actor=echo&task_type=picky"), 422, "invalid_request", "task_type"
    )
    assert await listed("workflow_run_id=the%20run&queue_name=fast") == ids[:1]
    assert await listed("status=completed") == [other["task_id"], *ids]
    assert await listed("status=failed") == []
    assert await listed("actor=picky&queue_name=fast") == ids[:1]
    pages, cursor = [], ""
    while True:
        page = (await actor_harness.ask(ann, "GET", f"/api/task?workflow_run_id=the%20run&limit=3{cursor}")).json()
        pages += [task["task_id"] for task in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert pages == ids


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "actor"),
        ({"actor": "nobody"}, "actor"),
        ({"actor": "Echo!"}, "actor"),
        ({"actor": "echo", "task_type": "picky"}, "task_type"),
        ({"actor": "echo", "queue_name": "slow"}, "queue_name"),
        ({"actor": "echo", "queue_name": "../x"}, "queue_name"),
        ({"actor": "echo", "priority": 1}, "priority"),
        ({"actor": "echo", "priority": True}, "priority"),
        ({"actor": "echo", "max_retries": 21}, "max_retries"),
        ({"actor": "echo", "max_retries": -1}, "max_retries"),
        ({"actor": "echo", "payload": []}, "payload"),
        ({"actor": "echo", "payload": {"workflow_run_id": ""}}, "payload.workflow_run_id"),
        ({"actor": "echo", "payload": {"workflow_run_id": "x" * 201}}, "payload.workflow_run_id"),
        ({"actor": "echo", "payload": {"workflow_run_id": 7}}, "payload.workflow_run_id"),
        ({"actor": "echo", "surprise": 1}, "surprise"),
        ({"actor": "picky"}, "payload.word"),
        ({"actor": "careless"}, "payload"),
        ({"actor": "limited", "payload": {"identifier": "", "limit": 1}}, "payload"),
        ({"actor": "limited", "payload": {"identifier": "x", "limit": -1}}, "payload"),
        ({"actor": "limited", "payload": {"identifier": "x", "limit": 2**31}}, "payload"),
        ({"actor": "limited", "payload": {"identifier": "x", "limit": 1.5}}, "payload"),
        ({"actor": "limited", "payload": {"identifier": "x\ny", "limit": 1}}, "payload"),
        ({"actor": "engine", "payload": {"effect": "no-such-effect"}}, "payload.effect_id"),
        ({"actor": "engine", "payload": {"effect": "Not A Slug"}}, "payload.effect_id"),
    ],
)
async def test_g10_a_task_that_cannot_be_run_is_refused_by_its_field(
    actor_harness: ActorHarness, ann: Person, body: dict[str, Any], field: str
) -> None:
    response = await actor_harness.ask(ann, "POST", "/api/task", body)
    problem = assert_refused(response, 422, "invalid_request", field)
    if body.get("actor") == "nobody":
        assert "echo, engine" in problem["errors"][0]["reason"]
    assert (await actor_harness.ask(ann, "GET", "/api/task")).json()["items"] == []
    assert await actor_harness.balance(ann) == 100


async def test_an_admin_may_set_the_priority_of_a_task(actor_harness: ActorHarness) -> None:
    await actor_harness.jobs_api.credit(actor_harness.jobs_api.admin, 10)
    assert (await actor_harness.submit(actor_harness.jobs_api.admin, "echo", {}, priority=7))["priority"] == 7


async def test_a_task_without_enough_tokens_is_refused(actor_harness: ActorHarness) -> None:
    poor = await actor_harness.person(tokens=2)
    assert_refused(await actor_harness.try_submit(poor, "echo"), 402, "insufficient_tokens")


async def test_g6_a_task_of_another_user_is_not_found(actor_harness: ActorHarness, ann: Person) -> None:
    task = await actor_harness.submit(ann, "echo", {})
    await actor_harness.ended(ann, task)
    strangers = [
        await actor_harness.person("pool_1"),
        await actor_harness.person(tenant_of=ann),
        actor_harness.jobs_api.admin,
    ]
    ids = [task["task_id"], task_id_of(uuid7()), "tq_x", task["job_id"], "x" * 99]
    for person, task_id in [(person, ids[0]) for person in strangers] + [(ann, each) for each in ids[1:]]:
        for method, path in (("GET", ""), ("GET", "/stream"), ("POST", "/cancel"), ("POST", "/retry")):
            response = await actor_harness.ask(person, method, f"/api/task/{task_id}{path}")
            assert_refused(response, 404, "not_found")


async def test_a_job_that_is_not_a_task_is_not_found_among_tasks(actor_harness: ActorHarness, ann: Person) -> None:
    job = await actor_harness.jobs_api.submit(ann, cost=0)
    response = await actor_harness.ask(ann, "GET", f"/api/task/{task_id_of(UUID(job['id']))}")
    assert_refused(response, 404, "not_found")
    assert (await actor_harness.ask(ann, "GET", "/api/task")).json()["items"] == []


async def test_actors_are_listed_with_queues_and_cost_and_can_be_switched_off(
    actor_harness: ActorHarness, ann: Person
) -> None:
    actors = {each["name"]: each for each in (await actor_harness.ask(ann, "GET", "/api/actors")).json()}
    assert actors["echo"] == {
        "name": "echo",
        "title": "Echo",
        "description": "",
        "queues": ["default", "fast"],
        "cost": 3,
        "is_active": True,
        "is_ready": True,
        "makes_images": True,
        "payload_schema": {"type": "object", "additionalProperties": True},
        "example": None,
        "variants": [],
    }
    assert set(actors) == set(actor_harness.actors)
    admin = actor_harness.jobs_api.admin
    switched = await actor_harness.ask(admin, "POST", "/api/admin/workflows/actor:tts:fast/deactivate")
    assert switched.status_code == 200, switched.text

    async def is_off() -> bool:
        response = await actor_harness.try_submit(ann, "tts", queue_name="fast")
        return response.status_code == 422

    await until(is_off)
    assert_refused(await actor_harness.try_submit(ann, "tts", queue_name="fast"), 422, "invalid_request", "actor")
    # Another control plane that starts leaves it switched off.
    await actor_harness.plane.rooms.tasks.actors.keep()
    shown = (await actor_harness.ask(admin, "GET", "/api/admin/workflows/actor:tts:fast")).json()
    assert (shown["is_active"], shown["graph"]) == (False, None)


async def test_actors_are_listed_among_the_workflows_only_on_request(actor_harness: ActorHarness) -> None:
    async def listed(query: str) -> set[str]:
        page = (
            await actor_harness.ask(actor_harness.jobs_api.admin, "GET", f"/api/admin/workflows?limit=200{query}")
        ).json()
        return {workflow["slug"] for workflow in page["items"]}

    assert not [slug for slug in await listed("") if slug.startswith("actor:")]
    assert {"actor:echo", "actor:echo:fast", actor_harness.jobs_api.workflow} <= await listed("&with_actors=true")
    effect = {"slug": "no-effect", "name": "No effect", "workflow": "actor:echo"}
    refused = await actor_harness.ask(actor_harness.jobs_api.admin, "POST", "/api/admin/effects", effect)
    assert_refused(refused, 422, "invalid_request", "workflow")


async def test_providers_are_listed_with_a_preview_of_a_request(actor_harness: ActorHarness, ann: Person) -> None:
    [provider] = (await actor_harness.ask(ann, "GET", "/api/providers")).json()
    assert provider == {
        "name": "sketches",
        "finish": "sync",
        "actions": ["img2img", "txt2img"],
        "costs": {"img2img": None, "txt2img": None},
    }

    async def preview(name: str = "sketches", **body: Any) -> httpx.Response:
        request = {"action_type": "txt2img", "prompt": "a cat", **body}
        return await actor_harness.ask(ann, "POST", f"/api/providers/{name}/preview", request)

    shown = (await preview(params={"pictures": 4})).json()
    assert shown == {"provider": "sketches", "action_type": "txt2img", "info": {"pictures": 4}}
    assert_refused(await preview("nobody"), 404, "not_found")
    assert_refused(await preview(action_type="sing"), 422, "invalid_request", "action_type")
    assert_refused(await preview(prompt=""), 422, "invalid_request", "prompt")
    # One of another package, which did not think of it.
    assert_refused(await preview(params={"pictures": "many"}), 422, "invalid_request", "params")


async def test_a_task_for_an_engine_becomes_the_job_of_an_effect_and_stays_a_task(
    actor_harness: ActorHarness, ann: Person
) -> None:
    catalog_api = await actor_harness.catalog_api()
    effect = await catalog_api.effect(credits_cost=7)
    file_id = await catalog_api.file(ann)
    payload = {"effect": effect["slug"], "params": {"prompt": "a cat"}, "input_file_id": file_id}
    task = await actor_harness.submit(ann, "engine", payload, max_retries=0)
    assert (task["cost"], task["payload"], task["max_retries"]) == (7, payload, 0)
    assert await actor_harness.balance(ann) == 93
    secret = FleetApi(actor_harness.plane, actor_harness.jobs_api).secret["x-fleet-secret"]
    worker = await ScriptedWorker(actor_harness.client, "engine-1").register(
        secret, workflow_slugs=[effect["workflow"]]
    )
    job = await worker.job(wait_seconds=10)
    assert (job["kind"], job["actor"], job["effect_id"]) == ("task", "engine", effect["id"])
    assert await worker.download(job["input_url"]) == MP4
    uploaded = await worker.upload(job["output_url"], job["output_headers"], MP4)
    assert uploaded.is_success
    done = await worker.complete(job, output={"size": len(MP4), "mime_type": "video/mp4"})
    assert done.status_code == 200, done.text
    shown = await actor_harness.ended(ann, task)
    [url] = shown["result"]["urls"]
    assert (await actor_harness.client.get(url)).content == MP4
    # What the catalog made of it names objects in storage, which are not the user's to know.
    assert (shown["payload"], "tenants/" in str(shown["payload"])) == (payload, False)
    await worker.deregister()


async def test_errors_of_a_task_for_an_engine_name_the_field_of_its_payload(
    actor_harness: ActorHarness, ann: Person
) -> None:
    catalog_api = await actor_harness.catalog_api()
    effect = await catalog_api.effect()
    theirs = await catalog_api.file(await actor_harness.person(tenant_of=ann))
    for changes, field in (
        ({"params": {}}, "payload.params.prompt"),
        ({"input_file_id": None}, "payload.input_file_id"),
        ({"input_file_id": theirs}, "payload.input_file_id"),
        ({"input_file_id": "x"}, "payload.input_file_id"),
    ):
        payload = {"effect": effect["slug"], "params": {"prompt": "a cat"}, "input_file_id": theirs, **changes}
        assert_refused(await actor_harness.try_submit(ann, "engine", payload), 422, "invalid_request", field)
    assert (await actor_harness.ask(ann, "GET", "/api/task")).json()["items"] == []


@pytest.mark.thorough
async def test_g7_a_task_payload_that_looks_like_an_engine_payload_gets_no_signed_urls(
    actor_harness: ActorHarness, ann: Person
) -> None:
    """A user's own word must not be signed for: it may name what a colleague has in storage."""
    path = f"tenants/{ann.tenant.id}/uploads/somebody-elses/clip.mp4"
    payload = {"workflow": {}, "assets": [{"key": "a", "placeholder": "b", "path": path, "is_primary_input": True}]}
    task = await actor_harness.submit(ann, "echo", payload)
    shown = await actor_harness.ended(ann, task)
    assert shown["result"]["data"]["payload"] == payload
