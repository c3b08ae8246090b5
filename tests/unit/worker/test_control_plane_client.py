"""How an agent gets in, stays in and comes back, against a server that says what the test wants."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from callsheet.toolbox.errors import OperatorError
from callsheet.wire.fleet import RegisterRequest
from callsheet.wire.worker.protocol import PollRequest
from callsheet.worker.agent.control_plane import ControlPlaneClient
from callsheet.worker.agent.plane import RefusedRequest, Unreachable

Reply = tuple[int, dict[str, Any], dict[str, str]]
REGISTERED: Reply = (
    201,
    {"worker_id": "w", "token": "first", "workflows_assigned": [], "stage": "s", "is_approved": True},
    {},
)
EMPTY: Reply = (200, {"job": None, "reason": "empty"}, {})


def problem(status: int, code: str, **headers: str) -> Reply:
    return (
        status,
        {"code": code, "title": "No.", "detail": "No, thanks."},
        {k.replace("_", "-"): v for k, v in headers.items()},
    )


class Scripted:
    """Returns the scripted responses in turn, and then repeats the last one."""

    def __init__(self, **responses: list[Reply]):
        self.responses = responses
        self.requests: list[tuple[str, str, Any]] = []
        self.url = ""

    async def response(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        authorization = request.headers.get("authorization", "") or request.headers.get("x-fleet-secret", "")
        self.requests.append((name, authorization, await request.json()))
        line = self.responses[name]
        status, body, headers = line.pop(0) if len(line) > 1 else line[0]
        return web.Response(status=status, text=json.dumps(body), content_type="application/json", headers=headers)


@asynccontextmanager
async def talking(scripted: Scripted, directory: Path, worker_id: str = "w") -> AsyncIterator[ControlPlaneClient]:
    app = web.Application()
    app.router.add_post("/api/worker/{name}", scripted.response)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    request = RegisterRequest(worker_id=worker_id, workflow_slugs=["a"])
    plane = ControlPlaneClient(url, "secret", directory / "token.json", lambda: request)
    try:
        yield plane
    finally:
        await plane.close()
        await runner.cleanup()


def names(scripted: Scripted) -> list[str]:
    return [name for name, _, _ in scripted.requests]


async def test_registering_waits_for_retry_after_if_the_id_was_active_a_moment_ago(tmp_path: Path) -> None:
    scripted = Scripted(register=[problem(409, "already_registered", Retry_After="0.05"), REGISTERED], poll=[EMPTY])
    async with talking(scripted, tmp_path) as plane:
        await plane.enter()
        await plane.poll(PollRequest())
    assert names(scripted) == ["register", "register", "poll"]
    assert [who for _, who, _ in scripted.requests] == ["secret", "secret", "Bearer first"]


@pytest.mark.parametrize(("status", "message"), [(401, "fleet secret"), (404, "No, thanks."), (422, "No, thanks.")])
async def test_a_permanent_refusal_stops_the_worker_with_a_sentence(tmp_path: Path, status: int, message: str) -> None:
    async with talking(Scripted(register=[problem(status, "some_code")]), tmp_path) as plane:
        with pytest.raises(OperatorError, match=message):
            await plane.enter()


async def test_a_rotated_token_is_used_from_then_on_and_kept(tmp_path: Path) -> None:
    rotated: Reply = (200, {"job": None, "reason": "empty", "rotated_token": "second"}, {})
    scripted = Scripted(register=[REGISTERED], poll=[rotated, EMPTY])
    async with talking(scripted, tmp_path) as plane:
        await plane.enter()
        await plane.poll(PollRequest())
        await plane.poll(PollRequest())
    assert [who for _, who, _ in scripted.requests] == ["secret", "Bearer first", "Bearer second"]
    assert json.loads((tmp_path / "token.json").read_text())["token"] == "second"


async def test_an_expired_token_is_replaced_and_the_request_repeated(tmp_path: Path) -> None:
    scripted = Scripted(register=[REGISTERED], poll=[problem(401, "unauthenticated"), EMPTY])
    async with talking(scripted, tmp_path) as plane:
        await plane.enter()
        assert (await plane.poll(PollRequest())).reason == "empty"
    assert names(scripted) == ["register", "poll", "register", "poll"]


async def test_the_stored_token_is_used_by_the_next_start_of_the_same_worker(tmp_path: Path) -> None:
    scripted = Scripted(register=[REGISTERED], poll=[EMPTY], deregister=[(204, {}, {})])
    for _ in range(2):
        async with talking(scripted, tmp_path) as plane:
            await plane.enter()
            await plane.poll(PollRequest())
    assert names(scripted) == ["register", "poll", "poll"]
    async with talking(scripted, tmp_path, worker_id="other") as plane:
        await plane.enter()
    assert names(scripted)[3:] == ["deregister", "register"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"token": 3}', '{"token": ""}'])
async def test_a_broken_token_file_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "token.json").write_text(content)
    scripted = Scripted(register=[REGISTERED])
    async with talking(scripted, tmp_path) as plane:
        await plane.enter()
    assert names(scripted) == ["register"]


@pytest.mark.parametrize(
    "response",
    [
        problem(503, "unavailable"),
        problem(500, "internal"),
        problem(429, "rate_limited"),
        (200, {"job": 3}, {}),
        (404, {"not": "ours"}, {}),
    ],
)
async def test_temporary_and_unreadable_responses_count_as_unreachable(tmp_path: Path, response: Reply) -> None:
    async with talking(Scripted(register=[REGISTERED], poll=[response]), tmp_path) as plane:
        await plane.enter()
        with pytest.raises(Unreachable):
            await plane.poll(PollRequest())


async def test_a_refusal_carries_its_code(tmp_path: Path) -> None:
    scripted = Scripted(register=[REGISTERED], heartbeat=[problem(409, "lease_lost")])
    async with talking(scripted, tmp_path) as plane:
        await plane.enter()
        with pytest.raises(RefusedRequest) as refused:
            await plane.heartbeat({})
    assert (refused.value.status, refused.value.code) == (409, "lease_lost")


async def test_a_report_is_sent_whatever_its_text_contains(tmp_path: Path) -> None:
    """As Python names files that are not in UTF-8, and as JSON of strangers may say it."""
    message = "cannot read \udcff.png"
    scripted = Scripted(register=[REGISTERED], fail=[(200, {"dispatch_id": 1, "status": "failed"}, {})])
    async with talking(scripted, tmp_path) as plane:
        assert await plane.report("fail", {"error_message": message}) == "failed"
    assert scripted.requests[-1][2] == {"error_message": message}
