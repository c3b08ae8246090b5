"""Fleets: how admins manage them, and which jobs their workers get."""

from __future__ import annotations

import itertools
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People
from tests.support.http.fleet_api import FleetApi, bearer
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused

numbers = itertools.count(1)


@pytest.fixture
async def fleet_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> FleetApi:
    return FleetApi(plane, await JobsApi.open(plane, client, people))


async def workflows_of(fleet_api: FleetApi, token: str) -> tuple[int, ...]:
    principal = await fleet_api.plane.rooms.fleet.authentication.of(bearer(token), for_poll=True)
    return principal.workflow_ids


async def test_a_fleet_is_a_slug_in_a_stage(fleet_api: FleetApi) -> None:
    slug = f"gpu-{next(numbers)}"
    response = await fleet_api.admin("POST", "fleets", {"slug": slug, "workflow_slugs": [fleet_api.jobs_api.workflow]})
    assert response.status_code == 201
    fleet = response.json()
    expected = {
        "slug": slug,
        "stage": "production",
        "name": slug,
        "is_active": True,
        "desired_workers": None,
        "workflows": [fleet_api.jobs_api.workflow],
        "workers": 0,
        "live_workers": 0,
    }
    assert {name: fleet[name] for name in expected} == expected
    assert await fleet_api.done("GET", f"fleets/{fleet['id']}") == fleet
    taken = await fleet_api.admin("POST", "fleets", {"slug": slug})
    assert_refused(taken, 409, "conflict", "slug")
    other = await fleet_api.fleet(slug=slug, stage="staging", name="Staging", desired_workers=3)
    assert (other["name"], other["desired_workers"]) == ("Staging", 3)


async def test_fleets_are_listed_newest_first_and_by_slug_and_stage(fleet_api: FleetApi) -> None:
    stage = f"stage-{next(numbers)}"
    fleets = [await fleet_api.fleet(stage=stage) for _ in range(3)]
    ids = [fleet["id"] for fleet in fleets]
    page = await fleet_api.done("GET", f"fleets?stage={stage}&limit=2")
    assert [fleet["id"] for fleet in page["items"]] == ids[:0:-1]
    rest = await fleet_api.done("GET", f"fleets?stage={stage}&limit=2&cursor={page['next_cursor']}")
    assert ([fleet["id"] for fleet in rest["items"]], rest["next_cursor"]) == (ids[:1], None)
    [found] = (await fleet_api.done("GET", f"fleets?slug={fleets[1]['slug']}"))["items"]
    assert found == fleets[1]


