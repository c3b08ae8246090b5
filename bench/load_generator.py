"""The load generator, a process of its own: each keep-alive connection sends its next request as soon as it has the
response.

Nothing is pipelined. It understands only as much HTTP as the responses measured here need (a content-length), because a
full client would be slower than what it measures.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import cast

import uvloop

from bench.processes import ROOT

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
CONNECTIONS = 24
SLOWEST_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a measurement. `refused` counts the responses that were not 200."""

    responses: int
    seconds: float
    p50_ms: float
    p99_ms: float
    refused: int

    @property
    def per_second(self) -> float:
        return self.responses / self.seconds


class _Asker(asyncio.Protocol):
    def __init__(self, request: bytes, until: float, latencies: list[float], ended: asyncio.Future[None]):
        self._request = request
        self._until = until
        self._latencies = latencies
        self._ended = ended
        self._received = b""
        self.refused = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._received, 0, head + 2)
        if length is None or len(self._received) < head + 4 + int(length[1]):
            return
        now = time.perf_counter()
        self._latencies.append(now - self._requested)
        self.refused += self._received[9:12] != b"200"
        self._received = b""
        if now < self._until:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self._until:
            self._ended.set_exception(error or ConnectionError("the server closed a connection"))
        else:
            self._ended.set_result(None)

    def _ask(self) -> None:
        self._requested = time.perf_counter()
        self._transport.write(self._request)


async def _load(host: str, port: int, request: bytes, seconds: float) -> Load:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    latencies: list[float] = []
    endings = [loop.create_future() for _ in range(CONNECTIONS)]
    until = started + seconds
    connections = [
        await loop.create_connection(partial(_Asker, request, until, latencies, ended), host, port) for ended in endings
    ]
    async with asyncio.timeout(seconds + SLOWEST_SECONDS):
        await asyncio.gather(*endings)
    elapsed = time.perf_counter() - started
    latencies.sort()
    return Load(
        responses=len(latencies),
        seconds=elapsed,
        p50_ms=1000 * latencies[len(latencies) // 2],
        p99_ms=1000 * latencies[int(len(latencies) * 0.99)],
        refused=sum(asker.refused for _, asker in connections),
    )


async def run_load(host: str, port: int, path: str, seconds: float, headers: dict[str, str] | None = None) -> Load:
    """Asks for `path` from a child process for so many seconds."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", *(f"{name}: {v}" for name, v in (headers or {}).items())]
    order = {"host": host, "port": port, "request": "\r\n".join([*lines, "", ""]), "seconds": seconds}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.load_generator",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    # On standard input, not on the command line: the request carries an API key.
    output, _ = await process.communicate(json.dumps(order).encode())
    if process.returncode != 0:
        raise RuntimeError("the load generator failed; what it said is above")
    load = Load(**json.loads(output))
    if load.refused:
        raise RuntimeError(f"{load.refused} of {load.responses} answers to {path} were not 200")
    return load


def main() -> None:
    order = json.load(sys.stdin)
    load = uvloop.run(_load(order["host"], order["port"], order["request"].encode(), order["seconds"]))
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
