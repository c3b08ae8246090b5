"""The client against a server that breaks off, forgets and lies."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import web

from callsheet.client import AsyncCallsheet, AsyncJobHandle, Callsheet, Refusal, requests
from callsheet.client.batches import BatchCalls
from callsheet.client.calls import KEY_VARIABLE, URL_VARIABLE
from callsheet.client.errors import CLASSES, ClientError, NotConnected, Unavailable, UnknownResponse, UnusableFile
from callsheet.client.transfers import media_type
from callsheet.plumbing.http.problems import STATUS_OF_CODE, problem_response
from callsheet.wire.jobs import Job, JobEvent, JobOutput, JobProgress, StreamReset
from tests.support.run.ports import free_port

JOB = UUID("01a1dfae-3c25-746b-a1a3-902ba2d1238a")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(path: str, handler: Handler) -> AsyncIterator[AsyncCallsheet]:
    app = web.Application()
    app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with AsyncCallsheet(f"http://127.0.0.1:{runner.addresses[0][1]}", "cs_key", retry_seconds=20) as client:
            yield client
    finally:
        await runner.cleanup()


async def test_a_control_plane_that_has_responded_is_waited_for_when_it_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "FIRST_SECONDS", 0.0)

    async def wallet(_: web.Request) -> web.StreamResponse:
        return web.json_response({"balance": 7, "held": 0})

    async def started(port: int) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/api/wallet", wallet)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return runner

    port = free_port()
    runner = await started(port)
    async with AsyncCallsheet(f"http://127.0.0.1:{port}", "cs_key", retry_seconds=20) as client:
        assert (await client.wallet()).balance == 7
        await runner.cleanup()
        waiting = asyncio.create_task(client.wallet())
        await asyncio.sleep(0)
        runner = await started(port)
        assert (await waiting).balance == 7
        await runner.cleanup()
        client._calls.requests.retry_seconds = 0.0
        with pytest.raises(NotConnected):
            await client.wallet()


NOW = "2026-01-01T00:00:00Z"
DESCRIBED = {"id": str(JOB), "kind": "effect", "status": "queued", "charge_cycle": 1, "cost": 1, "priority": 0}
DESCRIBED |= {"created_at": NOW, "submitted_at": NOW, "deadline_at": NOW}


def job_of(client: AsyncCallsheet, **changes: object) -> AsyncJobHandle:
    return AsyncJobHandle(Job.model_validate({**DESCRIBED, **changes}), client._calls)


def line(seq: int, status: str) -> bytes:
    data = {"job_id": str(JOB), "seq": seq, "event": "job.transition", "to_status": status, "actor": "test"}
    return f"id: {seq}\nevent: job.transition\ndata: {json.dumps({**data, 'at': '2026-01-01T00:00:00Z'})}\n\n".encode()


PROGRESS = (
    b'event: progress\ndata: {"job_id": "%s", "percent": 42.0, "updated_at": "2026-01-01T00:00:00Z"}\n\n'
    % str(JOB).encode()
)


async def test_g9_a_stream_that_breaks_goes_on_after_the_last_event_that_was_seen() -> None:
    last_ids: list[str | None] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        last_ids.append(request.headers.get("last-event-id"))
        if len(last_ids) == 2:
            return web.json_response({"type": "about:blank"}, status=503)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": open\n\n")
        if len(last_ids) == 1:
            await response.write(line(1, "queued") + line(2, "processing") + PROGRESS + b"event: job.trans")
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write(b": nothing new\n\n" + line(3, "completed"))
        return response

    lost: list[str] = []
    async with serving("/api/ai-jobs/{job}/stream", stream) as client:
        items = [item async for item in job_of(client).stream(lost.append)]
    assert [item.seq for item in items if isinstance(item, JobEvent)] == [1, 2, 3]
    assert [item.percent for item in items if isinstance(item, JobProgress)] == [42.0]
    assert last_ids == [None, "2", "2"]
    assert len(lost) == 2


async def test_g9_after_a_reset_the_client_resumes_where_the_server_says() -> None:
    last_ids: list[str | None] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        last_ids.append(request.headers.get("last-event-id"))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if len(last_ids) == 1:
            await response.write(line(1, "queued") + line(2, "processing"))
            await response.write(b'id: 0\nevent: reset\ndata: {"reason": "A failover."}\n\n')
            assert request.transport is not None
            request.transport.abort()
        else:
            await response.write(line(1, "queued") + line(2, "failed"))
        return response

    async with serving("/api/ai-jobs/{job}/stream", stream) as client:
        items = [item async for item in job_of(client).stream()]
    assert [item.to_status for item in items if isinstance(item, JobEvent)] == [
        "queued",
        "processing",
        "queued",
        "failed",
    ]
    assert [item.reason for item in items if isinstance(item, StreamReset)] == ["A failover."]
    assert last_ids == [None, "0"]


async def test_a_job_that_has_ended_is_not_waited_for() -> None:
    async def ended(request: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    async with serving("/api/ai-jobs/{job}/stream", ended) as client:
        assert [item async for item in job_of(client).stream()] == []


async def test_a_submit_whose_response_was_lost_is_repeated_with_the_same_key() -> None:
    keys: list[str] = []

    async def submit(request: web.Request) -> web.StreamResponse:
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(DESCRIBED, status=201)

    async with serving("/api/ai-jobs", submit) as client:
        assert (await client.submit("negative")).id == JOB
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_the_key_does_not_go_to_storage_and_bytes_that_differ_are_not_kept(tmp_path: Path) -> None:
    sent: list[str | None] = []

    async def read(request: web.Request) -> web.StreamResponse:
        sent.append(request.headers.get("authorization"))
        return web.Response(body=b"something else")

    async with serving("/object", read) as client:
        output = JobOutput(
            file_id=JOB, name="a.mp4", mime_type="video/mp4", size=14, sha256="0" * 64, url=f"{client.url}/object"
        )
        with pytest.raises(UnusableFile, match="wrong checksum"):
            await job_of(client, outputs=[output]).file.save(tmp_path / "a.mp4")
    assert sent == [None]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.webp", "image/webp"),
        ("A.MKV", "video/x-matroska"),
        ("a.m4v", "video/mp4"),
        ("a.3gp", "video/3gpp"),
        ("a.wav", "audio/wav"),
        ("a.mp3", "audio/mpeg"),
        ("A.Opus", "audio/ogg"),
    ],
)
def test_the_type_of_a_file_is_found_without_help_of_the_system(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mimetypes.guess_type", lambda name: (None, None))
    assert media_type(Path(name)) == kind


async def test_a_server_that_is_not_callsheet_is_reported_in_one_sentence() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>", status=200 if request.path.endswith("x") else 404)

    async with serving("/api/effects/{slug}", page) as client:
        with pytest.raises(UnknownResponse, match="does not respond like Callsheet"):
            await client.effect("x")
        with pytest.raises(Refusal, match="returned the status 404"):
            await client.effect("y")


def refused(code: str, **headers: str) -> web.Response:
    response = problem_response(made(code), "request-7")
    headers |= {"content-type": "application/problem+json"}
    return web.Response(status=response.status_code, body=bytes(response.body), headers=headers)


def made(code: str) -> Refusal:
    """The refusal of the code, whatever else its class wants to know."""
    refusal = Refusal.__new__(CLASSES[code])
    Refusal.__init__(refusal, "The reason.")
    refusal.retry_after_seconds = 1
    refusal.size = 0  # type: ignore[attr-defined]
    return refusal


async def test_a_retry_of_a_batch_is_sent_again_with_the_same_key() -> None:
    keys: list[str | None] = []

    async def retry(request: web.Request) -> web.StreamResponse:
        keys.append(request.headers.get("idempotency-key"))
        return refused("unavailable" if len(keys) == 1 else "not_found")

    async with serving("/api/batches/{id}/retry", retry) as client:
        for _ in range(2):
            with pytest.raises(CLASSES["not_found"]):
                await BatchCalls(client._calls).change(JOB, "retry")
    first, again, following = keys
    assert first is not None
    assert first == again != following


@pytest.mark.parametrize("code", STATUS_OF_CODE)
async def test_every_code_of_the_table_has_a_class(code: str) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return refused(code)

    async with serving("/api/wallet", refuse) as client:
        client._calls.requests.retry_seconds = 0.0
        with pytest.raises(CLASSES[code]) as error:
            await client.wallet()
    assert type(error.value) is CLASSES[code]
    assert (error.value.code, error.value.status) == (code, STATUS_OF_CODE[code])
    assert (error.value.detail, error.value.request_id) == ("The reason.", "request-7")


async def test_a_code_of_a_newer_server_is_a_refusal_with_that_code() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        body = {"type": "x", "title": "Too hot.", "status": 418, "code": "too_hot", "degrees": 90}
        return web.json_response(body, status=418)

    async with serving("/api/wallet", refuse) as client:
        with pytest.raises(Refusal, match="Too hot") as error:
            await client.wallet()
    assert (error.value.code, error.value.status, error.value.data) == ("too_hot", 418, {"degrees": 90})


@pytest.mark.parametrize(
    ("code", "wait", "attempts"),
    [
        ("rate_limited", "0", 2),
        ("unavailable", "0", 2),
        # The time is not known, or too long.
        ("too_many_pending_uploads", None, 1),
        ("rate_limited", "3600", 1),
        # A repeated request would be refused again.
        ("not_found", "0", 1),
    ],
)
async def test_a_request_is_sent_again_if_the_server_says_when(code: str, wait: str | None, attempts: int) -> None:
    asked: list[str] = []

    async def refuse_once(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if len(asked) > 1:
            return web.json_response({"balance": 3, "held": 0})
        return refused(code, **({} if wait is None else {"Retry-After": wait}))

    async with serving("/api/wallet", refuse_once) as client:
        if attempts == 2:
            assert (await client.wallet()).balance == 3
        else:
            with pytest.raises(CLASSES[code]):
                await client.wallet()
    assert len(asked) == attempts


async def test_a_post_without_a_key_is_sent_once() -> None:
    asked: list[Any] = []

    async def refuse(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        return refused("unavailable", **{"Retry-After": "0"})

    async with serving("/api/admin/users", refuse) as client:
        with pytest.raises(Unavailable):
            await client.request("POST", "/api/admin/users", {"email": "ann@example.com"})
    assert asked == [{"email": "ann@example.com"}]


def test_url_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match=URL_VARIABLE):
        Callsheet()
    monkeypatch.setenv(URL_VARIABLE, "https://mine.example/")
    with pytest.raises(ClientError, match=KEY_VARIABLE):
        Callsheet()
    monkeypatch.setenv(KEY_VARIABLE, "cs_mine")
    with Callsheet() as client:
        assert client.url == "https://mine.example"
        assert client._calls.requests.transport.api.headers["authorization"] == "Bearer cs_mine"
    with pytest.raises(ClientError, match=r"is for https://mine\.example/\. It is not sent"):
        Callsheet("https://evil.example")
    with Callsheet("https://other.example", "cs_other") as client:
        assert client._calls.requests.transport.api.headers["authorization"] == "Bearer cs_other"
