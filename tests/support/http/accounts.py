"""Tenants, users and keys for tests, created in the same way as by operators.

ann = await people.user(pool="pool_1")                    # the fixture `people`; a tenant of its own
bob = await people.user(ann.tenant, role=Role.VIEWER)     # a colleague
response = await client.get("/api/me", headers=ann.headers)
browser = await session_of(client, ann)                   # the headers of a browser that signed in
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import httpx

from callsheet.identity.access.authentication import COOKIE
from callsheet.identity.access.keys import Keys
from callsheet.identity.accounts.accounts import Accounts
from callsheet.wire.identity import CreateKeyRequest, CreateTenantRequest, CreateUserRequest, Role, Tenant, User

PASSWORD = "correct horse battery"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Person:
    user: User
    tenant: Tenant
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


class People:
    def __init__(self, accounts: Accounts, keys: Keys):
        self._accounts = accounts
        self._keys = keys

    async def tenant(self, slug: str | None = None, pool: str | None = None) -> Tenant:
        slug = slug or f"tenant-{next(_numbers)}"
        return await self._accounts.create_tenant(CreateTenantRequest(slug=slug, name=slug.title(), pool=pool))

    async def user(self, tenant: Tenant | None = None, role: Role = Role.USER, pool: str | None = None) -> Person:
        tenant = tenant or await self.tenant(pool=pool)
        email = f"user{next(_numbers)}@example.com"
        user = await self._accounts.create_user(
            CreateUserRequest(tenant=tenant.slug, email=email, password=PASSWORD, role=role)
        )
        created = await self._keys.create(user.id, CreateKeyRequest(name="test"))
        return Person(user, tenant, created.key)

    async def admin(self) -> Person:
        return await self.user(role=Role.OPERATOR)


async def sign_in(client: httpx.AsyncClient, person: Person, password: str = PASSWORD) -> httpx.Response:
    return await client.post("/api/auth/login", json={"email": person.user.email, "password": password})


async def session_of(client: httpx.AsyncClient, person: Person, password: str = PASSWORD) -> dict[str, str]:
    """The headers of a browser that has signed in; the client itself stays signed out."""
    response = await sign_in(client, person, password)
    assert response.status_code == 200, response.text
    headers = {"cookie": f"{COOKIE}={response.cookies[COOKIE]}", "x-csrf-token": response.json()["csrf_token"]}
    client.cookies.clear()
    return headers
