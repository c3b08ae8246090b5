"""Authentication with a key, actions of admins, and the separation of tenants."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.keys import Keys, KeyUsage
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.plumbing.database.databases import Databases
from callsheet.settings import QuotaSettings
from tests.support.http.accounts import People, Person, session_of, sign_in
from tests.support.http.responses import assert_refused


async def central(plane: ControlPlane, query: str, *arguments: object) -> list[asyncpg.Record]:
    async with plane.databases.central.connection() as connection:
        return await connection.fetch(query, *arguments)


async def new_key(client: httpx.AsyncClient, person: Person, name: str = "laptop") -> dict[str, str]:
    response = await client.post("/api/keys", json={"name": name}, headers=await session_of(client, person))
    assert response.status_code == 201
    key: dict[str, str] = response.json()
    return key


async def test_a_key_identifies_its_user(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    me = (await client.get("/api/me", headers=person.headers)).json()
    assert me["email"] == person.user.email
    assert me["tenant"] == person.tenant.slug
    assert me["signed_in_with"] == "api_key"
    assert me["csrf_token"] is None


async def test_a_request_without_a_key_is_refused_with_the_steps_to_get_one(client: httpx.AsyncClient) -> None:
    for path in ("/api/me", "/api/keys", "/api/admin/tenants", "/api/admin/users"):
        response = await client.get(path)
        assert_refused(response, 401, "not_authenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")


async def test_a_revoked_key_is_refused_at_once(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    created = await new_key(client, person)
    second = {"authorization": f"Bearer {created['key']}"}
    assert (await client.get("/api/me", headers=second)).status_code == 200
    revoked = await client.delete(f"/api/keys/{created['id']}", headers=person.headers)
    assert revoked.json()["revoked_at"] is not None
    assert_refused(await client.get("/api/me", headers=second), 401, "not_authenticated")


async def test_revoking_again_keeps_the_first_time(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    created = await new_key(client, person)
    responses = [await client.delete(f"/api/keys/{created['id']}", headers=person.headers) for _ in range(2)]
    assert [response.status_code for response in responses] == [200, 200]
    assert responses[0].json() == responses[1].json()


async def test_a_key_is_shown_once(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    created = await new_key(client, person)
    listed = await client.get("/api/keys", headers=person.headers)
    assert created["id"] in listed.text
    assert created["key"] not in listed.text
    assert created["key"].startswith(created["prefix"])
    assert len(created["key"]) - len(created["prefix"]) >= 32
    revoked = await client.delete(f"/api/keys/{created['id']}", headers=person.headers)
    assert created["key"] not in revoked.text


async def test_the_database_has_only_the_sha256_of_a_key(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    created = await new_key(client, await people.user())
    (row,) = await central(plane, "SELECT * FROM api_keys WHERE id = $1", created["id"])
    assert row["key_hash"] == hashlib.sha256(created["key"].encode()).digest()
    assert created["key"] not in str(dict(row))


async def test_a_key_belongs_to_its_user_only(client: httpx.AsyncClient, people: People) -> None:
    owner, stranger = await people.user(), await people.user()
    colleague, admin = await people.user(owner.tenant), await people.admin()
    created = await new_key(client, owner)
    for other in (stranger, colleague, admin):
        assert_refused(await client.delete(f"/api/keys/{created['id']}", headers=other.headers), 404, "not_found")
        assert created["id"] not in (await client.get("/api/keys", headers=other.headers)).text
    assert_refused(await client.delete(f"/api/keys/{uuid4()}", headers=owner.headers), 404, "not_found")
    assert (await client.get("/api/me", headers={"authorization": f"Bearer {created['key']}"})).status_code == 200


async def test_keys_are_listed_newest_first_page_by_page(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    names = ["test"] + [(await new_key(client, person, f"key {number}"))["name"] for number in range(4)]
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(3):
        parameters = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/api/keys", params=parameters, headers=person.headers)).json()
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == names[::-1]
    assert cursor is None


async def test_the_last_use_of_a_key_is_written_after_the_request(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    person = await people.user()
    before = datetime.now(UTC)
    listed = (await client.get("/api/keys", headers=person.headers)).json()
    assert listed["items"][0]["last_used_at"] is None
    (usage,) = [loop for loop in plane.loops if isinstance(loop, KeyUsage)]
    await usage.tick(datetime.now(UTC))
    listed = (await client.get("/api/keys", headers=person.headers)).json()
    used = datetime.fromisoformat(listed["items"][0]["last_used_at"])
    assert before <= used <= datetime.now(UTC)


async def test_uses_that_could_not_be_written_are_written_later(databases: Databases) -> None:
    keys, usage = Keys(databases, Quotas(databases, QuotaSettings())), KeyUsage(databases)
    person = await People(Accounts(databases, Passwords()), keys).user()
    usage.record((await keys.list(person.user.id, None, 1)).items[0].id)
    await databases.central.close()
    with pytest.raises(asyncpg.InterfaceError):
        await usage.tick(datetime.now(UTC))
    await usage.stop()  # stopping without a database is not an error
    await databases.central.open()
    await usage.tick(datetime.now(UTC))
    assert (await keys.list(person.user.id, None, 1)).items[0].last_used_at is not None


@pytest.mark.parametrize("credential", ["key", "session"])
async def test_a_disabled_user_is_refused(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, credential: str
) -> None:
    person = await people.user()
    headers = person.headers
    if credential == "session":
        assert (await sign_in(client, person)).status_code == 200
        headers = {}
    assert (await client.get("/api/me", headers=headers)).status_code == 200
    await central(plane, "UPDATE users SET disabled_at = now() WHERE id = $1", person.user.id)
    assert_refused(await client.get("/api/me", headers=headers), 401, "not_authenticated")
