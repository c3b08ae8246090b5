"""A cheap client: one keep-alive connection, one request at a time, responses with a content-length."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Wire(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = b""
        self._response: asyncio.Future[tuple[int, bytes]] | None = None

    @classmethod
    async def open(cls, host: str, port: int) -> Wire:
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, port)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0 or self._response is None:
            return
        length = _LENGTH.search(self._received, 0, head + 2)
        end = head + 4 + (int(length[1]) if length else 0)
        if len(self._received) >= end:
            status, body = int(self._received[9:12]), self._received[head + 4 : end]
            self._received = self._received[end:]
            response, self._response = self._response, None
            response.set_result((status, body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error or ConnectionError("the server closed the connection"))

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await self._response

    def close(self) -> None:
        self._transport.close()


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
