"""Guessing passwords: counted before the password is looked at, the same for everybody, in the database."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, cast

import httpx
import pytest
from argon2 import PasswordHasher
from starlette.requests import Request

from callsheet.app import ControlPlane
from callsheet.identity.authentication import Authentication
from tests.api.conftest import Started
from tests.support.answers import assert_refused
from tests.support.installation import changed
from tests.support.people import PASSWORD, People, Person, sign_in

# Windows are cut at fixed times: of a day's length, so that none ends in the middle of a test.
WINDOW = {"login_window_seconds": 86_400}


def people_of(plane: ControlPlane) -> People:
    return People(plane.accounts, plane.keys)


async def guess(client: httpx.AsyncClient, email: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/api/auth/login", json={"email": email, "password": "guess"}, headers=named)


async def test_after_too_many_failures_everybody_waits(started: Started) -> None:
    async with started(identity=WINDOW | {"login_attempts": 3}) as (plane, client):
        person = await people_of(plane).user()
        for email in (person.user.email, "nobody@example.com"):
            for _ in range(3):
                assert_refused(await guess(client, email), 401, "invalid_credentials")
            answer = await guess(client, email)
            problem = assert_refused(answer, 429, "rate_limited")
            assert 1 <= int(answer.headers["retry-after"]) == problem["retry_after_seconds"] <= 86_400
        assert_refused(await sign_in(client, person), 429, "rate_limited")
        other = await people_of(plane).user()
        assert (await sign_in(client, other)).status_code == 200


async def test_other_spellings_of_an_address_are_the_same_account(started: Started) -> None:
    async with started(identity=WINDOW | {"login_attempts": 2}) as (_, client):
        for email in ("somebody@example.com", " SOMEBODY@example.com "):
            assert_refused(await guess(client, email), 401, "invalid_credentials")
        assert_refused(await guess(client, "Somebody@Example.com"), 429, "rate_limited")


async def test_parallel_guesses_do_not_pass_the_limit(started: Started) -> None:
    async with started(identity=WINDOW | {"login_attempts": 5}) as (plane, client):
        person = await people_of(plane).user()
        answers = await asyncio.gather(*(guess(client, person.user.email) for _ in range(40)))
        assert Counter(answer.status_code for answer in answers) == {401: 5, 429: 35}


async def test_signing_in_is_no_failure(started: Started) -> None:
    async with started(identity=WINDOW | {"login_attempts": 2, "login_attempts_per_address": 3}) as (plane, client):
        person = await people_of(plane).user()
        for _ in range(5):
            assert (await sign_in(client, person)).status_code == 200
        assert_refused(await guess(client, person.user.email), 401, "invalid_credentials")
        assert (await sign_in(client, person)).status_code == 200


async def test_one_address_may_not_guess_at_many_accounts(started: Started) -> None:
    async with started(identity=WINDOW | {"login_attempts_per_address": 3}) as (plane, client):
        person = await people_of(plane).user()
        for number in range(3):
            assert_refused(await guess(client, f"user{number}@example.com"), 401, "invalid_credentials")
        assert_refused(await sign_in(client, person), 429, "rate_limited")


async def test_a_client_cannot_choose_its_address(started: Started) -> None:
    async with started(identity=WINDOW | {"login_attempts_per_address": 3}) as (_, client):
        answers = [
            await guess(client, f"user{number}@example.com", x_forwarded_for=f"192.0.2.{number}") for number in range(4)
        ]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429]


async def test_a_trusted_proxy_names_the_address(started: Started) -> None:
    trusting = {"trusted_proxies": (ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8"))}
    async with started(server=trusting, identity=WINDOW | {"login_attempts_per_address": 1}) as (_, client):

        async def status(forwarded: str | list[str]) -> int:
            lines = [forwarded] if isinstance(forwarded, str) else forwarded
            headers = [("x-forwarded-for", line) for line in lines]
            login = {"email": f"{status.__name__}{len(used)}@example.com", "password": "guess"}
            used.append(forwarded)
            return (await client.post("/api/auth/login", json=login, headers=headers)).status_code

        used: list[object] = []
        assert await status("192.0.2.1") == 401
        assert await status("192.0.2.2") == 401
        assert await status("192.0.2.1") == 429
        # What stands left of the first address we do not trust is the client's own word.
        assert await status("203.0.113.9, 192.0.2.2") == 429
        assert await status("203.0.113.9, 192.0.2.2, 10.1.2.3") == 429
        # Proxies that add a line of their own instead of appending to the client's.
        assert await status(["203.0.113.9", "192.0.2.2"]) == 429
        # One subscriber of IPv6 has a whole /64.
        assert await status("2001:db8:1:2::1") == 401
        assert await status("2001:db8:1:2:ffff::9") == 429
        assert await status("2001:db8:1:3::1") == 401
        assert await status("rubbish, not an address") == 401
        # Some proxies name the port, too, and some speak of IPv4 in the words of IPv6.
        assert await status("192.0.2.3:40001") == 401
        assert await status("192.0.2.3:40002") == 429
        assert await status("::ffff:192.0.2.3") == 429
        assert await status("::ffff:192.0.2.4") == 401
        assert await status("[2001:db8:1:4::1]:40001") == 401
        assert await status("[2001:db8:1:4::1]:40002") == 429


@pytest.mark.parametrize(
    ("peer", "expected"),
    [("::ffff:10.0.0.1", "192.0.2.7"), ("10.0.0.1", "192.0.2.7"), ("::ffff:192.0.2.9", "192.0.2.9"), (None, "unknown")],
)
def test_an_ipv4_proxy_is_known_by_a_server_that_listens_on_ipv6(
    plane: ControlPlane, peer: str | None, expected: str
) -> None:
    settings = changed(plane.settings, server={"trusted_proxies": (ip_network("10.0.0.0/8"),)})
    nobody = cast("Any", None)
    authentication = Authentication(plane.databases, nobody, nobody, nobody, settings)
    headers = [(b"x-forwarded-for", b"192.0.2.7")]
    request = Request({"type": "http", "client": (peer, 1) if peer else None, "headers": headers})
    assert authentication.client_address(request) == expected


async def test_attempts_are_counted_for_all_control_planes_together(started: Started) -> None:
    limit = WINDOW | {"login_attempts": 4}
    async with started(identity=limit) as (plane, one), started(identity=limit) as (_, two):
        person = await people_of(plane).user()
        for client in (one, two, one, two):
            assert_refused(await guess(client, person.user.email), 401, "invalid_credentials")
        for client in (one, two):
            assert_refused(await sign_in(client, person), 429, "rate_limited")


async def test_who_tried_to_sign_in_is_not_kept(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    await guess(client, "curious@example.com")
    async with plane.databases.central.connection() as connection:
        rows = await connection.fetch("SELECT * FROM login_attempts")
    assert rows
    assert b"curious" not in b"".join(row["bucket"] for row in rows)
    assert {len(row["bucket"]) for row in rows} == {32}


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every hash that argon2 was asked about."""
    asked: list[str] = []
    verify: Callable[..., Any] = PasswordHasher.verify

    def record(hasher: PasswordHasher, password_hash: str, password: bytes) -> Any:
        asked.append(password_hash)
        return verify(hasher, password_hash, password)

    monkeypatch.setattr(PasswordHasher, "verify", record)
    return asked


