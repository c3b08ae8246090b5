"""Invitations: a link that works once, for the right person, role and tenant, also for a person with a browser."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from uuid import uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.edge import _shown
from callsheet.wire.identity import Role
from tests.support.http.accounts import PASSWORD, People, Person
from tests.support.http.responses import assert_refused


@pytest.fixture
async def operator(people: People) -> Person:
    return await people.admin()


@pytest.fixture
async def tenant_admin(people: People) -> Person:
    """An admin of a tenant."""
    return await people.user(role=Role.TENANT_ADMIN)


async def invite(client: httpx.AsyncClient, by: Person, **changes: str) -> dict[str, Any]:
    body = {"tenant": by.tenant.slug, "email": f"{uuid4().hex}@example.com", **changes}
    response = await client.post("/api/admin/invitations", json=body, headers=by.headers)
    assert response.status_code == 201, response.text
    return dict(response.json())


def token_of(invitation: dict[str, Any]) -> str:
    return str(invitation["link"].rpartition("/")[2])


def api(invitation: dict[str, Any]) -> str:
    return f"/api/invitations/{token_of(invitation)}"


async def login(client: httpx.AsyncClient, email: str) -> httpx.Response:
    return await client.post("/api/auth/login", json={"email": email, "password": PASSWORD})


async def test_a_person_accepts_in_the_browser_and_can_sign_in(client: httpx.AsyncClient, tenant_admin: Person) -> None:
    email = f"{uuid4().hex}.invited@example.com"
    invitation = await invite(client, tenant_admin, email=f" {email.upper()} ", role="tenant_admin")
    assert invitation["email"] == email
    page = await client.get(invitation["link"])
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert tenant_admin.tenant.name in page.text
    assert "tenant admin" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "<script" not in page.text
    assert page.headers["cache-control"] == "no-store"
    # Looking at it, as mail scanners do, does not use it up.
    assert (await client.get(invitation["link"])).status_code == 200

    short = await client.post(invitation["link"], data={"password": "short"})
    assert short.status_code == 422
    assert "A password has 10 to 256 characters." in short.text
    done = await client.post(invitation["link"], data={"password": PASSWORD, "name": "New Person"})
    assert done.status_code == 200
    assert email in done.text
    signed_in = (await login(client, email)).json()
    assert (signed_in["user_id"], signed_in["role"]) == (invitation["id"], "tenant_admin")
    assert (signed_in["tenant"], signed_in["name"]) == (tenant_admin.tenant.slug, "New Person")

    again = await client.post(invitation["link"], data={"password": "another password"})
    assert again.status_code == 404
    assert "no longer works" in again.text
    listed = (await client.get("/api/admin/invitations", headers=tenant_admin.headers)).json()["items"]
    assert [(each["id"], each["accepted_at"] is not None) for each in listed] == [(invitation["id"], True)]


async def test_a_program_accepts_over_the_api(client: httpx.AsyncClient, operator: Person) -> None:
    invitation = await invite(client, operator)
    opened = (await client.get(api(invitation))).json()
    assert (opened["email"], opened["tenant"], opened["role"]) == (invitation["email"], operator.tenant.slug, "user")
    refused = await client.post(api(invitation), json={"password": "short"})
    assert_refused(refused, 422, "invalid_request", "password")
    accepted = await client.post(api(invitation), json={"password": PASSWORD})
    assert (accepted.status_code, accepted.json()["id"]) == (201, invitation["id"])
    for response in (
        await client.get(api(invitation)),
        await client.post(api(invitation), json={"password": PASSWORD}),
    ):
        assert_refused(response, 404, "not_found")


async def test_one_of_two_concurrent_acceptances_succeeds(client: httpx.AsyncClient, operator: Person) -> None:
    invitation = await invite(client, operator)
    responses = await asyncio.gather(*(client.post(api(invitation), json={"password": PASSWORD}) for _ in range(4)))
    assert sorted(response.status_code for response in responses) == [201, 404, 404, 404]


async def test_one_link_of_concurrent_invitations_works(client: httpx.AsyncClient, operator: Person) -> None:
    body = {"tenant": operator.tenant.slug, "email": "wanted@example.com"}
    responses = await asyncio.gather(
        *(client.post("/api/admin/invitations", json=body, headers=operator.headers) for _ in range(6))
    )
    assert {response.status_code for response in responses} <= {201, 409}
    made = [response.json() for response in responses if response.status_code == 201]
    works = [await client.get(api(invitation)) for invitation in made]
    assert [response.status_code for response in works].count(200) == 1


@pytest.mark.parametrize("role", ["operator", "viewer"])
async def test_a_tenant_admin_cannot_invite_a_user_who_sees_other_tenants(
    client: httpx.AsyncClient, tenant_admin: Person, role: str
) -> None:
    body = {"tenant": tenant_admin.tenant.slug, "email": "high@example.com", "role": role}
    assert_refused(
        await client.post("/api/admin/invitations", json=body, headers=tenant_admin.headers), 403, "forbidden"
    )


async def test_a_tenant_admin_has_no_access_to_invitations_of_another_tenant(
    client: httpx.AsyncClient, tenant_admin: Person, operator: Person
) -> None:
    body = {"tenant": operator.tenant.slug, "email": "spy@example.com"}
    response = await client.post("/api/admin/invitations", json=body, headers=tenant_admin.headers)
    assert_refused(response, 422, "invalid_request", "tenant")
    theirs = await invite(client, operator)
    assert theirs["email"] not in (await client.get("/api/admin/invitations", headers=tenant_admin.headers)).text
    path = f"/api/admin/invitations/{theirs['id']}"
    assert_refused(await client.delete(path, headers=tenant_admin.headers), 404, "not_found")
    # Nor can it revoke one of its own tenant for a role that it may not give.
    above = await invite(client, operator, tenant=tenant_admin.tenant.slug, role="operator")
    response = await client.delete(f"/api/admin/invitations/{above['id']}", headers=tenant_admin.headers)
    assert_refused(response, 403, "forbidden")
    assert (await client.get(api(theirs))).status_code == (await client.get(api(above))).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize("how", ["revoked", "replaced", "expired", "tenant disabled", "e-mail taken"])
async def test_an_invalid_link_is_refused(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, operator: Person, how: str
) -> None:
    tenant = await people.tenant()
    invitation = await invite(client, operator, tenant=tenant.slug)
    async with plane.databases.central.connection() as connection:
        match how:
            case "revoked":
                revoked = await client.delete(f"/api/admin/invitations/{invitation['id']}", headers=operator.headers)
                assert revoked.json()["revoked_at"] is not None
            case "replaced":
                await invite(client, operator, tenant=tenant.slug, email=invitation["email"])
            case "expired":
                await connection.execute("UPDATE account_links SET expires_at = now() - interval '1 second'")
            case "tenant disabled":
                await connection.execute("UPDATE tenants SET disabled_at = now() WHERE id = $1", tenant.id)
            case "e-mail taken":
                body = {"tenant": tenant.slug, "email": invitation["email"], "password": PASSWORD}
                await client.post("/api/admin/users", json=body, headers=operator.headers)
    response = await client.post(api(invitation), json={"password": "mine from now on"})
    assert response.status_code == (409 if how == "e-mail taken" else 404), response.text


async def test_an_existing_user_is_not_invited(client: httpx.AsyncClient, operator: Person) -> None:
    body = {"tenant": operator.tenant.slug, "email": operator.user.email}
    response = await client.post("/api/admin/invitations", json=body, headers=operator.headers)
    assert_refused(response, 409, "conflict", "email")


async def test_the_token_is_stored_as_a_hash_and_not_logged(
    plane: ControlPlane, client: httpx.AsyncClient, operator: Person
) -> None:
    invitation = await invite(client, operator)
    token = token_of(invitation)
    assert re.fullmatch(r"csl_\S{40,}", token)
    async with plane.databases.central.connection() as connection:
        stored = []
        for table in ("invitations", "account_links", "mails", "audit_logs"):
            stored += await connection.fetch(f"SELECT * FROM {table}")
    assert stored
    assert token not in str(stored)
    for path in (httpx.URL(invitation["link"]).path, api(invitation), f"/api/password-resets/{token}"):
        assert token not in _shown(path)


async def test_texts_of_users_are_escaped_in_pages(client: httpx.AsyncClient, people: People, operator: Person) -> None:
    body = {"slug": f"t-{uuid4().hex[:8]}", "name": "<img src=x onerror=alert(1)>"}
    tenant = (await client.post("/api/admin/tenants", json=body, headers=operator.headers)).json()
    invitation = await invite(client, operator, tenant=tenant["slug"], email='"><b>@example.com')
    page = (await client.get(invitation["link"])).text
    assert "<img" not in page
    assert '"><b>@' not in page
    for odd in ("/account/invitation/nothing", "/account/password/%22%3E%3Cscript%3E"):
        response = await client.get(odd)
        assert response.status_code == 404
        assert "<script" not in response.text


@pytest.mark.parametrize("body", [b"\xff\xfe=1", b"&".join([b"a=1"] * 50), b"%", b""])
async def test_a_form_that_cannot_be_read_is_refused_on_a_page(
    client: httpx.AsyncClient, operator: Person, body: bytes
) -> None:
    invitation = await invite(client, operator)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = await client.post(invitation["link"], content=body, headers=headers)
    assert response.status_code in (400, 422)
    assert response.headers["content-type"].startswith("text/html")
