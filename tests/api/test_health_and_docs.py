"""The first URLs of operators and new users: `/healthz`, `/readyz`, `/docs`, `/openapi.json`."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import asyncpg
import httpx
import pytest

from callsheet import __version__
from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.database.ownership import RENEW_SECONDS
from tests.support.database.outages import away
from tests.support.http.responses import assert_refused
from tests.support.waiting import until


async def test_healthz_reports_that_the_process_is_alive(client: httpx.AsyncClient) -> None:
    response = await client.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok", "version": __version__})


async def test_readyz_checks_every_database(client: httpx.AsyncClient) -> None:
    response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"status": "ready", "databases": {"central": "ok", "pool_1": "ok", "pool_2": "ok"}}


async def test_readyz_names_the_unavailable_database(
    neighbour_plane: ControlPlane, neighbour_client: httpx.AsyncClient
) -> None:
    first, second = [await neighbour_plane.databases.pool(name) for name in ("pool_1", "pool_2")]
    async with away(second):
        # The tenants of the other pool are served.
        response = await neighbour_client.get("/readyz")
        assert response.status_code == 200
        assert response.json() == {
            "status": "degraded",
            "databases": {"central": "ok", "pool_1": "ok", "pool_2": "unavailable"},
        }
        async with away(first):
            problem = assert_refused(await neighbour_client.get("/readyz"), 503, "unavailable")
    assert problem["detail"] == "No server of these databases accepts writes: pool_1, pool_2."


async def test_readyz_says_that_the_clock_of_this_machine_is_wrong(
    neighbour_plane: ControlPlane, neighbour_client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulse = neighbour_plane.databases.central.pulse
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda now=time.time: now() + 1200)
        await pulse.check()
        problem = assert_refused(await neighbour_client.get("/readyz"), 503, "unavailable")
    assert problem["detail"] == (
        "The clock of this machine is 1200 seconds ahead of the database's. Run a time service (chrony, "
        "systemd-timesyncd) on both."
    )
    await pulse.check()
    assert (await neighbour_client.get("/readyz")).status_code == 200


async def test_a_table_that_is_locked_by_an_administrator_does_not_make_a_control_plane_unready(
    neighbour_plane: ControlPlane, neighbour_client: httpx.AsyncClient
) -> None:
    pool = await neighbour_plane.databases.pool("pool_1")
    admin = await asyncpg.connect(pool.dsn)
    waiting = []

    async def read() -> None:
        async with pool.connection() as connection:
            await connection.fetchval("SELECT count(*) FROM ai_jobs")

    try:
        async with admin.transaction():
            await admin.execute("LOCK TABLE ai_jobs, pool_owner IN ACCESS EXCLUSIVE MODE")
            waiting = [asyncio.create_task(read()) for _ in range(20)]
            await until(lambda: pool.connection_counts()[1] == 0)
            for _ in range(2):
                for keeper in neighbour_plane.databases._keepers.values():
                    keeper._renewed -= RENEW_SECONDS
                await neighbour_plane.databases.refresh_pools()
                response = await neighbour_client.get("/readyz")
                assert response.json() == {
                    "status": "ready",
                    "databases": {"central": "ok", "pool_1": "ok", "pool_2": "ok"},
                }
    finally:
        await admin.close()
        await asyncio.gather(*waiting)


async def test_only_readyz_fails_while_the_process_drains(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    plane.draining.set()
    try:
        assert_refused(await client.get("/readyz"), 503, "unavailable")
        assert (await client.get("/healthz")).status_code == 200
    finally:
        plane.draining.clear()
    assert (await client.get("/readyz")).status_code == 200


async def test_the_docs_page_loads_no_external_resources(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert not re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]+", page.text)
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert {asset.rpartition(".")[2] for asset in assets} == {"js", "css", "png"}
    for asset in [*assets, "/openapi.json"]:
        assert asset.startswith("/")
        response = await client.get(asset)
        assert (response.status_code, len(response.content) > 500) == (200, True), asset
    assert re.search(r"url: ['\"]/openapi.json['\"]", page.text)


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    response = await client.get("/openapi.json")
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


async def test_every_route_documents_its_refusals_as_problems(document: dict[str, Any]) -> None:
    expected = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for name, operation in operations(document):
        for status in ("4XX", "5XX"):
            assert operation["responses"][status]["content"] == expected, (name, status)
        assert "422" not in operation["responses"]
    assert not {"HTTPValidationError", "ValidationError"} & document["components"]["schemas"].keys()


async def test_every_route_documents_its_authentication(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    assert schemes["HTTPBearer"]["scheme"] == "bearer"
    assert (schemes["APIKeyCookie"]["in"], schemes["APIKeyCookie"]["name"]) == ("cookie", "callsheet_session")
    for name, operation in operations(document):
        assert operation.get("security") == lets_in(name), name


def lets_in(name: str) -> list[dict[str, list[str]]] | None:
    if name == "POST /api/worker/register":
        return [{"FleetSecret": []}]
    if "/api/worker/" in name:
        return [{"WorkerToken": []}]
    # Callbacks are signed by those who send them.
    # A link (of an invitation, a password reset, a preview, a result that is shared) is all that its page has.
    links = ("/api/invitations/", "/api/password-resets", "/api/shares/", "/api/previews/")
    linked = name.partition(" ")[2].startswith(links)
    signs_in = name in ("POST /api/auth/login", "POST /api/auth/once", "GET /api/auth/demo", "POST /api/auth/demo")
    public = signs_in or "/api/" not in name or "/api/webhooks/" in name or linked
    return None if public else [{"HTTPBearer": []}, {"APIKeyCookie": []}]


async def test_operation_ids_are_usable_by_client_generators(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z_]+", name) for name in names)


async def test_every_reference_in_the_api_document_resolves(document: dict[str, Any]) -> None:
    referred = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert "ProblemField" in referred
    assert referred <= document["components"]["schemas"].keys()
