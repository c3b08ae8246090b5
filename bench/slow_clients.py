"""Slow clients without credentials, in a separate process.

Each holds a connection for as long as the server allows, then opens another. They are slow, not many: a client that is
refused tries again after ten seconds. The process reads host, port and the number of clients from standard input, and
writes `open` when all are connected. The clients end when standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress

import uvloop

AT_ONCE = 100
BREATH_SECONDS, AWAY_SECONDS = 1.0, 10.0
LOGIN = b"POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SUBMIT = b"POST /api/ai-jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# The start that each kind of client sends before it continues with one byte per second: nothing, endless headers, an
# endless small body, a large body without credentials, and the same without a length.
OPENINGS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: " + b"a" * 30_000,
    LOGIN + b"Content-Length: 16000\r\n\r\n" + b" " * 15_000,
    SUBMIT + b"Content-Length: 1000000\r\n\r\n" + b" " * 100_000,
    SUBMIT + b"Transfer-Encoding: chunked\r\n\r\nf000\r\n" + b" " * 60_000,
)


async def hold(host: str, port: int, opening: bytes, slots: asyncio.Semaphore, connected: asyncio.Event) -> None:
    while True:
        with suppress(OSError):
            async with slots:
                reader, writer = await asyncio.open_connection(host, port)
            connected.set()
            writer.write(opening)
            ended = asyncio.create_task(read_to_end(reader))
            while not ended.done():
                await asyncio.wait({ended}, timeout=BREATH_SECONDS)
                if opening:
                    writer.write(b"a")
            writer.close()
        await asyncio.sleep(AWAY_SECONDS)


async def read_to_end(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        await reader.read()


async def main() -> None:
    order = json.loads(sys.stdin.readline())
    slots = asyncio.Semaphore(AT_ONCE)
    connected = [asyncio.Event() for _ in range(order["connections"])]
    strangers = [
        asyncio.create_task(hold(order["host"], order["port"], OPENINGS[number % len(OPENINGS)], slots, event))
        for number, event in enumerate(connected)
    ]
    await asyncio.gather(*(event.wait() for event in connected))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for stranger in strangers:
        stranger.cancel()


if __name__ == "__main__":
    uvloop.run(main())
