"""A proxy whose connection breaks at a point that a test chooses: at any time, or between a request and its
response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

Moment = Literal["before", "after"]
_SUBMISSIONS = (b"POST /prompt ", b"POST /api/prompt ")


class BreakableProxy:
    def __init__(self, target: str):
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 80)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        # Whether the next submissions break: before they arrive, or after.
        self.breaks: list[Moment] = []
        self.broken = 0
        # Submissions that were forwarded, with any outcome.
        self.carried = 0
        # The number of reads of the engine's queue, and of connections that were closed at once.
        self.polls = 0
        self.turned_away = 0
        self.is_down = False
        # Whether responses are dropped while connections stay open, as those of a frozen process.
        self.is_frozen = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.drop()
        await asyncio.sleep(0)

    def drop(self) -> None:
        """Closes every open connection. New connections are forwarded."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            self.turned_away += 1
            writer.transport.abort()
            return
        try:
            other_reader, other_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, other_writer)
        self._writers |= set(both)
        lost = asyncio.Event()
        await asyncio.gather(self._there(reader, other_writer, lost), self._back(other_reader, writer, lost))
        for each in both:
            each.transport.abort()
        self._writers -= set(both)

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if data.startswith(_SUBMISSIONS):
                    if self._breaks_now(lost):
                        return
                    self.carried += 1
                self.polls += data.startswith(b"GET /queue ")
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.close()

    def _breaks_now(self, lost: asyncio.Event) -> bool:
        """Whether the submission is not forwarded. With `lost` it is forwarded, and its response is lost."""
        if not self.breaks:
            return False
        self.broken += 1
        if self.breaks.pop(0) == "before":
            self.drop()
            return True
        lost.set()
        return False

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if lost.is_set():
                    writer.transport.abort()
                    return
                if self.is_frozen:
                    continue
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.close()


@asynccontextmanager
async def breakable_proxy_to(target: str) -> AsyncIterator[BreakableProxy]:
    line = BreakableProxy(target)
    await line.open()
    try:
        yield line
    finally:
        await line.close()
