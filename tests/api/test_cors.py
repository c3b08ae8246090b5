"""Pages of other origins: those that the settings name may call the API from a browser, and no others."""

from __future__ import annotations

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.edge import EXPOSED
from tests.api.conftest import SHOP, Started, calling
from tests.support.http.accounts import PASSWORD, People
from tests.support.http.catalog_api import MP4, CatalogApi
from tests.support.http.responses import assert_refused

REQUESTED = "authorization, content-type, idempotency-key"
OTHER = "https://evil.example.com"


def preflight(client: httpx.AsyncClient, path: str, origin: str = SHOP, **headers: str) -> httpx.Request:
    preflighted = {"access-control-request-method": "POST", "access-control-request-headers": REQUESTED}
    return client.build_request("OPTIONS", path, headers={"origin": origin, **preflighted, **headers})


def allowed(response: httpx.Response) -> str | None:
    return response.headers.get("access-control-allow-origin")


async def test_a_listed_origin_may_call_and_read_every_response(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    person = await People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys).user()
    origin = {"origin": SHOP}
    responses = [
        await strict_client.get("/api/me", headers=person.headers | origin),
        await strict_client.get("/api/me", headers=origin),
        await strict_client.get("/api/ai-jobs/none", headers=person.headers | origin),
        await strict_client.get("/no/such/path", headers=origin),
        await strict_client.post(
            "/api/task",
            content=b"{" * (strict_plane.settings.server.max_body_bytes + 1),
            headers=person.headers | origin,
        ),
        await strict_client.put("/api/me", headers=origin),
        await strict_client.get("/healthz", headers=origin),
        await strict_client.get("/docs", headers=origin),
    ]
    assert [response.status_code for response in responses] == [200, 401, 422, 404, 413, 405, 200, 200]
    for response in responses:
        assert allowed(response) == SHOP, response.request.url
        assert response.headers["access-control-expose-headers"] == EXPOSED.decode()
        assert "Origin" in response.headers["vary"]
        assert "access-control-allow-credentials" not in response.headers


async def test_streams_and_refused_streams_have_cors_headers(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    person = await People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys).user()
    headers = person.headers | {"origin": SHOP}
    async with (
        strict_client.stream("GET", "/api/ai-jobs/stream", headers=headers) as stream,
        strict_client.stream("GET", "/api/ai-jobs/stream", headers=headers) as other,
    ):
        assert (stream.status_code, allowed(stream)) == (200, SHOP)
        # Kept: an iterator that nothing holds would be closed, and the stream with it.
        chunks = [each.aiter_bytes() for each in (stream, other)]
        for each in chunks:
            await anext(each)
        refused = await strict_client.get("/api/ai-jobs/stream", headers=headers)
        assert (refused.status_code, allowed(refused)) == (429, SHOP)


async def test_a_preflight_request_needs_no_credentials_and_has_no_body_limit(strict_client: httpx.AsyncClient) -> None:
    for path in ("/api/task", "/api/ai-jobs/stream", "/api/admin/users", "/storage/any/key", "/no/such/path"):
        response = await strict_client.send(preflight(strict_client, path, **{"content-length": "0"}))
        assert (response.status_code, response.content) == (204, b"")
        assert allowed(response) == SHOP
        assert response.headers["access-control-allow-headers"] == REQUESTED
        assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(
            response.headers["access-control-allow-methods"].split(", ")
        )
        assert int(response.headers["access-control-max-age"]) > 0
        assert response.headers["x-request-id"]


async def test_other_origins_get_the_reason_and_no_cors_headers(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    person = await People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys).user()
    for origin in (
        OTHER,
        "null",
        f"{SHOP}.evil.example",
        SHOP.replace("https", "http"),
        SHOP.upper(),
        f"{SHOP}:8443",
    ):
        refused = await strict_client.send(preflight(strict_client, "/api/task", origin))
        problem = assert_refused(refused, 403, "forbidden")
        assert "server.cors_origins" in problem["detail"]
        response = await strict_client.get("/api/me", headers=person.headers | {"origin": origin})
        assert (allowed(refused), allowed(response)) == (None, None)
        # A cache must not give this answer to a page that may have it.
        assert "Origin" in response.headers["vary"]
    assert "Origin" in (await strict_client.get("/healthz")).headers["vary"]


async def test_invalid_header_names_are_not_repeated(strict_client: httpx.AsyncClient) -> None:
    request = preflight(strict_client, "/api/task", **{"access-control-request-headers": "x-a; <script>"})
    assert (await strict_client.send(request)).headers["access-control-allow-headers"] == ""


