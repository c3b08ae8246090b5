"""Workers register with the fleet's secret and work with their token; all other callers are refused."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import FleetSettings
from tests.api.conftest import Started
from tests.support.http.accounts import People, sign_in
from tests.support.http.fleet_api import Agent, FleetApi, join, registry
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_limit, assert_refused

numbers = itertools.count(1)


@pytest.fixture
async def fleet_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> FleetApi:
    return FleetApi(plane, await JobsApi.open(plane, client, people))


async def crew_of(plane: ControlPlane, client: httpx.AsyncClient) -> FleetApi:
    return FleetApi(
        plane, await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
    )


async def session_of(fleet_api: FleetApi, agent: Agent) -> dict[str, Any]:
    [session, *_] = (await fleet_api.done("GET", f"worker-sessions?worker_id={agent.worker_id}"))["items"]
    return dict(session)


async def test_a_worker_of_a_fleet_gets_a_token_and_the_fleets_active_workflows(fleet_api: FleetApi) -> None:
    off = f"off-for-registration-{next(numbers)}"
    await fleet_api.jobs_api.core.add_workflow(off, active=False)
    fleet = await fleet_api.fleet(fleet_api.jobs_api.workflow, off, stage="staging")
    response = await fleet_api.register(
        "i-0abc",
        fleet_slug=fleet["slug"],
        stage="staging",
        display_name=" GPU one ",
        max_concurrency=2,
        capabilities={"gpu": "L4"},
        capacity_type="spot",
        instance_type="g6.xlarge",
        providers=["self_hosted", "cloud", "cloud"],
    )
    assert response.status_code == 201
    body = response.json()
    token = body.pop("token")
    assert len(token) == 64
    assert body == {
        "worker_id": "i-0abc",
        "workflows_assigned": [fleet_api.jobs_api.workflow],
        "fleet_slug": fleet["slug"],
        "stage": "staging",
        "is_approved": True,
        "cannot_run": [],
    }
    worker = await fleet_api.done("GET", "workers/i-0abc")
    expected = {
        "display_name": "GPU one",
        "registration_source": "fleet",
        "fleet_id": fleet["id"],
        "providers": ["self_hosted", "cloud"],
        "workflows": [fleet_api.jobs_api.workflow],
        "max_concurrency": 2,
        "capabilities": {"gpu": "L4"},
        "capacity_type": "spot",
        "instance_type": "g6.xlarge",
        "is_live": True,
    }
    assert {name: worker[name] for name in expected} == expected
    agent = Agent("i-0abc", token)
    session = await session_of(fleet_api, agent)
    assert (session["fleet_slug"], session["stage"], session["ended_at"]) == (fleet["slug"], "staging", None)
    assert await fleet_api.is_known(agent)
    assert await fleet_api.events(agent) == ["registered"]


async def test_a_worker_may_name_workflows_instead_of_a_fleet(fleet_api: FleetApi) -> None:
    other = f"other-{next(numbers)}"
    await fleet_api.jobs_api.core.add_workflow(other)
    body = (await fleet_api.register(workflow_slugs=[other, fleet_api.jobs_api.workflow, other])).json()
    assert body["workflows_assigned"] == sorted([fleet_api.jobs_api.workflow, other])
    assert (body["fleet_slug"], body["stage"]) == (None, "production")


async def test_only_the_hash_of_a_token_is_stored(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    [row] = await fleet_api.rows("SELECT * FROM comfyui_workers WHERE worker_id = $1", agent.worker_id)
    assert row["token_hash"] == hashlib.sha256(agent.token.encode()).digest()
    assert agent.token not in str(row)


async def test_unknown_fields_and_nulls_are_ignored_because_an_agent_may_be_older_or_newer(fleet_api: FleetApi) -> None:
    nothing = dict.fromkeys(
        ("display_name", "max_concurrency", "capabilities", "capacity_type", "instance_type", "providers", "stage")
    )
    response = await fleet_api.register(
        fleet_slug=None, workflow_slugs=[fleet_api.jobs_api.workflow], **nothing, invented={"later": 1}
    )
    assert response.status_code == 201
    worker = await fleet_api.done("GET", f"workers/{response.json()['worker_id']}")
    assert (worker["max_concurrency"], worker["providers"], worker["stage"]) == (1, ["self_hosted"], "production")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"worker_id": None}, "worker_id"),
        ({"worker_id": "a/b"}, "worker_id"),
        ({"worker_id": "x" * 201}, "worker_id"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"capacity_type": "borrowed"}, "capacity_type"),
        ({"providers": ["Not A Provider"]}, "providers.0"),
        ({"capabilities": {"name": "a\0b"}}, "capabilities"),
        ({"fleet_slug": None, "workflow_slugs": None}, "fleet_slug"),
        ({"fleet_slug": None, "workflow_slugs": []}, "fleet_slug"),
        ({"fleet_slug": "a-fleet"}, "workflow_slugs"),
        ({"stage": "Not a stage"}, "stage"),
        ({"display_name": "a\nb"}, "display_name"),
    ],
)
async def test_a_wrong_registration_is_refused_by_the_name_of_its_field(
    fleet_api: FleetApi, changes: dict[str, Any], field: str
) -> None:
    body = {"worker_id": f"wrong-{next(numbers)}", "workflow_slugs": [fleet_api.jobs_api.workflow], **changes}
    response = await fleet_api.client.post("/api/worker/register", json=body, headers=fleet_api.secret)
    assert_refused(response, 422, "invalid_request", field)


async def test_fleets_and_workflows_that_are_unknown_or_off_are_refused(fleet_api: FleetApi) -> None:
    off, slug = f"off-for-registration-{next(numbers)}", fleet_api.jobs_api.workflow
    await fleet_api.jobs_api.core.add_workflow(off, active=False)
    idle, closed, here = await fleet_api.fleet(off), await fleet_api.fleet(), await fleet_api.fleet(stage="staging")
    await fleet_api.done("PATCH", f"fleets/{closed['id']}", {"is_active": False})
    assert_refused(await fleet_api.register(fleet_slug="nowhere"), 404, "not_found")
    assert_refused(await fleet_api.register(fleet_slug=here["slug"]), 404, "not_found")
    assert_refused(await fleet_api.register(fleet_slug=idle["slug"]), 422, "invalid_request", "fleet_slug")
    assert_refused(await fleet_api.register(fleet_slug=closed["slug"]), 422, "invalid_request", "fleet_slug")
    assert_refused(await fleet_api.register(workflow_slugs=[off]), 422, "invalid_request", "workflow_slugs")
    unknown = await fleet_api.register(workflow_slugs=[slug, "nothing", off, "nowhere"])
    assert_refused(unknown, 422, "invalid_request", "workflow_slugs.1", "workflow_slugs.3")


async def test_a_missing_secret_a_wrong_secret_and_a_users_key_are_refused(fleet_api: FleetApi) -> None:
    body = {"worker_id": "stranger", "workflow_slugs": [fleet_api.jobs_api.workflow]}
    for headers in (
        {},
        {"x-fleet-secret": "wrong"},
        {"x-fleet-secret": "ünïcode".encode()},
        fleet_api.jobs_api.admin.headers,
    ):
        response = await fleet_api.client.post("/api/worker/register", json=body, headers=headers)
        assert_refused(response, 401, "not_authenticated")
    assert await fleet_api.rows("SELECT 1 FROM comfyui_workers WHERE worker_id = 'stranger'") == []


async def test_only_wrong_secrets_are_limited_by_ip_address(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    fleet_api = await crew_of(strict_plane, strict_client)
    wrong = [
        await strict_client.post("/api/worker/register", json={}, headers={"x-fleet-secret": "wrong"}) for _ in range(4)
    ]
    assert [response.status_code for response in wrong] == [401, 401, 401, 429]
    assert_refused(wrong[-1], 429, "rate_limited")
    assert_limit(wrong[-1], "fleet-secrets", 3, 86_400)
    assert (await fleet_api.register()).status_code == 201
    # Sign-ins from the same IP address are counted apart.
    assert (await sign_in(strict_client, await fleet_api.jobs_api.person())).status_code == 200


async def test_a_configured_secret_replaces_the_derived_secret(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    fleet_api = await crew_of(strict_plane, strict_client)
    assert fleet_api.secret == {"x-fleet-secret": "sixteen-or-more!"}
    assert (await fleet_api.register()).status_code == 201
    derived = {"x-fleet-secret": fleet_secret(FleetSettings(), master_secret(strict_plane.settings))}
    body = {"worker_id": "late", "workflow_slugs": [fleet_api.jobs_api.workflow]}
    response = await strict_client.post("/api/worker/register", json=body, headers=derived)
    assert_refused(response, 401, "not_authenticated")


async def test_a_known_worker_may_register_again_at_the_limit_of_workers(started: Started) -> None:
    async with started(fleet={"max_workers": 2}) as (plane, client):
        fleet_api = await crew_of(plane, client)
        one, two = await fleet_api.agent("one"), await fleet_api.agent("two")
        full = assert_refused(await fleet_api.register("three"), 403, "forbidden")
        assert "the limit is 2" in full["detail"]
        await fleet_api.silent_for(one, 91)
        await fleet_api.agent("one")
        await fleet_api.done("POST", f"workers/{two.worker_id}/revoke")
        await fleet_api.agent("three")


async def test_a_recently_seen_id_cannot_be_registered_again(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    taken = await fleet_api.register(agent.worker_id)
    problem = assert_refused(taken, 409, "already_registered")
    assert int(taken.headers["retry-after"]) == problem["retry_after_seconds"]
    assert 30 < problem["retry_after_seconds"] <= 90
    await fleet_api.silent_for(agent, 60)
    assert 0 < int((await fleet_api.register(agent.worker_id)).headers["retry-after"]) <= 30
    assert await fleet_api.is_known(agent)


async def test_a_killed_agent_may_register_after_90_seconds_and_its_old_session_and_leases_end(
    fleet_api: FleetApi,
) -> None:
    ann = await fleet_api.jobs_api.person(tokens=10)
    job = await fleet_api.jobs_api.submit(ann)
    old = await fleet_api.agent()
    await fleet_api.jobs_api.core.start(old.worker_id)
    await fleet_api.silent_for(old, 91)
    new = await fleet_api.agent(old.worker_id)
    assert not await fleet_api.is_known(old)
    assert await fleet_api.is_known(new)
    first, second = (await fleet_api.done("GET", f"worker-sessions?worker_id={old.worker_id}"))["items"][::-1]
    assert (first["end_reason"], first["jobs_requeued"]) == ("registered anew", 1)
    assert first["busy_seconds"] > 0
    assert second["ended_at"] is None
    [row] = await fleet_api.rows("SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1::text::uuid", job["id"])
    assert (row["status"], row["attempts"], row["worker_id"]) == ("queued", 1, None)
    assert (await fleet_api.jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()["status"] == "queued"
    assert await fleet_api.events(new) == ["registered", "superseded", "registered", "lease_requeued"]


async def test_leases_held_under_the_id_of_a_new_worker_are_requeued(fleet_api: FleetApi) -> None:
    """Its worker was removed while a poll of it was under way."""
    ann = await fleet_api.jobs_api.person(tokens=10)
    await fleet_api.jobs_api.submit(ann)
    await fleet_api.jobs_api.core.start("left-over")
    await fleet_api.agent("left-over")
    worker = await fleet_api.done("GET", "workers/left-over")
    assert (worker["current_load"], worker["leases"]) == (0, [])


async def test_a_revoked_id_stays_out_until_an_admin_approves_it(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    await fleet_api.done("POST", f"workers/{agent.worker_id}/revoke")
    await fleet_api.silent_for(agent, 100)
    assert_refused(await fleet_api.register(agent.worker_id), 403, "forbidden")
    approved = await fleet_api.done("POST", f"workers/{agent.worker_id}/approve")
    assert (approved["is_approved"], approved["revoked_at"]) == (True, None)
    assert not await fleet_api.is_known(agent)
    # Though it was touched this moment: there is no session that could be alive.
    again = await fleet_api.agent(agent.worker_id)
    assert await fleet_api.is_known(again)


async def test_without_automatic_approval_a_worker_waits_for_an_admin_and_stays_approved(fleet_api: FleetApi) -> None:
    cautious = registry(
        fleet_api.plane.databases, fleet_api.plane.rooms.jobs.leases, auto_approve=False, max_workers=100_000
    )
    name = f"waits-{uuid4().hex}"
    registered = await join(cautious, name, fleet_api.jobs_api.workflow)
    assert registered.is_approved is False
    await fleet_api.done("POST", f"workers/{name}/approve")
    await fleet_api.silent_for(Agent(name, registered.token), 91)
    assert (await join(cautious, name, fleet_api.jobs_api.workflow)).is_approved is True


async def test_a_worker_that_deregisters_gives_its_jobs_back_with_their_attempts(fleet_api: FleetApi) -> None:
    ann = await fleet_api.jobs_api.person(tokens=10)
    job = await fleet_api.jobs_api.submit(ann)
    agent = await fleet_api.agent()
    await fleet_api.jobs_api.core.start(agent.worker_id)
    response = await fleet_api.client.post(
        "/api/worker/deregister", json={"reason": "spot\0 notice", "worker_id": None}, headers=agent.headers
    )
    assert (response.status_code, response.content) == (204, b"")
    [row] = await fleet_api.rows("SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1::text::uuid", job["id"])
    assert (row["status"], row["attempts"]) == ("queued", 0)
    session = await session_of(fleet_api, agent)
    assert (session["end_reason"], session["jobs_requeued"]) == ("deregistered: spot notice", 1)
    assert_refused(await fleet_api.admin("GET", f"workers/{agent.worker_id}"), 404, "not_found")
    assert await fleet_api.events(agent) == ["registered", "lease_requeued", "deregistered"]
    assert not await fleet_api.is_known(agent)
    # It may come back at once.
    await fleet_api.agent(agent.worker_id)


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b'{"reason": null}'])
async def test_deregistering_needs_no_body(fleet_api: FleetApi, content: bytes) -> None:
    agent = await fleet_api.agent()
    headers = agent.headers | ({"content-type": "application/json"} if content else {})
    assert (await fleet_api.client.post("/api/worker/deregister", content=content, headers=headers)).status_code == 204


async def test_a_body_is_described_to_callers_with_a_credential_only(fleet_api: FleetApi) -> None:
    """Also on the routes that begin and end a session, and for every kind of wrong body."""
    agent = await fleet_api.agent()
    json = {"content-type": "application/json"}
    for path, credential in (("register", fleet_api.secret), ("environment", agent.headers)):
        for content, headers, status, code, field in (
            (b"{", json, 400, "malformed_request", "body"),
            (b"[]", json, 422, "invalid_request", "body"),
            (b"{}", {"content-type": "text/plain"}, 415, "unsupported_media_type", "content-type"),
        ):
            url = f"/api/worker/{path}"
            refused = await fleet_api.client.post(url, content=content, headers=headers)
            assert_refused(refused, 401, "not_authenticated")
            described = await fleet_api.client.post(url, content=content, headers={**headers, **credential})
            assert_refused(described, status, code, field)


async def test_only_a_worker_token_may_deregister_and_it_opens_no_other_route(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    for headers in ({}, fleet_api.jobs_api.admin.headers, fleet_api.secret, {"authorization": "Basic abc"}):
        response = await fleet_api.client.post("/api/worker/deregister", json={}, headers=headers)
        assert_refused(response, 401, "not_authenticated")
    assert_refused(await fleet_api.client.get("/api/me", headers=agent.headers), 401, "not_authenticated")
    assert_refused(await fleet_api.client.get("/api/admin/workers", headers=agent.headers), 401, "not_authenticated")
    assert await fleet_api.is_known(agent)
