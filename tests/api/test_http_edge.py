"""Every request has an id, every answer its headers, every failure a problem+json; `/metrics` counts them all."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from asyncpg.exceptions._base import DataError  # the driver's own, not the server's of the same name
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.responses import StreamingResponse

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.http.edge import Edge
from callsheet.plumbing.http.problems import PROBLEM_RESPONSES, STATUS_OF_CODE, install_problem_handlers
from callsheet.plumbing.http.server import HttpServer, free_address
from callsheet.plumbing.metrics import HttpMetrics
from callsheet.settings import ServerSettings, load_settings
from callsheet.wire import errors
from tests.api.conftest import Started
from tests.support.database.outages import accepting_no_connections, closed
from tests.support.http.accounts import People
from tests.support.http.responses import assert_refused
from tests.support.run.ports import free_port
from tests.support.waiting import until

SECURITY_HEADERS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "same-origin"}

AWAY = [
    DatabaseError("Database pool_7 at 10.0.0.7/secret cannot be used"),
    ConnectionRefusedError(111, "Connect call failed ('10.0.0.7', 5432)"),
    TimeoutError("10.0.0.7"),
    socket.gaierror(-2, "Name or service not known: 10.0.0.7"),
    asyncpg.InterfaceError("pool is closing"),
    asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress"),
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    asyncpg.CannotConnectNowError("the database system is starting up"),
    asyncpg.TooManyConnectionsError("sorry, too many clients already"),
    asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
]


def lines_of(logged: io.StringIO, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    return [line for line in lines if line["event"] == event]


@pytest.mark.parametrize("given", ["abc", "A.b_c-9", "x" * 64, "01900000-0000-7000-8000-000000000000"])
async def test_a_request_id_is_in_response_and_log(client: httpx.AsyncClient, logged: io.StringIO, given: str) -> None:
    response = await client.get("/api/me", headers={"x-request-id": given})
    assert assert_refused(response, 401, "not_authenticated")["request_id"] == given
    (line,) = lines_of(logged, "http.request")
    assert line["request_id"] == given
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/me", 401)
    assert (await client.get("/healthz", headers={"x-request-id": given})).headers["x-request-id"] == given


@pytest.mark.few_forms
@pytest.mark.parametrize("given", [b"", b"x" * 65, b"a b", b"a;b", b"<script>", b"\xff", b'"', b"a,b", b"\xc3\xa9"])
async def test_an_unsafe_request_id_is_replaced(client: httpx.AsyncClient, logged: io.StringIO, given: bytes) -> None:
    responses = [await client.get("/nowhere", headers=[(b"x-request-id", given)]) for _ in range(2)]
    ids = [response.headers["x-request-id"] for response in responses]
    assert ids[0] != ids[1]
    assert all(re.fullmatch("[0-9a-f]{16}", made) for made in ids)
    assert [line["request_id"] for line in lines_of(logged, "http.request")] == ids


async def test_the_log_names_the_user_of_each_request(
    client: httpx.AsyncClient, people: People, logged: io.StringIO
) -> None:
    person = await people.user()
    await client.get("/api/me", headers=person.headers)
    await client.get("/nowhere")
    mine, nobodys = lines_of(logged, "http.request")
    assert (mine["user_id"], mine["tenant_id"]) == (str(person.user.id), str(person.tenant.id))
    assert "user_id" not in nobodys


async def test_every_response_has_the_security_headers(client: httpx.AsyncClient) -> None:
    for method, path in [
        ("GET", "/healthz"),
        ("GET", "/docs"),
        ("GET", "/docs/assets/swagger-ui.css"),
        ("GET", "/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/api/me"),
        ("GET", "/nowhere"),
        ("DELETE", "/api/me"),
        ("GET", "/storage/x"),
        ("GET", "/a%00"),
        ("POST", "/api/auth/login"),
    ]:
        response = await client.request(method, path)
        assert {name: response.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS, path
        assert len(response.headers.get_list("x-request-id")) == 1


async def test_responses_about_a_caller_are_not_cached(client: httpx.AsyncClient, people: People) -> None:
    person = await people.user()
    for path in ("/api/me", "/api/keys", "/api/nowhere", "/metrics"):
        for headers in ({}, person.headers):
            response = await client.get(path, headers=headers)
            assert response.headers.get_list("cache-control") == ["no-store"], path
    assert "cache-control" not in (await client.get("/healthz")).headers


@pytest.mark.thorough
async def test_responses_have_hsts_if_the_public_url_is_https(client: httpx.AsyncClient, started: Started) -> None:
    assert "strict-transport-security" not in (await client.get("/healthz")).headers
    async with started(server={"public_url": "https://callsheet.example.com"}) as (_, secure):
        for path in ("/healthz", "/api/me", "/nowhere"):
            assert (await secure.get(path)).headers.get_list("strict-transport-security") == ["max-age=31536000"]


def samples(text: str, name: str) -> dict[str, float]:
    found = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def added(before: str, after: str, name: str) -> dict[str, float]:
    """What was counted in between."""
    earlier = samples(before, name)
    grown = {labels: value - earlier.get(labels, 0) for labels, value in samples(after, name).items()}
    return {labels: value for labels, value in grown.items() if value}


async def test_metrics_count_requests_by_route_and_not_by_arbitrary_paths(
    client: httpx.AsyncClient, people: People
) -> None:
    person = await people.user()
    before = await client.get("/metrics")
    for _ in range(3):
        await client.delete(f"/api/keys/{uuid4()}", headers=person.headers)
        await client.get(f"/{uuid4().hex}")
        await client.request(f"M{uuid4().hex[:6]}", "/api/me")
        await client.get(f"/storage/{uuid4()}")
        await client.get(f"/docs/assets/{uuid4()}")
    after = await client.get("/metrics")
    assert after.headers["content-type"].startswith("text/plain; version=")
    assert added(before.text, after.text, "callsheet_http_requests_total") == {
        'method="DELETE",route="/api/keys/{key_id}",status="404"': 3,
        'method="GET",route="(none)",status="404"': 6,
        'method="other",route="/api/me",status="405"': 3,
        'method="GET",route="/storage/{key:path}",status="403"': 3,
        'method="GET",route="/metrics",status="200"': 1,
    }
    assert added(before.text, after.text, "callsheet_http_request_seconds_count") == {
        'method="DELETE",route="/api/keys/{key_id}"': 3,
        'method="GET",route="(none)"': 6,
        'method="other",route="/api/me"': 3,
        'method="GET",route="/storage/{key:path}"': 3,
        'method="GET",route="/metrics"': 1,
    }


async def test_metrics_show_loops_and_connections(plane: ControlPlane, client: httpx.AsyncClient) -> None:
    watch = next(loop for loop in plane.loops if loop.name == "database_watch")
    # Other tests share this control plane, and a tick of it may have failed on a busy machine.
    watch.failures += 1
    failed = {f'loop="{loop.name}"': loop.failures for loop in plane.loops}
    text = (await client.get("/metrics")).text
    assert {'loop="database_watch"', 'loop="key_usage"', 'loop="session_sweeper"'} <= failed.keys()
    assert samples(text, "callsheet_loop_ticks").keys() == failed.keys()
    shown = samples(text, "callsheet_loop_failures")
    assert shown.keys() == failed.keys()
    assert shown['loop="database_watch"'] >= failed['loop="database_watch"'] >= 1
    assert all(shown[loop] >= failed[loop] for loop in failed)
    connections = samples(text, "callsheet_database_connections")
    assert {key.split('"')[1] for key in connections} == {"central", "pool_1", "pool_2"}
    assert 'callsheet_build_info{version="' in text


async def test_metrics_require_the_token_if_one_is_set(
    strict_plane: ControlPlane, strict_client: httpx.AsyncClient
) -> None:
    key = (await People(strict_plane.rooms.identity.accounts, strict_plane.rooms.identity.keys).admin()).key
    for value in (None, b"open sesame", b"Bearer open", b"Bearer " + key.encode(), b"Bearer \xff", b"Basic x"):
        headers = [] if value is None else [(b"authorization", value)]
        assert_refused(await strict_client.get("/metrics", headers=headers), 401, "not_authenticated")
    granted = await strict_client.get("/metrics", headers={"authorization": "Bearer open sesame"})
    assert (granted.status_code, "callsheet_build_info" in granted.text) == (200, True)


@pytest.fixture
async def failing(logged: io.StringIO) -> AsyncIterator[httpx.AsyncClient]:
    """A server whose every route breaks in its own way, behind the same edge as ours."""
    app = FastAPI(responses=PROBLEM_RESPONSES)
    install_problem_handlers(app)

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("the password is hunter2")

    @app.get("/away/{number}")
    async def away(number: int) -> None:
        raise AWAY[number]

    @app.get("/unfit")
    async def unfit() -> None:
        raise DataError("invalid input for query argument $1")

    @app.get("/halfway")
    async def halfway() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            yield b"some"
            raise RuntimeError("too late for an answer")

        return StreamingResponse(body())

    settings = ServerSettings(port=0)
    _, port = await free_address(settings.host, 0)
    settings = settings.model_copy(update={"port": port})
    server = HttpServer(Edge(app, settings, HttpMetrics(CollectorRegistry())), settings)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
        yield client
    await server.stop()


async def test_an_unexpected_failure_is_reported_without_its_internals(
    failing: httpx.AsyncClient, logged: io.StringIO
) -> None:
    problem = assert_refused(await failing.get("/broken"), 500, "internal_error")
    assert set(problem) == {"type", "title", "status", "code", "request_id"}
    (line,) = lines_of(logged, "http.unhandled")
    assert line["request_id"] == problem["request_id"]
    assert "RuntimeError" in line["exception"]
    assert (await failing.get("/nowhere")).headers["x-frame-options"] == "DENY"


async def test_an_error_in_the_middle_of_a_response_closes_the_connection_and_is_logged(
    failing: httpx.AsyncClient, logged: io.StringIO
) -> None:
    try:
        response = await failing.get("/halfway")
        assert response.content == b"some"
    except httpx.RemoteProtocolError:
        pass
    assert "too late for an answer" in lines_of(logged, "http.unhandled")[0]["exception"]
    assert_refused(await failing.get("/broken"), 500, "internal_error")


@pytest.mark.few_forms
@pytest.mark.parametrize("number", range(len(AWAY)), ids=lambda number: type(AWAY[number]).__name__)
async def test_every_kind_of_database_outage_is_a_503_that_does_not_show_the_database_host(
    failing: httpx.AsyncClient, number: int
) -> None:
    response = await failing.get(f"/away/{number}")
    assert_refused(response, 503, "unavailable")
    assert "10.0.0.7" not in response.text


async def test_a_value_that_the_database_driver_refuses_is_a_server_error(failing: httpx.AsyncClient) -> None:
    assert_refused(await failing.get("/unfit"), 500, "internal_error")


async def test_every_refusal_has_a_status_and_a_sentence() -> None:
    def below(kind: type[errors.Refusal]) -> list[type[errors.Refusal]]:
        return [kind, *(found for child in kind.__subclasses__() for found in below(child))]

    kinds = below(errors.Refusal)
    assert {kind.code for kind in kinds} == set(STATUS_OF_CODE)
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(kind.title().endswith(".") for kind in kinds)
    assert all(400 <= status < 600 for status in STATUS_OF_CODE.values())
    assert STATUS_OF_CODE[errors.InternalError.code] == 500


async def test_requests_get_a_503_while_the_database_is_unavailable(
    neighbour_plane: ControlPlane, neighbour_client: httpx.AsyncClient
) -> None:
    person = await People(neighbour_plane.rooms.identity.accounts, neighbour_plane.rooms.identity.keys).user()
    async with closed(neighbour_plane.databases.central):
        for method, path, body in [
            ("GET", "/api/me", None),
            ("POST", "/api/keys", {"name": "x"}),
            ("POST", "/api/auth/login", {"email": "a", "password": "b"}),
        ]:
            response = await neighbour_client.request(method, path, json=body, headers=person.headers)
            assert_refused(response, 503, "unavailable")
        assert_refused(await neighbour_client.get("/readyz"), 503, "unavailable")
        assert (await neighbour_client.get("/healthz")).status_code == 200
        scraped = await neighbour_client.get("/metrics", headers={"authorization": "Bearer open sesame"})
        assert scraped.status_code == 200
    assert (await neighbour_client.get("/api/me", headers=person.headers)).status_code == 200
    ready = (await neighbour_client.get("/readyz")).json()
    assert ready["databases"] == dict.fromkeys(("central", "pool_1", "pool_2"), "ok")


async def test_a_database_that_accepts_no_connections_is_a_503(
    neighbour_plane: ControlPlane, neighbour_client: httpx.AsyncClient
) -> None:
    person = await People(neighbour_plane.rooms.identity.accounts, neighbour_plane.rooms.identity.keys).user()
    async with accepting_no_connections(neighbour_plane.databases.central):
        problem = assert_refused(await neighbour_client.get("/api/me", headers=person.headers), 503, "unavailable")
        assert problem["detail"] == "The database cannot be reached."
        with pytest.raises(DatabaseError, match="ALTER DATABASE … ALLOW_CONNECTIONS true"):
            await neighbour_plane.databases.central.open()
    assert (await neighbour_client.get("/api/me", headers=person.headers)).status_code == 200


async def test_g12_requests_get_503_while_the_database_is_killed_and_recover_without_repair(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path / "home", server={"port": free_port()}, log={"level": "error"})
    async with (
        running_control_plane(settings) as plane,
        httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=60) as client,
    ):
        person = await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()
        blocker = await asyncpg.connect(plane.databases.central.dsn)
        await blocker.execute("BEGIN; LOCK TABLE api_keys")
        waiting = asyncio.create_task(client.get("/api/me", headers=person.headers))
        await until(lambda: blocker.fetchval("SELECT true FROM pg_locks WHERE NOT granted LIMIT 1"))
        os.kill(int((tmp_path / "home/postgres/data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        assert_refused(await waiting, 503, "unavailable")
        blocker.terminate()

        async def served() -> bool:
            response = await client.get("/api/me", headers=person.headers)
            if response.status_code != 200:
                assert_refused(response, 503, "unavailable")
            return response.status_code == 200

        async def is_ready() -> bool:
            # The pool may be found later than central.
            return (await client.get("/readyz")).status_code == 200

        await until(served)
        await until(is_ready)