@pytest.mark.thorough
async def test_every_origin_may_call_if_the_settings_allow_it(started: Started) -> None:
    async with started(server={"cors_origins": ("*",)}) as (plane, client):
        person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()
        response = await client.get("/api/me", headers=person.headers | {"origin": OTHER})
        assert (response.status_code, allowed(response)) == (200, "*")
        assert "access-control-allow-credentials" not in response.headers
        preflighted = await client.send(preflight(client, "/api/me", OTHER))
        assert (preflighted.status_code, allowed(preflighted)) == (204, "*")


async def test_no_origin_is_allowed_without_the_setting(client: httpx.AsyncClient) -> None:
    response = await client.get("/healthz", headers={"origin": SHOP})
    assert allowed(response) is None
    assert "vary" not in response.headers
    assert_refused(await client.send(preflight(client, "/api/me")), 405, "method_not_allowed")


async def test_routes_of_workers_and_providers_have_no_cors_headers(strict_client: httpx.AsyncClient) -> None:
    for path in ("/api/worker/poll", "/api/webhooks/replicate/none", "/metrics"):
        response = await strict_client.get(path, headers={"origin": SHOP})
        preflighted = await strict_client.send(preflight(strict_client, path))
        assert (allowed(response), allowed(preflighted)) == (None, None)


async def test_a_page_uploads_and_reads_files_of_local_storage(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    catalog_api = await CatalogApi.open(
        strict_plane, strict_client, People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys)
    )
    person = await catalog_api.person()
    declared = {"name": "clip.mp4", "mime_type": "video/mp4", "size": len(MP4)}
    created = await catalog_api.made("/api/videos/uploads", declared, person=person)
    upload = created["upload"]
    names = ", ".join(name.lower() for name in upload["headers"])
    preflighted = await strict_client.send(
        preflight(strict_client, upload["url"], **{"access-control-request-headers": names})
    )
    assert (preflighted.status_code, preflighted.headers["access-control-allow-headers"]) == (204, names)
    stored = await strict_client.put(upload["url"], content=MP4, headers={**upload["headers"], "origin": SHOP})
    assert (stored.status_code, allowed(stored)) == (200, SHOP)
    confirm = await catalog_api.call("POST", f"/api/videos/uploads/{created['file']['id']}/confirm", {}, person=person)
    shown = confirm.json()
    part = await strict_client.get(shown["url"], headers={"origin": SHOP, "range": "bytes=0-3"})
    assert (part.status_code, allowed(part), part.content) == (206, SHOP, MP4[:4])
    assert "Content-Range" in part.headers["access-control-expose-headers"]
    # An <img> or <video> sends no origin; what it cached must not be taken for a script's answer.
    assert "Origin" in (await strict_client.get(shown["url"])).headers["vary"]
    denied = await strict_client.put(f"{upload['url']}x", content=MP4, headers={"origin": SHOP})
    assert (denied.status_code, allowed(denied)) == (403, SHOP)


@pytest.mark.parametrize("credentials", [False, True])
async def test_only_a_listed_origin_may_use_the_cookie_and_only_with_credentials(
    strict_plane: ControlPlane, neighbour_plane: ControlPlane, credentials: bool
) -> None:
    plane = neighbour_plane if credentials else strict_plane
    assert plane.settings.server.cors_credentials is credentials
    async with calling(plane) as client:
        person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()
        login = {"email": person.user.email, "password": PASSWORD}
        assert_refused(await client.post("/api/auth/login", json=login, headers={"origin": OTHER}), 403, "csrf_failed")
        signed_in = await client.post("/api/auth/login", json=login)
        csrf = {"x-csrf-token": signed_in.json()["csrf_token"]}
        for origin, may in ((SHOP, credentials), (OTHER, False), ("null", False)):
            read = await client.get("/api/me", headers={"origin": origin})
            wrote = await client.post("/api/keys", json={"name": "k"}, headers=csrf | {"origin": origin})
            assert (read.status_code, wrote.status_code) == ((200, 201) if may else (403, 403))
            assert (read.headers.get("access-control-allow-credentials") == "true") is may
        # The token is needed too: a page that may read it is one that may call.
        assert (await client.post("/api/keys", json={"name": "k"}, headers={"origin": SHOP})).status_code == 403
        own = {"origin": plane.settings.public_url}
        assert (await client.get("/api/me", headers=own)).status_code == 200


@pytest.mark.parametrize("path", ["/api/me", "/api/ai-jobs/stream"])
async def test_a_page_of_another_origin_cannot_read_with_the_cookie(
    client: httpx.AsyncClient, people: People, path: str
) -> None:
    person = await people.user()
    await client.post("/api/auth/login", json={"email": person.user.email, "password": PASSWORD})
    assert_refused(await client.get(path, headers={"origin": OTHER}), 403, "csrf_failed")
