"""A service that makes images over HTTP, in the shapes of Leonardo's API and of a Midjourney proxy; it can misbehave.

async with media_service() as service:
    service.faults["submit"] = [turned_away(429, "1")]      # the next call of that kind; then it behaves
    service.outputs = [service.file("a.png", PNG)]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
HTML = b"<!DOCTYPE html><html><body>We are down for maintenance, honestly. Come back later.</body></html>"
SECRET = "key-of-the-service-in-the-test"
Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]
Call = Literal["submit", "poll", "cancel", "file"]


@dataclass
class ReceivedRequest:
    call: Call
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class MediaService:
    polls_until_done: int = 2
    outputs: list[str] = field(default_factory=list)
    # The final status instead of success.
    failure: str | None = None
    faults: dict[Call, list[Fault]] = field(default_factory=dict)
    # Every call of this kind gets this response.
    always: dict[Call, Fault] = field(default_factory=dict)
    requests: list[ReceivedRequest] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    port: int = 0
    submitted: int = 0
    canceled: list[str] = field(default_factory=list)
    _polls: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def file(self, name: str, content: bytes) -> str:
        self.files[name] = content
        return f"{self.url}/files/{name}"

    def count(self, call: Call) -> int:
        return sum(each.call == call for each in self.requests)

    def sent(self, call: Call) -> list[Any]:
        return [each.body for each in self.requests if each.call == call]

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/leonardo/generations", self._responding("submit", self._leonardo_submit))
        app.router.add_get("/leonardo/generations/{id}", self._responding("poll", self._leonardo_poll))
        app.router.add_delete("/leonardo/generations/{id}", self._responding("cancel", self._cancel))
        app.router.add_post("/midjourney/imagine", self._responding("submit", self._midjourney_submit))
        app.router.add_post("/midjourney/fetch", self._responding("poll", self._midjourney_poll))
        app.router.add_post("/midjourney/cancel/{id}", self._responding("cancel", self._cancel))
        app.router.add_get("/files/{name}", self._responding("file", self._file))
        return app

    def _responding(self, call: Call, behave: Fault) -> Fault:
        async def response(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else None
            self.requests.append(ReceivedRequest(call, request.path_qs, dict(request.headers), body))
            if call in self.always:
                return await self.always[call](request)
            waiting = self.faults.get(call)
            return await (waiting.pop(0) if waiting else behave)(request)

        return response

    def _take(self) -> str:
        self.submitted += 1
        job_id = f"job/{self.submitted} ü"
        self._polls[job_id] = 0
        return job_id

    def _progress(self, job_id: str) -> float:
        self._polls[job_id] += 1
        return min(1.0, self._polls[job_id] / (self.polls_until_done + 1))

    async def _leonardo_submit(self, request: web.Request) -> web.Response:
        return web.json_response({"sdGenerationJob": {"generationId": self._take(), "apiCreditCost": 7}})

    async def _leonardo_poll(self, request: web.Request) -> web.Response:
        job_id = request.match_info["id"]
        if job_id not in self._polls:
            return web.json_response({"error": "not found"}, status=404)
        if self._progress(job_id) < 1:
            return web.json_response({"generations_by_pk": {"status": "PENDING", "generated_images": []}})
        if self.failure is not None:
            return web.json_response({"generations_by_pk": {"status": "FAILED", "reason": self.failure}})
        images = [{"url": url, "nsfw": False} for url in self.outputs]
        return web.json_response({"generations_by_pk": {"status": "COMPLETE", "generated_images": images}})

    async def _midjourney_submit(self, request: web.Request) -> web.Response:
        return web.json_response({"task_id": self._take(), "status": "success", "message": ""})

    async def _midjourney_poll(self, request: web.Request) -> web.Response:
        share = self._progress((await request.json())["task_id"])
        if share < 1:
            return web.json_response({"status": "processing", "process": f"{round(share * 100)}%"})
        if self.failure is not None:
            return web.json_response({"status": "failed", "task_result": {"error_messages": [self.failure]}})
        return web.json_response({"status": "finished", "task_result": {"image_urls": self.outputs}})

    async def _cancel(self, request: web.Request) -> web.Response:
        self.canceled.append(request.match_info["id"])
        return web.json_response({})

    async def _file(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["name"])
        return web.Response(status=404) if content is None else web.Response(body=content)


@asynccontextmanager
async def media_service() -> AsyncIterator[MediaService]:
    service = MediaService()
    runner = web.AppRunner(service.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.port = runner.addresses[0][1]
    service.outputs = [service.file("picture.png", PNG)]
    try:
        yield service
    finally:
        await runner.cleanup()


def responding(status: int, body: Any = None, **headers: str) -> Fault:
    async def response(request: web.Request) -> web.Response:
        return web.json_response(
            body, status=status, headers={name.replace("_", "-"): headers[name] for name in headers}
        )

    return response


async def with_a_page(request: web.Request) -> web.Response:
    return web.Response(body=HTML, content_type="text/html")


async def dropped(request: web.Request) -> web.StreamResponse:
    """The connection ends before a response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_off(request: web.Request) -> web.StreamResponse:
    """The declared length is more than is sent."""
    response = web.StreamResponse(headers={"Content-Length": "100000"})
    await response.prepare(request)
    await response.write(PNG)
    assert request.transport is not None
    request.transport.close()
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    """An image that never ends."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(PNG)
    while True:
        await response.write(bytes(65_536))


async def silent(request: web.Request) -> web.StreamResponse:
    """Never responds; the request ends with the test."""
    await asyncio.Event().wait()
    return web.Response()


def redirected(url: str, status: int = 302) -> Fault:
    async def response(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": url})

    return response
