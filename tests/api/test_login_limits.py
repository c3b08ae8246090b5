"""Guessing passwords: attempts are counted in the database before the password is checked, the same for every user."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from argon2 import PasswordHasher
from starlette.requests import Request

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.attempts import Attempts
from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.installation.secrets import master_secret
from tests.api.conftest import calling, new_ip_address, shared_plane
from tests.support.database.installation import changed
from tests.support.http.accounts import PASSWORD, People, Person, sign_in
from tests.support.http.responses import assert_limit, assert_refused


def people_of(plane: ControlPlane) -> People:
    return People(plane.rooms.identity.accounts, plane.rooms.identity.keys)


async def guess(
    client: httpx.AsyncClient, email: str, address: str | None = None, password: str = "guess"
) -> httpx.Response:
    """Each attempt comes from another IP address, unless one is named."""
    headers = {"x-forwarded-for": address or new_ip_address(), "content-type": "application/json"}
    # Escaped, so that half of a surrogate pair can be sent too.
    content = json.dumps({"email": email, "password": password})
    return await client.post("/api/auth/login", content=content, headers=headers)


@pytest.fixture(scope="module")
async def limited_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """Two failures per account and IP address, four per account. The limit per IP address alone is too high to matter
    here.

    The window is a day, so that none ends in the middle of a test.
    """
    identity = {
        "login_attempts": 2,
        "login_attempts_per_account": 4,
        "login_attempts_per_address": 100_000,
        "login_window_seconds": 86_400,
    }
    server = {"trusted_proxies": (ip_network("127.0.0.0/8"),)}
    directory = tmp_path_factory.mktemp("guarded")
    async with shared_plane(postgres, templates, directory, identity=identity, server=server) as plane:
        await plane.loops.stop()
        yield plane


@pytest.fixture
async def limited_client(limited_plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    """A client of `limited_plane`."""
    async with calling(limited_plane) as client:
        yield client


@pytest.mark.parametrize("known", [True, False])
async def test_only_the_ip_address_with_too_many_failures_must_wait(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient, known: bool
) -> None:
    person, stranger = await people_of(limited_plane).user(), new_ip_address()
    email = person.user.email if known else f"{uuid4()}@example.com"
    for _ in range(2):
        assert_refused(await guess(limited_client, email, stranger), 401, "invalid_credentials")
    for _ in range(10):
        response = await guess(limited_client, email, stranger)
        problem = assert_refused(response, 429, "rate_limited")
        assert_limit(response, "logins", 2, 86_400)
        assert int(response.headers["retry-after"]) == problem["retry_after_seconds"]
    assert_refused(await guess(limited_client, email, stranger, PASSWORD), 429, "rate_limited")
    # What was refused did not count against the account: its owner has every attempt left.
    owner = new_ip_address()
    assert_refused(await guess(limited_client, email, owner), 401, "invalid_credentials")
    response = await guess(limited_client, email, owner, PASSWORD)
    assert response.status_code == (200 if known else 401)


async def test_an_account_attacked_from_many_ip_addresses_is_slowed_and_not_locked(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient
) -> None:
    person = await people_of(limited_plane).user()
    email = person.user.email
    for _ in range(4):
        assert_refused(await guess(limited_client, email), 401, "invalid_credentials")
    # From now on each IP address has one attempt: a user who knows the password needs no more.
    stranger, owner = new_ip_address(), new_ip_address()
    assert_refused(await guess(limited_client, email, stranger), 401, "invalid_credentials")
    assert_refused(await guess(limited_client, email, stranger), 429, "rate_limited")
    for _ in range(3):
        assert (await guess(limited_client, email, owner, PASSWORD)).status_code == 200
    assert_refused(await guess(limited_client, email, owner), 401, "invalid_credentials")
    assert_refused(await guess(limited_client, email, owner, PASSWORD), 429, "rate_limited")
    # Other accounts are as they were.
    other = await people_of(limited_plane).user()
    assert (await guess(limited_client, other.user.email, stranger, PASSWORD)).status_code == 200


async def test_an_ipv6_site_counts_as_one_ip_address_for_a_slowed_account(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient
) -> None:
    """65,536 networks of /64 come with any free tunnel."""
    email = (await people_of(limited_plane).user()).user.email
    for _ in range(4):
        await guess(limited_client, email)
    assert_refused(await guess(limited_client, email, "2001:db9:5:1::1"), 401, "invalid_credentials")
    assert_refused(await guess(limited_client, email, "2001:db9:5:2::1"), 429, "rate_limited")
    assert_refused(await guess(limited_client, email, "2001:db9:6:1::1"), 401, "invalid_credentials")


async def test_other_spellings_of_an_email_address_are_the_same_account(limited_client: httpx.AsyncClient) -> None:
    name, address = uuid4().hex, new_ip_address()
    for email in (f"{name}@example.com", f" {name.upper()}@example.com "):
        assert_refused(await guess(limited_client, email, address), 401, "invalid_credentials")
    assert_refused(await guess(limited_client, f"{name}@Example.com", address), 429, "rate_limited")


@pytest.mark.few_forms
@pytest.mark.parametrize("character", ["\0", "\x01", "\x1b", "\n", "\x7f", "\ud800"])
async def test_a_control_character_in_an_email_does_not_evade_the_login_limit(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient, character: str
) -> None:
    """Left out at the lookup and counted, each number of them was an account with all its attempts left."""
    person, address = await people_of(limited_plane).user(), new_ip_address()
    for times in range(1, 5):
        for email in (f"{person.user.email}{character * times}", f"{character * times}{person.user.email}"):
            for password in ("guess", PASSWORD):
                response = await guess(limited_client, email, address, password)
                assert_refused(response, 422, "invalid_request", "email")
    assert (await guess(limited_client, person.user.email, address, PASSWORD)).status_code == 200


async def test_parallel_logins_cannot_exceed_the_limit(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient
) -> None:
    person, address = await people_of(limited_plane).user(), new_ip_address()
    responses = await asyncio.gather(*(guess(limited_client, person.user.email, address) for _ in range(40)))
    assert Counter(response.status_code for response in responses) == {401: 2, 429: 38}


@pytest.mark.thorough
async def test_parallel_logins_from_many_ip_addresses_get_one_attempt_each(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient
) -> None:
    person, addresses = await people_of(limited_plane).user(), [new_ip_address() for _ in range(8)]
    guesses = [guess(limited_client, person.user.email, address) for address in addresses for _ in range(3)]
    statuses = Counter(response.status_code for response in await asyncio.gather(*guesses))
    # Four before the account was slowed down, at most one per IP address after that.
    assert statuses.keys() == {401, 429}
    assert 8 <= statuses[401] <= 4 + 8


@pytest.mark.thorough
async def test_successful_logins_do_not_count_as_failures(
    limited_plane: ControlPlane, limited_client: httpx.AsyncClient
) -> None:
    person = await people_of(limited_plane).user()
    for _ in range(6):
        assert (await sign_in(limited_client, person)).status_code == 200
    assert_refused(await guess(limited_client, person.user.email), 401, "invalid_credentials")
    assert (await sign_in(limited_client, person)).status_code == 200


async def test_one_ip_address_may_not_guess_passwords_of_many_accounts(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    person, address = await people_of(strict_plane).user(), new_ip_address()
    assert_refused(await guess(strict_client, f"{uuid4()}@example.com", address), 401, "invalid_credentials")
    assert_refused(await guess(strict_client, person.user.email, address, PASSWORD), 429, "rate_limited")


async def test_one_ip_address_cannot_fill_the_table_of_attempts(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    """An attempt that is refused for its IP address is not counted for any account."""

    async def rows() -> int:
        async with strict_plane.databases.central.connection() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM login_attempts"))

    address = new_ip_address()
    await guess(strict_client, f"{uuid4()}@example.com", address)
    before = await rows()
    for _ in range(5):
        assert_refused(await guess(strict_client, f"{uuid4()}@example.com", address), 429, "rate_limited")
    assert await rows() == before


async def test_a_client_cannot_choose_its_ip_address(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    """If no proxy is trusted, all forwarded headers are ignored: the IP address of the connection counts."""
    address = Attempts(plane.databases, plane.settings.identity, master_secret(plane.settings)).address("127.0.0.1")

    async def counted() -> int:
        async with plane.databases.central.connection() as connection:
            query = "SELECT coalesce(sum(attempts), 0) FROM login_attempts WHERE bucket = $1"
            return int(await connection.fetchval(query, address))

    before = await counted()
    for number in range(3):
        await guess(client, f"{uuid4()}@example.com", f"192.0.2.{number}")
    assert await counted() == before + 3


async def test_a_trusted_proxy_names_the_ip_address(strict_client: httpx.AsyncClient) -> None:
    async def status(*forwarded: str) -> int:
        headers = [("x-forwarded-for", line) for line in forwarded]
        login = {"email": f"{uuid4()}@example.com", "password": "guess"}
        # Not with the client's own IP address in front.
        async with httpx.AsyncClient(base_url=strict_client.base_url, trust_env=False, timeout=30) as client:
            return (await client.post("/api/auth/login", json=login, headers=headers)).status_code

    assert await status("192.0.2.1") == 401
    assert await status("192.0.2.2") == 401
    assert await status("192.0.2.1") == 429
    # Everything left of the first IP address that we do not trust was written by the client.
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


@pytest.mark.thorough
async def test_attempts_are_counted_for_all_control_planes_together(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient, neighbour_client: httpx.AsyncClient
) -> None:
    person, address = await people_of(strict_plane).user(), new_ip_address()
    assert_refused(await guess(strict_client, person.user.email, address), 401, "invalid_credentials")
    for client in (strict_client, neighbour_client):
        assert_refused(await guess(client, person.user.email, address, PASSWORD), 429, "rate_limited")


async def test_names_of_accounts_are_not_stored_with_login_attempts(
    plane: ControlPlane, client: httpx.AsyncClient
) -> None:
    await guess(client, "curious@example.com")
    async with plane.databases.central.connection() as connection:
        rows = await connection.fetch("SELECT * FROM login_attempts")
    assert rows
    assert b"curious" not in b"".join(row["bucket"] for row in rows)
    assert {len(row["bucket"]) for row in rows} == {32}


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every hash that argon2 was asked about."""
    guesses: list[str] = []
    verify: Callable[..., Any] = PasswordHasher.verify

    def record(hasher: PasswordHasher, password_hash: str, password: bytes) -> Any:
        guesses.append(password_hash)
        return verify(hasher, password_hash, password)

    monkeypatch.setattr(PasswordHasher, "verify", record)
    return guesses


