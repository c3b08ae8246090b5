"""Budgets and spending over HTTP: administrators of a tenant manage them, and a refused job says when to try again."""

from __future__ import annotations

import csv
import io
from typing import Any
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.budgets import budgets as budget_module
from callsheet.wire.identity import Role
from tests.support.http.accounts import People, Person, session_of
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused

DAY = {"name": "A day", "period": "day", "limit": 12}


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person()


@pytest.fixture
async def boss(catalog_api: CatalogApi, ann: Person) -> Person:
    """An administrator of ann's tenant."""
    return await catalog_api.people.user(ann.tenant, Role.TENANT_ADMIN)


def url_of(person: Person, rest: str = "budgets") -> str:
    return f"/api/admin/tenants/{person.tenant.id}/{rest}"


async def submitted(catalog_api: CatalogApi, person: Person, effect: dict[str, Any]) -> httpx.Response:
    file_id = await catalog_api.file(person)
    body = {"effect_id": effect["slug"], "input_file_id": file_id, "input_payload": {"prompt": "a cat"}}
    return await catalog_api.call("POST", "/api/ai-jobs", body, person=person)


async def test_g14_a_job_beyond_the_budget_gets_402_with_the_time_of_the_reset(
    catalog_api: CatalogApi, ann: Person, boss: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    budget = await catalog_api.made(url_of(ann), DAY, person=boss)
    for _ in range(2):
        assert (await submitted(catalog_api, ann, effect)).status_code == 201
    response = await submitted(catalog_api, ann, effect)
    problem = assert_refused(response, 402, "budget_reached")
    shown = await catalog_api.shown(boss, f"{url_of(ann)}/{budget['id']}")
    assert (shown["taken"], shown["left"], shown["limit"]) == (10, 2, 12)
    assert shown["warned_at"] is not None
    assert shown["reached_at"] is not None
    assert problem["budget_id"] == budget["id"]
    assert problem["resets_at"].startswith(shown["resets_at"][:19])
    assert 0 < int(response.headers["retry-after"]) == problem["retry_after_seconds"] <= 86_400
    periods = (await catalog_api.shown(boss, f"{url_of(ann)}/{budget['id']}/periods"))["periods"]
    assert [each["taken"] for each in periods] == [10]

    changed = await catalog_api.call("PATCH", f"{url_of(ann)}/{budget['id']}", {"limit": 15}, person=boss)
    assert (changed.json()["limit"], changed.json()["reached_at"]) == (15, None)
    assert (await submitted(catalog_api, ann, effect)).status_code == 201


async def test_a_budget_of_a_key_counts_what_the_key_submits(
    catalog_api: CatalogApi, client: httpx.AsyncClient, ann: Person, boss: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    key = (await client.get("/api/keys", headers=ann.headers)).json()["items"][0]
    budget = await catalog_api.made(url_of(ann), {**DAY, "key_id": key["id"]}, person=boss)
    assert budget["key"].startswith(key["name"])
    session = await session_of(client, ann)
    file_id = await catalog_api.file(ann)
    body = {"effect_id": effect["slug"], "input_file_id": file_id, "input_payload": {"prompt": "a cat"}}
    assert (await client.post("/api/ai-jobs", json=body, headers=session)).status_code == 201
    assert (await submitted(catalog_api, ann, effect)).status_code == 201
    shown = await catalog_api.shown(boss, f"{url_of(ann)}/{budget['id']}")
    assert shown["taken"] == 5


async def test_budgets_are_listed_newest_first_and_deleted(catalog_api: CatalogApi, ann: Person, boss: Person) -> None:
    made = [await catalog_api.made(url_of(ann), {**DAY, "name": name}, person=boss) for name in ("one", "two", "three")]
    first = await catalog_api.shown(boss, f"{url_of(ann)}?limit=2")
    rest = await catalog_api.shown(boss, f"{url_of(ann)}?limit=2&cursor={first['next_cursor']}")
    assert [each["name"] for each in (*first["items"], *rest["items"])] == ["three", "two", "one"]
    url = f"{url_of(ann)}/{made[0]['id']}"
    assert (await catalog_api.call("DELETE", url, person=boss)).status_code == 204
    assert_refused(await catalog_api.call("DELETE", url, person=boss), 404, "not_found")
    logged = f"/api/admin/audit-logs?tenant_id={ann.tenant.id}&subject_type=budget"
    found = (await catalog_api.shown(catalog_api.admin, logged))["items"]
    assert [each["action"] for each in found] == ["budget.delete", *["budget.create"] * 3]


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        ({"time_zone": "Europe/Atlantis"}, 422, "invalid_request", "time_zone"),
        ({"time_zone": "EST5EDT,M3"}, 422, "invalid_request", "time_zone"),
        ({"limit": -1}, 422, "invalid_request", "limit"),
        ({"limit": 2**53 + 1}, 422, "invalid_request", "limit"),
        ({"period": "year"}, 422, "invalid_request", "period"),
        ({"name": " "}, 422, "invalid_request", "name"),
        ({"user_id": str(uuid4())}, 422, "invalid_request", "user_id"),
        ({"key_id": str(uuid4())}, 422, "invalid_request", "key_id"),
        ({"name": "taken"}, 409, "conflict", "name"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_g10_a_wrong_budget_is_refused_with_its_field(
    catalog_api: CatalogApi, ann: Person, boss: Person, changes: dict[str, Any], status: int, code: str, field: str
) -> None:
    await catalog_api.made(url_of(ann), {**DAY, "name": "taken"}, person=boss)
    response = await catalog_api.call("POST", url_of(ann), {**DAY, **changes}, person=boss)
    assert_refused(response, status, code, field)
    assert len((await catalog_api.shown(boss, url_of(ann)))["items"]) == 1


async def test_a_user_or_key_of_another_tenant_is_not_named_in_a_budget(
    catalog_api: CatalogApi, client: httpx.AsyncClient, ann: Person, boss: Person
) -> None:
    stranger = await catalog_api.person("pool_2")
    key = (await client.get("/api/keys", headers=stranger.headers)).json()["items"][0]
    named = {"user_id": str(stranger.user.id), "key_id": key["id"]}
    for field, value in named.items():
        response = await catalog_api.call("POST", url_of(ann), {**DAY, field: value}, person=boss)
        assert_refused(response, 422, "invalid_request", field)


async def test_a_tenant_has_a_limit_of_budgets(
    catalog_api: CatalogApi, ann: Person, boss: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_module, "MAX_BUDGETS", 1)
    await catalog_api.made(url_of(ann), DAY, person=boss)
    response = await catalog_api.call("POST", url_of(ann), {**DAY, "name": "B"}, person=boss)
    assert_refused(response, 409, "quota_exceeded")


async def test_spending_is_shown_by_effect_key_provider_and_user_and_as_csv(
    catalog_api: CatalogApi, ann: Person, boss: Person
) -> None:
    effect = await catalog_api.effect(name="=cmd()", credits_cost=5)
    jobs = [(await submitted(catalog_api, ann, effect)).json() for _ in range(3)]
    canceled = await catalog_api.call("POST", f"/api/ai-jobs/{jobs[0]['id']}/cancel", person=ann)
    assert canceled.status_code == 200, canceled.text
    by_effect = await catalog_api.shown(boss, url_of(ann, "spending?by=effect"))
    assert by_effect["tokens"] == 10
    [row] = by_effect["rows"]
    assert (row["subject"], row["name"], row["jobs"], row["tokens"]) == (effect["id"], "=cmd()", 3, 10)
    for by, subject in {"provider": "self_hosted", "user": str(ann.user.id)}.items():
        [row] = (await catalog_api.shown(boss, url_of(ann, f"spending?by={by}&period=month")))["rows"]
        assert (row["subject"], row["tokens"], row["first_day"][-2:]) == (subject, 10, "01")
    [row] = (await catalog_api.shown(boss, url_of(ann, "spending?by=key")))["rows"]
    assert row["name"] is not None
    response = await catalog_api.call("GET", url_of(ann, "spending.csv"), person=boss)
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    [_, cells] = list(csv.reader(io.StringIO(response.text)))
    assert cells[1:] == [effect["id"], "'=cmd()", "3", "10"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2020-01-01T00:00:00Z", "since"),
        ("since=2026-11-02T00:00:00Z&until=2026-11-01T00:00:00Z", "since"),
        ("time_zone=Mars/Base", "time_zone"),
        ("time_zone=%16", "query.time_zone"),
        ("by=color", "query.by"),
    ],
)
async def test_g10_a_wrong_question_about_spending_names_its_field(
    catalog_api: CatalogApi, ann: Person, boss: Person, query: str, field: str
) -> None:
    response = await catalog_api.call("GET", url_of(ann, f"spending?{query}"), person=boss)
    assert_refused(response, 422, "invalid_request", field)


async def test_g6_users_see_the_budgets_that_limit_them_and_no_number_of_other_users(
    catalog_api: CatalogApi, client: httpx.AsyncClient, ann: Person, boss: Person
) -> None:
    effect = await catalog_api.effect(credits_cost=5)
    other = await catalog_api.people.user(ann.tenant, Role.USER)
    keys = {
        person: (await client.get("/api/keys", headers=person.headers)).json()["items"][0] for person in (ann, other)
    }
    wanted: dict[str, dict[str, Any]] = {
        "all": {"limit": 6},
        "ann": {"user_id": str(ann.user.id)},
        "ann's key": {"key_id": keys[ann]["id"], "provider": "self_hosted"},
        "other": {"user_id": str(other.user.id)},
        "other's key": {"key_id": keys[other]["id"]},
        "ann with another's key": {"user_id": str(ann.user.id), "key_id": keys[other]["id"]},
    }
    for name, fields in wanted.items():
        await catalog_api.made(url_of(ann), {**DAY, "name": name, **fields}, person=boss)
    assert (await submitted(catalog_api, ann, effect)).status_code == 201
    shown = (await catalog_api.shown(ann, "/api/budgets"))["budgets"]
    assert [each["name"] for each in shown] == ["ann's key", "ann", "all"]
    key, own, shared = shown
    assert (key["key_id"], key["provider"], key["taken"], key["left"]) == (keys[ann]["id"], "self_hosted", 5, 7)
    assert key["key"].startswith(keys[ann]["name"])
    assert (own["is_shared"], own["limit"], own["taken"], own["is_warned"]) == (False, 12, 5, False)
    assert (shared["is_shared"], shared["is_warned"], shared["is_reached"]) == (True, True, False)
    assert [shared[name] for name in ("limit", "taken", "left")] == [None, None, None]
    assert shared["resets_at"] == own["resets_at"]
    assert [each["name"] for each in (await catalog_api.shown(other, "/api/budgets"))["budgets"]] == [
        "other's key",
        "other",
        "all",
    ]
    assert (await catalog_api.shown(await catalog_api.person("pool_2"), "/api/budgets"))["budgets"] == []
