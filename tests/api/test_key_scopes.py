"""API keys have a subset of their users' rights, may expire, and cannot create other keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access import keys as keys_module
from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.wire.identity import CreatedKey, CreateKeyRequest, KeyScope, Role
from callsheet.wire.operate.audit import AuditEntry, AuditFilter
from tests.support.http.accounts import People, Person, session_of
from tests.support.http.jobs_api import JobsApi
from tests.support.http.responses import assert_limit, assert_refused

OF_ROLE = {
    Role.USER: ["read", "submit"],
    Role.TENANT_ADMIN: ["admin", "read", "submit"],
    Role.OPERATOR: ["admin", "read", "submit"],
    Role.VIEWER: ["admin", "read"],
}


async def new_key(plane: ControlPlane, person: Person, *scopes: KeyScope) -> CreatedKey:
    return await plane.rooms.identity.keys.create(
        person.user.id, CreateKeyRequest(name="scoped", scopes=list(scopes) or None)
    )


def with_key(key: CreatedKey) -> dict[str, str]:
    return {"authorization": f"Bearer {key.key}"}


async def lines_of(plane: ControlPlane, person: Person, action: str) -> list[AuditEntry]:
    wanted = AuditFilter(action=action, subject_type="user", subject_id=str(person.user.id))
    return (await AuditLog(plane.databases).list(wanted, None, 50)).items


@pytest.mark.parametrize("role", [Role.USER, Role.TENANT_ADMIN, Role.OPERATOR])
async def test_a_session_creates_keys_and_a_key_creates_none(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, role: Role
) -> None:
    person = await people.user(role=role)
    session = await session_of(client, person)
    created = await client.post("/api/keys", json={"name": "mine"}, headers=session)
    assert created.status_code == 201
    assert created.json()["scopes"] == OF_ROLE[role]
    refused = await client.post("/api/keys", json={"name": "another"}, headers=person.headers)
    assert_refused(refused, 403, "forbidden")
    assert "POST /api/auth/login" in refused.json()["detail"]
    # The newest; another one is of the key that the person came with.
    line, _ = await lines_of(plane, person, "key.create")
    assert line.actor == f"user:{person.user.id}"
    assert line.details["key_id"] == created.json()["id"]
    assert created.json()["key"] not in str(line)


@pytest.mark.parametrize("role", [Role.TENANT_ADMIN, Role.OPERATOR])
@pytest.mark.parametrize("what", ["keys", "password-reset"])
async def test_an_admin_key_invites_other_users_but_creates_no_login_for_its_own_user(
    client: httpx.AsyncClient, people: People, role: Role, what: str
) -> None:
    tenant_admin = await people.user(role=role)
    ann = await people.user(tenant_admin.tenant)
    body = {"name": "another"} if what == "keys" else None
    for person in (ann, tenant_admin):
        path = f"/api/admin/users/{person.user.id}/{what}"
        session = await session_of(client, tenant_admin)
        assert (await client.post(path, json=body, headers=session)).status_code == 201
        by_key = await client.post(path, json=body, headers=tenant_admin.headers)
        if person is ann:
            assert by_key.status_code == 201
        else:
            assert_refused(by_key, 403, "forbidden")


@pytest.mark.parametrize("role", list(Role))
async def test_a_new_key_has_the_scopes_of_the_role_by_default(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, role: Role
) -> None:
    person = await people.user(role=role)
    me = (await client.get("/api/me", headers=person.headers)).json()
    assert me["scopes"] == OF_ROLE[role]
    listed = (await client.get("/api/keys", headers=person.headers)).json()["items"]
    assert [key["scopes"] for key in listed] == [OF_ROLE[role]]
    useless = next((scope for scope in ("admin", "submit") if scope not in OF_ROLE[role]), None)
    if useless is not None:
        operator = await people.admin()
        path = f"/api/admin/users/{person.user.id}/keys"
        body = {"name": "too much", "scopes": ["read", useless]}
        assert_refused(await client.post(path, json=body, headers=operator.headers), 422, "invalid_request", "scopes")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["everything"]}, "scopes.0"),
        ({"scopes": "read"}, "scopes"),
        ({"scopes": ["admin"]}, "scopes"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2100-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2100-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, "expires_at"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "expires_at"),
        ({"expires_at": "tomorrow"}, "expires_at"),
    ],
)
async def test_an_invalid_property_of_a_key_is_refused_by_its_field(
    client: httpx.AsyncClient, people: People, fields: dict[str, Any], wrong: str
) -> None:
    session = await session_of(client, await people.user())
    response = await client.post("/api/keys", json={"name": "x", **fields}, headers=session)
    assert_refused(response, 422, "invalid_request", wrong)


async def test_an_expired_key_is_refused(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    until = (datetime.now(UTC) + timedelta(days=30)).replace(microsecond=0)
    session = await session_of(client, person)
    body = {"name": "for a month", "expires_at": until.isoformat(), "scopes": ["read", "read"]}
    created = (await client.post("/api/keys", json=body, headers=session)).json()
    assert (datetime.fromisoformat(created["expires_at"]), created["scopes"]) == (until, ["read"])
    headers = {"authorization": f"Bearer {created['key']}"}
    token = (await client.post("/api/stream-tokens", json={}, headers=headers)).json()["token"]
    async with plane.databases.central.connection() as connection:
        change = "UPDATE api_keys SET expires_at = clock_timestamp() WHERE id = $1"
        await connection.execute(change, created["id"])
    assert_refused(await client.get("/api/me", headers=headers), 401, "not_authenticated")
    streamed = await client.get("/api/ai-jobs/stream", params={"token": token})
    assert_refused(streamed, 401, "not_authenticated")


async def test_each_scope_allows_its_requests_without_other_scopes(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    """What is refused without it is in the table of test_authorization.py."""
    jobs_api = await JobsApi.open(plane, client, people)
    ann = await jobs_api.person("pool_1", tokens=100)
    job = await jobs_api.submit(ann)
    read, submit = [with_key(await new_key(plane, ann, scope)) for scope in (KeyScope.READ, KeyScope.SUBMIT)]
    path = f"/api/ai-jobs/{job['id']}"
    assert (await client.get(path, headers=read)).status_code == 200
    refused = await client.post(f"{path}/cancel", headers=read)
    assert_refused(refused, 403, "forbidden")
    assert "needs the scope submit" in refused.json()["detail"]
    assert_refused(await client.get(path, headers=submit), 403, "forbidden")
    assert (await client.post(f"{path}/cancel", headers=submit)).status_code == 200
    admin = with_key(await new_key(plane, jobs_api.admin, KeyScope.ADMIN))
    disabled = f"/api/admin/users/{ann.user.id}/disable"
    assert (await client.post(disabled, headers=admin)).status_code == 200
    assert_refused(await client.get("/api/ai-jobs", headers=admin), 403, "forbidden")


async def test_an_operators_key_without_the_admin_scope_acts_as_a_users_key(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    operator = await people.admin()
    own = with_key(await new_key(plane, operator, KeyScope.READ, KeyScope.SUBMIT))
    body = {"actor": "copy", "payload": {}, "priority": 1}
    assert_refused(await client.post("/api/task", json=body, headers=own), 422, "invalid_request", "priority")


async def test_a_key_may_revoke_itself_and_needs_submit_to_revoke_others(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    person = await people.user()
    one, other = [await new_key(plane, person, KeyScope.READ) for _ in range(2)]
    assert_refused(await client.delete(f"/api/keys/{other.id}", headers=with_key(one)), 403, "forbidden")
    assert (await client.delete(f"/api/keys/{one.id}", headers=with_key(one))).json()["revoked_at"] is not None
    assert_refused(await client.get("/api/me", headers=with_key(one)), 401, "not_authenticated")
    assert (await client.get("/api/me", headers=with_key(other))).status_code == 200
    [line] = await lines_of(plane, person, "key.revoke")
    assert (line.actor, line.details["key_id"]) == (f"user:{person.user.id}", str(one.id))


async def test_the_number_of_keys_that_a_user_creates_in_an_hour_is_limited(
    client: httpx.AsyncClient, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were revoked are listed too."""
    person, other = await people.user(), await people.user()
    monkeypatch.setattr(keys_module, "KEYS_PER_HOUR", 3)
    session = await session_of(client, person)
    for _ in range(2):
        created = (await client.post("/api/keys", json={"name": "again"}, headers=session)).json()
        assert (await client.delete(f"/api/keys/{created['id']}", headers=session)).status_code == 200
    response = await client.post("/api/keys", json={"name": "again"}, headers=session)
    assert_refused(response, 429, "rate_limited")
    assert_limit(response, "keys", 3, 3600)
    session = await session_of(client, other)
    assert (await client.post("/api/keys", json={"name": "mine"}, headers=session)).status_code == 201