@pytest.mark.parametrize("known", [True, False, "disabled"])
async def test_an_unknown_user_costs_as_much_work_as_a_known_one(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, verified: list[str], known: bool | str
) -> None:
    person = await people.user()
    if known == "disabled":
        async with plane.databases.central.connection() as connection:
            await connection.execute("UPDATE users SET disabled_at = now() WHERE id = $1", person.user.id)
    answer = await guess(client, person.user.email if known else "nobody@example.com")
    problem = assert_refused(answer, 401, "invalid_credentials")
    assert set(problem) == {"type", "title", "status", "code", "request_id"}
    assert [password_hash.split("$")[1:4] for password_hash in verified] == [["argon2id", "v=19", "m=19456,t=2,p=1"]]


async def test_a_guess_over_the_limit_costs_no_work(started: Started, verified: list[str]) -> None:
    async with started(identity=WINDOW | {"login_attempts": 1}) as (_, client):
        for _ in range(3):
            await guess(client, "nobody@example.com")
        assert len(verified) == 1


async def test_secrets_are_in_no_log(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, logged: io.StringIO
) -> None:
    person: Person = await people.user()
    signed_in = await sign_in(client, person)
    created = await client.post("/api/keys", json={"name": "logged"}, headers=person.headers)
    await sign_in(client, person, "a wrong password")
    await client.get("/api/me", headers={"authorization": "Bearer cs_wrong-key"})
    await client.post("/api/auth/login", content=b'{"password": "in broken json', headers={"content-type": "a/json"})
    await client.get("/api/me?token=in-the-query")
    text = logged.getvalue()
    assert text.count("http.request") >= 6
    secrets = [PASSWORD, "a wrong password", person.key, created.json()["key"], "cs_wrong-key", "in broken json"]
    secrets += [*signed_in.cookies.values(), signed_in.json()["csrf_token"], "in-the-query"]
    assert not [secret for secret in secrets if secret in text]
