"""Guessing passwords: counted before the password is looked at, the same for everybody, in the database."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from argon2 import PasswordHasher
from starlette.requests import Request

from callsheet.app import ControlPlane
from callsheet.identity.attempts import Attempts
from callsheet.identity.authentication import Authentication
from callsheet.plumbing.secrets import master_secret
from tests.api.conftest import new_address
from tests.support.answers import assert_refused
from tests.support.installation import changed
from tests.support.people import PASSWORD, People, Person, sign_in


def people_of(plane: ControlPlane) -> People:
    return People(plane.accounts, plane.keys)


async def guess(
    client: httpx.AsyncClient, email: str, address: str | None = None, password: str = "guess"
) -> httpx.Response:
    """Each from another address, unless one is named."""
    forwarded = {"x-forwarded-for": address or new_address()}
    return await client.post("/api/auth/login", json={"email": email, "password": password}, headers=forwarded)


async def test_after_too_many_failures_everybody_waits(strict: ControlPlane, strict_client: httpx.AsyncClient) -> None:
    person = await people_of(strict).user()
    for email in (person.user.email, f"{uuid4()}@example.com"):
        for _ in range(2):
            assert_refused(await guess(strict_client, email), 401, "invalid_credentials")
        answer = await guess(strict_client, email)
        problem = assert_refused(answer, 429, "rate_limited")
        assert 1 <= int(answer.headers["retry-after"]) == problem["retry_after_seconds"] <= 86_400
    assert_refused(await guess(strict_client, person.user.email, password=PASSWORD), 429, "rate_limited")
    other = await people_of(strict).user()
    assert (await sign_in(strict_client, other)).status_code == 200


async def test_other_spellings_of_an_address_are_the_same_account(strict_client: httpx.AsyncClient) -> None:
    name = uuid4().hex
    for email in (f"{name}@example.com", f" {name.upper()}@example.com "):
        assert_refused(await guess(strict_client, email), 401, "invalid_credentials")
    assert_refused(await guess(strict_client, f"{name}@Example.com"), 429, "rate_limited")


async def test_parallel_guesses_do_not_pass_the_limit(strict: ControlPlane, strict_client: httpx.AsyncClient) -> None:
    person = await people_of(strict).user()
    answers = await asyncio.gather(*(guess(strict_client, person.user.email) for _ in range(40)))
    assert Counter(answer.status_code for answer in answers) == {401: 2, 429: 38}


async def test_signing_in_is_no_failure(strict: ControlPlane, strict_client: httpx.AsyncClient) -> None:
    person = await people_of(strict).user()
    for _ in range(4):
        assert (await sign_in(strict_client, person)).status_code == 200
    assert_refused(await guess(strict_client, person.user.email), 401, "invalid_credentials")
    assert (await sign_in(strict_client, person)).status_code == 200


async def test_one_address_may_not_guess_at_many_accounts(
    strict: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    person, address = await people_of(strict).user(), new_address()
    assert_refused(await guess(strict_client, f"{uuid4()}@example.com", address), 401, "invalid_credentials")
    assert_refused(await guess(strict_client, person.user.email, address, PASSWORD), 429, "rate_limited")


async def test_a_client_cannot_choose_its_address(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    """Where no proxy is trusted, all that it says it is counts for the address it comes from."""
    address = Attempts(plane.databases, plane.settings.identity, master_secret(plane.settings)).address("127.0.0.1")

    async def counted() -> int:
        async with plane.databases.central.connection() as connection:
            query = "SELECT coalesce(sum(attempts), 0) FROM login_attempts WHERE bucket = $1"
            return int(await connection.fetchval(query, address))

    before = await counted()
    for number in range(3):
        await guess(client, f"{uuid4()}@example.com", f"192.0.2.{number}")
    assert await counted() == before + 3


async def test_a_trusted_proxy_names_the_address(strict_client: httpx.AsyncClient) -> None:
    async def status(*forwarded: str) -> int:
        headers = [("x-forwarded-for", line) for line in forwarded]
        login = {"email": f"{uuid4()}@example.com", "password": "guess"}
        # Not with the client's own address in front.
        async with httpx.AsyncClient(base_url=strict_client.base_url, trust_env=False, timeout=30) as client:
            return (await client.post("/api/auth/login", json=login, headers=headers)).status_code

    assert await status("192.0.2.1") == 401
    assert await status("192.0.2.2") == 401
    assert await status("192.0.2.1") == 429
    # What stands left of the first address we do not trust is the client's own word.
    assert await status("203.0.113.9, 192.0.2.2") == 429
    assert await status("203.0.113.9, 192.0.2.2, 10.1.2.3") == 429
    # Proxies that add a line of their own instead of appending to the client's.
    assert await status("203.0.113.9", "192.0.2.2") == 429
    # One subscriber of IPv6 has a whole /64.
    assert await status("2001:db9:1:2::1") == 401
    assert await status("2001:db9:1:2:ffff::9") == 429
    assert await status("2001:db9:1:3::1") == 401
    assert await status("rubbish, not an address") == 401
    # Some proxies name the port, too, and some speak of IPv4 in the words of IPv6.
    assert await status("192.0.2.3:40001") == 401
    assert await status("192.0.2.3:40002") == 429
    assert await status("::ffff:192.0.2.3") == 429
    assert await status("::ffff:192.0.2.4") == 401
    assert await status("[2001:db9:1:4::1]:40001") == 401
    assert await status("[2001:db9:1:4::1]:40002") == 429


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


async def test_attempts_are_counted_for_all_control_planes_together(
    strict: ControlPlane, strict_client: httpx.AsyncClient, neighbour_client: httpx.AsyncClient
) -> None:
    person = await people_of(strict).user()
    for client in (strict_client, neighbour_client):
        assert_refused(await guess(client, person.user.email), 401, "invalid_credentials")
    for client in (strict_client, neighbour_client):
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


async def test_a_guess_over_the_limit_costs_no_work(strict_client: httpx.AsyncClient, verified: list[str]) -> None:
    email = f"{uuid4()}@example.com"
    for _ in range(4):
        await guess(strict_client, email)
    assert len(verified) == 2


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
