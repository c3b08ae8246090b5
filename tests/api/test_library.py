"""`/api/library`: a user's jobs as lists show them, found by words and filters, page by page, and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.principal import Principal
from callsheet.library.lists import JobLists
from callsheet.library.search import Filters
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from callsheet.wire.library import LibraryFilter
from tests.support.http.accounts import People, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused
from tests.support.http.scripted_worker import ScriptedWorker, described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person()


async def listed(catalog_api: CatalogApi, person: Person, **query: Any) -> list[dict[str, Any]]:
    response = await catalog_api.client.get("/api/library/jobs", params=query, headers=person.headers)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def found(catalog_api: CatalogApi, person: Person, **query: Any) -> list[str]:
    return [item["id"] for item in await listed(catalog_api, person, **query)]


async def test_a_row_has_the_fields_of_a_list_and_no_payload(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect(name="Claymation", credits_cost=7)
    file_id = await catalog_api.file(ann, name="Fox & Hound.mp4")
    prompt = "A FOX " + "on the moon " * 40
    job = await catalog_api.submit(ann, effect, input_file_id=file_id, input_payload={"prompt": prompt})
    [row] = await listed(catalog_api, ann)
    assert {name: row[name] for name in ("id", "kind", "status", "title", "input_name", "medium", "cost")} == {
        "id": job["id"],
        "kind": "effect",
        "status": "queued",
        "title": "Claymation",
        "input_name": "Fox & Hound.mp4",
        "medium": "video",
        "cost": 7,
    }
    assert row["prompt"] == prompt[:200]
    assert (row["effect_slug"], row["task_id"], row["output"], row["output_count"]) == (effect["slug"], None, None, 0)
    assert row["input"]["id"] == file_id
    assert (await catalog_api.client.get(row["input"]["url"])).status_code == 200
    assert {"payload", "result", "sent", "search_text"}.isdisjoint(row)
    one = await catalog_api.client.get(f"/api/library/jobs/{job['id']}", headers=ann.headers)
    assert {**one.json(), "input": None} == {**row, "input": None}


async def test_a_row_follows_its_job_to_its_output(worker_harness: WorkerHarness) -> None:
    ann = await worker_harness.jobs_api.person(tokens=100)
    job = await worker_harness.engine_job(ann)
    worker: ScriptedWorker = await worker_harness.worker()
    lease = await worker.job()
    await worker.heartbeat(lease, progress={"percent": 40, "message": "Sampling"})
    [row] = (await worker_harness.jobs_api.get(ann, "/api/library/jobs")).json()["items"]
    assert (row["status"], row["progress"]["percent"], row["progress"]["message"]) == ("processing", 40, "Sampling")
    await worker.deliver(lease, OUTPUT)
    assert (await worker.complete(lease, output=described(OUTPUT, "video/mp4"))).status_code == 200
    [row] = (await worker_harness.jobs_api.get(ann, "/api/library/jobs")).json()["items"]
    assert (row["id"], row["status"], row["medium"], row["output_count"]) == (job["id"], "completed", "video", 1)
    assert (await worker_harness.client.get(row["output"]["url"])).content == OUTPUT
    assert row["progress"] is None


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("words", "finds"),
    [
        ("MOON", ["fox"]),
        ("moon fox", ["fox"]),
        ("moon cat", []),
        ("hound", ["fox"]),
        ("Claymation", ["fox", "cat"]),
        ("clay cat", ["cat"]),
        ("100%", ["cat"]),
        ("100_", []),
        ("STRASSE", ["cat"]),
        ("\uff46\uff4f\uff58", ["fox"]),
        ("  ", ["fox", "cat"]),
    ],
)
async def test_words_are_found_in_prompts_and_names(
    catalog_api: CatalogApi, ann: Person, words: str, finds: list[str]
) -> None:
    effect = await catalog_api.effect(name="Claymation")
    fox = await catalog_api.file(ann, name="hound.mp4")
    cat = await catalog_api.file(ann, name="b.mp4")
    jobs = {
        "fox": await catalog_api.submit(ann, effect, input_file_id=fox, input_payload={"prompt": "A Fox on the Moon"}),
        "cat": await catalog_api.submit(
            ann, effect, input_file_id=cat, input_payload={"prompt": "cat 100% in der Straße"}
        ),
    }
    assert set(await found(catalog_api, ann, q=words)) == {jobs[name]["id"] for name in finds}


async def test_filters_work_together_and_counts_ignore_the_status(catalog_api: CatalogApi, ann: Person) -> None:
    first, second = [await catalog_api.effect(credits_cost=1) for _ in range(2)]
    file_id = await catalog_api.file(ann)
    kept, dropped = [await catalog_api.submit(ann, first, input_file_id=file_id) for _ in range(2)]
    other = await catalog_api.submit(ann, second, input_file_id=file_id)
    assert (await catalog_api.call("POST", f"/api/ai-jobs/{dropped['id']}/cancel", person=ann)).status_code == 200
    everything = {kept["id"], dropped["id"], other["id"]}
    assert set(await found(catalog_api, ann, status=["queued", "canceled"])) == everything
    assert await found(catalog_api, ann, status="canceled") == [dropped["id"]]
    assert set(await found(catalog_api, ann, effect=first["slug"])) == {kept["id"], dropped["id"]}
    assert await found(catalog_api, ann, effect=[first["id"]], status="queued", q="cat", medium="video") == [kept["id"]]
    assert set(await found(catalog_api, ann, effect=[first["slug"], second["id"]])) == everything
    assert await found(catalog_api, ann, effect="no-such-effect") == []
    assert await found(catalog_api, ann, medium="image") == []
    assert await found(catalog_api, ann, kind="task") == []
    assert set(await found(catalog_api, ann, kind=["task", "effect"])) == everything
    assert await found(catalog_api, ann, run_id=str(uuid7())) == []
    counts = await catalog_api.shown(ann, f"/api/library/counts?effect={first['slug']}&status=failed")
    assert (counts["total"], counts["by_status"]["queued"], counts["by_status"]["canceled"]) == (2, 1, 1)
    assert (counts["by_status"]["failed"], counts["is_partial"]) == (0, False)


async def test_a_time_filter_includes_its_start_and_excludes_its_end(catalog_api: CatalogApi, ann: Person) -> None:
    effect, file_id = await catalog_api.effect(), await catalog_api.file(ann)
    jobs = [await catalog_api.submit(ann, effect, input_file_id=file_id) for _ in range(3)]
    middle = jobs[1]["created_at"]
    assert await found(catalog_api, ann, created_from=middle) == [jobs[2]["id"], jobs[1]["id"]]
    assert await found(catalog_api, ann, created_to=middle) == [jobs[0]["id"]]
    assert await found(catalog_api, ann, created_from=middle, created_to=jobs[2]["created_at"]) == [jobs[1]["id"]]
    assert await found(catalog_api, ann, created_from=(datetime.now(UTC) + timedelta(days=9)).isoformat()) == []
    assert await found(catalog_api, ann, created_to="0001-01-01T00:00:00Z") == []


async def test_pages_have_a_cursor_that_also_continues_a_long_search(
    plane: ControlPlane, catalog_api: CatalogApi, ann: Person
) -> None:
    effect, file_id = await catalog_api.effect(), await catalog_api.file(ann)
    jobs = [
        (await catalog_api.submit(ann, effect, input_file_id=file_id, input_payload={"prompt": f"the {word}"}))["id"]
        for word in ("first", "second", "third", "fourth", "fifth")
    ]
    newest = [*reversed(jobs)]
    first = await catalog_api.shown(ann, "/api/library/jobs?limit=2")
    second = await catalog_api.shown(ann, f"/api/library/jobs?limit=2&cursor={first['next_cursor']}")
    third = await catalog_api.shown(ann, f"/api/library/jobs?limit=2&cursor={second['next_cursor']}")
    assert [item["id"] for page in (first, second, third) for item in page["items"]] == newest
    assert third["next_cursor"] is None
    lists = JobLists(plane.databases, plane.rooms.catalog.effects, plane.rooms.media.files)
    principal = Principal(
        user_id=ann.user.id,
        tenant_id=ann.tenant.id,
        tenant=ann.tenant.slug,
        pool=ann.tenant.pool,
        email=ann.user.email,
        name="",
        role=Role.USER,
        signed_in_with="api_key",
    )
    short = await lists.page(principal, Filters(LibraryFilter(q="the second")), None, 10, max_read=3)
    assert (short.items, short.next_cursor) == ([], newest[2])
    rest = await lists.page(principal, Filters(LibraryFilter(q="the second")), UUID(short.next_cursor), 10, max_read=3)
    assert ([str(item.id) for item in rest.items], rest.next_cursor) == ([jobs[1]], None)
    counted = await lists.counts(principal, Filters(), max_read=3)
    assert (counted.total, counted.is_partial) == (3, True)


async def test_tasks_are_in_the_same_list_and_are_found_by_actor_and_words(actor_harness: ActorHarness) -> None:
    ann = await actor_harness.person()
    echo = await actor_harness.submit(ann, "echo", {"prompt": "hello there", "deep": {"er": ["General", 7]}})
    painter = await actor_harness.submit(ann, "painter", {"text": "a picture"})
    await actor_harness.ended(ann, echo)
    await actor_harness.ended(ann, painter)

    async def ids(**query: Any) -> list[str]:
        response = await actor_harness.client.get("/api/library/jobs", params=query, headers=ann.headers)
        return [item["task_id"] for item in response.json()["items"]]

    assert await ids() == [painter["task_id"], echo["task_id"]]
    assert await ids(actor="echo") == [echo["task_id"]]
    assert await ids(q="general hello") == [echo["task_id"]]
    assert await ids(medium="image") == [painter["task_id"]]
    [row] = (await actor_harness.ask(ann, "GET", "/api/library/jobs?actor=echo")).json()["items"]
    assert (row["title"], row["prompt"], row["actor"]) == ("Echo", "hello there", "echo")


async def test_other_users_do_not_find_the_job(catalog_api: CatalogApi, ann: Person) -> None:
    job = await catalog_api.submit(ann, await catalog_api.effect(), input_file_id=await catalog_api.file(ann))
    for other in (await catalog_api.person(tenant_of=ann), await catalog_api.person("pool_2")):
        assert await found(catalog_api, other, q="cat") == []
        assert (await catalog_api.shown(other, "/api/library/counts"))["total"] == 0
        response = await catalog_api.call("GET", f"/api/library/jobs/{job['id']}", person=other)
        assert_refused(response, 404, "not_found")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("q=%07", "q"),
        ("q=" + "x" * 201, "q"),
        ("status=lost", "status"),
        ("medium=smell", "medium"),
        ("created_from=2026-01-01T00:00:00", "created_from"),
        ("created_to=0.5", "created_to"),
        ("created_to=1794832980", "created_to"),
        ("cursor=5", "cursor"),
        ("limit=201", "limit"),
        ("&".join(f"kind=k{n}" for n in range(51)), "kind"),
    ],
)
async def test_invalid_filters_are_refused_by_name(
    catalog_api: CatalogApi, ann: Person, query: str, field: str
) -> None:
    response = await catalog_api.call("GET", f"/api/library/jobs?{query}", person=ann)
    assert response.status_code == 422
    assert [error["field"].split(".")[:2] for error in response.json()["errors"]] == [["query", field]]


async def test_a_job_shows_its_request_so_that_a_form_can_be_filled_again(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.effect(name="Claymation")
    sent = {"prompt": "a fox", "style": "pastel", "strength": 2.5, "tiled": True}
    job = await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann), input_payload=sent)
    shown = await catalog_api.shown(ann, f"/api/ai-jobs/{job['id']}")
    assert (shown["title"], shown["prompt"], shown["input_payload"]) == ("Claymation", "a fox", sent)
    again = await catalog_api.submit(ann, effect, input_file_id=shown["inputs"][0]["file_id"], input_payload=sent)
    assert again["id"] != job["id"]


async def test_an_effect_says_which_files_it_takes(catalog_api: CatalogApi, ann: Person) -> None:
    effect = await catalog_api.shown(ann, f"/api/effects/{(await catalog_api.effect())['slug']}")
    assert effect["input"]["accept"] == ["video/*"]
    accepted = {each["key"]: each["accept"] for each in effect["properties"]}
    assert (accepted["overlay"], accepted["prompt"]) == (["image/*"], [])
