"""Registration tokens: each is valid for one fleet. Also: the rights of the shared secret."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import FleetSettings
from tests.api.conftest import Started
from tests.support.http.accounts import People
from tests.support.http.fleet_api import Agent, FleetApi
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused


async def crew_of(plane: ControlPlane, client: httpx.AsyncClient) -> FleetApi:
    return FleetApi(
        plane, await JobsApi.open(plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys))
    )


@pytest.fixture
async def fleet_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> FleetApi:
    return FleetApi(plane, await JobsApi.open(plane, client, people))


async def new_token(fleet_api: FleetApi, fleet: dict[str, Any], **body: Any) -> dict[str, Any]:
    response = await fleet_api.admin("POST", f"fleets/{fleet['id']}/tokens", body)
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


async def register(fleet_api: FleetApi, secret: str, worker_id: str, **body: Any) -> httpx.Response:
    headers = {"x-fleet-secret": secret}
    return await fleet_api.client.post("/api/worker/register", json={"worker_id": worker_id, **body}, headers=headers)


async def shown(fleet_api: FleetApi, token: dict[str, Any]) -> dict[str, Any]:
    items = (await fleet_api.done("GET", f"fleets/{token['fleet_id']}/tokens"))["items"]
    [found] = [item for item in items if item["id"] == token["id"]]
    return dict(found)


async def test_the_token_decides_fleet_stage_and_workflows(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet(stage="staging")
    token = await new_token(fleet_api, fleet, name="image 7")
    response = await register(fleet_api, token["token"], f"{fleet['slug']}-1")
    assert response.status_code == 201, response.text
    body = response.json()
    assert (body["fleet_slug"], body["stage"], body["is_approved"]) == (fleet["slug"], "staging", True)
    assert body["workflows_assigned"] == [fleet_api.jobs_api.workflow]
    worker = await fleet_api.done("GET", f"workers/{fleet['slug']}-1")
    assert worker["fleet_token_id"] == token["id"]
    # A worker that names what the token says already is as welcome.
    named = await register(fleet_api, token["token"], f"{fleet['slug']}-2", fleet_slug=fleet["slug"], stage="staging")
    assert named.status_code == 201


async def test_a_token_is_refused_by_other_fleets_and_stages(fleet_api: FleetApi) -> None:
    fleet, other = await fleet_api.fleet(), await fleet_api.fleet()
    token = (await new_token(fleet_api, fleet))["token"]
    assert_refused(
        await register(fleet_api, token, "lost", fleet_slug=other["slug"]), 422, "invalid_request", "fleet_slug"
    )
    assert_refused(await register(fleet_api, token, "lost", stage="staging"), 422, "invalid_request", "stage")
    elsewhere = f"elsewhere-{fleet['slug']}"
    await fleet_api.jobs_api.core.add_workflow(elsewhere)
    refused = await register(fleet_api, token, "lost", workflow_slugs=[elsewhere])
    assert_refused(refused, 422, "invalid_request", "workflow_slugs")
    assert await fleet_api.rows("SELECT 1 FROM comfyui_workers WHERE worker_id = 'lost'") == []


async def test_a_worker_with_a_token_may_name_fewer_workflows_and_never_gets_others(fleet_api: FleetApi) -> None:
    first = fleet_api.jobs_api.workflow
    second, third, foreign = [f"{name}-{first}" for name in ("second", "third", "foreign")]
    ids = {slug: await fleet_api.jobs_api.core.add_workflow(slug) for slug in (second, third, foreign)}
    fleet = await fleet_api.fleet(first, second)
    token = (await new_token(fleet_api, fleet))["token"]
    response = await register(
        fleet_api, token, f"few-{first}", workflow_slugs=[second, third, foreign, "actor:unknown"]
    )
    assert response.json()["workflows_assigned"] == [second]
    agent = Agent(f"few-{first}", response.json()["token"])

    async def given() -> tuple[int, ...]:
        header = agent.headers["authorization"]
        return (await fleet_api.plane.rooms.fleet.authentication.of(header, for_poll=True)).workflow_ids

    assert await given() == (ids[second],)
    assert (await fleet_api.done("GET", f"workers/{agent.worker_id}"))["workflows"] == [second]
    # As the fleet's workflows change, so do the worker's, within what it named.
    await fleet_api.done("PUT", f"fleets/{fleet['id']}/workflows", {"workflow_slugs": [first, third]})
    assert await given() == (ids[third],)
    # Only those count as its capacity.
    routes = [(number, "production", "self_hosted") for number in (fleet_api.jobs_api.core.workflow, ids[third])]
    capacity = await fleet_api.plane.rooms.fleet.capacity.of(routes)
    assert [capacity[route].live_workers for route in routes] == [0, 1]


async def test_a_worker_with_a_token_is_approved_at_once(started: Started) -> None:
    async with started(fleet={"auto_approve": False}) as (plane, client):
        fleet_api = await crew_of(plane, client)
        token = (await new_token(fleet_api, await fleet_api.fleet()))["token"]
        assert (await register(fleet_api, token, "gpu-1")).json()["is_approved"] is True
        assert (await fleet_api.register("gpu-2")).json()["is_approved"] is False


async def test_only_the_hash_of_a_token_is_stored_and_no_list_shows_the_token(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    token = await new_token(fleet_api, fleet)
    secret = token["token"]
    [row] = await fleet_api.rows("SELECT * FROM fleet_tokens WHERE id = $1", token["id"])
    assert row["token_hash"] == hashlib.sha256(secret.encode()).digest()
    assert secret not in str(row)
    await register(fleet_api, secret, f"{fleet['slug']}-1")
    for path in (f"fleets/{fleet['id']}/tokens", f"audit-logs?subject_type=fleet&subject_id={fleet['id']}"):
        assert secret not in (await fleet_api.admin("GET", path)).text
    events = await fleet_api.done("GET", f"worker-audit-logs?worker_id={fleet['slug']}-1")
    assert events["items"][0]["details"]["registered_with"] == f"token {token['id']} (workers)"


async def test_the_last_use_of_a_token_and_its_workers_are_shown(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    token = await new_token(fleet_api, fleet)
    before = await shown(fleet_api, token)
    assert (before["last_used_at"], before["last_used_by"], before["workers"]) == (None, None, 0)
    name = f"{fleet['slug']}-1"
    await register(fleet_api, token["token"], name)
    after = await shown(fleet_api, token)
    assert (after["last_used_by"], after["workers"], after["is_accepted"]) == (name, 1, True)
    # A refused registration does not count as a use.
    assert_refused(await register(fleet_api, token["token"], name), 409, "already_registered")
    assert (await shown(fleet_api, token))["last_used_at"] == after["last_used_at"]


async def test_a_revoked_token_registers_no_worker_and_registered_workers_continue(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    token, other = await new_token(fleet_api, fleet), await new_token(fleet_api, fleet)
    name = f"{fleet['slug']}-1"
    agent = Agent(name, (await register(fleet_api, token["token"], name)).json()["token"])
    revoked = await fleet_api.done("POST", f"fleets/{fleet['id']}/tokens/{token['id']}/revoke")
    assert (revoked["is_accepted"], revoked["workers"]) == (False, 1)
    assert_refused(await register(fleet_api, token["token"], f"{name}-2"), 401, "not_authenticated")
    assert await fleet_api.is_known(agent)
    assert (await register(fleet_api, other["token"], f"{name}-2")).status_code == 201
    again = await fleet_api.done("POST", f"fleets/{fleet['id']}/tokens/{token['id']}/revoke")
    assert again["revoked_at"] == revoked["revoked_at"]
    rotated = await fleet_api.admin("POST", f"fleets/{fleet['id']}/tokens/{token['id']}/rotate")
    assert_refused(rotated, 409, "wrong_state")


async def test_a_rotated_token_is_accepted_until_the_overlap_ends(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    old, name = await new_token(fleet_api, fleet, name="image 7"), fleet["slug"]
    path = f"fleets/{fleet['id']}/tokens/{old['id']}/rotate"
    response = await fleet_api.admin("POST", path, {"overlap_seconds": 3600})
    assert response.status_code == 201, response.text
    new = response.json()
    assert (new["replaces"], new["name"], new["expires_at"]) == (old["id"], "image 7", None)
    for number, token in enumerate((old, new)):
        assert (await register(fleet_api, token["token"], f"{name}-{number}")).status_code == 201
    assert_refused(await fleet_api.admin("POST", path), 409, "conflict")
    await fleet_api.rows("UPDATE fleet_tokens SET expires_at = clock_timestamp() WHERE id = $1", old["id"])
    assert_refused(await register(fleet_api, old["token"], f"{name}-2"), 401, "not_authenticated")
    assert (await register(fleet_api, new["token"], f"{name}-2")).status_code == 201
    assert (await shown(fleet_api, old))["is_accepted"] is False


async def test_a_token_is_managed_only_through_its_own_fleet(fleet_api: FleetApi) -> None:
    fleet, other = await fleet_api.fleet(), await fleet_api.fleet()
    token = await new_token(fleet_api, fleet)
    for action in ("rotate", "revoke"):
        response = await fleet_api.admin("POST", f"fleets/{other['id']}/tokens/{token['id']}/{action}")
        assert_refused(response, 404, "not_found")
    assert_refused(await fleet_api.admin("POST", "fleets/4000000000/tokens"), 404, "not_found")
    assert_refused(
        await fleet_api.admin("POST", f"fleets/{fleet['id']}/tokens/{token['id']}/rotate", {"overlap_seconds": -1}),
        422,
        "invalid_request",
        "overlap_seconds",
    )


async def test_deleting_a_fleet_deletes_its_tokens(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    token = await new_token(fleet_api, fleet)
    await fleet_api.admin("POST", f"fleets/{fleet['id']}/tokens/{token['id']}/rotate")
    assert (await fleet_api.admin("DELETE", f"fleets/{fleet['id']}")).status_code == 204
    assert_refused(await register(fleet_api, token["token"], "orphan"), 401, "not_authenticated")


async def test_only_wrong_tokens_are_limited_by_ip_address(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    fleet_api = await crew_of(strict_plane, strict_client)
    token = (await new_token(fleet_api, await fleet_api.fleet()))["token"]
    wrong = [await register(fleet_api, "csf_" + "A" * 43, "guest") for _ in range(4)]
    assert [response.status_code for response in wrong] == [401, 401, 401, 429]
    assert (await register(fleet_api, token, f"right-{fleet_api.jobs_api.workflow}")).status_code == 201


async def test_a_revoked_worker_registers_under_another_id_only_with_a_valid_token(
    fleet_api: FleetApi,
) -> None:
    fleet = await fleet_api.fleet()
    token, name = (await new_token(fleet_api, fleet))["token"], fleet["slug"]
    for number in (1, 2):
        await register(fleet_api, token, f"{name}-{number}")
    await fleet_api.done("POST", f"workers/{name}-1/revoke")
    assert_refused(await register(fleet_api, token, f"{name}-1"), 403, "forbidden")
    assert (await register(fleet_api, token, f"{name}-3")).json()["is_approved"] is True
    await fleet_api.done("POST", f"workers/{name}-2/revoke", {"with_token": True})
    assert_refused(await register(fleet_api, token, f"{name}-4"), 401, "not_authenticated")


async def test_a_token_cannot_take_over_a_silent_worker_of_another_fleet(fleet_api: FleetApi) -> None:
    fleet, other = await fleet_api.fleet(), await fleet_api.fleet()
    token, foreign = [(await new_token(fleet_api, each))["token"] for each in (fleet, other)]
    name = f"{fleet['slug']}-1"
    agent = Agent(name, (await register(fleet_api, token, name)).json()["token"])
    await fleet_api.silent_for(agent, 91)
    assert_refused(await register(fleet_api, foreign, name), 409, "conflict")
    assert_refused(await fleet_api.register(name), 409, "conflict")
    assert await fleet_api.is_known(agent)
    await fleet_api.silent_for(agent, 91)
    assert (await register(fleet_api, token, name)).status_code == 201
    # Nor that of a worker with the shared secret.
    shared = await fleet_api.agent(f"{name}-shared")
    await fleet_api.silent_for(shared, 91)
    assert_refused(await register(fleet_api, token, shared.worker_id), 409, "conflict")


async def test_a_revoked_worker_with_the_shared_secret_is_not_approved_under_another_id(started: Started) -> None:
    async with started(fleet={"auto_approve": True}) as (plane, client):
        fleet_api = await crew_of(plane, client)
        secret, slugs = fleet_api.secret["x-fleet-secret"], [fleet_api.jobs_api.workflow]
        approved = await register(fleet_api, secret, "gpu-1", workflow_slugs=slugs)
        assert approved.json()["is_approved"] is True
        assert_refused(await fleet_api.admin("POST", "workers/gpu-1/revoke", {"with_token": True}), 409, "wrong_state")
        known = await register(fleet_api, secret, "gpu-2", workflow_slugs=slugs)
        await fleet_api.done("POST", "workers/gpu-1/revoke")
        fresh = await register(fleet_api, secret, "gpu-3", workflow_slugs=slugs)
        assert fresh.json()["is_approved"] is False
        poll = {"authorization": f"Bearer {fresh.json()['token']}"}
        response = await client.post("/api/worker/poll", json={}, headers=poll)
        assert response.json()["reason"] == "not_approved"
        # Nor under the id of an approved worker that is away.
        await fleet_api.silent_for(Agent("gpu-2", known.json()["token"]), 91)
        assert (await register(fleet_api, secret, "gpu-2", workflow_slugs=slugs)).json()["is_approved"] is False
        # A person decides, or the secret is changed.
        await fleet_api.done("POST", "workers/gpu-3/approve")
        assert (await client.post("/api/worker/poll", json={}, headers=poll)).json()["reason"] == "empty"
    async with started(fleet={"auto_approve": True, "secret": FleetSettings(secret="a-new-shared-secret").secret}) as (
        plane,
        client,
    ):
        fleet_api = await crew_of(plane, client)
        fresh = await register(fleet_api, fleet_api.secret["x-fleet-secret"], "gpu-4", workflow_slugs=slugs)
        assert fresh.json()["is_approved"] is True


FORWARDED = {"x-forwarded-for": "192.0.2.7"}


async def test_remote_workers_with_the_shared_secret_wait_for_approval(started: Started) -> None:
    async with started(fleet={"auto_approve": None}) as (plane, client):
        fleet_api = await crew_of(plane, client)
        body = {"worker_id": "far", "workflow_slugs": [fleet_api.jobs_api.workflow]}
        assert (await fleet_api.register("near")).json()["is_approved"] is True
        far = await client.post("/api/worker/register", json=body, headers=fleet_api.secret | FORWARDED)
        assert far.json()["is_approved"] is False
        await fleet_api.done("POST", "workers/far/approve")
        # The approval is the id's: it is there after the worker said good-bye and came again.
        leaving = {"authorization": f"Bearer {far.json()['token']}"}
        assert (await client.post("/api/worker/deregister", headers=leaving)).status_code == 204
        again = await client.post("/api/worker/register", json=body, headers=fleet_api.secret | FORWARDED)
        assert again.json()["is_approved"] is True


async def test_a_derived_secret_registers_only_workers_of_this_machine(started: Started) -> None:
    async with started(fleet={"secret": None, "auto_approve": None}) as (plane, client):
        fleet_api = await crew_of(plane, client)
        assert (await fleet_api.register("near")).json()["is_approved"] is True
        body = {"worker_id": "far", "workflow_slugs": [fleet_api.jobs_api.workflow]}
        far = await client.post("/api/worker/register", json=body, headers=fleet_api.secret | FORWARDED)
        assert "callsheet fleets tokens create" in assert_refused(far, 401, "not_authenticated")["detail"]
    public = {"public_url": "https://callsheet.example.com"}
    async with started(fleet={"secret": None, "auto_approve": None}, server=public) as (plane, client):
        derived = {"x-fleet-secret": fleet_secret(FleetSettings(), master_secret(plane.settings))}
        assert_refused(await client.post("/api/worker/register", json=body, headers=derived), 401, "not_authenticated")
