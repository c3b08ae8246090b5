"""Roles, disabling, deleting and keys of users over HTTP: who may do it to which user, and the effect on their work."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.accounts.deletion import UserDeletion
from callsheet.identity.accounts.management import UserManagement
from callsheet.identity.accounts.managers import COMMAND_LINE
from callsheet.pipelines.run.user_work import JobsAndRunsOfUser
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.wire.identity import Role
from tests.support.http.accounts import PASSWORD, People, Person, sign_in
from tests.support.http.event_stream import opened
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_refused


@pytest.fixture
async def operator(people: People) -> Person:
    return await people.admin()


@pytest.fixture
async def ann(people: People) -> Person:
    return await people.user()


@pytest.fixture
async def tenant_admin(people: People, ann: Person) -> Person:
    """An admin of ann's tenant."""
    return await people.user(ann.tenant, Role.TENANT_ADMIN)


@pytest.fixture
async def jobs_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> JobsApi:
    return await JobsApi.open(plane, client, people)


def of(person: Person, rest: str = "") -> str:
    return f"/api/admin/users/{person.user.id}{rest}"


async def change_role(client: httpx.AsyncClient, by: Person, whom: Person, role: str) -> httpx.Response:
    return await client.put(of(whom, "/role"), json={"role": role}, headers=by.headers)


async def shown(client: httpx.AsyncClient, by: Person, whom: Person) -> dict[str, Any]:
    response = await client.get(of(whom), headers=by.headers)
    assert response.status_code == 200, response.text
    return dict(response.json())


@pytest.mark.parametrize("role", ["operator", "viewer"])
async def test_a_tenant_admin_cannot_give_a_role_that_sees_other_tenants(
    client: httpx.AsyncClient, ann: Person, tenant_admin: Person, role: str
) -> None:
    assert_refused(await change_role(client, tenant_admin, ann, role), 403, "forbidden")
    body = {"tenant": ann.tenant.slug, "email": f"new-{role}@example.com", "password": PASSWORD, "role": role}
    assert_refused(await client.post("/api/admin/users", json=body, headers=tenant_admin.headers), 403, "forbidden")
    assert (await shown(client, tenant_admin, ann))["role"] == "user"


@pytest.mark.parametrize("role", list(Role))
async def test_users_cannot_change_their_own_role_or_disable_themselves(
    client: httpx.AsyncClient, people: People, role: Role
) -> None:
    person = await people.user(role=role)
    responses = [
        await change_role(client, person, person, "operator"),
        await client.post(of(person, "/disable"), headers=person.headers),
        await client.delete(of(person), headers=person.headers),
    ]
    for response in responses:
        assert_refused(response, 403, "forbidden")
    assert (await client.get("/api/me", headers=person.headers)).json()["role"] == role.value


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.VIEWER])
async def test_a_tenant_admin_leaves_operators_and_viewers_of_its_tenant_alone(
    client: httpx.AsyncClient, people: People, ann: Person, tenant_admin: Person, role: Role
) -> None:
    target = await people.user(ann.tenant, role)
    key_id = (await client.get(of(target, "/keys"), headers=tenant_admin.headers)).json()["items"][0]["id"]
    for response in (
        await client.post(of(target, "/keys"), json={"name": "stolen"}, headers=tenant_admin.headers),
        await client.delete(of(target, f"/keys/{key_id}"), headers=tenant_admin.headers),
        await change_role(client, tenant_admin, target, "user"),
        await client.post(of(target, "/disable"), headers=tenant_admin.headers),
        await client.delete(of(target), headers=tenant_admin.headers),
    ):
        assert_refused(response, 403, "forbidden")
    assert (await client.get("/api/me", headers=target.headers)).json()["role"] == role.value


async def test_a_tenant_admin_does_not_find_users_of_other_tenants(
    client: httpx.AsyncClient, people: People, tenant_admin: Person
) -> None:
    stranger = await people.user()
    for response in (
        await client.get(of(stranger), headers=tenant_admin.headers),
        await client.get(of(stranger, "/keys"), headers=tenant_admin.headers),
        await client.post(of(stranger, "/keys"), json={"name": "stolen"}, headers=tenant_admin.headers),
        await change_role(client, tenant_admin, stranger, "tenant_admin"),
        await client.post(of(stranger, "/disable"), headers=tenant_admin.headers),
        await client.delete(of(stranger), headers=tenant_admin.headers),
        await client.get(of(stranger, "/wallet"), headers=tenant_admin.headers),
    ):
        assert_refused(response, 404, "not_found")
    body = {"tenant": stranger.tenant.slug, "email": "into@example.com", "password": PASSWORD}
    response = await client.post("/api/admin/users", json=body, headers=tenant_admin.headers)
    assert_refused(response, 422, "invalid_request", "tenant")
    listed = (await client.get("/api/admin/users?limit=200", headers=tenant_admin.headers)).text
    assert stranger.user.email not in listed
    assert tenant_admin.user.email in listed
    # The filter does not show users of another tenant either.
    other = await client.get(f"/api/admin/users?tenant={stranger.tenant.slug}", headers=tenant_admin.headers)
    assert other.json()["items"] == []


