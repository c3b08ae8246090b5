"""Metadata of jobs, tasks and runs: texts of a client are returned, streamed, and lists are filtered by them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused
from tests.support.pipelines.pipeline_harness import BASE

COLORS = {"color": "red: dark", "order.id": "7", "empty": ""}


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


async def listed(client: httpx.AsyncClient, person: Person, path: str, *pairs: str) -> list[str]:
    response = await client.get(path, params={"metadata": list(pairs)}, headers=person.headers)
    assert response.status_code == 200, response.text
    return [each["id"] for each in response.json()["items"]]


async def test_a_submit_returns_all_that_get_returns_and_lists_find_the_job(
    client: httpx.AsyncClient, catalog_api: CatalogApi
) -> None:
    ann, bob = await catalog_api.person(), await catalog_api.person("pool_2")
    effect = await catalog_api.effect()
    file_id = await catalog_api.file(ann)
    fields = {"input_file_id": file_id, "metadata": COLORS, "client_reference": "order 7", "idempotency_key": "once"}
    made = await catalog_api.submit(ann, effect, **fields)
    other = await catalog_api.submit(ann, effect, input_file_id=file_id, metadata={"color": "blue"})
    shown = (await client.get(f"/api/ai-jobs/{made['id']}", headers=ann.headers)).json()
    replayed = (await catalog_api.try_submit(ann, effect, **fields)).json()
    for name in ("metadata", "client_reference", "idempotency_key", "title", "prompt", "input_payload", "kind", "cost"):
        assert made[name] == shown[name] == replayed[name] is not None, name
    assert made["metadata"] == COLORS
    assert made.keys() == shown.keys()

    jobs = "/api/ai-jobs"
    assert await listed(client, ann, jobs, "color:red: dark") == [made["id"]]
    assert await listed(client, ann, jobs, "color:red: dark", "order.id:7") == [made["id"]]
    assert await listed(client, ann, jobs, "color:red: dark", "order.id:8") == []
    assert await listed(client, ann, jobs, "empty:") == [made["id"]]
    assert await listed(client, ann, jobs) == [other["id"], made["id"]]
    assert await listed(client, bob, jobs, "color:red: dark") == []
    for wrong in ("color", ":red", "a b:c", "a:\x07"):
        response = await client.get(jobs, params={"metadata": wrong}, headers=ann.headers)
        assert_refused(response, 422, "invalid_request", "query.metadata.0")
    changed = await catalog_api.try_submit(ann, effect, **fields | {"metadata": {**COLORS, "color": "blue"}})
    assert_refused(changed, 422, "idempotency_key_reused", "metadata.color")


async def test_the_stream_says_what_the_client_calls_the_job(
    client: httpx.AsyncClient, catalog_api: CatalogApi
) -> None:
    ann = await catalog_api.person()
    effect = await catalog_api.effect()
    fields = {"metadata": COLORS, "client_reference": "order 7"}
    job = await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann), **fields)
    await client.post(f"/api/ai-jobs/{job['id']}/cancel", headers=ann.headers)
    stream = await client.get(f"/api/ai-jobs/{job['id']}/stream", headers=ann.headers)
    events = [line for line in stream.text.splitlines() if line.startswith("data: ") and '"seq"' in line]
    assert len(events) >= 2
    assert all('"order.id":"7"' in line and '"client_reference":"order 7"' in line for line in events), events


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({f"key_{number}": "" for number in range(21)}, "metadata"),
        ({str(number): "x" * 1000 for number in range(5)}, "metadata"),
        ({str(number): "ł" * 500 for number in range(5)}, "metadata"),
        ({"a": 1}, "metadata.a"),
        ({"a": {"b": "c"}}, "metadata.a"),
        ({"a": "x" * 1001}, "metadata.a"),
        ({"a": "b\x00"}, "metadata.a"),
        ({"a b": "c"}, "metadata.a b.[key]"),
        ({"": "c"}, "metadata..[key]"),
        ({"k" * 41: "c"}, f"metadata.{'k' * 41}.[key]"),
        ("a", "metadata"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_metadata_is_a_small_object_of_texts(catalog_api: CatalogApi, wrong: object, field: str) -> None:
    ann = await catalog_api.person()
    refused = await catalog_api.try_submit(ann, {"slug": "any"}, metadata=wrong)
    assert_refused(refused, 422, "invalid_request", field)


async def test_tasks_have_metadata_and_their_actor_does_not_get_it(actor_harness: ActorHarness) -> None:
    ann = await actor_harness.person()
    body = {"actor": "echo", "payload": {"n": 1}, "metadata": COLORS}
    made = (await actor_harness.ask(ann, "POST", "/api/task", body)).json()
    assert made["metadata"] == COLORS
    assert made["payload"] == {"n": 1}
    assert (await actor_harness.ask(ann, "GET", f"/api/task/{made['task_id']}")).json()["metadata"] == COLORS
    assert await listed(actor_harness.client, ann, "/api/ai-jobs", "order.id:7") == [made["job_id"]]


async def test_runs_have_metadata_and_a_reference(client: httpx.AsyncClient, catalog_api: CatalogApi) -> None:
    ann = await catalog_api.person(tokens=100)
    workflow = await catalog_api.sold_image_workflow(BASE | {"save": BASE["9"]})
    steps = [{"name": "Base", "workflow": workflow, "needs_run_prompt": True}]
    await catalog_api.made("/api/pipelines", {"slug": "labels", "name": "Labels", "steps": steps}, person=ann)
    body: dict[str, Any] = {"name": "A run", "budget": 100, "prompt": "a gym"}
    path = "/api/pipelines/labels/runs"
    made = await catalog_api.made(path, {**body, "metadata": COLORS, "client_reference": "order 7"}, person=ann)
    other = await catalog_api.made(path, body, person=ann)
    assert (made["metadata"], made["client_reference"]) == (COLORS, "order 7")
    assert (other["metadata"], other["client_reference"]) == (None, None)
    shown = (await client.get(f"/api/runs/{made['id']}", headers=ann.headers)).json()
    assert (shown["metadata"], shown["client_reference"]) == (COLORS, "order 7")
    for runs in ("/api/runs", path):
        assert await listed(client, ann, runs, "order.id:7") == [made["id"]]
        assert await listed(client, ann, runs) == [other["id"], made["id"]]
        found = await client.get(runs, params={"client_reference": "order 7"}, headers=ann.headers)
        assert [run["id"] for run in found.json()["items"]] == [made["id"]]
