"""The link of the demo: once, for a while, on this machine, and for nobody who comes through something else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from callsheet.app import ControlPlane
from callsheet.identity.authentication import COOKIE
from callsheet.identity.one_time_links import LIFE, OneTimeLinks, require_this_machine
from callsheet.wire.errors import Forbidden, NotFound
from tests.support.people import People


class Hands:
    """A clock that is set."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


async def used(client: httpx.AsyncClient, token: str, **headers: str) -> httpx.Response:
    client.cookies.clear()
    return await client.post("/api/auth/once", json={"token": token}, headers=headers)


async def test_a_link_signs_in_once(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    token = plane.one_time_links.create(person.user.email)
    answer = await used(client, token)
    assert answer.status_code == 200
    assert (answer.json()["email"], answer.json()["signed_in_with"]) == (person.user.email, "session")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    signed_in = await client.get("/api/me", headers={"cookie": f"{COOKIE}={answer.cookies[COOKIE]}"})
    assert signed_in.json()["user_id"] == str(person.user.id)
    again = await used(client, token)
    assert (again.status_code, COOKIE in again.cookies) == (404, False)


@pytest.mark.parametrize("token", ["once_guessed", "x", "🎬", "a" * 128])
async def test_nobody_guesses_one(plane: ControlPlane, client: httpx.AsyncClient, people: People, token: str) -> None:
    plane.one_time_links.create((await people.user()).user.email)
    assert (await used(client, token)).status_code == 404


async def test_a_link_of_a_disabled_account_is_none(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    person, admin = await people.user(), await people.admin()
    token = plane.one_time_links.create(person.user.email)
    disabled = await client.post(f"/api/admin/users/{person.user.id}/disable", headers=admin.headers)
    assert disabled.status_code == 200
    assert (await used(client, token)).status_code == 404


async def test_a_request_that_was_passed_on_is_refused_and_uses_nothing_up(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    token = plane.one_time_links.create((await people.user()).user.email)
    for address in ("203.0.113.7", "127.0.0.1"):
        answer = await used(client, token, **{"x-forwarded-for": address})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    page = await used(client, token, origin="https://evil.example")
    assert (page.status_code, page.json()["code"]) == (403, "csrf_failed")
    assert (await used(client, token)).status_code == 200


@pytest.mark.parametrize("peer", ["203.0.113.7", "192.168.1.4", "::ffff:192.168.1.4", "unknown", "localhost.example"])
def test_another_machine_is_not_this_one(peer: str) -> None:
    with pytest.raises(Forbidden):
        require_this_machine(peer, [])


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is(peer: str) -> None:
    require_this_machine(peer, [])


def test_a_link_expires() -> None:
    clock = Hands()
    links = OneTimeLinks(clock)
    token, late = links.create("ann@example.com"), links.create("ann@example.com")
    clock.at += LIFE - timedelta(seconds=1)
    assert links.take(token) == "ann@example.com"
    clock.at += timedelta(seconds=1)
    with pytest.raises(NotFound):
        links.take(late)


def test_the_token_itself_is_kept_nowhere() -> None:
    links = OneTimeLinks()
    token = links.create("ann@example.com")
    assert token not in repr(links)
    assert len(token) > 40