async def test_a_lower_role_reduces_the_permissions_of_its_keys(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    operator, tenant_admin = await people.admin(), await people.user(role=Role.TENANT_ADMIN)
    assert (await client.get("/api/admin/users", headers=tenant_admin.headers)).status_code == 200
    demoted = await client.put(
        f"/api/admin/users/{tenant_admin.user.id}/role", json={"role": "user"}, headers=operator.headers
    )
    assert demoted.status_code == 200
    assert_refused(await client.get("/api/admin/users", headers=tenant_admin.headers), 403, "forbidden")


async def test_authenticating_a_key_takes_one_statement_and_writes_nothing(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a control plane whose loops do not run; the loops of other tests run statements of their own. The route reads
    nothing itself."""
    person = await People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys).user()
    central, running, run = strict_plane.databases.central, ContextVar("running", default=False), list[str]()
    connected, arguments = central.connection, Statement._arguments

    @asynccontextmanager
    async def here() -> AsyncIterator[Connection]:
        async with connected() as connection:
            running.set(True)
            yield connection
            running.set(False)

    def recorded(statement: Statement, values: Mapping[str, object]) -> list[object]:
        if running.get():
            run.append(statement.name)
        return arguments(statement, values)

    with monkeypatch.context() as watched:
        watched.setattr(central, "connection", here)
        watched.setattr(Statement, "_arguments", recorded)
        assert (await strict_client.post("/api/auth/logout", headers=person.headers)).status_code == 204
    assert run == ["find_by_keys"]
