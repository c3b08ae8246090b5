"""A server of a test that stops leaves no connection open, whenever it came."""

from __future__ import annotations

import asyncio
import socket

import pytest


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_its_server_stops_is_closed(turns: int) -> None:
    """After so many turns of the loop: it is accepted in one, and known to its server two later."""
    writers: list[asyncio.StreamWriter] = []

    async def remember(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(remember, "127.0.0.1", 0)
    with socket.socket() as client:
        client.setblocking(False)
        client.connect_ex(server.sockets[0].getsockname())
        for _ in range(turns):
            await asyncio.sleep(0)
        server.close()
        for _ in range(5):
            await asyncio.sleep(0)
        for writer in writers:
            writer.close()
            await writer.wait_closed()
        try:
            async with asyncio.timeout(60):
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b""
        except ConnectionResetError:
            pass
