"""Who may come in: keys, sessions, roles, and what is never told."""

from __future__ import annotations

import httpx

from tests.support.people import People


async def test_a_key_says_who_its_user_is(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    me = (await client.get("/api/me", headers=person.headers)).json()
    assert me["email"] == person.user.email
    assert me["tenant"] == person.tenant.slug
    assert me["signed_in_with"] == "api_key"


async def test_a_revoked_key_is_refused_at_once(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    created = await client.post("/api/keys", json={"name": "second"}, headers=person.headers)
    second = {"authorization": f"Bearer {created.json()['key']}"}
    assert (await client.get("/api/me", headers=second)).status_code == 200
    revoked = await client.delete(f"/api/keys/{created.json()['id']}", headers=person.headers)
    assert revoked.json()["revoked_at"] is not None
    answer = await client.get("/api/me", headers=second)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
