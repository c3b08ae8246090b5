"""Batches over HTTP: items and grids, refusals that name the item, repeated requests, lists, and the archive."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.http.responses import assert_limit, assert_refused
from tests.support.jobs.batches import submit_batch
from tests.support.jobs.core import Member
from tests.support.jobs.race_control import open_transaction, start_blocked

BATCHES = "/api/batches"


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person(tokens=100)


@pytest.fixture
async def media(plane: ControlPlane) -> AsyncIterator[MediaApi]:
    async with MediaApi.opened(plane) as media_api:
        yield media_api


async def submit(api: CatalogApi, person: Person, effect: dict[str, Any], **body: Any) -> httpx.Response:
    request = {"effect_id": effect["slug"], "input_payload": {"prompt": "a cat"}, **body}
    return await api.call("POST", BATCHES, request, person=person)


async def jobs_of(api: CatalogApi, person: Person, batch: dict[str, Any]) -> list[dict[str, Any]]:
    """The jobs in the order of their items."""
    page = await api.shown(person, f"/api/ai-jobs?batch_id={batch['id']}&limit=200")
    return [await api.shown(person, f"/api/ai-jobs/{job['id']}") for job in reversed(page["items"])]


async def test_each_item_is_a_job_with_its_own_values_and_one_price_is_held(
    catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    files = [await catalog_api.file(ann, name=f"{name}.mp4") for name in "abc"]
    items: list[dict[str, Any]] = [{"input_file_id": file_id} for file_id in files]
    items[1] |= {"input_payload": {"strength": 2}, "client_reference": "page 2", "metadata": {"page": "2"}}
    response = await submit(
        catalog_api, ann, effect, items=items, client_reference="order 7", metadata={"color": "red"}, priority=-1
    )
    assert response.status_code == 201, response.text
    batch = response.json()
    assert batch["counts"] == {"active": 3, "completed": 0, "failed": 0, "canceled": 0, "expired": 0}
    assert (batch["items"], batch["cost"], batch["status"], batch["title"]) == (3, 15, "running", effect["name"])
    assert (batch["client_reference"], batch["metadata"]) == ("order 7", {"color": "red"})
    assert (await catalog_api.shown(ann, "/api/wallet"))["balance"] == 85
    jobs = await jobs_of(catalog_api, ann, batch)
    assert [job["batch_item"] for job in jobs] == [1, 2, 3]
    assert {job["batch_id"] for job in jobs} == {batch["id"]}
    assert [job["inputs"][0]["name"] for job in jobs] == ["a.mp4", "b.mp4", "c.mp4"]
    assert [job["input_payload"].get("strength") for job in jobs] == [None, 2, None]
    assert {job["input_payload"]["prompt"] for job in jobs} == {"a cat"}
    assert [(job["client_reference"], job["metadata"]) for job in jobs[1:]] == [("page 2", {"page": "2"}), (None, None)]
    assert {job["priority"] for job in jobs} == {-1}
    library = await catalog_api.shown(ann, f"/api/library/jobs?batch_id={batch['id']}")
    assert [item["batch_item"] for item in library["items"]] == [3, 2, 1]
    assert (await catalog_api.shown(ann, f"/api/library/counts?batch_id={batch['id']}"))["total"] == 3
    for wanted, number in (("client_reference=order+7", 1), ("metadata=color:red", 1), ("metadata=color:blue", 0)):
        assert len((await catalog_api.shown(ann, f"{BATCHES}?{wanted}"))["items"]) == number
    assert await catalog_api.shown(ann, f"{BATCHES}/{batch['id']}") == batch


async def test_a_grid_makes_an_item_of_each_combination(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    files = [await catalog_api.file(ann, name=f"{name}.mp4") for name in "ab"]
    grid = {"input_file_ids": files, "values": {"strength": [1, 2], "style": ["noir", "pastel"]}}
    batch = (await submit(catalog_api, ann, effect, grid=grid)).json()
    jobs = await jobs_of(catalog_api, ann, batch)
    made = [
        (job["inputs"][0]["name"][0], job["input_payload"]["strength"], job["input_payload"]["style"]) for job in jobs
    ]
    assert made == [(file, strength, style) for file in "ab" for strength in (1, 2) for style in ("noir", "pastel")]
    zipped = {"mode": "zipped", "input_file_ids": files, "values": {"strength": [1, 2]}}
    batch = (await submit(catalog_api, ann, effect, grid=zipped)).json()
    made = [
        (job["inputs"][0]["name"][0], job["input_payload"]["strength"])
        for job in await jobs_of(catalog_api, ann, batch)
    ]
    assert made == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({}, "items", "Send either items or grid."),
        ({"items": [{}], "grid": {"values": {"strength": [1]}}}, "items", "Send either items or grid."),
        ({"items": []}, "items", None),
        ({"items": [{}] * 1001}, "items", None),
        ({"items": [{"color": "red"}]}, "items.0.color", None),
        ({"grid": {}}, "grid", "The grid has no list"),
        ({"grid": {"values": {"strength": []}}}, "grid.values.strength", None),
        ({"grid": {"values": {"strength": [1] * 40, "style": ["noir"] * 26}}}, "grid", "1040 combinations. The limit"),
        (
            {"grid": {"mode": "zipped", "values": {"strength": [1, 2], "style": ["noir"]}}},
            "grid",
            "different lengths: 1, 2.",
        ),
        ({"grid": {"values": {"strength": [99, 1], "style": ["noir"]}}}, "grid.values.strength.0", None),
        ({"grid": {"values": {"strength": [1]}}}, "grid.input_file_ids", "This effect needs a file."),
        ({"items": [{"input_payload": {"strength": 99}}]}, "items.0.input_payload.strength", None),
        ({"items": [{}]}, "items.0.input_file_id", "This effect needs a file."),
        ({"items": [{"input_payload": {"seed": 1}}]}, "items.0.input_payload.seed", "Users cannot set"),
        ({"items": [{}], "input_payload": {"prompt": 7}}, "input_payload.prompt", None),
        ({"items": [{}], "priority": 5}, "priority", None),
        ({"items": [{}], "webhook_url": "nowhere"}, "webhook_url", "Use a URL"),
        ({"items": [{}], "effect_id": "nothing"}, "effect_id", None),
        (
            {"items": [{"input_file_id": "00000000-0000-4000-8000-000000000000"}]},
            "items.0.input_file_id",
            "no such file",
        ),
    ],
)
async def test_g10_a_refusal_names_the_item_and_the_field_and_nothing_is_written(
    catalog_api: CatalogApi, ann: Person, body: dict[str, Any], field: str, sentence: str | None
) -> None:
    effect = await catalog_api.effect(credits_cost=1)
    response = await submit(catalog_api, ann, effect, **body)
    assert response.status_code in (404, 422), response.text
    [problem, *_] = response.json()["errors"]
    assert problem["field"] == field
    assert sentence is None or sentence in problem["reason"]
    assert (await catalog_api.shown(ann, BATCHES))["items"] == []
    assert (await catalog_api.shown(ann, "/api/ai-jobs"))["items"] == []
    assert (await catalog_api.shown(ann, "/api/wallet"))["balance"] == 100


async def test_g6_a_file_of_another_user_is_refused_as_missing(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect()
    mine, other = await catalog_api.file(ann), await catalog_api.person()
    theirs = await catalog_api.file(other)
    items = [{"input_file_id": mine}, {"input_file_id": theirs}]
    assert_refused(await submit(catalog_api, ann, effect, items=items), 422, "invalid_request", "items.1.input_file_id")
    batch = (await submit(catalog_api, ann, effect, items=items[:1])).json()
    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/download")):
        response = await catalog_api.call(method, f"{BATCHES}/{batch['id']}{path}", person=other)
        assert_refused(response, 404, "not_found")
    assert (await catalog_api.shown(other, f"/api/ai-jobs?batch_id={batch['id']}"))["items"] == []
    assert (await catalog_api.shown(other, f"/api/library/jobs?batch_id={batch['id']}"))["items"] == []


@pytest.mark.parametrize("batch_id", [UUID(int=0), UUID(int=2**128 - 1)])
async def test_an_unknown_batch_has_no_jobs(catalog_api: CatalogApi, ann: Person, batch_id: UUID) -> None:
    assert (await catalog_api.shown(ann, f"/api/library/jobs?batch_id={batch_id}"))["items"] == []
    assert (await catalog_api.shown(ann, f"/api/library/counts?batch_id={batch_id}"))["total"] == 0


async def test_g5_a_repeated_key_returns_the_batch_also_for_the_same_bytes_under_another_id(
    catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    body = {"items": [{"input_file_id": await catalog_api.file(ann)}], "idempotency_key": "once"}
    first = await submit(catalog_api, ann, effect, **body)
    again = await submit(catalog_api, ann, effect, **body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    uploaded_again = {**body, "items": [{"input_file_id": await catalog_api.file(ann)}]}
    assert (await submit(catalog_api, ann, effect, **uploaded_again)).json()["id"] == first.json()["id"]
    webhook = {"webhook_url": "https://shop.example.com/orders/7", "items": body["items"]}
    assert_refused(await submit(catalog_api, ann, effect, **webhook), 422, "invalid_request", "webhook_url")
    other = await submit(catalog_api, ann, effect, **body, priority=-2)
    assert_refused(other, 422, "idempotency_key_reused", "priority")
    assert first.json()["id"] in other.json()["detail"]
    assert (await catalog_api.shown(ann, "/api/wallet"))["balance"] == 95


async def test_g5_the_same_key_twice_at_once_makes_one_batch(
    catalog_api: CatalogApi, ann: Person, plane: ControlPlane
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    items = [{"input_file_id": await catalog_api.file(ann)}] * 2
    [pool] = [pool for pool in plane.rooms.databases.pools if pool.name == "pool_1"]
    async with open_transaction(pool, "SELECT wallet_lock($1, $2)", ann.user.tenant_id, ann.user.id):
        works = [submit(catalog_api, ann, effect, items=items, idempotency_key="once") for _ in range(2)]
        tasks = await start_blocked(pool, *works)
    first, second = await asyncio.gather(*tasks)
    assert sorted((first.status_code, second.status_code)) == [200, 201]
    assert first.json()["id"] == second.json()["id"]
    assert (await catalog_api.shown(ann, "/api/wallet"))["balance"] == 90


async def test_a_batch_is_canceled_and_another_one_is_limited_by_the_minute(
    catalog_api: CatalogApi, ann: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    items = [{"input_file_id": await catalog_api.file(ann)}] * 2
    batch = (await submit(catalog_api, ann, effect, items=items)).json()
    canceled = await catalog_api.call("POST", f"{BATCHES}/{batch['id']}/cancel", person=ann)
    assert canceled.json()["counts"]["canceled"] == 2
    assert canceled.json()["status"] == "finished"
    unchanged = await catalog_api.call("POST", f"{BATCHES}/{batch['id']}/retry", person=ann)
    assert unchanged.json()["counts"] == canceled.json()["counts"]
    nothing = await catalog_api.call("GET", f"{BATCHES}/{batch['id']}/download", person=ann)
    assert_refused(nothing, 404, "not_found")
    assert (await catalog_api.shown(ann, "/api/wallet"))["balance"] == 100
    free = await catalog_api.effect()
    for _ in range(29):
        assert (await submit(catalog_api, ann, free, items=items[:1])).status_code == 201
    limited = await submit(catalog_api, ann, free, items=items[:1])
    assert_refused(limited, 429, "rate_limited")
    assert_limit(limited, "batches", 30, 60)


async def test_the_archive_has_the_results_in_the_order_of_the_items(media: MediaApi) -> None:
    core = media.jobs_api.core
    ann = Member(media.tenant_id, media.person.user.id, media.pool)
    batch_id = await submit_batch(core, ann, number=3, cost=1, workflow_id=core.workflow)
    await media.complete(await media.jobs_api.start(), CLIP)
    await core.fail(await media.jobs_api.start())
    await media.complete(await media.jobs_api.start(), CLIP + b"third", CLIP + b"extra")
    response = await media.ask("GET", f"{BATCHES}/{batch_id}/download")
    assert response.headers["content-disposition"].endswith(f'"batch-{batch_id}.zip"')
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    assert archive.testzip() is None
    assert [(entry.filename, archive.read(entry)) for entry in archive.infolist()] == [
        ("0001 job.mp4", CLIP),
        ("0003 job.mp4", CLIP + b"third"),
        ("0003 job-2.mp4", CLIP + b"extra"),
    ]


async def test_batches_are_listed_by_effect_status_and_reference_and_only_to_their_user(
    catalog_api: CatalogApi, ann: Person
) -> None:
    noir, glow = [await catalog_api.effect(credits_cost=1) for _ in range(2)]
    items = [{"input_file_id": await catalog_api.file(ann)}] * 2
    wanted = [(noir, "one"), (glow, "two"), (noir, "three")]
    made = [
        (await submit(catalog_api, ann, effect, items=items, client_reference=reference)).json()["id"]
        for effect, reference in wanted
    ]
    await catalog_api.call("POST", f"{BATCHES}/{made[0]}/cancel", person=ann)

    async def listed(query: str, person: Person = ann) -> list[str]:
        return [each["id"] for each in (await catalog_api.shown(person, f"{BATCHES}?{query}"))["items"]]

    assert await listed("") == made[::-1]
    assert await listed(f"effect={noir['slug']}") == [made[2], made[0]]
    assert await listed(f"effect={noir['slug']}&effect={glow['id']}") == made[::-1]
    assert await listed("effect=no-such-effect") == []
    assert await listed("status=running") == [made[2], made[1]]
    assert await listed(f"status=finished&effect={noir['id']}") == [made[0]]
    assert await listed("client_reference=two") == [made[1]]
    first = await catalog_api.shown(ann, f"{BATCHES}?limit=1&effect={noir['slug']}")
    rest = await catalog_api.shown(ann, f"{BATCHES}?effect={noir['slug']}&cursor={first['next_cursor']}")
    assert [each["id"] for each in (*first["items"], *rest["items"])] == [made[2], made[0]]
    assert rest["items"][0]["counts"] == {"active": 0, "completed": 0, "failed": 0, "canceled": 2, "expired": 0}
    neighbour = await catalog_api.people.user(ann.tenant, Role.TENANT_ADMIN)
    for other in (neighbour, await catalog_api.person("pool_2")):
        assert await listed("", other) == []
    refused = await catalog_api.call("GET", f"{BATCHES}?status=done", person=ann)
    assert_refused(refused, 422, "invalid_request", "query.status")


async def test_the_values_in_which_items_differ_are_listed_for_headings(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect(credits_cost=1)
    grid = {
        "values": {"prompt": ["a cat", "x" * 500], "strength": [1, 2]},
        "input_file_ids": [await catalog_api.file(ann)],
    }
    batch = (await submit(catalog_api, ann, effect, grid=grid)).json()
    found = await catalog_api.shown(ann, f"{BATCHES}/{batch['id']}/values")
    assert set(found["keys"]) == {"prompt", "strength"}
    assert [each["item"] for each in found["items"]] == [1, 2, 3, 4]
    assert [each["values"]["strength"] for each in found["items"]] == ["1", "2", "1", "2"]
    assert [each["values"]["prompt"] for each in found["items"][1:3]] == ["a cat", "x" * 200]
    stranger = await catalog_api.person("pool_2")
    refused = await catalog_api.call("GET", f"{BATCHES}/{batch['id']}/values", person=stranger)
    assert_refused(refused, 404, "not_found")
