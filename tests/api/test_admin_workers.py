"""Admins see every worker, and approve, revoke, drain, rotate and assign; each action is recorded with its actor."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.errors import NotAuthenticated
from tests.support.http.accounts import People
from tests.support.http.fleet_api import Agent, FleetApi, bearer
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused

numbers = itertools.count(1)
ACTIONS = ["approve", "revoke", "drain", "undrain", "rotate-token"]


@pytest.fixture
async def fleet_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> FleetApi:
    return FleetApi(plane, await JobsApi.open(plane, client, people))


async def audited(fleet_api: FleetApi, agent: Agent) -> list[tuple[str, str]]:
    """What the audit log of admins says of a worker, oldest first."""
    page = await fleet_api.done("GET", f"audit-logs?subject_type=worker&subject_id={agent.worker_id}")
    return [(entry["action"], entry["actor"]) for entry in page["items"][::-1]]


async def ids(fleet_api: FleetApi, query: str) -> list[str]:
    return [worker["worker_id"] for worker in (await fleet_api.done("GET", f"workers?{query}"))["items"]]


async def principal(fleet_api: FleetApi, token: str) -> Any:
    return await fleet_api.plane.rooms.fleet.authentication.of(bearer(token), for_poll=True)


async def is_dead(fleet_api: FleetApi, token: str) -> bool:
    try:
        await principal(fleet_api, token)
    except NotAuthenticated:
        return True
    return False


async def test_workers_are_listed_by_fleet_stage_liveness_and_approval_page_by_page(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet(stage=f"stage-{next(numbers)}")
    slug, stage = fleet["slug"], fleet["stage"]
    names = {"a": "", "b": "The other one", "c": ""}
    agents = [
        await fleet_api.agent(f"{slug}-{letter}", fleet_slug=slug, stage=stage, display_name=name)
        for letter, name in names.items()
    ]
    [first, second, third] = [agent.worker_id for agent in agents]
    assert await ids(fleet_api, f"fleet={slug}") == [first, second, third]
    assert await ids(fleet_api, f"stage={stage}") == [first, second, third]
    await fleet_api.silent_for(agents[1], 91)
    await fleet_api.done("POST", f"workers/{third}/revoke")
    assert await ids(fleet_api, f"fleet={slug}&live=true") == [first]
    assert await ids(fleet_api, f"fleet={slug}&live=false") == [second, third]
    assert await ids(fleet_api, f"fleet={slug}&approved=false") == [third]
    assert await ids(fleet_api, f"fleet={slug}&approved=true&stage=nowhere") == []
    for part, found in (
        (slug[1:-1].upper(), [first, second, third]),
        (first, [first]),
        (" the Other one ", [second]),
        ("%", []),
    ):
        assert await ids(fleet_api, f"fleet={slug}&q={quote(part)}") == found, part
    page = await fleet_api.done("GET", f"workers?fleet={slug}&limit=2")
    assert [worker["worker_id"] for worker in page["items"]] == [first, second]
    assert page["next_cursor"] == second
    rest = await fleet_api.done("GET", f"workers?fleet={slug}&limit=2&cursor={second}")
    assert ([worker["worker_id"] for worker in rest["items"]], rest["next_cursor"]) == ([third], None)


async def test_a_worker_is_shown_with_its_leases_and_its_sessions(fleet_api: FleetApi) -> None:
    ann = await fleet_api.jobs_api.person(tokens=10)
    job = await fleet_api.jobs_api.submit(ann)
    agent = await fleet_api.agent(max_concurrency=3)
    idle, busy = (f"q={agent.worker_id}&busy={value}" for value in ("false", "true"))
    assert (await ids(fleet_api, idle), await ids(fleet_api, busy)) == ([agent.worker_id], [])
    started = await fleet_api.jobs_api.core.start(agent.worker_id)
    assert (await ids(fleet_api, idle), await ids(fleet_api, busy)) == ([], [agent.worker_id])
    worker = await fleet_api.done("GET", f"workers/{agent.worker_id}")
    [lease] = worker["leases"]
    assert (worker["current_load"], worker["max_concurrency"], worker["rotation_pending"]) == (1, 3, False)
    assert (lease["dispatch_id"], lease["job_id"], lease["workflow"]) == (
        started.lease.dispatch_id,
        job["id"],
        fleet_api.jobs_api.workflow,
    )
    assert [session["id"] for session in worker["sessions"]] == [worker["session_id"]]
    # No secret leaves with it.
    assert agent.token not in str(worker)
    assert "token_hash" not in worker


async def test_approving_a_worker_that_is_approved_changes_nothing(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    before = await fleet_api.done("GET", f"workers/{agent.worker_id}")
    after = await fleet_api.done("POST", f"workers/{agent.worker_id}/approve")
    assert {name: before[name] for name in after} == after
    assert await fleet_api.is_known(agent)


async def test_a_revoked_worker_has_no_token_no_jobs_and_no_session(fleet_api: FleetApi) -> None:
    ann = await fleet_api.jobs_api.person(tokens=10)
    job = await fleet_api.jobs_api.submit(ann)
    agent = await fleet_api.agent()
    await fleet_api.jobs_api.core.start(agent.worker_id)
    await fleet_api.done("POST", f"workers/{agent.worker_id}/rotate-token")
    pending = (await principal(fleet_api, agent.token)).rotated_token
    revoked = await fleet_api.done("POST", f"workers/{agent.worker_id}/revoke")
    assert (revoked["is_approved"], revoked["is_live"], revoked["current_load"]) == (False, False, 0)
    assert revoked["revoked_at"] is not None
    assert await is_dead(fleet_api, agent.token)
    assert await is_dead(fleet_api, pending)
    [row] = await fleet_api.rows("SELECT * FROM ai_job_dispatches WHERE tenant_job_id = $1::text::uuid", job["id"])
    assert (row["status"], row["attempts"]) == ("queued", 1)
    [session] = (await fleet_api.done("GET", f"workers/{agent.worker_id}"))["sessions"]
    assert (session["end_reason"], session["jobs_requeued"]) == ("revoked", 1)
    again = await fleet_api.done("POST", f"workers/{agent.worker_id}/revoke")
    assert again["revoked_at"] == revoked["revoked_at"]


async def test_revoking_a_worker_with_the_last_attempt_ends_the_job_and_gives_the_tokens_back(
    fleet_api: FleetApi,
) -> None:
    ann = await fleet_api.jobs_api.person(tokens=10)
    job = await fleet_api.jobs_api.submit(ann)
    for _ in range(3):
        agent = await fleet_api.agent()
        await fleet_api.jobs_api.core.start(agent.worker_id)
        await fleet_api.done("POST", f"workers/{agent.worker_id}/revoke")
    assert (await fleet_api.jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()["status"] == "failed"
    assert (await fleet_api.jobs_api.get(ann, "/api/wallet")).json()["balance"] == 10
    [session] = (await fleet_api.done("GET", f"workers/{agent.worker_id}"))["sessions"]
    assert (session["jobs_failed"], session["jobs_requeued"]) == (1, 0)


async def test_a_worker_gets_its_drain_and_an_admin_can_undo_it(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    drained = await fleet_api.done("POST", f"workers/{agent.worker_id}/drain", {"reason": "new disk"})
    assert (drained["is_draining"], drained["drain_reason"]) == (True, "new disk")
    operator = fleet_api.jobs_api.admin.user
    assert (drained["drained_by"], drained["drained_by_email"]) == (f"admin:{operator.id}", operator.email)
    listed = (await fleet_api.done("GET", "workers?limit=200"))["items"]
    assert [each["drained_by_email"] for each in listed if each["worker_id"] == agent.worker_id] == [operator.email]
    assert (await principal(fleet_api, agent.token)).is_draining
    again = await fleet_api.done("POST", f"workers/{agent.worker_id}/drain")
    assert (again["drained_since"], again["drain_reason"]) == (drained["drained_since"], "new disk")
    undone = await fleet_api.done("POST", f"workers/{agent.worker_id}/undrain")
    assert (undone["is_draining"], undone["drained_since"], undone["drain_reason"]) == (False, None, None)
    assert (undone["drained_by"], undone["drained_by_email"]) == (None, None)
    assert not (await principal(fleet_api, agent.token)).is_draining
    await fleet_api.done("POST", f"workers/{agent.worker_id}/undrain")
    assert await fleet_api.events(agent) == ["registered", "drain", "drain", "undrain"]


async def test_a_drain_by_a_command_or_a_deleted_user_has_no_e_mail(fleet_api: FleetApi) -> None:
    for actor in ("operator", "autoscaler", f"admin:{uuid4()}"):
        agent = await fleet_api.agent()
        await fleet_api.plane.rooms.fleet.workers.drain(agent.worker_id, actor)
        worker = await fleet_api.done("GET", f"workers/{agent.worker_id}")
        assert (worker["drained_by"], worker["drained_by_email"]) == (actor, None)
        [event] = (await fleet_api.done("GET", f"worker-audit-logs?worker_id={agent.worker_id}&limit=1"))["items"]
        assert (event["event"], event["actor"], event["actor_email"]) == ("drain", actor, None)


async def test_a_drain_lasts_until_it_is_undone_whatever_the_worker_does(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    await fleet_api.done("POST", f"workers/{agent.worker_id}/drain")
    await fleet_api.silent_for(agent, 91)
    agent = await fleet_api.agent(agent.worker_id)
    assert (await principal(fleet_api, agent.token)).is_draining, "it registered over its old registration"
    left = await fleet_api.client.post("/api/worker/deregister", json={}, headers=agent.headers)
    assert left.status_code == 204, left.text
    agent = await fleet_api.agent(agent.worker_id)
    assert (await principal(fleet_api, agent.token)).is_draining, "it said good-bye and came back"
    await fleet_api.done("POST", f"workers/{agent.worker_id}/revoke")
    await fleet_api.done("POST", f"workers/{agent.worker_id}/approve")
    agent = await fleet_api.agent(agent.worker_id)
    assert (await principal(fleet_api, agent.token)).is_draining, "it was revoked and approved"


async def test_a_drained_worker_that_deregistered_is_listed_and_can_be_undrained(fleet_api: FleetApi) -> None:
    fleet = await fleet_api.fleet()
    agent = await fleet_api.agent(fleet_slug=fleet["slug"], capacity_type="spot")
    await fleet_api.done("POST", f"workers/{agent.worker_id}/drain")
    await fleet_api.client.post("/api/worker/deregister", json={}, headers=agent.headers)
    [away] = (await fleet_api.done("GET", f"workers?fleet={fleet['slug']}"))["items"]
    shown = {name: away[name] for name in ("worker_id", "is_registered", "is_live", "is_draining", "max_concurrency")}
    assert shown == {
        "worker_id": agent.worker_id,
        "is_registered": False,
        "is_live": False,
        "is_draining": True,
        "max_concurrency": 0,
    }
    assert (away["fleet_slug"], away["capacity_type"], away["workflows"]) == (fleet["slug"], "spot", [])
    details = await fleet_api.done("GET", f"workers/{agent.worker_id}")
    assert [session["id"] for session in details["sessions"]] == [away["session_id"]]
    assert (await fleet_api.done("GET", f"workers?fleet={fleet['slug']}&live=true"))["items"] == []
    undone = await fleet_api.done("POST", f"workers/{agent.worker_id}/undrain")
    assert (undone["is_draining"], undone["is_registered"]) == (False, False)
    assert (await fleet_api.done("GET", f"workers?fleet={fleet['slug']}"))["items"] == []
    assert (await fleet_api.admin("GET", f"workers/{agent.worker_id}")).status_code == 404
    assert (await fleet_api.admin("POST", f"workers/{agent.worker_id}/undrain")).status_code == 404
    # Before it comes back.
    await fleet_api.done("POST", f"workers/{agent.worker_id}/drain")
    agent = await fleet_api.agent(agent.worker_id)
    assert (await principal(fleet_api, agent.token)).is_draining


async def test_only_a_worker_that_has_registered_before_can_be_drained(fleet_api: FleetApi) -> None:
    refused = await fleet_api.admin("POST", "workers/gpu-typo/drain")
    assert refused.status_code == 404
    assert "'gpu-typo'" in refused.json()["detail"]
    assert await fleet_api.rows("SELECT FROM worker_drains WHERE worker_id = 'gpu-typo'") == []


async def test_a_rotated_token_comes_with_the_next_responses_and_its_first_use_ends_the_old_one(
    fleet_api: FleetApi,
) -> None:
    agent = await fleet_api.agent()
    assert (await principal(fleet_api, agent.token)).rotated_token is None
    assert (await fleet_api.done("POST", f"workers/{agent.worker_id}/rotate-token"))["rotation_pending"] is True
    first, second = [(await principal(fleet_api, agent.token)).rotated_token for _ in range(2)]
    assert first == second
    assert len(first) == 64
    assert first != agent.token
    # Rotating once more does not take away what the worker may have in hand already.
    await fleet_api.done("POST", f"workers/{agent.worker_id}/rotate-token")
    assert (await principal(fleet_api, agent.token)).rotated_token == first
    used = await principal(fleet_api, first)
    assert (used.worker_id, used.rotated_token) == (agent.worker_id, None)
    assert await is_dead(fleet_api, agent.token)
    assert (await fleet_api.done("GET", f"workers/{agent.worker_id}"))["rotation_pending"] is False
    assert await fleet_api.events(agent) == ["registered", "rotate_token", "token_adopted"]
    await fleet_api.done("POST", f"workers/{agent.worker_id}/rotate-token")
    assert (await principal(fleet_api, first)).rotated_token not in (None, first, agent.token)


async def test_an_old_token_dies_after_ten_minutes_and_no_rotation_brings_it_back(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    await fleet_api.done("POST", f"workers/{agent.worker_id}/rotate-token")
    new = (await principal(fleet_api, agent.token)).rotated_token
    await fleet_api.rows(
        "UPDATE comfyui_workers SET rotated_at = rotated_at - interval '601 s' WHERE worker_id = $1", agent.worker_id
    )
    assert await is_dead(fleet_api, agent.token)
    await fleet_api.done("POST", f"workers/{agent.worker_id}/rotate-token")
    assert await is_dead(fleet_api, agent.token)
    assert not await is_dead(fleet_api, new)


async def test_a_revoked_worker_has_no_token_to_rotate(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    await fleet_api.done("POST", f"workers/{agent.worker_id}/revoke")
    assert_refused(await fleet_api.admin("POST", f"workers/{agent.worker_id}/rotate-token"), 409, "conflict")


async def test_workflows_are_assigned_to_workers_with_their_own_and_never_to_those_of_a_fleet(
    fleet_api: FleetApi,
) -> None:
    other = f"assigned-{next(numbers)}"
    number = await fleet_api.jobs_api.core.add_workflow(other)
    agent = await fleet_api.agent()
    path = f"workers/{agent.worker_id}/workflows"
    assigned = await fleet_api.done("PUT", path, {"workflow_slugs": [other]})
    assert assigned["workflows"] == [other]
    assert (await principal(fleet_api, agent.token)).workflow_ids == (number,)
    assert (await fleet_api.done("PUT", path, {"workflow_slugs": []}))["workflows"] == []
    assert (await principal(fleet_api, agent.token)).workflow_ids == ()
    unknown = await fleet_api.admin("PUT", path, {"workflow_slugs": [other, "nothing"]})
    assert_refused(unknown, 422, "invalid_request", "workflow_slugs.1")
    assert_refused(
        await fleet_api.admin("PUT", path, {"workflows": []}), 422, "invalid_request", "workflow_slugs", "workflows"
    )
    fleet = await fleet_api.fleet()
    member = await fleet_api.agent(fleet_slug=fleet["slug"])
    refused = await fleet_api.admin("PUT", f"workers/{member.worker_id}/workflows", {"workflow_slugs": [other]})
    assert_refused(refused, 409, "conflict")
    assert (await principal(fleet_api, member.token)).workflow_ids == (fleet_api.jobs_api.core.workflow,)


async def test_actions_of_admins_are_in_the_audit_log_and_in_the_log_of_the_worker(fleet_api: FleetApi) -> None:
    agent = await fleet_api.agent()
    for action in ("drain", "undrain", "rotate-token", "approve", "revoke"):
        await fleet_api.done("POST", f"workers/{agent.worker_id}/{action}")
    actor = f"admin:{fleet_api.jobs_api.admin.user.id}"
    actions = ["drain", "undrain", "rotate_token", "approve", "revoke"]
    assert await audited(fleet_api, agent) == [(f"worker.{action}", actor) for action in actions]
    log = (await fleet_api.done("GET", f"worker-audit-logs?worker_id={agent.worker_id}"))["items"]
    assert [(line["event"], line["actor"]) for line in log[::-1]] == [
        ("registered", f"worker:{agent.worker_id}"),
        *((action, actor) for action in actions),
    ]
    email = fleet_api.jobs_api.admin.user.email
    assert [line["actor_email"] for line in log[::-1]] == [None, *[email] * len(actions)]


@pytest.mark.parametrize("path", ["worker-sessions", "worker-audit-logs"])
async def test_logs_of_all_workers_or_of_one_are_read_newest_first_page_by_page(fleet_api: FleetApi, path: str) -> None:
    agents = [await fleet_api.agent() for _ in range(2)]
    await fleet_api.client.post("/api/worker/deregister", headers=agents[0].headers)
    for _ in range(2):
        await fleet_api.silent_for(agents[1], 91)
        agents[1] = await fleet_api.agent(agents[1].worker_id)
    everything = (await fleet_api.done("GET", f"{path}?limit=200"))["items"]
    for agent in agents:
        expected = [line["id"] for line in everything if line["worker_id"] == agent.worker_id]
        assert expected == sorted(expected, reverse=True)
        seen, cursor = [], ""
        while cursor is not None:
            page = await fleet_api.done("GET", f"{path}?worker_id={agent.worker_id}&limit=1&{cursor}")
            seen += [line["id"] for line in page["items"]]
            cursor = page["next_cursor"] and f"cursor={page['next_cursor']}"
        assert seen == expected
    newest = await fleet_api.done("GET", f"{path}?limit=1")
    assert newest["items"][0]["worker_id"] == agents[1].worker_id
    older = await fleet_api.done("GET", f"{path}?limit=1&cursor={newest['next_cursor']}")
    assert older["items"][0]["id"] < newest["items"][0]["id"]


@pytest.mark.few_forms
@pytest.mark.parametrize("action", ACTIONS)
async def test_actions_on_an_unknown_worker_are_refused(fleet_api: FleetApi, action: str) -> None:
    assert_refused(await fleet_api.admin("POST", f"workers/nobody/{action}"), 404, "not_found")


async def test_unknown_workers_and_impossible_ids_are_refused(fleet_api: FleetApi) -> None:
    assert_refused(await fleet_api.admin("GET", "workers/nobody"), 404, "not_found")
    assert_refused(await fleet_api.admin("PUT", "workers/nobody/workflows", {"workflow_slugs": []}), 404, "not_found")
    assert_refused(await fleet_api.admin("GET", "workers/%20"), 422, "invalid_request", "path.worker_id")
    assert_refused(await fleet_api.admin("GET", "worker-sessions?cursor=0"), 422, "invalid_request", "query.cursor")
    assert_refused(await fleet_api.admin("GET", "workers?fleet=%20"), 422, "invalid_request", "query.fleet")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "workers"),
        ("GET", "workers/any"),
        ("GET", "worker-sessions"),
        ("GET", "worker-audit-logs"),
        ("PUT", "workers/any/workflows"),
        *(("POST", f"workers/any/{action}") for action in ACTIONS),
    ],
)
async def test_only_admins_may_call_these_routes(fleet_api: FleetApi, method: str, path: str) -> None:
    user = await fleet_api.jobs_api.person()
    agent = await fleet_api.agent()
    body = {"workflow_slugs": []} if method == "PUT" else None
    address = f"/api/admin/{path}"
    refused = await fleet_api.client.request(method, address, json=body, headers=user.headers)
    assert_refused(refused, 403, "forbidden")
    for headers in ({}, agent.headers, fleet_api.secret):
        assert_refused(
            await fleet_api.client.request(method, address, json=body, headers=headers), 401, "not_authenticated"
        )
