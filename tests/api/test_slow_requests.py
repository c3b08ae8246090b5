"""Strangers who send slowly, endlessly or too much are refused early; signed-in users are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.edge import Edge
from callsheet.plumbing.http.server import HttpServer, connections_possible, free_address
from callsheet.plumbing.metrics import HttpMetrics
from callsheet.settings import ServerSettings
from tests.support.http.accounts import People, Person
from tests.support.http.worker_harness import WorkerHarness

JSON = b"Content-Type: application/json\r\n"


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def response_to(port: int, sent: bytes) -> tuple[int, bytes]:
    """What the server says to this much of a request, and to nothing after it."""
    async with connected(port) as (reader, writer):
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), await reader.read(10_000)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[int]:
    """The port of a server that reads what it is sent and says how much that was."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": str(size).encode()})

    _, port = await free_address("127.0.0.1", 0)
    chosen = ServerSettings(port=port, **settings)
    server = HttpServer(Edge(app, chosen, HttpMetrics(CollectorRegistry())), chosen)
    await server.start()
    try:
        yield port
    finally:
        await server.stop()


@pytest.fixture
async def person(plane: ControlPlane) -> Person:
    return await People(plane.rooms.identity.accounts, plane.rooms.identity.keys).user()


def port_of(plane: ControlPlane) -> int:
    return urlsplit(plane.settings.public_url).port or 80


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("path", "credentials", "status"),
    [
        ("/api/ai-jobs", b"", 401),
        ("/api/ai-jobs", b"Authorization: Bearer cs_nobody\r\n", 401),
        ("/api/ai-jobs", b"Cookie: callsheet_session=nobody\r\n", 401),
        ("/api/worker/poll", b"Authorization: Bearer nobody\r\n", 401),
        ("/api/worker/complete", b"", 401),
        ("/api/worker/register", b"X-Fleet-Secret: wrong\r\n", 401),
        ("/api/webhooks/replicate/nothing", b"", 404),
        ("/api/webhooks/", b"", 404),
        ("/api/auth/login", b"", 401),
    ],
)
async def test_a_client_without_credentials_is_refused_before_it_sends_a_large_body(
    plane: ControlPlane, path: str, credentials: bytes, status: int
) -> None:
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\n%s%s" % (path.encode(), JSON, credentials)
    assert (await response_to(port_of(plane), head + b"Content-Length: 500000\r\n\r\n"))[0] == status
    # Without a length, once more than a small body has come.
    piece = b"%x\r\n%s\r\n" % (20_000, b" " * 20_000)
    assert (await response_to(port_of(plane), head + b"Transfer-Encoding: chunked\r\n\r\n" + piece))[0] == status


async def test_a_signed_in_user_may_send_a_large_body(client: httpx.AsyncClient, person: Person) -> None:
    body = b"{}".ljust(500_000)
    headers = person.headers | {"content-type": "application/json"}
    assert (await client.post("/api/stream-tokens", content=body, headers=headers)).status_code == 201


async def test_a_worker_may_send_a_large_body(worker_harness: WorkerHarness) -> None:
    worker = await worker_harness.worker()
    body = b"{}".ljust(500_000)
    headers = {"authorization": f"Bearer {worker.token}", "content-type": "application/json"}
    response = await worker.client.post("/api/worker/heartbeat", content=body, headers=headers)
    assert response.status_code == 422, response.text


async def test_a_body_with_too_many_values_is_refused(client: httpx.AsyncClient, person: Person) -> None:
    body = b'{"name": [' + b"1," * 100_000 + b"1]}"
    headers = person.headers | {"content-type": "application/json"}
    response = await client.post("/api/keys", content=body, headers=headers)
    assert (response.status_code, response.json()["detail"]) == (400, "The body has more than 100000 values.")


@pytest.mark.parametrize(
    ("path", "declared"), [("/anything", b"Content-Length: 100\r\n"), ("/storage/x", b"Content-Length: 9000000\r\n")]
)
async def test_a_stalled_body_is_aborted_and_the_connection_closed(path: str, declared: bytes) -> None:
    async with serving(body_grace_seconds=0.1) as port:
        head = b"PUT %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path.encode(), declared)
        status, body = await response_to(port, head + b"only this")
    assert status == 408
    assert b'"code": "body_too_slow"' in body


async def test_a_large_body_at_a_sufficient_speed_is_accepted() -> None:
    # A share of 100 bytes within a minute, of which the test sends many at once.
    async with serving(body_grace_seconds=60, body_bytes_per_second=2) as port, connected(port) as (reader, writer):
        writer.write(b"PUT /storage/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(10):
            writer.write(b"x" * 100_000)
            await writer.drain()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: a", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"]
)
async def test_a_connection_without_a_whole_request_is_closed(sent: bytes) -> None:
    """One that sends nothing, one whose headers never end, one on which no second request follows."""
    async with serving(header_seconds=1) as port, connected(port) as (reader, writer):
        writer.write(sent)
        received = await reader.read()
        assert received.startswith(b"HTTP/1.1 200") == sent.endswith(b"\r\n\r\n")


async def test_headers_have_a_limit_that_the_server_does_not_read_beyond() -> None:
    async with serving(max_header_bytes=8192) as port:
        status, body = await response_to(port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"a" * 100_000)
        assert status == 431
        assert body == b""


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


async def test_http2_is_used_only_if_it_is_configured() -> None:
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(HTTP2)
        assert await reader.read() == b""
    async with serving(http2=True) as port, connected(port) as (reader, writer):
        writer.write(HTTP2)
        # The fourth byte of a frame is its type; 4 are the settings.
        assert (await reader.readexactly(9))[3] == 4


def test_the_connection_limit_leaves_file_descriptors_for_other_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    allowed = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: allowed[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: allowed.append(limits))
    assert connections_possible(10_000) == 4096 - 512
    assert allowed[-1] == (4096, 4096)
    assert connections_possible(100) == 100
