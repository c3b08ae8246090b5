"""Tenants and users: admins make them, routing follows, and nothing of one tenant is seen by another."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import QuotaSettings
from tests.support.http.accounts import PASSWORD, People
from tests.support.http.responses import assert_refused

NEW_TENANT = {"slug": "acme", "name": "Acme"}
NEW_USER = {"tenant": "acme", "email": "somebody@acme.example", "password": PASSWORD}
ADMIN_ROUTES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/api/admin/tenants", None),
    ("POST", "/api/admin/tenants", NEW_TENANT),
    ("GET", "/api/admin/users", None),
    ("POST", "/api/admin/users", NEW_USER),
]


async def admitted(plane: ControlPlane, tenant_id: str) -> list[str]:
    """The pools that serve the tenant."""
    found = []
    for pool in plane.databases.pools:
        async with pool.connection() as connection:
            if await connection.fetchval("SELECT true FROM pool_tenants WHERE tenant_id = $1", UUID(tenant_id)):
                found.append(pool.name)
    return found


async def count(plane: ControlPlane, table: str) -> int:
    async with plane.databases.central.connection() as connection:
        return int(await connection.fetchval(f"SELECT count(*) FROM {table}"))


@pytest.mark.parametrize(("method", "path", "body"), ADMIN_ROUTES)
async def test_only_admins_may_call_admin_routes(
    plane: ControlPlane,
    client: httpx.AsyncClient,
    people: People,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    user = await people.user()
    before = await count(plane, "tenants"), await count(plane, "users")
    assert_refused(await client.request(method, path, json=body), 401, "not_authenticated")
    assert_refused(await client.request(method, path, json=body, headers=user.headers), 403, "forbidden")
    assert (await count(plane, "tenants"), await count(plane, "users")) == before


async def test_a_user_without_the_right_gets_403_before_the_body_is_checked(
    client: httpx.AsyncClient, people: People
) -> None:
    user = await people.user()
    response = await client.post("/api/admin/users", json={"tenant": "nobodys"}, headers=user.headers)
    assert_refused(response, 403, "forbidden")


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_a_tenant_is_admitted_in_its_own_pool_only(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, pool: str
) -> None:
    admin = await people.admin()
    body = {"slug": f"lives-in-{pool[-1]}", "name": "Somebody", "pool": pool}
    tenant = (await client.post("/api/admin/tenants", json=body, headers=admin.headers)).json()
    assert tenant["pool"] == pool
    assert await admitted(plane, tenant["id"]) == [pool]


async def test_a_tenant_without_a_chosen_pool_gets_the_pool_with_the_fewest_tenants(databases: Databases) -> None:
    people = People(Accounts(databases, Passwords()), Keys(databases, Quotas(databases, QuotaSettings())))
    for _ in range(2):
        await people.tenant(pool="pool_2")
    assert [(await people.tenant()).pool for _ in range(4)] == ["pool_1", "pool_1", "pool_1", "pool_2"]


async def test_a_user_made_by_an_admin_can_sign_in(client: httpx.AsyncClient, people: People) -> None:
    admin, tenant = await people.admin(), await people.tenant()
    email = f"{uuid4().hex}.created@example.com"
    body = NEW_USER | {"tenant": tenant.slug, "email": f" {email.upper()} "}
    created = await client.post("/api/admin/users", json=body, headers=admin.headers)
    assert (created.status_code, created.json()["email"]) == (201, email)
    assert (created.json()["role"], created.json()["tenant"]) == ("user", tenant.slug)
    login = await client.post("/api/auth/login", json={"email": email.title(), "password": PASSWORD})
    assert (login.status_code, login.json()["user_id"]) == (200, created.json()["id"])


async def test_a_duplicate_tenant_or_user_is_a_conflict_that_names_the_field(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    admin, user = await people.admin(), await people.user()
    before = await count(plane, "tenants"), await count(plane, "users")
    again = {"slug": user.tenant.slug, "name": "Again"}
    assert_refused(await client.post("/api/admin/tenants", json=again, headers=admin.headers), 409, "conflict", "slug")
    again = NEW_USER | {"tenant": user.tenant.slug, "email": user.user.email.upper()}
    assert_refused(await client.post("/api/admin/users", json=again, headers=admin.headers), 409, "conflict", "email")
    assert (await count(plane, "tenants"), await count(plane, "users")) == before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/admin/users", NEW_USER | {"tenant": "no-such-tenant"}, "tenant"),
        ("/api/admin/tenants", NEW_TENANT | {"pool": "pool_9"}, "pool"),
    ],
)
async def test_an_unknown_tenant_or_pool_is_refused_by_its_field(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, path: str, body: dict[str, str], field: str
) -> None:
    admin = await people.admin()
    before = await count(plane, "tenants"), await count(plane, "users")
    assert_refused(await client.post(path, json=body, headers=admin.headers), 422, "invalid_request", field)
    assert (await count(plane, "tenants"), await count(plane, "users")) == before


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"password": "too short"}, "password"),
        ({"password": "x" * 257}, "password"),
        ({"email": "no at sign"}, "email"),
        ({"email": "a@b@c"}, "email"),
        ({"email": f"{'a' * 250}@example.com"}, "email"),
        ({"email": "a\x00b@example.com"}, "email"),
        ({"name": "a\x00b"}, "name"),
        ({"name": "a\x1b[31mb"}, "name"),
        ({"role": "owner"}, "role"),
        ({"tenant": "Not A Slug"}, "tenant"),
        ({"tenant": "../etc"}, "tenant"),
        ({"disabled_at": None}, "disabled_at"),
    ],
)
async def test_a_user_with_invalid_fields_is_refused_by_field(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, changes: dict[str, object], field: str
) -> None:
    admin = await people.admin()
    before = await count(plane, "users")
    body = NEW_USER | {"tenant": admin.tenant.slug, "email": "odd@example.com"} | changes
    response = await client.post("/api/admin/users", json=body, headers=admin.headers)
    assert_refused(response, 422, "invalid_request", field)
    assert NEW_USER["password"] not in response.text
    assert await count(plane, "users") == before


async def test_passwords_are_kept_as_argon2id_only(plane: ControlPlane, people: People) -> None:
    person = await people.user()
    async with plane.databases.central.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM users WHERE id = $1", person.user.id)
    assert row is not None
    assert row["password_hash"].startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert PASSWORD not in str(dict(row))


async def test_lists_of_admins_are_read_page_by_page(client: httpx.AsyncClient, people: People) -> None:
    admin = await people.admin()
    others = [await people.user(admin.tenant) for _ in range(2)]
    path, seen = f"/api/admin/users?limit=1&tenant={admin.tenant.slug}", []
    page = (await client.get(path, headers=admin.headers)).json()
    while True:
        seen += [user["email"] for user in page["items"]]
        if page["next_cursor"] is None:
            break
        page = (await client.get(f"{path}&cursor={page['next_cursor']}", headers=admin.headers)).json()
    assert seen == [person.user.email for person in (others[1], others[0], admin)]
    tenants = (await client.get("/api/admin/tenants?limit=1", headers=admin.headers)).json()
    assert len(tenants["items"]) == 1
    assert tenants["next_cursor"] == tenants["items"][0]["id"]
    assert PASSWORD not in str(tenants)


async def test_g6_a_tenant_sees_no_data_of_another_tenant(client: httpx.AsyncClient, people: People) -> None:
    alice, bob = await people.user(pool="pool_1"), await people.user(pool="pool_2")
    mine = (await client.get("/api/me", headers=alice.headers)).json()
    keys = (await client.get("/api/keys", headers=alice.headers)).json()["items"]
    secrets = [mine["user_id"], mine["tenant_id"], mine["email"], mine["tenant"], keys[0]["id"], keys[0]["prefix"]]
    for path in ("/api/me", "/api/keys", f"/api/keys?cursor=ffffffff{keys[0]['id'][8:]}"):
        shown = (await client.get(path, headers=bob.headers)).text
        assert not [secret for secret in secrets if secret in shown]
    assert_refused(await client.delete(f"/api/keys/{keys[0]['id']}", headers=bob.headers), 404, "not_found")
    for path in ("/api/admin/tenants", f"/api/admin/users?tenant={alice.tenant.slug}"):
        assert_refused(await client.get(path, headers=bob.headers), 403, "forbidden")
    assert (await client.get("/api/keys", headers=alice.headers)).json()["items"] == keys
