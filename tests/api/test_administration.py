"""Operators' views of the installation, and how they find and change accounts, tokens and sessions."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role, Tenant
from tests.support.http.accounts import People, Person, session_of
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused


async def read(client: httpx.AsyncClient, person: Person, path: str, **query: Any) -> Any:
    response = await client.get(f"/api/admin/{path}", params=query, headers=person.headers)
    assert response.is_success, response.text
    return response.json()


async def test_figures_of_tenants_come_from_central_and_their_pools(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    catalog_api = await CatalogApi.open(plane, client, people)
    ann = await catalog_api.person("pool_1", tokens=100)
    await catalog_api.person(tenant_of=ann)
    other = await people.tenant(pool="pool_2")
    effect = await catalog_api.effect(credits_cost=7)
    file_id = await catalog_api.file(ann)
    await catalog_api.submit(ann, effect, input_file_id=file_id)
    ids = [str(other.id), str(ann.tenant.id), "01900000-0000-7000-8000-000000000000"]
    [empty, figures] = (await read(client, catalog_api.admin, "tenant-figures", tenant_id=ids))["items"]
    assert empty == {
        "tenant_id": str(other.id),
        "users": 0,
        "balance": 0,
        "held": 0,
        "active_jobs": 0,
        "storage_bytes": 0,
        "storage_files": 0,
    }
    assert (figures["users"], figures["held"], figures["active_jobs"]) == (2, 7, 1)
    assert figures["balance"] >= 93
    assert figures["storage_files"] >= 1
    # A tenant admin gets what is its own.
    tenant_admin = await people.user(ann.tenant, Role.TENANT_ADMIN)
    own = (await read(client, tenant_admin, "tenant-figures", tenant_id=ids))["items"]
    assert [each["tenant_id"] for each in own] == [str(ann.tenant.id)]


async def test_tenants_and_users_are_found_by_a_part_of_their_names(client: httpx.AsyncClient, people: People) -> None:
    operator, tenant = await people.admin(), await people.tenant()
    person = await people.user(tenant)
    part = person.user.email[2:-4].upper()
    found = (await read(client, operator, "users", search=part))["items"]
    assert person.user.email in [user["email"] for user in found]
    assert {user["tenant_id"] for user in found if user["email"] == person.user.email} == {str(tenant.id)}
    found = (await read(client, operator, "tenants", search=tenant.slug[1:]))["items"]
    assert str(tenant.id) in [each["id"] for each in found]
    # Signs of patterns are taken as they are.
    for search in ("%", "_%_", "\\"):
        assert (await read(client, operator, "users", search=search))["items"] == []
        assert (await read(client, operator, "tenants", search=search))["items"] == []


async def credits(client: httpx.AsyncClient, operator: Person, person: Person, key: str | None, **body: object) -> Any:
    headers = {**operator.headers, **({} if key is None else {"idempotency-key": key})}
    return await client.post(f"/api/admin/users/{person.user.id}/credits", json=body, headers=headers)


async def test_the_same_idempotency_key_credits_once(client: httpx.AsyncClient, people: People) -> None:
    operator, person = await people.admin(), await people.user()
    requests = [credits(client, operator, person, "wish-1", amount=40, reason="Invoice 7") for _ in range(5)]
    responses = [response.json() for response in await asyncio.gather(*requests)]
    assert [response["balance"] for response in responses] == [40] * 5
    assert sorted(response["replayed"] for response in responses) == [False] + [True] * 4
    assert (await credits(client, operator, person, "wish-2", amount=2)).json()["balance"] == 42
    [older, newer] = reversed((await read(client, operator, f"users/{person.user.id}/wallet/transactions"))["items"])
    assert (older["amount"], newer["amount"]) == (40, 2)
    log = await read(client, operator, "audit-logs", action="wallet.credit", subject_id=str(person.user.id))
    assert [line["details"].get("reason") for line in log["items"]] == [None, "Invoice 7"]
    # The same key for something else, and neither a key nor a payment.
    again = await credits(client, operator, person, "wish-1", amount=41)
    assert_refused(again, 409, "conflict", "provider_transaction_id")
    assert_refused(
        await credits(client, operator, person, None, amount=41), 422, "invalid_request", "provider_transaction_id"
    )


async def test_sessions_of_a_user_are_listed_and_ended(client: httpx.AsyncClient, people: People) -> None:
    operator, person = await people.admin(), await people.user()
    first, second = [await session_of(client, person) for _ in range(2)]
    path = f"/api/admin/users/{person.user.id}/sessions"
    newest, oldest = await read(client, operator, f"users/{person.user.id}/sessions")
    assert (newest["is_current"], oldest["is_current"]) == (False, False)
    assert (await client.delete(f"{path}/{oldest['id']}", headers=operator.headers)).status_code == 204
    assert (await client.get("/api/me", headers=first)).status_code == 401
    assert (await client.get("/api/me", headers=second)).status_code == 200
    assert_refused(await client.delete(f"{path}/{oldest['id']}", headers=operator.headers), 404, "not_found")
    assert (await client.delete(path, headers=operator.headers)).json() == {"ended": 1}
    assert (await client.get("/api/me", headers=second)).status_code == 401
    # The key stays, and an admin of another tenant finds no such user.
    assert (await client.get("/api/me", headers=person.headers)).status_code == 200
    stranger = await people.user(role=Role.TENANT_ADMIN)
    assert_refused(await client.delete(path, headers=stranger.headers), 404, "not_found")


async def test_the_audit_log_is_filtered_by_person_tenant_and_time(client: httpx.AsyncClient, people: People) -> None:
    operator, tenant = await people.admin(), await people.tenant()
    person = await people.user(tenant)
    for action in ("disable", "enable"):
        assert (await client.post(f"/api/admin/users/{person.user.id}/{action}", headers=operator.headers)).is_success

    async def actions(**query: str) -> list[str]:
        return [line["action"] for line in (await read(client, operator, "audit-logs", **query))["items"]]

    mine = {"actor": operator.user.email, "tenant_id": str(tenant.id)}
    assert await actions(**mine) == ["user.enable", "user.disable"]
    assert await actions(**mine, action="user.disable") == ["user.disable"]
    assert await actions(actor="no.one@example.com") == []
    soon = datetime.now(UTC) + timedelta(hours=1)
    assert await actions(**mine, since=soon.isoformat()) == []
    assert await actions(**mine, until=soon.isoformat()) == ["user.enable", "user.disable"]
    [line, _] = (await read(client, operator, "audit-logs", **mine))["items"]
    assert (line["actor_email"], line["subject_name"], line["tenant"]) == (
        *(operator.user.email, person.user.email, tenant.slug),
    )
    for since in ("yesterday", "0.5"):
        response = await client.get("/api/admin/audit-logs", params={"since": since}, headers=operator.headers)
        assert_refused(response, 422, "invalid_request", "query.since")


async def test_the_audit_log_names_what_was_renamed_or_deleted_later(client: httpx.AsyncClient, people: People) -> None:
    operator, person = await people.admin(), await people.user()
    slug = f"named-{uuid7().hex[-8:]}"

    async def call(method: str, path: str, body: Any = None) -> Any:
        response = await client.request(method, f"/api/admin/{path}", json=body, headers=operator.headers)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def names(subject_type: str, subject_id: object) -> list[str]:
        query = {"subject_type": subject_type, "subject_id": str(subject_id)}
        return [line["subject_name"] for line in (await read(client, operator, "audit-logs", **query))["items"]]

    fleet = await call("POST", "fleets", {"slug": slug, "stage": "testing", "name": "Before"})
    await call("PATCH", f"fleets/{fleet['id']}", {"name": "After"})
    assert await names("fleet", fleet["id"]) == [f"{slug}, testing"] * 2
    await call("DELETE", f"fleets/{fleet['id']}")
    assert await names("fleet", fleet["id"]) == [f"{slug}, testing"] * 3
    # Another fleet of the same name has another id.
    again = await call("POST", "fleets", {"slug": slug, "stage": "testing", "name": "Again"})
    assert await names("fleet", again["id"]) == [f"{slug}, testing"]

    wanted = {"action": "retry", "filter": {"user_id": str(person.user.id), "tenant_id": str(person.tenant.id)}}
    action = await call("POST", "bulk-actions", wanted)
    assert await names("bulk_action", action["id"]) == ["retry"]
    query = {"subject_type": "bulk_action", "subject_id": action["id"]}
    [line] = (await read(client, operator, "audit-logs", **query))["items"]
    assert line["names"] == {str(person.user.id): person.user.email, str(person.tenant.id): person.tenant.slug}


async def test_only_admins_of_a_tenant_may_read_it(client: httpx.AsyncClient, people: People) -> None:
    tenant: Tenant = await people.tenant()
    tenant_admin, stranger = await people.user(tenant, Role.TENANT_ADMIN), await people.user(role=Role.TENANT_ADMIN)
    assert (await read(client, tenant_admin, f"tenants/{tenant.id}"))["slug"] == tenant.slug
    response = await client.get(f"/api/admin/tenants/{tenant.id}", headers=stranger.headers)
    assert_refused(response, 404, "not_found")


async def test_settings_in_force_have_source_and_documentation_and_no_secret(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    viewer = await people.user(role=Role.VIEWER)
    items = {each["name"]: each for each in (await read(client, viewer, "settings"))["items"]}
    port = items["server.port"]
    assert (port["value"], port["default"], port["variable"]) == (
        *(plane.settings.server.port, 8400, "CALLSHEET_SERVER__PORT"),
    )
    assert port["source"] is not None
    assert all(each["description"] for each in items.values())
    assert (items["jobs.history_days"]["unit"], items["jobs.history_days"]["source"]) == ("days", None)
    dsn = items["database.dsn"]
    assert (dsn["is_secret"], dsn["value"]) == (True, "********")
    secret = plane.settings.database.dsn
    assert secret is not None
    assert secret.get_secret_value() not in json.dumps(items)


async def test_health_has_the_findings_of_doctor(client: httpx.AsyncClient, people: People) -> None:
    viewer = await people.user(role=Role.VIEWER)
    health = await read(client, viewer, "health")
    found = {(finding["part"], finding["status"]) for finding in health["findings"]}
    assert {("database", "ok"), ("storage", "ok"), ("clock", "ok")} <= found
    assert all(finding["advice"] for finding in health["findings"] if finding["status"] == "warning")
    # The next request within seconds gets the same result.
    assert (await read(client, viewer, "health"))["at"] == health["at"]


async def test_pools_are_listed_with_their_tenants(client: httpx.AsyncClient, people: People) -> None:
    operator = await people.admin()
    before = {pool["name"]: pool["tenants"] for pool in (await read(client, operator, "pools"))["pools"]}
    await people.tenant(pool="pool_2")
    after = (await read(client, operator, "pools"))["pools"]
    assert {pool["name"]: pool["tenants"] for pool in after} == {**before, "pool_2": before["pool_2"] + 1}
    assert all(pool["is_available"] for pool in after)


@pytest.mark.few_forms
@pytest.mark.parametrize("role", [Role.USER, Role.TENANT_ADMIN])
@pytest.mark.parametrize("path", ["settings", "health", "pools", "ledger-audits"])
async def test_only_operators_and_viewers_see_the_installation(
    client: httpx.AsyncClient, people: People, role: Role, path: str
) -> None:
    person = await people.user(role=role)
    assert_refused(await client.get(f"/api/admin/{path}", headers=person.headers), 403, "forbidden")
