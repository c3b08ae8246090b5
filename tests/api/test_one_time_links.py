"""How people enter a demo without a password: by its link or by one click, on its machine and in no other way."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from callsheet.app import ControlPlane
from callsheet.identity.authentication import COOKIE
from callsheet.identity.one_time_links import LIFE, OneTimeLinks, require_this_machine
from callsheet.wire.errors import Forbidden, NotFound
from tests.support.accounts import People


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
    response = await used(client, token)
    assert response.status_code == 200
    assert (response.json()["email"], response.json()["signed_in_with"]) == (person.user.email, "session")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    signed_in = await client.get("/api/me", headers={"cookie": f"{COOKIE}={response.cookies[COOKIE]}"})
    assert signed_in.json()["user_id"] == str(person.user.id)
    again = await used(client, token)
    assert (again.status_code, COOKIE in again.cookies) == (404, False)


@pytest.mark.parametrize("token", ["once_guessed", "x", "🎬", "a" * 128])
async def test_a_guessed_link_is_not_found(
    plane: ControlPlane, client: httpx.AsyncClient, people: People, token: str
) -> None:
    plane.one_time_links.create((await people.user()).user.email)
    assert (await used(client, token)).status_code == 404


async def test_a_link_of_a_disabled_account_is_not_found(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    person, admin = await people.user(), await people.admin()
    token = plane.one_time_links.create(person.user.email)
    disabled = await client.post(f"/api/admin/users/{person.user.id}/disable", headers=admin.headers)
    assert disabled.status_code == 200
    assert (await used(client, token)).status_code == 404


async def test_a_proxied_request_is_refused_and_does_not_use_the_link(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    token = plane.one_time_links.create((await people.user()).user.email)
    for address in ("203.0.113.7", "127.0.0.1"):
        response = await used(client, token, **{"x-forwarded-for": address})
        assert (response.status_code, response.json()["code"]) == (403, "forbidden")
    page = await used(client, token, origin="https://evil.example")
    assert (page.status_code, page.json()["code"]) == (403, "csrf_failed")
    assert (await used(client, token)).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize("peer", ["203.0.113.7", "192.168.1.4", "::ffff:192.168.1.4", "unknown", "localhost.example"])
def test_a_request_from_another_machine_is_refused(peer: str) -> None:
    with pytest.raises(Forbidden):
        require_this_machine(peer, [])


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_a_request_from_this_machine_is_accepted(peer: str) -> None:
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


def test_the_stored_link_does_not_contain_the_token() -> None:
    links = OneTimeLinks()
    token = links.create("ann@example.com")
    assert token not in repr(links)
    assert len(token) > 40


OURS, PEER, OWN = os.geteuid(), ("127.0.0.1", 50010), ("127.0.0.1", 8080)


def offering(user: int | None) -> OneTimeLinks:
    links = OneTimeLinks(_user_of=lambda peer, own: user if (peer, own) == (PEER, OWN) else None)
    links.offer("ann@example.com")
    return links


def test_only_the_user_who_runs_the_demo_is_offered_the_account() -> None:
    assert offering(OURS).offered_to(PEER, OWN, []) == "ann@example.com"
    # Another user of the machine, and a connection that the system does not list.
    assert offering(OURS + 1).offered_to(PEER, OWN, []) is None
    assert offering(None).offered_to(PEER, OWN, []) is None
    assert offering(OURS).offered_to(PEER, OWN, ["127.0.0.1"]) is None
    assert offering(OURS).offered_to(("192.168.1.4", 50010), OWN, []) is None
    assert offering(OURS).offered_to(None, None, []) is None
    assert OneTimeLinks(_user_of=lambda _peer, _own: OURS).offered_to(PEER, OWN, []) is None


async def test_one_click_opens_a_session_if_the_account_is_offered(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    """The requests come over connections of the user who runs the control plane, as those of a demo's browser do."""
    email = (await people.user()).user.email
    assert (await client.get("/api/auth/demo")).json() == {"email": None}
    refused = await client.post("/api/auth/demo")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")

    plane.one_time_links.offer(email)
    assert (await client.get("/api/auth/demo")).json() == {"email": email}
    passed_on = {"x-forwarded-for": "127.0.0.1"}
    assert (await client.get("/api/auth/demo", headers=passed_on)).json() == {"email": None}
    assert (await client.post("/api/auth/demo", headers=passed_on)).status_code == 403
    page = await client.post("/api/auth/demo", headers={"origin": "https://evil.example"})
    assert (page.status_code, page.json()["code"]) == (403, "csrf_failed")
    entered = await client.post("/api/auth/demo")
    assert (entered.status_code, entered.json()["email"]) == (200, email)
    assert "HttpOnly" in entered.headers["set-cookie"]
