"""The header Idempotency-Key of every request that creates a job, a task or a run: it is the key of the body (G5)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.idempotency import DIFFERENT
from tests.support.http.accounts import People, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import MP4, CatalogApi
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused
from tests.support.pipelines.pipeline_harness import BASE

# Other requests: tests/api/test_kept_responses.py.
CREATED = ("Job", "Task", "Run")
KEY = "order-7"


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person(tokens=100)


async def assert_created_once(client: httpx.AsyncClient, person: Person, path: str, body: dict[str, Any]) -> None:
    """Sends the request with the key in the header, in the body and in both: they are one request."""

    async def send(header: str | None, **fields: Any) -> httpx.Response:
        headers = person.headers | ({} if header is None else {"Idempotency-Key": header})
        return await client.post(path, json=body | fields, headers=headers)

    first = await send(KEY)
    assert first.status_code == 201, first.text
    assert "idempotent-replayed" not in first.headers
    assert first.json()["idempotency_key"] == KEY
    for again in (
        await send(KEY),
        await send(None, idempotency_key=KEY),
        await send(KEY, idempotency_key=KEY),
    ):
        assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true"), again.text
        names = ("id", "task_id")
        assert {again.json().get(name) for name in names} == {first.json().get(name) for name in names}
    refused = assert_refused(await send(KEY, idempotency_key="order-8"), 422, "invalid_request", "idempotency_key")
    assert DIFFERENT in refused["detail"]
    for wrong in ("", "x" * 201):
        assert_refused(await send(wrong), 422, "invalid_request", "header.idempotency-key")


async def balance(client: httpx.AsyncClient, person: Person) -> int:
    return int((await client.get("/api/wallet", headers=person.headers)).json()["balance"])


async def test_g5_an_effect_job_with_the_same_header_is_charged_once(
    client: httpx.AsyncClient, catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=10)
    body = {
        "effect_id": effect["slug"],
        "input_payload": {"prompt": "a cat"},
        "input_file_id": await catalog_api.file(ann),
    }
    await assert_created_once(client, ann, "/api/ai-jobs", body)
    assert await balance(client, ann) == 90
    # Another request with the same header is refused, as with the field.
    changed = {**body, "input_payload": {"prompt": "a dog"}}
    headers = ann.headers | {"Idempotency-Key": KEY}
    refused = assert_refused(
        await client.post("/api/ai-jobs", json=changed, headers=headers),
        422,
        "idempotency_key_reused",
        "input_payload.prompt",
    )
    # The refusal names the job that has the key, and the list finds it by the key.
    for wanted, found in ((KEY, [refused["job_id"]]), ("order-8", [])):
        listed = await client.get("/api/ai-jobs", params={"idempotency_key": wanted}, headers=ann.headers)
        assert [job["id"] for job in listed.json()["items"]] == found
    bob = await catalog_api.person("pool_2")
    listed = await client.get("/api/ai-jobs", params={"idempotency_key": KEY}, headers=bob.headers)
    assert listed.json()["items"] == []
    # Other filters apply, too.
    canceled = {"idempotency_key": KEY, "status": "canceled"}
    listed = await client.get("/api/ai-jobs", params=canceled, headers=ann.headers)
    assert listed.json()["items"] == []


async def test_g5_the_same_bytes_under_a_new_file_id_are_the_same_request(
    client: httpx.AsyncClient, catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=10)
    headers = ann.headers | {"Idempotency-Key": KEY}

    async def send(file_id: str, prompt: str = "a cat") -> httpx.Response:
        body = {"effect_id": effect["slug"], "input_payload": {"prompt": prompt}, "input_file_id": file_id}
        return await client.post("/api/ai-jobs", json=body, headers=headers)

    first = await send(await catalog_api.file(ann))
    again = await catalog_api.file(ann)
    replayed = await send(again)
    assert (replayed.status_code, replayed.json()["id"]) == (200, first.json()["id"])
    other = await catalog_api.file(ann, MP4 + b"other")
    bobs = await catalog_api.file(await catalog_api.person())
    for file_id, prompt, fields in (
        (other, "a cat", ["input_file_id"]),
        (again, "a dog", ["input_payload.prompt"]),
        (other, "a dog", ["input_file_id", "input_payload.prompt"]),
        # The file of another user has the same bytes, and is not looked at (G6).
        (bobs, "a cat", ["input_file_id"]),
    ):
        refused = assert_refused(await send(file_id, prompt), 422, "idempotency_key_reused", *fields)
        assert refused["job_id"] == first.json()["id"]
    assert await balance(client, ann) == 90


async def test_g5_a_ready_job_with_the_same_header_is_charged_once(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    jobs_api = await JobsApi.open(plane, client, people)
    ann = await jobs_api.person(tokens=100)
    await assert_created_once(client, jobs_api.admin, "/api/admin/jobs", jobs_api.request(ann))
    assert await balance(client, ann) == 90


async def test_g5_a_task_with_the_same_header_is_charged_once(actor_harness: ActorHarness) -> None:
    ann = await actor_harness.person()
    await assert_created_once(actor_harness.client, ann, "/api/task", {"actor": "echo", "payload": {"n": 1}})
    assert await actor_harness.balance(ann) == 97


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("copy", {"product": {"title": "Lamp"}}),
        ("scrape", {"url": "https://shop.example/lamp"}),
        ("static-ad", {"product": {"title": "Lamp"}}),
        ("video", {"product": {"title": "Lamp"}}),
        ("tts", {"text": "Buy the lamp."}),
    ],
)
async def test_g5_a_typed_job_with_the_same_header_is_charged_once(
    actor_harness: ActorHarness, kind: str, fields: dict[str, Any]
) -> None:
    ann = await actor_harness.person()
    await assert_created_once(actor_harness.client, ann, f"/api/generate/{kind}", fields)
    listed = (await actor_harness.ask(ann, "GET", "/api/wallet/transactions")).json()["items"]
    assert [line["type"] for line in listed].count("JOB_RESERVE") == 1


async def test_a_run_with_the_same_header_is_started_once(
    client: httpx.AsyncClient, catalog_api: CatalogApi, ann: Person
) -> None:
    workflow = await catalog_api.sold_image_workflow(BASE | {"save": BASE["9"]})
    steps = [{"name": "Base", "workflow": workflow, "needs_run_prompt": True}]
    pipeline = {"slug": "keys", "name": "Keys", "steps": steps}
    await catalog_api.made("/api/pipelines", pipeline, person=ann)
    body = {"name": "A run", "budget": 100, "prompt": "a gym"}
    await assert_created_once(client, ann, "/api/pipelines/keys/runs", body)
    runs = (await client.get("/api/runs", headers=ann.headers)).json()["items"]
    assert len(runs) == 1
    # Lists find the run by its key, with their other filters.
    for path, query, found in (
        ("/api/runs", {}, 1),
        ("/api/pipelines/keys/runs", {}, 1),
        ("/api/runs", {"status": "canceled"}, 0),
        ("/api/runs", {"idempotency_key": "order-8"}, 0),
    ):
        listed = await client.get(path, params={"idempotency_key": KEY} | query, headers=ann.headers)
        assert [run["id"] for run in listed.json()["items"]] == [run["id"] for run in runs][:found]
    bob = await catalog_api.person("pool_2")
    assert (await client.get("/api/runs", params={"idempotency_key": KEY}, headers=bob.headers)).json()["items"] == []


async def test_a_test_run_with_the_same_header_runs_once(client: httpx.AsyncClient, catalog_api: CatalogApi) -> None:
    made = await catalog_api.workflow()
    body = {"input_file_id": await catalog_api.file(catalog_api.admin), "input_payload": {"prompt": "a dog"}}
    await assert_created_once(client, catalog_api.admin, f"/api/admin/workflows/{made['slug']}/test-runs", body)


async def test_every_request_that_creates_work_documents_the_header(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    found = set()
    for path, methods in document["paths"].items():
        operation = methods.get("post", {})
        created = operation.get("responses", {}).get("201", {}).get("content", {}).get("application/json", {})
        if created.get("schema", {}).get("$ref", "").rpartition("/")[2] not in CREATED:
            continue
        found.add(path)
        assert "idempotency-key" in [each["name"] for each in operation["parameters"] if each["in"] == "header"], path
        body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert "idempotency_key" in schemas[body]["properties"], path
        assert "200" in operation["responses"], path
    assert len(found) == 11, found