async def test_a_tenant_admin_gives_no_tokens_and_submits_no_job_with_a_price(
    client: httpx.AsyncClient, ann: Person, tenant_admin: Person
) -> None:
    credit = {"amount": 5, "provider_transaction_id": "mine"}
    assert_refused(await client.post(of(ann, "/credits"), json=credit, headers=tenant_admin.headers), 403, "forbidden")
    job = {"user_id": str(ann.user.id), "workflow": "any", "payload": {}, "cost": 0}
    assert_refused(await client.post("/api/admin/jobs", json=job, headers=tenant_admin.headers), 403, "forbidden")
    assert (await client.get(of(ann, "/wallet"), headers=tenant_admin.headers)).json()["balance"] == 0


async def test_a_tenant_admin_manages_the_users_of_its_tenant(
    client: httpx.AsyncClient, ann: Person, tenant_admin: Person
) -> None:
    created = (await client.post(of(ann, "/keys"), json={"name": "shop"}, headers=tenant_admin.headers)).json()
    acting = {"authorization": f"Bearer {created['key']}"}
    assert (await client.get("/api/me", headers=acting)).json()["user_id"] == str(ann.user.id)
    listed = await client.get(of(ann, "/keys"), headers=tenant_admin.headers)
    assert [key["name"] for key in listed.json()["items"]] == ["shop", "test"]
    assert created["key"] not in listed.text
    assert (await client.delete(of(ann, f"/keys/{created['id']}"), headers=tenant_admin.headers)).json()["revoked_at"]
    assert_refused(await client.get("/api/me", headers=acting), 401, "not_authenticated")
    assert (await change_role(client, tenant_admin, ann, "tenant_admin")).json()["role"] == "tenant_admin"


async def test_jobs_are_shown_without_the_fields_that_the_role_may_not_see(
    jobs_api: JobsApi, people: People, ann: Person, tenant_admin: Person, operator: Person
) -> None:
    owner = await jobs_api.person("pool_1", tokens=100)
    job = await jobs_api.submit(owner)
    await jobs_api.core.fail(await jobs_api.start())
    path = f"/api/admin/tenants/{owner.tenant.id}/jobs"
    viewer = await people.user(role=Role.VIEWER)
    manager = await people.user(owner.tenant, Role.TENANT_ADMIN)
    for person, payload, dispatch in ((operator, True, True), (viewer, False, True), (manager, False, False)):
        one = (await jobs_api.get(person, f"{path}/{job['id']}")).json()
        assert (one["payload"] is not None, one["dispatch"] is not None) == (payload, dispatch), person.user.role
        listed = (await jobs_api.get(person, path)).json()["items"]
        by_user = (await jobs_api.get(person, of(owner, "/jobs"))).json()["items"]
        for seen in (one, *listed, *by_user):
            assert (seen["full_error"] is not None) is payload
            assert seen["error"]["type"] == "engine_error"
    assert (await jobs_api.get(tenant_admin, f"{path}/{job['id']}")).status_code == 404


async def test_a_user_who_becomes_an_operator_loses_earlier_keys_and_sessions(
    client: httpx.AsyncClient, ann: Person, tenant_admin: Person, operator: Person
) -> None:
    """Or a tenant admin who made the key would hold an operator's."""
    made = (await client.post(of(ann, "/keys"), json={"name": "shop"}, headers=tenant_admin.headers)).json()["key"]
    cookie = (await sign_in(client, ann)).cookies["callsheet_session"]
    client.cookies.clear()
    assert (await change_role(client, operator, ann, "operator")).json()["role"] == "operator"
    for headers in (
        ann.headers,
        {"authorization": f"Bearer {made}"},
        {"cookie": f"callsheet_session={cookie}"},
    ):
        assert_refused(await client.get("/api/me", headers=headers), 401, "not_authenticated")
    assert (await sign_in(client, ann)).json()["role"] == "operator"


async def test_a_removed_role_is_refused_from_the_next_request_on(
    client: httpx.AsyncClient, people: People, operator: Person
) -> None:
    other = await people.admin()
    assert (await client.get("/api/admin/workers", headers=other.headers)).status_code == 200
    assert (await change_role(client, operator, other, "user")).status_code == 200
    assert_refused(await client.get("/api/admin/workers", headers=other.headers), 403, "forbidden")


