"""`/api/sessions`: the browsers that are signed in, and signing them out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access.authentication import COOKIE
from callsheet.identity.access.devices import device_of
from callsheet.identity.access.keys import KeyUsage
from callsheet.wire.identity import Role
from tests.support.http.accounts import PASSWORD, People, Person
from tests.support.http.responses import assert_refused

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Mobile/15E148 Safari/604.1"
)


@asynccontextmanager
async def browser(plane: ControlPlane, person: Person, user_agent: str = FIREFOX) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
        client.headers["user-agent"] = user_agent
        response = await client.post("/api/auth/login", json={"email": person.user.email, "password": PASSWORD})
        client.headers["x-csrf-token"] = response.json()["csrf_token"]
        yield client


async def listed(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    response = await client.get("/api/sessions")
    assert response.status_code == 200, response.text
    sessions: list[dict[str, Any]] = response.json()
    return sessions


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("user_agent", "device"),
    [
        (FIREFOX, "Firefox on Linux"),
        (IPHONE, "Safari on iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/130.0 Safari/537.36 Edg/130.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/130.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X) AppleWebKit/605.1 Version/18.0 Safari/605.1", "Safari on macOS"),
        ("curl/8.1", "curl"),
        ("<script>alert(1)</script>", None),
        (None, None),
    ],
)
def test_a_session_shows_a_recognizable_device_name(user_agent: str | None, device: str | None) -> None:
    assert device_of(user_agent) == device


async def test_a_user_sees_their_own_sessions_and_which_one_is_current(plane: ControlPlane, people: People) -> None:
    ann, bob = await people.user(), await people.user()
    async with browser(plane, ann) as jobs_api, browser(plane, ann, IPHONE) as phone, browser(plane, bob) as others:
        newest, oldest = await listed(jobs_api)
        assert (newest["device"], newest["is_current"]) == ("Safari on iPhone", False)
        assert (oldest["device"], oldest["is_current"]) == ("Firefox on Linux", True)
        assert newest["address"] == "127.0.0.1"
        assert newest["expires_at"] > newest["last_seen_at"] >= newest["created_at"]
        assert [each["is_current"] for each in await listed(phone)] == [True, False]
        assert len(await listed(others)) == 1
        by_key = await jobs_api.get("/api/sessions", headers={**ann.headers, "cookie": ""})
        assert [each["is_current"] for each in by_key.json()] == [False, False]
        text = str(by_key.json())
        assert jobs_api.cookies[COOKIE] not in text
        assert FIREFOX not in text


async def test_the_last_use_of_a_session_is_written_after_the_request(plane: ControlPlane, people: People) -> None:
    ann = await people.user()
    async with browser(plane, ann) as jobs_api:
        [before] = await listed(jobs_api)
        await next(loop for loop in plane.loops if isinstance(loop, KeyUsage)).tick(datetime.now(UTC))
        [after] = await listed(jobs_api)
    assert after["last_seen_at"] > before["last_seen_at"]


async def test_ending_one_session_keeps_the_others(plane: ControlPlane, people: People) -> None:
    ann, bob = await people.user(), await people.user()
    async with browser(plane, ann) as jobs_api, browser(plane, ann, IPHONE) as phone, browser(plane, bob) as others:
        [session] = [each for each in await listed(jobs_api) if not each["is_current"]]
        assert_refused(await others.delete(f"/api/sessions/{session['id']}"), 404, "not_found")
        assert (await jobs_api.delete(f"/api/sessions/{session['id']}")).status_code == 204
        assert_refused(await phone.get("/api/me"), 401, "not_authenticated")
        assert (await jobs_api.get("/api/me")).status_code == 200
        [own] = await listed(jobs_api)
        ended = await jobs_api.delete(f"/api/sessions/{own['id']}")
        assert (ended.status_code, COOKIE in jobs_api.cookies) == (204, False)


@pytest.mark.parametrize("keep_current", [True, False])
async def test_signing_out_everywhere_ends_streams_at_once(
    plane: ControlPlane, people: People, keep_current: bool
) -> None:
    ann = await people.user()
    async with browser(plane, ann) as jobs_api, browser(plane, ann, IPHONE) as phone:
        async with phone.stream("GET", "/api/ai-jobs/stream") as stream:
            pieces = stream.aiter_raw()
            assert b"open" in await anext(pieces)
            response = await jobs_api.delete(f"/api/sessions?keep_current={str(keep_current).lower()}")
            assert response.json() == {"ended": 1 if keep_current else 2}
            async with asyncio.timeout(10):
                # The state of the wallet may have come before the session ended.
                assert [piece async for piece in pieces if b"data" in piece and b"event: wallet" not in piece] == []
        assert (await jobs_api.get("/api/me")).status_code == (200 if keep_current else 401)
        assert (await phone.get("/api/me")).status_code == 401
    assert (await phone_key(plane, ann)).status_code == 200


async def phone_key(plane: ControlPlane, person: Person) -> httpx.Response:
    """The key of the person still works."""
    async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False) as client:
        return await client.get("/api/me", headers=person.headers)


async def test_a_key_ends_no_session_and_a_viewer_ends_its_own(plane: ControlPlane, people: People) -> None:
    viewer = await people.user(role=Role.VIEWER)
    async with browser(plane, viewer) as jobs_api, browser(plane, viewer, IPHONE):
        async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False) as client:
            assert_refused(await client.delete("/api/sessions", headers=viewer.headers), 403, "forbidden")
        assert (await jobs_api.delete("/api/sessions")).json() == {"ended": 1}
        del jobs_api.headers["x-csrf-token"]
        assert_refused(await jobs_api.delete("/api/sessions"), 403, "csrf_failed")
