"""How many workers a fleet needs, in the shape that KEDA's metrics-api scaler reads."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app import ControlPlane
from callsheet.wire.identity import Role
from tests.support.answers import assert_refused
from tests.support.fleet import Crew
from tests.support.jobs_api import JobsApi
from tests.support.people import People


@pytest.fixture
async def crew(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> Crew:
    return Crew(plane, await JobsApi.open(plane, client, people))


async def metric(crew: Crew, fleet: dict[str, Any], target_seconds: float = 60) -> dict[str, Any]:
    return await crew.done("GET", f"fleets/{fleet['id']}/scaling/metric?target_seconds={target_seconds}")


async def test_it_follows_the_queue_and_never_falls_below_what_is_at_work(crew: Crew) -> None:
    fleet = await crew.fleet()
    person = await crew.jobs_api.person(tokens=100)
    assert (await metric(crew, fleet))["needed_workers"] == 0
    for _ in range(4):
        await crew.jobs_api.submit(person)
    queued = await metric(crew, fleet)
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
    assert (await metric(crew, fleet, 120))["needed_workers"] == 2
    agent = await crew.agent(fleet_slug=fleet["slug"])
    poll = await crew.client.post("/api/worker/poll", json={"wait_seconds": 0}, headers=agent.headers)
    assert poll.json()["job"] is not None
    running = await metric(crew, fleet, 3600)
    assert (running["queued_jobs"], running["running_jobs"], running["needed_workers"]) == (3, 1, 1)
    other = await crew.agent(fleet_slug=fleet["slug"])
    await crew.client.post("/api/worker/poll", json={"wait_seconds": 0}, headers=other.headers)
    both = await metric(crew, fleet, 3600)
    assert (both["running_jobs"], both["needed_workers"]) == (2, 2)


async def test_another_fleets_queue_does_not_count(crew: Crew) -> None:
    staging = await crew.fleet(stage="staging")
    await crew.jobs_api.submit(await crew.jobs_api.person(tokens=100))
    assert (await metric(crew, staging))["jobs"] == 0


async def test_a_key_that_only_reads_opens_this_number_and_nothing_else_of_the_fleet(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, crew: Crew
) -> None:
    viewer = await people.user(role=Role.VIEWER)
    created = await client.post(
        f"/api/admin/users/{viewer.user.id}/keys",
        json={"name": "keda", "scopes": ["read"]},
        headers=crew.jobs_api.admin.headers,
    )
    headers = {"authorization": f"Bearer {created.json()['key']}"}
    fleet = await crew.fleet()
    path = f"/api/admin/fleets/{fleet['id']}"
    answer = await client.get(f"{path}/scaling/metric", headers=headers)
    assert (answer.status_code, answer.json()["needed_workers"]) == (200, 0)
    assert_refused(await client.get(path, headers=headers), 403, "forbidden")
    user = await people.user()
    assert_refused(await client.get(f"{path}/scaling/metric", headers=user.headers), 403, "forbidden")


async def test_what_is_wrong_is_named(crew: Crew) -> None:
    assert_refused(await crew.admin("GET", "fleets/999999/scaling/metric"), 404, "not_found")
    fleet = await crew.fleet()
    wrong = await crew.admin("GET", f"fleets/{fleet['id']}/scaling/metric?target_seconds=0")
    assert_refused(wrong, 422, "invalid_request", "query.target_seconds")


async def test_while_a_pool_is_away_there_is_no_number(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too small would end workers."""
    fleet = await crew.fleet()
    monkeypatch.setattr(type(crew.plane.databases), "unavailable", property(lambda _: {"pool_2": "away"}))
    assert_refused(await crew.admin("GET", f"fleets/{fleet['id']}/scaling/metric"), 503, "unavailable")