@pytest.mark.parametrize("known", [True, False, "disabled"])
async def test_a_login_of_an_unknown_user_costs_as_much_work_as_a_known_one(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, verified: list[str], known: bool | str
) -> None:
    person = await people.user()
    if known == "disabled":
        async with plane.databases.central.connection() as connection:
            await connection.execute("UPDATE users SET disabled_at = now() WHERE id = $1", person.user.id)
    response = await guess(client, person.user.email if known else "nobody@example.com")
    problem = assert_refused(response, 401, "invalid_credentials")
    assert set(problem) == {"type", "title", "status", "code", "request_id"}
    assert [password_hash.split("$")[1:4] for password_hash in verified] == [["argon2id", "v=19", "m=19456,t=2,p=1"]]


async def test_a_login_over_the_limit_computes_no_hash(limited_client: httpx.AsyncClient, verified: list[str]) -> None:
    email, address = f"{uuid4()}@example.com", new_ip_address()
    for _ in range(4):
        await guess(limited_client, email, address)
    assert len(verified) == 2


async def test_secrets_are_in_no_log(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, logged: io.StringIO
) -> None:
    person: Person = await people.user()
    signed_in = await sign_in(client, person)
    csrf = {"x-csrf-token": signed_in.json()["csrf_token"]}
    created = await client.post("/api/keys", json={"name": "logged"}, headers=csrf)
    client.cookies.clear()
    await sign_in(client, person, "a wrong password")
    await client.get("/api/me", headers={"authorization": "Bearer cs_wrong-key"})
    await client.post("/api/auth/login", content=b'{"password": "in broken json', headers={"content-type": "a/json"})
    await client.get("/api/me?token=in-the-query")
    text = logged.getvalue()
    assert text.count("http.request") >= 6
    secrets = [PASSWORD, "a wrong password", person.key, created.json()["key"], "cs_wrong-key", "in broken json"]
    secrets += [*signed_in.cookies.values(), signed_in.json()["csrf_token"], "in-the-query"]
    assert not [secret for secret in secrets if secret in text]
