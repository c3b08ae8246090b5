"""The commands' HTTP client against a server that breaks off, forgets and lies."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
from aiohttp import web

from callsheet.cli.shared.client import Client, media_type
from callsheet.cli.shared.login import Login, login_for, login_of, write_demo_login
from callsheet.cli.shared.profile_store import Profile, Profiles, write_profiles
from callsheet.settings import load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.jobs import JobEvent, JobOutput, JobProgress
from tests.support.database.installation import isolate

JOB = UUID("01a1dfae-3c25-746b-a1a3-902ba2d1238a")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(path: str, handler: Handler) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with Client(f"http://127.0.0.1:{runner.addresses[0][1]}", "cs_key") as client:
            yield client
    finally:
        await runner.cleanup()


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
        client.on_lost(lost.append)
        items = [item async for item in client.events(JOB)]
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
        items = [item async for item in client.events(JOB)]
    assert [item.to_status for item in items if isinstance(item, JobEvent)] == [
        "queued",
        "processing",
        "queued",
        "failed",
    ]
    assert last_ids == [None, "0"]


async def test_a_job_that_has_ended_is_not_waited_for() -> None:
    async def ended(request: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    async with serving("/api/ai-jobs/{job}/stream", ended) as client:
        assert [item async for item in client.events(JOB)] == []


async def test_a_submit_whose_response_was_lost_is_repeated_with_the_same_key() -> None:
    keys: list[str] = []

    async def submit(request: web.Request) -> web.StreamResponse:
        keys.append((await request.json())["idempotency_key"])
        if len(keys) == 1:
            assert request.transport is not None
            request.transport.abort()
        now = "2026-01-01T00:00:00Z"
        job = {"id": str(JOB), "kind": "effect", "status": "queued", "charge_cycle": 1, "cost": 1, "priority": 0}
        return web.json_response({**job, "created_at": now, "submitted_at": now, "deadline_at": now}, status=201)

    async with serving("/api/ai-jobs", submit) as client:
        assert (await client.submit("negative", {})).id == JOB
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
        with pytest.raises(OperatorError, match="wrong checksum"):
            await client.fetch(output, tmp_path / "a.mp4", lambda got: None)
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
        with pytest.raises(OperatorError, match="does not respond like Callsheet"):
            await client.effect("x")
        with pytest.raises(OperatorError, match="returned the status 404"):
            await client.effect("y")


ELSEWHERE = "https://evil.example"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env", f"CALLSHEET_CLIENT__URL={ELSEWHERE}\n"),
        (".env", f"CALLSHEET_SERVER__PUBLIC_URL={ELSEWHERE}\n"),
        (".env", "CALLSHEET_SERVER__HOST=evil.example\n"),
        ("callsheet.toml", f'[client]\nurl = "{ELSEWHERE}"\n'),
        ("callsheet.toml", f'[server]\npublic_url = "{ELSEWHERE}"\n'),
        ("callsheet.toml", '[server]\nhost = "evil.example"\n'),
    ],
)
def test_files_of_the_working_directory_do_not_redirect_a_saved_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """A key from the shell's profile, in a directory that another user wrote."""
    isolate(monkeypatch, tmp_path)
    (tmp_path / name).write_text(text)
    monkeypatch.setenv("CALLSHEET_CLIENT__API_KEY", "cs_mine")
    (tmp_path / "below").mkdir()
    for directory in (tmp_path, tmp_path / "below"):
        monkeypatch.chdir(directory)
        with pytest.raises(OperatorError, match=rf"{name} names the control plane \S*evil\.example"):
            login_for(None)
    assert login_for(ELSEWHERE) == Login(ELSEWHERE, "cs_mine")
    monkeypatch.setenv("CALLSHEET_CLIENT__URL", "https://mine.example")
    assert login_for(None) == Login("https://mine.example", "cs_mine")


def test_a_url_of_the_working_directory_does_not_get_the_key_of_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    write_profiles(Profiles("mine", {"mine": Profile("https://mine.example", "cs_mine")}))
    assert login_for(None) == Login("https://mine.example", "cs_mine")
    (tmp_path / ".env").write_text(f"CALLSHEET_CLIENT__URL={ELSEWHERE}\n")
    with pytest.raises(OperatorError, match=r"This command needs an API key for https://evil\.example"):
        login_for(None)


def test_a_settings_file_may_name_a_local_control_plane_or_its_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path)
    (tmp_path / ".env").write_text("CALLSHEET_SERVER__PORT=8499\n")
    monkeypatch.setenv("CALLSHEET_CLIENT__API_KEY", "cs_mine")
    assert login_for(None) == Login("http://127.0.0.1:8499", "cs_mine")
    monkeypatch.delenv("CALLSHEET_CLIENT__API_KEY")
    (tmp_path / ".env").write_text(f"CALLSHEET_CLIENT__URL={ELSEWHERE}\nCALLSHEET_CLIENT__API_KEY=cs_theirs\n")
    assert login_for(None) == Login(ELSEWHERE, "cs_theirs")


def test_the_demos_key_goes_to_the_demo_and_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(home=tmp_path)
    with pytest.raises(OperatorError, match="CALLSHEET_CLIENT__API_KEY"):
        login_of(settings)
    (tmp_path / "demo").mkdir()
    write_demo_login(settings, Login("http://127.0.0.1:8400", "cs_demo"))
    assert login_of(settings) == Login("http://127.0.0.1:8400", "cs_demo")
    assert login_of(load_settings(home=tmp_path, client={"url": "http://127.0.0.1:8400/"})).api_key == "cs_demo"
    with pytest.raises(OperatorError, match="CALLSHEET_CLIENT__API_KEY"):
        login_of(load_settings(home=tmp_path, client={"url": "http://elsewhere.example"}))
    chosen = load_settings(home=tmp_path, client={"url": "http://elsewhere.example", "api_key": "cs_mine"})
    assert login_of(chosen) == Login("http://elsewhere.example", "cs_mine")
    (tmp_path / "demo" / "login.json").write_text("[]")
    with pytest.raises(OperatorError, match="CALLSHEET_CLIENT__API_KEY"):
        login_of(settings)