@pytest.mark.parametrize("whole_tenant", [False, True])
async def test_a_disabled_user_is_refused_at_once_and_accepted_jobs_finish(
    jobs_api: JobsApi, people: People, operator: Person, whole_tenant: bool
) -> None:
    ann = await jobs_api.person("pool_2", tokens=100)
    started_job, queued = await jobs_api.submit(ann), await jobs_api.submit(ann)
    started = await jobs_api.start()
    cookie = (await sign_in(jobs_api.client, ann)).cookies["callsheet_session"]
    jobs_api.client.cookies.clear()
    where = f"/api/admin/tenants/{ann.tenant.id}" if whole_tenant else of(ann)
    async with opened(jobs_api.client, ann, "/api/ai-jobs/stream") as stream:
        await stream.comment("open")
        disabled = await jobs_api.client.post(f"{where}/disable", headers=operator.headers)
        assert disabled.json()["disabled_at"] is not None
        again = await jobs_api.client.post(f"{where}/disable", headers=operator.headers)
        assert again.json() == disabled.json()
        await jobs_api.core.complete(started)
        assert await stream.rest() == []
    for headers in (ann.headers, {"cookie": f"callsheet_session={cookie}"}):
        assert_refused(await jobs_api.client.get("/api/me", headers=headers), 401, "not_authenticated")
    assert_refused(await sign_in(jobs_api.client, ann), 401, "invalid_credentials")
    await jobs_api.core.complete(await jobs_api.start())

    assert (await jobs_api.client.post(f"{where}/enable", headers=operator.headers)).json()["disabled_at"] is None
    for job in (started_job, queued):
        assert (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()["status"] == "completed"
    assert_refused(
        await jobs_api.client.get("/api/me", headers={"cookie": f"callsheet_session={cookie}"}),
        401,
        "not_authenticated",
    )


async def test_deleting_a_user_waits_for_jobs_or_cancels_them(
    jobs_api: JobsApi, people: People, operator: Person
) -> None:
    ann = await jobs_api.person("pool_1", tokens=100)
    job = await jobs_api.submit(ann)
    refused = await jobs_api.client.delete(of(ann), headers=operator.headers)
    assert_refused(refused, 409, "in_use")
    assert "1 job and 0 runs active" in refused.json()["detail"]
    assert (await jobs_api.get(ann, f"/api/ai-jobs/{job['id']}")).json()["status"] == "queued"

    deleted = await jobs_api.client.delete(of(ann, "?cancel_jobs=true"), headers=operator.headers)
    assert deleted.status_code == 200, deleted.text
    seen = (await jobs_api.get(operator, f"/api/admin/tenants/{ann.tenant.id}/jobs/{job['id']}")).json()
    assert (seen["status"], seen["user_id"]) == ("canceled", str(ann.user.id))
    # The ledger is whole: what was reserved came back.
    assert (await jobs_api.get(operator, of(ann, "/wallet"))).json()["balance"] == 100


async def test_deleting_a_user_keeps_only_the_id(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, operator: Person
) -> None:
    tenant = await people.tenant()
    body = {"tenant": tenant.slug, "email": "personal@example.com", "name": "Per Sonal", "password": PASSWORD}
    user = (await client.post("/api/admin/users", json=body, headers=operator.headers)).json()
    path = f"/api/admin/users/{user['id']}"
    key = (await client.post(f"{path}/keys", json={"name": "a"}, headers=operator.headers)).json()["key"]
    deleted = (await client.delete(path, headers=operator.headers)).json()
    assert (deleted["id"], deleted["email"]) == (user["id"], f"deleted-{user['id']}@users.invalid")
    assert deleted["deleted_at"] is not None
    assert (await client.get(path, headers=operator.headers)).json() == deleted
    assert_refused(await client.get("/api/me", headers={"authorization": f"Bearer {key}"}), 401, "not_authenticated")
    async with plane.databases.central.connection() as connection:
        left = []
        for table in ("users", "api_keys", "browser_sessions", "audit_logs"):
            left += [str(dict(row)) for row in await connection.fetch(f"SELECT * FROM {table}")]
    assert not [row for row in left if "personal@example.com" in row or "Per Sonal" in row]
    for method, rest in (("POST", "/enable"), ("POST", "/keys"), ("DELETE", "")):
        content = {"json": {"name": "again"}} if rest == "/keys" else {}
        response = await client.request(method, path + rest, headers=operator.headers, **content)
        assert_refused(response, 404, "not_found")
    # The e-mail address is free.
    assert (await client.post("/api/admin/users", json=body, headers=operator.headers)).status_code == 201


@pytest.mark.parametrize("point", [Failpoint.DELETE_USER_BEFORE_CANCEL, Failpoint.DELETE_USER_BEFORE_ROW])
async def test_a_deletion_that_crashed_is_repeated(
    plane: ControlPlane, jobs_api: JobsApi, operator: Person, point: Failpoint
) -> None:
    ann = await jobs_api.person("pool_1", tokens=100)
    await jobs_api.submit(ann)
    work = JobsAndRunsOfUser(plane.databases, plane.rooms.pipelines.runs, plane.rooms.jobs.cancellation)
    deletion = UserDeletion(plane.databases, UserManagement(plane.databases, plane.rooms.identity.keys), work)
    with armed({point: crash}), pytest.raises(Crashed):
        await deletion.delete(COMMAND_LINE, ann.user.id, cancel_jobs=True)
    assert_refused(await jobs_api.client.get("/api/me", headers=ann.headers), 401, "not_authenticated")
    deleted = await deletion.delete(COMMAND_LINE, ann.user.id, cancel_jobs=True)
    assert deleted.deleted_at is not None
