"""Distributes connections over several control planes, as a load balancer in front of an installation does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.run.ports import free_port


class Balancer:
    def __init__(self) -> None:
        self.port = free_port()
        # Ports of control planes. A new connection goes to the first that accepts it.
        self.targets: list[int] = []
        # Connections that each control plane accepted.
        self.accepted: Counter[int] = Counter()
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prefer(self, port: int) -> None:
        """For new connections. A browser profile that is new has only new ones."""
        self.targets.sort(key=lambda each: each != port)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        try:
            for port in list(self.targets):
                with suppress(OSError):
                    other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
                    self.accepted[port] += 1
                    await self._carry(reader, writer, other_reader, other_writer)
                    return
        finally:
            writer.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other_reader: asyncio.StreamReader,
        other_writer: asyncio.StreamWriter,
    ) -> None:
        """Until one side closes: a control plane that was killed takes its connections with it."""
        both = [
            asyncio.create_task(_pump(reader, other_writer)),
            asyncio.create_task(_pump(other_reader, writer)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            other_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def running_balancer() -> AsyncIterator[Balancer]:
    balancer = Balancer()
    await balancer.open()
    try:
        yield balancer
    finally:
        await balancer.close()
