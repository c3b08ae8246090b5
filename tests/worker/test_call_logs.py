"""Calls of engines and providers are logged with their whole time, and failed ones at a level that is always on."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from aiohttp import web

from callsheet.providers.comfy.http import EngineHttp
from callsheet.providers.engine import EngineUnreachable
from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.service_calls import Service
from callsheet.toolbox.http.client import GuardedClient
from callsheet.toolbox.logs import configure_logs
from tests.support.run.ports import free_port

LOCAL = [ip_network("127.0.0.0/8")]


class SlowService:
    """A service whose bodies end when the test allows it, and whose polls fail."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.url = ""

    async def body(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"[")
        await self.may_end.wait()
        await response.write(b"]")
        return response

    async def fails(self, request: web.Request) -> web.Response:
        return web.Response(status=503)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs("debug", "json", stream)
    yield stream
    configure_logs()


@pytest.fixture
async def service() -> AsyncIterator[SlowService]:
    slow = SlowService()
    app = web.Application()
    app.add_routes([web.get("/view", slow.body), web.get("/history/1", slow.fails), web.get("/jobs/1", slow.fails)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    slow.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield slow
    await runner.cleanup()


def calls(logged: io.StringIO, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    return [line for line in lines if line["event"] == event]


async def test_a_call_of_an_engine_is_logged_when_its_body_was_read(service: SlowService, logged: io.StringIO) -> None:
    engine = EngineHttp(service.url)
    async with engine.stream("GET", "/view") as response:
        pieces = response.aiter_bytes()
        assert await anext(pieces) == b"["
        assert calls(logged, "engine.call") == [], "the time of a call includes its body"
        service.may_end.set()
        assert b"".join([piece async for piece in pieces]) == b"]"
    await engine.close()
    [line] = calls(logged, "engine.call")
    assert (line["level"], line["result"], line["path"]) == ("debug", 200, "/view")


async def test_polls_that_fail_are_logged_at_info(service: SlowService, logged: io.StringIO) -> None:
    engine, gone = EngineHttp(service.url), EngineHttp(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EngineUnreachable):
        await engine.get_object("/history/1")
    with pytest.raises(EngineUnreachable):
        await gone.get_object("/history/1")
    async with GuardedClient(allow_networks=LOCAL) as client:
        with pytest.raises(ProviderUnavailable):
            await Service("slow", service.url, client, {}, 30.0).call("GET", "/jobs/1", often=True)
    await engine.close()
    await gone.close()
    refused, unreachable = calls(logged, "engine.call")
    assert (refused["level"], refused["result"]) == ("info", 503)
    assert (unreachable["level"], unreachable["result"]) == ("info", "ConnectError")
    [polled] = calls(logged, "provider.call")
    assert (polled["level"], polled["result"]) == ("info", 503)
