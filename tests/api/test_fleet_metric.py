"""How many workers a fleet needs, in the shape that KEDA's metrics-api scaler reads."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from tests.support.http.accounts import People
from tests.support.http.fleet_api import FleetApi
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused


@pytest.fixture
async def fleet_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> FleetApi:
    return FleetApi(plane, await JobsApi.open(plane, client, people))


async def metric(fleet_api: FleetApi, fleet: dict[str, Any], target_seconds: float = 60) -> dict[str, Any]:
    return await fleet_api.done("GET", f"fleets/{fleet['id']}/scaling/metric?target_seconds={target_seconds}")


async def test_the_metric_follows_the_queue_and_counts_at_least_the_busy_workers(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    person = await fleet_api.jobs_api.person(tokens=100)
    assert (await metric(fleet_api, fleet))["needed_workers"] == 0
    for _ in range(4):
        await fleet_api.jobs_api.submit(person)
    queued = await metric(fleet_api, fleet)
    assert queued == {
        "fleet_slug": fleet["slug"],
        "stage": "production",
        "queued_jobs": 4,
        # A job that was never measured is taken for a minute.
        "queued_seconds": 240.0,
        "running_jobs": 0,
        "jobs": 4,
        "needed_workers": 4,
    }
    assert (await metric(fleet_api, fleet, 120))["needed_workers"] == 2
    agent = await fleet_api.agent(fleet_slug=fleet["slug"])
    poll = await fleet_api.client.post("/api/worker/poll", json={"wait_seconds": 0}, headers=agent.headers)
    assert poll.json()["job"] is not None
    running = await metric(fleet_api, fleet, 3600)
    assert (running["queued_jobs"], running["running_jobs"], running["needed_workers"]) == (3, 1, 1)
    other = await fleet_api.agent(fleet_slug=fleet["slug"])
    await fleet_api.client.post("/api/worker/poll", json={"wait_seconds": 0}, headers=other.headers)
    both = await metric(fleet_api, fleet, 3600)
    assert (both["running_jobs"], both["needed_workers"]) == (2, 2)


async def test_the_metric_ignores_the_queue_of_another_fleet(fleet_api: FleetApi) -> None:
    staging = await fleet_api.fleet(stage="staging")
    await fleet_api.jobs_api.submit(await fleet_api.jobs_api.person(tokens=100))
    assert (await metric(fleet_api, staging))["jobs"] == 0


async def test_a_read_only_key_may_read_the_metric_and_no_other_route_of_the_fleet(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, fleet_api: FleetApi
) -> None:
    viewer = await people.user(role=Role.VIEWER)
    created = await client.post(
        f"/api/admin/users/{viewer.user.id}/keys",
        json={"name": "keda", "scopes": ["read"]},
        headers=fleet_api.jobs_api.admin.headers,
    )
    headers = {"authorization": f"Bearer {created.json()['key']}"}
    fleet = await fleet_api.fleet()
    path = f"/api/admin/fleets/{fleet['id']}"
    response = await client.get(f"{path}/scaling/metric", headers=headers)
    assert (response.status_code, response.json()["needed_workers"]) == (200, 0)
    assert_refused(await client.get(path, headers=headers), 403, "forbidden")
    user = await people.user()
    assert_refused(await client.get(f"{path}/scaling/metric", headers=user.headers), 403, "forbidden")


async def test_the_refusal_names_an_unknown_fleet_or_a_wrong_parameter(fleet_api: FleetApi) -> None:
    assert_refused(await fleet_api.admin("GET", "fleets/999999/scaling/metric"), 404, "not_found")
    fleet = await fleet_api.fleet()
    wrong = await fleet_api.admin("GET", f"fleets/{fleet['id']}/scaling/metric?target_seconds=0")
    assert_refused(wrong, 422, "invalid_request", "query.target_seconds")


async def test_the_metric_returns_503_while_a_pool_is_unavailable(
    fleet_api: FleetApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is too small would end workers."""
    fleet = await fleet_api.fleet()
    monkeypatch.setattr(type(fleet_api.plane.databases), "unavailable", property(lambda _: {"pool_2": "away"}))
    assert_refused(await fleet_api.admin("GET", f"fleets/{fleet['id']}/scaling/metric"), 503, "unavailable")
