"""Browser sessions: the cookie, what ends it, and why another site cannot use it."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from argon2 import PasswordHasher

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access import sessions as sessions_module
from callsheet.identity.access.authentication import COOKIE
from callsheet.identity.access.sessions import SessionSweeper
from callsheet.toolbox.clock import SystemClock
from tests.api.conftest import Started
from tests.support.http.accounts import PASSWORD, People, Person, session_of, sign_in
from tests.support.http.responses import assert_refused, exchange
from tests.support.waiting import until

CHANGED = "another long password"


@pytest.fixture
async def person(people: People) -> Person:
    return await people.user()


@pytest.fixture
async def browser(client: httpx.AsyncClient, person: Person) -> httpx.AsyncClient:
    """A client that is signed in with a cookie, and sends the CSRF token."""
    response = await sign_in(client, person)
    client.headers["x-csrf-token"] = response.json()["csrf_token"]
    return client


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client: httpx.AsyncClient, person: Person) -> None:
    response = await sign_in(client, person)
    parts = {part.strip().lower() for part in response.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=lax", "path=/", "max-age=1209600"} <= parts
    assert not [part for part in parts if part.startswith("domain")]
    assert "secure" not in parts  # over plain HTTP, browsers would throw it away
    assert response.headers["set-cookie"].startswith(f"{COOKIE}=css_")
    assert response.cookies[COOKIE] not in response.text


async def test_over_https_the_cookie_is_secure(started: Started) -> None:
    async with started(server={"public_url": "https://callsheet.example.com"}) as (plane, client):
        person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()
        origin = {"origin": "https://callsheet.example.com"}
        login = {"email": person.user.email, "password": PASSWORD}
        response = await client.post("/api/auth/login", json=login, headers=origin)
        assert (response.status_code, "secure" in response.headers["set-cookie"].lower()) == (200, True)
        headers = origin | {
            "x-csrf-token": response.json()["csrf_token"],
            "cookie": f"{COOKIE}={response.cookies[COOKIE]}",
        }
        logout = await client.post("/api/auth/logout", headers=headers)
        assert (logout.status_code, "secure" in logout.headers["set-cookie"].lower()) == (204, True)


async def test_only_the_hash_of_a_session_is_in_the_database(plane: ControlPlane, browser: httpx.AsyncClient) -> None:
    async with plane.databases.central.connection() as connection:
        rows = await connection.fetch("SELECT * FROM browser_sessions")
    assert rows
    assert browser.cookies[COOKIE] not in str(rows)


async def test_a_session_identifies_its_user_until_it_ends(browser: httpx.AsyncClient, person: Person) -> None:
    token = browser.cookies[COOKIE]
    me = (await browser.get("/api/me")).json()
    assert (me["email"], me["signed_in_with"]) == (person.user.email, "session")
    assert me["csrf_token"] == browser.headers["x-csrf-token"]
    logout = await browser.post("/api/auth/logout")
    assert logout.status_code == 204
    assert COOKIE not in browser.cookies
    browser.cookies.set(COOKIE, token)
    assert_refused(await browser.get("/api/me"), 401, "not_authenticated")


async def test_signing_out_with_a_key_leaves_the_key_alone(client: httpx.AsyncClient, person: Person) -> None:
    assert (await client.post("/api/auth/logout", headers=person.headers)).status_code == 204
    assert (await client.get("/api/me", headers=person.headers)).status_code == 200


async def test_an_expired_session_is_refused_and_swept(plane: ControlPlane, browser: httpx.AsyncClient) -> None:
    async with plane.databases.central.connection() as connection:
        await connection.execute("UPDATE browser_sessions SET expires_at = clock_timestamp() - interval '1 second'")
        assert_refused(await browser.get("/api/me"), 401, "not_authenticated")
        await SessionSweeper(plane.databases, plane.settings.identity).tick(SystemClock().now())
        assert await connection.fetchval("SELECT count(*) FROM browser_sessions") == 0


async def test_an_invalid_session_token_is_refused(client: httpx.AsyncClient) -> None:
    for token in ("css_" + "A" * 43, "x", "=;=", "%00", "a" * 8000):
        response = await client.get("/api/me", headers={"cookie": f"{COOKIE}={token}"})
        assert_refused(response, 401, "not_authenticated")
    response = await client.get("/api/me", headers=[(b"cookie", f"{COOKIE}=\xff\xfe".encode("latin-1"))])
    assert_refused(response, 401, "not_authenticated")


async def test_changing_the_password_ends_every_session(
    plane: ControlPlane, browser: httpx.AsyncClient, person: Person
) -> None:
    await plane.rooms.identity.accounts.set_password(person.user.email, CHANGED)
    assert_refused(await browser.get("/api/me"), 401, "not_authenticated")
    assert_refused(await sign_in(browser, person), 401, "invalid_credentials")
    assert (await sign_in(browser, person, CHANGED)).status_code == 200


async def test_a_login_that_overlaps_a_change_of_password_gets_no_session(
    plane: ControlPlane, client: httpx.AsyncClient, person: Person
) -> None:
    async with plane.databases.central.transaction() as change:
        # The login reads and checks the old password, then waits for this transaction.
        hashed = await change.fetchval("SELECT password_hash FROM users WHERE id = $1 FOR UPDATE", person.user.id)
        login = asyncio.create_task(sign_in(client, person))
        await until(lambda: change.fetchval("SELECT true FROM pg_locks WHERE NOT granted LIMIT 1"))
        await change.execute("UPDATE users SET password_hash = $2 WHERE id = $1", person.user.id, hashed[:-4] + "AAAA")
    assert_refused(await login, 401, "invalid_credentials")


async def test_a_password_hashed_with_older_parameters_is_hashed_anew_at_login(
    plane: ControlPlane, client: httpx.AsyncClient, person: Person
) -> None:
    old = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
    async with plane.databases.central.connection() as connection:
        await connection.execute("UPDATE users SET password_hash = $2 WHERE id = $1", person.user.id, old)
        assert (await sign_in(client, person, "not the password")).status_code == 401
        query = "SELECT password_hash FROM users WHERE id = $1"
        assert await connection.fetchval(query, person.user.id) == old
        assert (await sign_in(client, person)).status_code == 200
        assert "$m=19456,t=2,p=1$" in await connection.fetchval(query, person.user.id)
    assert (await sign_in(client, person)).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize("token", [None, "", "wrong", "é", "of another session"])
async def test_a_cookie_without_the_csrf_token_changes_nothing(
    plane: ControlPlane, browser: httpx.AsyncClient, people: People, person: Person, token: str | None
) -> None:
    del browser.headers["x-csrf-token"]
    if token == "of another session":
        async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=60) as other:
            token = (await sign_in(other, await people.user())).json()["csrf_token"]
    headers = {} if token is None else {"x-csrf-token": token.encode()}
    assert_refused(await browser.post("/api/keys", json={"name": "forged"}, headers=headers), 403, "csrf_failed")
    assert_refused(await browser.post("/api/auth/logout", headers=headers), 403, "csrf_failed")
    assert [key["name"] for key in (await browser.get("/api/keys")).json()["items"]] == ["test"]


async def test_a_session_with_its_csrf_token_may_change_data(browser: httpx.AsyncClient) -> None:
    created = await browser.post("/api/keys", json={"name": "made in the browser"})
    assert created.status_code == 201
    assert (await browser.delete(f"/api/keys/{created.json()['id']}")).status_code == 200


FOREIGN = ["https://evil.example", "null", "http://[", "", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]


@pytest.mark.few_forms
@pytest.mark.parametrize("origin", FOREIGN)
async def test_pages_of_other_sites_are_refused(browser: httpx.AsyncClient, person: Person, origin: str) -> None:
    headers = {"origin": origin}
    assert_refused(await browser.post("/api/keys", json={"name": "forged"}, headers=headers), 403, "csrf_failed")
    login = {"email": person.user.email, "password": PASSWORD}
    assert_refused(await browser.post("/api/auth/login", json=login, headers=headers), 403, "csrf_failed")
    # Not even a read: CORS would keep the answer from the page, and this does not depend on it.
    assert_refused(await browser.get("/api/me", headers=headers), 403, "csrf_failed")
    assert (await browser.get("/api/me")).status_code == 200


async def test_an_opaque_origin_is_refused_also_without_a_host_header(plane: ControlPlane, person: Person) -> None:
    body = f'{{"email": "{person.user.email}", "password": "{PASSWORD}"}}'.encode()
    head = (
        b"POST /api/auth/login HTTP/1.0\r\nOrigin: null\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    assert_refused(await exchange(plane.settings.public_url, head % len(body) + body), 403, "csrf_failed")


async def test_pages_of_the_own_origin_may_use_the_session(plane: ControlPlane, browser: httpx.AsyncClient) -> None:
    headers = {"origin": plane.settings.public_url}
    assert (await browser.post("/api/keys", json={"name": "mine"}, headers=headers)).status_code == 201


async def test_a_key_takes_precedence_over_a_cookie(browser: httpx.AsyncClient, people: People) -> None:
    del browser.headers["x-csrf-token"]
    other = await people.user()
    me = (await browser.get("/api/me", headers=other.headers)).json()
    assert (me["email"], me["signed_in_with"]) == (other.user.email, "api_key")
    refused = await browser.post("/api/keys", json={"name": "by key"}, headers=other.headers)
    assert_refused(refused, 403, "forbidden")
    wrong = {"authorization": "Bearer cs_wrong"}
    assert_refused(await browser.get("/api/me", headers=wrong), 401, "not_authenticated")


async def test_a_new_session_ends_the_oldest_session_above_the_limit(
    client: httpx.AsyncClient, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "SESSIONS_PER_USER", 2)
    person, other = await people.user(), await people.user()
    of_other = await session_of(client, other)
    opened = [await session_of(client, person) for _ in range(4)]
    statuses = [(await client.get("/api/me", headers=headers)).status_code for headers in (*opened, of_other)]
    assert statuses == [401, 401, 200, 200, 200]
