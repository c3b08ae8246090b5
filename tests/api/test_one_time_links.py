"""How people enter a demo without a password: by its link or by one click, on its machine and in no other way."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.authentication import COOKIE
from callsheet.identity.access.one_time_links import LIFE, Caller, OneTimeLinks, require_this_machine
from callsheet.identity.routes import DEMO_COOKIE
from callsheet.toolbox.http.local_peers import Address
from callsheet.wire.errors import Forbidden, NotFound
from tests.support.http.accounts import People

OURS, PEER, OWN = os.geteuid(), ("127.0.0.1", 50010), ("127.0.0.1", 8080)
# What Firefox, Chromium and Safari send to a page of their own origin.
BROWSER = {
    "host": "127.0.0.1:8080",
    "user-agent": "Mozilla/5.0",
    "accept": "application/json",
    "accept-language": "en",
    "accept-encoding": "gzip",
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "content-type": "application/json",
    "cookie": "callsheet_demo=demo_x",
    "dnt": "1",
    "origin": "http://127.0.0.1:8080",
    "pragma": "no-cache",
    "priority": "u=1",
    "referer": "http://127.0.0.1:8080/sign-in",
    "sec-ch-ua": "Chromium",
    "sec-fetch-dest": "empty",
    "sec-fetch-mode": "cors",
    "sec-fetch-site": "same-origin",
    "sec-gpc": "1",
    "x-csrf-token": "x",
    "x-request-id": "1",
}


def offering(user: int | None) -> tuple[OneTimeLinks, str]:
    """Links of a demo, and the proof of a browser that used one."""
    links = OneTimeLinks(_user_of=lambda peer, own: user if (peer, own) == (PEER, OWN) else None)
    links.offer("ann@example.com")
    return links, links.know_browser()


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
    token = plane.rooms.identity.one_time_links.create(person.user.email)
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
    plane.rooms.identity.one_time_links.create((await people.user()).user.email)
    assert (await used(client, token)).status_code == 404


async def test_a_link_of_a_disabled_account_is_not_found(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    person, admin = await people.user(), await people.admin()
    token = plane.rooms.identity.one_time_links.create(person.user.email)
    disabled = await client.post(f"/api/admin/users/{person.user.id}/disable", headers=admin.headers)
    assert disabled.status_code == 200
    assert (await used(client, token)).status_code == 404


async def test_a_proxied_request_is_refused_and_does_not_use_the_link(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    token = plane.rooms.identity.one_time_links.create((await people.user()).user.email)
    for headers in (
        {"x-forwarded-for": "203.0.113.7"},
        {"x-forwarded-for": "127.0.0.1"},
        {"forwarded": "for=127.0.0.1"},
        {"via": "1.1 proxy"},
        {"sec-fetch-site": "cross-site"},
    ):
        response = await used(client, token, **headers)
        assert (response.status_code, response.json()["code"]) == (403, "forbidden")
        # The token is looked at first: without it, a caller learns nothing about the door.
        assert (await used(client, "once_guessed", **headers)).status_code == 404
    page = await used(client, token, origin="https://evil.example")
    assert (page.status_code, page.json()["code"]) == (403, "csrf_failed")
    assert (await used(client, token)).status_code == 200


@pytest.mark.few_forms
@pytest.mark.parametrize("peer", ["203.0.113.7", "192.168.1.4", "::ffff:192.168.1.4", "unknown", "localhost.example"])
def test_a_request_from_another_machine_is_refused(peer: str) -> None:
    with pytest.raises(Forbidden):
        require_this_machine(Caller((peer, 50010), OWN, {}))


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_a_request_from_this_machine_is_accepted(peer: str) -> None:
    require_this_machine(Caller((peer, 50010), OWN, BROWSER))


PROXIES = [
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Server",
    "X-Forwarded-Prefix",
    "X-Forwarded-Client-Cert",
    "X-Forwarded",
    "Forwarded",
    "Via",
    "X-Real-IP",
    "X-Real-Port",
    "CF-Connecting-IP",
    "CF-Ray",
    "CF-IPCountry",
    "CF-Visitor",
    "CDN-Loop",
    "True-Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "Client-IP",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "X-Original-URL",
    "X-Original-Forwarded-For",
    "X-Envoy-External-Address",
    "X-Amzn-Trace-Id",
    "X-Azure-ClientIP",
    "X-ARR-SSL",
    "X-Appengine-User-IP",
    "X-Cloud-Trace-Context",
    "X-Vercel-Forwarded-For",
    "Tailscale-User-Login",
    "WL-Proxy-Client-IP",
]


@pytest.mark.parametrize("name", PROXIES)
def test_a_request_with_a_header_of_a_proxy_enters_by_no_door(name: str) -> None:
    headers = BROWSER | {name.lower(): "127.0.0.1"}
    with pytest.raises(Forbidden):
        require_this_machine(Caller(PEER, OWN, headers))
    links, proof = offering(OURS)
    assert links.offered_to(proof, Caller(PEER, OWN, headers)) is None


@pytest.mark.parametrize(
    ("site", "enters"), [("same-origin", True), ("none", True), ("same-site", False), ("cross-site", False)]
)
def test_a_page_of_another_site_enters_by_no_door(site: str, enters: bool) -> None:
    """A page on another port of this machine is of the same site, and not of the same origin."""
    caller = Caller(PEER, OWN, BROWSER | {"sec-fetch-site": site})
    links, proof = offering(OURS)
    assert (links.offered_to(proof, caller) is not None) is enters
    if enters:
        require_this_machine(caller)
    else:
        with pytest.raises(Forbidden):
            require_this_machine(caller)


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


def test_only_the_user_who_runs_the_demo_is_offered_the_account() -> None:
    def offered(user: int | None, peer: Address | None = PEER, own: Address | None = OWN) -> str | None:
        links, proof = offering(user)
        return links.offered_to(proof, Caller(peer, own, BROWSER))

    assert offered(OURS) == "ann@example.com"
    # Another user of the machine, and a connection that the system does not list.
    assert offered(OURS + 1) is None
    assert offered(None) is None
    assert offered(OURS, ("192.168.1.4", 50010)) is None
    assert offered(OURS, None, None) is None
    no_demo = OneTimeLinks(_user_of=lambda _peer, _own: OURS)
    assert no_demo.offered_to(no_demo.know_browser(), Caller(PEER, OWN, BROWSER)) is None


@pytest.mark.parametrize("proof", [None, "", "demo_guessed", "once_guessed"])
def test_a_browser_that_used_no_link_is_offered_nothing_and_nothing_else_is_looked_at(proof: str | None) -> None:
    """A tunnel that forwards bytes makes another machine look like this one."""

    def never(_peer: Address, _own: Address) -> int | None:
        raise AssertionError("the table of connections was read")

    links = OneTimeLinks(_user_of=never)
    links.offer("ann@example.com")
    token = links.create("ann@example.com")
    for given in (proof, token):
        assert links.offered_to(given, Caller(PEER, OWN, BROWSER)) is None


async def test_one_click_opens_a_session_in_a_browser_that_used_the_link(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    """The requests come over connections of the user who runs the control plane, as those of a demo's browser do."""
    email = (await people.user()).user.email
    plane.rooms.identity.one_time_links.offer(email)
    assert (await client.get("/api/auth/demo")).json() == {"email": None}
    refused = await client.post("/api/auth/demo")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "Open the link that `callsheet demo` printed" in refused.json()["detail"]

    linked = await used(client, plane.rooms.identity.one_time_links.create(email))
    [kept] = [each for each in linked.headers.get_list("set-cookie") if each.startswith(f"{DEMO_COOKIE}=")]
    assert {"HttpOnly", "SameSite=strict", "Path=/api/auth/demo"} <= set(kept.split("; "))
    client.cookies.clear()
    browser = {"cookie": f"{DEMO_COOKIE}={linked.cookies[DEMO_COOKIE]}"}
    assert (await client.get("/api/auth/demo", headers=browser)).json() == {"email": email}
    for passed_on in ({"x-forwarded-for": "127.0.0.1"}, {"via": "1.1 proxy"}, {"sec-fetch-site": "same-site"}):
        assert (await client.get("/api/auth/demo", headers=browser | passed_on)).json() == {"email": None}
        assert (await client.post("/api/auth/demo", headers=browser | passed_on)).status_code == 403
    page = await client.post("/api/auth/demo", headers=browser | {"origin": "https://evil.example"})
    assert (page.status_code, page.json()["code"]) == (403, "csrf_failed")
    entered = await client.post("/api/auth/demo", headers=browser)
    assert (entered.status_code, entered.json()["email"]) == (200, email)
    assert "HttpOnly" in entered.headers["set-cookie"]
