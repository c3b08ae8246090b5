"""A server that gets webhooks, keeps them, and returns what the test chooses.

async with receiving() as receiver:
    receiver.status = 500
    ...
    assert receiver.contents[0]["type"] == "job.completed"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.http.asgi_server import serving
from tests.support.run.ports import free_port


class Receiver:
    """Keeps what it gets. A path in `held` gets no response until the test sets its event."""

    def __init__(self, port: int):
        self.base = f"http://127.0.0.1:{port}"
        self.url = f"{self.base}/hook"
        self.status = 200
        self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.held: dict[str, asyncio.Event] = {}
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        self.paths.append(scope["path"])
        self.requests.append(({name.decode(): value.decode() for name, value in scope["headers"]}, body))
        if scope["path"] in self.held:
            await self.held[scope["path"]].wait()
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})

    @property
    def contents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    port = free_port()
    receiver = Receiver(port)
    async with serving(receiver, port):
        yield receiver