async def test_an_update_changes_only_the_fields_it_names(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet(name="One", desired_workers=2)
    path = f"fleets/{fleet['id']}"
    assert await fleet_api.done("PATCH", path, {}) == fleet
    assert await fleet_api.done("PATCH", path, {"name": "Two"}) == fleet | {"name": "Two"}
    assert await fleet_api.done("PATCH", path, {"is_active": False}) == fleet | {"name": "Two", "is_active": False}
    assert (await fleet_api.done("PATCH", path, {"desired_workers": 0}))["desired_workers"] == 0
    assert (await fleet_api.done("PATCH", path, {"desired_workers": None}))["desired_workers"] is None


async def test_workers_of_a_fleet_follow_its_workflows_and_its_switch(fleet_api: FleetApi) -> None:
    other = f"other-{next(numbers)}"
    second = await fleet_api.jobs_api.core.add_workflow(other)
    fleet = await fleet_api.fleet()
    path = f"fleets/{fleet['id']}"
    agent = await fleet_api.agent(fleet_slug=fleet["slug"])
    assert await workflows_of(fleet_api, agent.token) == (fleet_api.jobs_api.core.workflow,)
    changed = await fleet_api.done("PUT", f"{path}/workflows", {"workflow_slugs": [other, fleet_api.jobs_api.workflow]})
    assert changed["workflows"] == sorted([fleet_api.jobs_api.workflow, other])
    assert await workflows_of(fleet_api, agent.token) == (fleet_api.jobs_api.core.workflow, second)
    await fleet_api.rows("UPDATE workflows SET is_active = false WHERE id = $1", second)
    assert await workflows_of(fleet_api, agent.token) == (fleet_api.jobs_api.core.workflow,)
    await fleet_api.done("PATCH", path, {"is_active": False})
    assert await workflows_of(fleet_api, agent.token) == ()
    assert (await fleet_api.done("GET", f"workers/{agent.worker_id}"))["workflows"] == []
    await fleet_api.done("PATCH", path, {"is_active": True})
    assert (await fleet_api.done("PUT", f"{path}/workflows", {"workflow_slugs": []}))["workflows"] == []
    assert await workflows_of(fleet_api, agent.token) == ()


async def test_a_fleet_counts_its_workers_and_those_that_can_work(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    agents = [await fleet_api.agent(fleet_slug=fleet["slug"]) for _ in range(4)]
    await fleet_api.silent_for(agents[0], 91)
    await fleet_api.done("POST", f"workers/{agents[1].worker_id}/drain")
    await fleet_api.done("POST", f"workers/{agents[2].worker_id}/revoke")
    shown = await fleet_api.done("GET", f"fleets/{fleet['id']}")
    assert (shown["workers"], shown["live_workers"]) == (4, 1)


async def test_a_fleet_with_workers_is_not_deleted(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    path = f"fleets/{fleet['id']}"
    leaving, revoked = [await fleet_api.agent(fleet_slug=fleet["slug"]) for _ in range(2)]
    assert_refused(await fleet_api.admin("DELETE", path), 409, "conflict")
    await fleet_api.client.post("/api/worker/deregister", headers=leaving.headers)
    await fleet_api.done("POST", f"workers/{revoked.worker_id}/revoke")
    response = await fleet_api.admin("DELETE", path)
    assert (response.status_code, response.content) == (204, b"")
    assert_refused(await fleet_api.admin("GET", path), 404, "not_found")
    # What is kept of a revoked worker is that it may not come back.
    assert_refused(await fleet_api.register(revoked.worker_id), 403, "forbidden")


async def test_changes_to_a_fleet_are_in_the_audit_log(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    await fleet_api.done("PATCH", f"fleets/{fleet['id']}", {"desired_workers": 7})
    await fleet_api.done("PUT", f"fleets/{fleet['id']}/workflows", {"workflow_slugs": []})
    await fleet_api.admin("DELETE", f"fleets/{fleet['id']}")
    log = (await fleet_api.done("GET", f"audit-logs?subject_type=fleet&subject_id={fleet['id']}"))["items"][::-1]
    assert [line["action"] for line in log] == [
        "fleet.create",
        "fleet.update",
        "fleet.set_workflows",
        "fleet.delete",
    ]
    assert {line["actor"] for line in log} == {f"admin:{fleet_api.jobs_api.admin.user.id}"}
    assert log[1]["details"] == {"desired_workers": 7}


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["slug"]),
        ({"slug": "Not a slug"}, ["slug"]),
        ({"slug": "ok", "stage": ""}, ["stage"]),
        ({"slug": "ok", "name": "a\0b"}, ["name"]),
        ({"slug": "ok", "desired_workers": -1}, ["desired_workers"]),
        ({"slug": "ok", "desired_workers": 10**30}, ["desired_workers"]),
        ({"slug": "ok", "desired_workers": False}, ["desired_workers"]),
        ({"slug": "ok", "workflow_slugs": ["nothing"]}, ["workflow_slugs.0"]),
        ({"slug": "ok", "colour": "red"}, ["colour"]),
    ],
)
async def test_an_invalid_fleet_is_refused_by_field_and_writes_nothing(
    fleet_api: FleetApi, body: dict[str, Any], fields: list[str]
) -> None:
    assert_refused(await fleet_api.admin("POST", "fleets", body), 422, "invalid_request", *fields)
    assert (await fleet_api.done("GET", "fleets?slug=ok"))["items"] == []


async def test_unknown_fleets_and_impossible_ids_are_refused(fleet_api: FleetApi) -> None:
    empty = {"workflow_slugs": []}
    for method, path, body in (
        ("GET", "fleets/999999999", None),
        ("PATCH", "fleets/999999999", {}),
        ("PUT", "fleets/999999999/workflows", empty),
        ("DELETE", "fleets/999999999", None),
    ):
        assert_refused(await fleet_api.admin(method, path, body), 404, "not_found")
    assert_refused(await fleet_api.admin("GET", f"fleets/{10**30}"), 422, "invalid_request", "path.fleet_id")
    assert_refused(await fleet_api.admin("GET", "fleets/zero"), 422, "invalid_request", "path.fleet_id")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "fleets"),
        ("POST", "fleets"),
        ("GET", "fleets/1"),
        ("PATCH", "fleets/1"),
        ("PUT", "fleets/1/workflows"),
        ("DELETE", "fleets/1"),
    ],
)
async def test_only_admins_may_call_these_routes(fleet_api: FleetApi, method: str, path: str) -> None:
    user = await fleet_api.jobs_api.person()
    address = f"/api/admin/{path}"
    refused = await fleet_api.client.request(method, address, json={}, headers=user.headers)
    assert_refused(refused, 403, "forbidden")
    for headers in ({}, fleet_api.secret):
        assert_refused(
            await fleet_api.client.request(method, address, json={}, headers=headers), 401, "not_authenticated"
        )
