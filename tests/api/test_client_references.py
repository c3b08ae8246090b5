"""What a client calls a job: it chooses the reference, every view of the job has it, and lists are filtered by it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused

ORDER = "order 7 / Łódź"


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


async def get(client: httpx.AsyncClient, person: Person, path: str, **wanted: str) -> Any:
    response = await client.get(path, params=wanted, headers=person.headers)
    assert response.status_code == 200, response.text
    return response.json()


async def ids(client: httpx.AsyncClient, person: Person, path: str, **wanted: str) -> set[str]:
    return {job["id"] for job in (await get(client, person, path, **wanted))["items"]}


async def submit(catalog_api: CatalogApi, person: Person, effect: str, **changes: Any) -> httpx.Response:
    body = {
        "effect_id": effect,
        "input_payload": {"prompt": "a cat"},
        "input_file_id": await catalog_api.file(person),
        **changes,
    }
    return await catalog_api.client.post("/api/ai-jobs", json=body, headers=person.headers)


async def test_users_and_operators_find_a_job_by_the_reference_of_its_client(
    client: httpx.AsyncClient, catalog_api: CatalogApi
) -> None:
    ann, bob = await catalog_api.person(), await catalog_api.person("pool_2")
    effect = (await catalog_api.effect())["slug"]
    made = [
        (await submit(catalog_api, person, effect, client_reference=reference)).json()
        for person, reference in ((ann, ORDER), (ann, "order 8"), (ann, None), (bob, ORDER))
    ]
    assert [job["client_reference"] for job in made] == [ORDER, "order 8", None, ORDER]
    mine, *_, of_bob = [job["id"] for job in made]
    for path in ("/api/ai-jobs", "/api/library/jobs"):
        # The same reference of another user is another one (G6).
        assert await ids(client, ann, path, client_reference=ORDER) == {mine}
        assert await ids(client, bob, path, client_reference=ORDER) == {of_bob}
        assert await ids(client, ann, path, client_reference="order") == set()
        assert len(await ids(client, ann, path)) == 3
        assert_refused(
            await client.get(path, params={"client_reference": "a\x07"}, headers=ann.headers),
            422,
            "invalid_request",
            "query.client_reference",
        )
    assert await ids(client, catalog_api.admin, "/api/admin/jobs", client_reference=ORDER) == {mine, of_bob}
    totals = await get(client, catalog_api.admin, "/api/admin/job-totals", client_reference=ORDER)
    assert totals["jobs"] == 2
    counts = await get(client, ann, "/api/library/counts", client_reference=ORDER)
    assert counts["total"] == 1
    for person, path in (
        (ann, f"/api/ai-jobs/{mine}"),
        (ann, f"/api/library/jobs/{mine}"),
        (catalog_api.admin, f"/api/admin/tenants/{ann.tenant.id}/jobs/{mine}"),
    ):
        assert (await get(client, person, path))["client_reference"] == ORDER, path


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/task", {"actor": "echo", "payload": {"n": 1}}),
        ("/api/generate/copy", {"product": {"title": "Lamp"}}),
        ("/api/generate/scrape", {"url": "https://shop.example/lamp"}),
        ("/api/generate/static-ad", {"product": {"title": "Lamp"}}),
        ("/api/generate/video", {"product": {"title": "Lamp"}}),
        ("/api/generate/tts", {"text": "Buy the lamp."}),
    ],
)
async def test_tasks_and_typed_jobs_have_the_reference_and_their_actor_does_not_get_it(
    actor_harness: ActorHarness, path: str, body: dict[str, Any]
) -> None:
    ann = await actor_harness.person()
    made = (await actor_harness.ask(ann, "POST", path, {**body, "client_reference": f" {ORDER} "})).json()
    assert made["client_reference"] == ORDER
    job_id = made.get("job_id") or made["id"]
    assert await ids(actor_harness.client, ann, "/api/ai-jobs", client_reference=ORDER) == {job_id}
    path = f"/api/admin/tenants/{ann.tenant.id}/jobs/{job_id}"
    job = await get(actor_harness.client, actor_harness.jobs_api.admin, path)
    assert job["client_reference"] == ORDER
    assert "client_reference" not in job["payload"]
    if "task_id" in made:
        assert (await get(actor_harness.client, ann, f"/api/task/{made['task_id']}"))["client_reference"] == ORDER


@pytest.mark.parametrize("wrong", ["", "   ", "x" * 201, "a\nb", "a\x00b", "a\x7f", 7, ["a"]])
async def test_a_reference_is_one_line_of_at_most_200_characters(catalog_api: CatalogApi, wrong: object) -> None:
    ann = await catalog_api.person()
    effect = (await catalog_api.effect())["slug"]
    refused = await submit(catalog_api, ann, effect, client_reference=wrong)
    assert_refused(refused, 422, "invalid_request", "client_reference")
    longest = "\u0085" + "😀" * 199
    made = await submit(catalog_api, ann, effect, client_reference=f"a{longest[1:]}")
    assert made.status_code == 201, made.text


async def test_another_reference_with_the_same_idempotency_key_is_another_request(catalog_api: CatalogApi) -> None:
    ann = await catalog_api.person()
    effect = (await catalog_api.effect())["slug"]
    body = {"input_file_id": await catalog_api.file(ann), "idempotency_key": "once"}
    first = await submit(catalog_api, ann, effect, **body, client_reference="order 7")
    again = await submit(catalog_api, ann, effect, **body, client_reference="order 7")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["client_reference"] == "order 7"
    other = await submit(catalog_api, ann, effect, **body, client_reference="order 8")
    assert_refused(other, 422, "idempotency_key_reused", "client_reference")
