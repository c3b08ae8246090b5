"""Readers of live streams, in a separate process. Each has its own connection, and counts its events and their delays.

An order on standard input: host, port, key, jobs, and how many readers connect at once. `open` on standard output when
all streams are; then, once standard input ends, a report: what each job's reader saw, and how long after it happened.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import uvloop

AT_ONCE = 100


@dataclass(slots=True)
class Reader:
    job_id: str
    # Position in the job's history → seconds after the event was written. Before `counting`, no delay is recorded.
    seen: dict[int, float | None] = field(default_factory=dict)

    async def open(self, host: str, port: int, key: str) -> asyncio.StreamReader:
        stream, writer = await asyncio.open_connection(host, port, limit=1 << 16)
        head = (
            f"GET /api/ai-jobs/{self.job_id}/stream HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        )
        writer.write(f"{head}Accept: text/event-stream\r\n\r\n".encode())
        response = await stream.readuntil(b"\r\n\r\n")
        if not response.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the stream was refused: {response[:200]!r}")
        # The reference is kept, because the connection is closed when it is garbage-collected.
        self._writer = writer
        return stream

    async def read(self, stream: asyncio.StreamReader) -> None:
        position: int | None = None
        while line := await stream.readline():
            if line.startswith(b"id: "):
                position = int(line[4:].partition(b"-")[0])
            elif line.startswith(b"data: ") and position is not None:
                arrived = time.time()
                happened = datetime.fromisoformat(json.loads(line[6:])["at"]).timestamp()
                if position in self.seen:
                    raise RuntimeError(f"event {position} of {self.job_id} came twice")
                self.seen[position] = arrived - happened
                position = None

    _writer: asyncio.StreamWriter = field(init=False)


async def main() -> None:
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    readers = [Reader(job_id) for job_id in order["jobs"]]
    slots = asyncio.Semaphore(AT_ONCE)

    async def opened(reader: Reader) -> asyncio.StreamReader:
        async with slots:
            return await reader.open(order["host"], order["port"], order["key"])

    streams = await asyncio.gather(*(opened(reader) for reader in readers))
    reading = [asyncio.create_task(each.read(stream)) for each, stream in zip(readers, streams, strict=True)]
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    broken = [task for task in reading if task.done()]
    print(json.dumps({"ended": len(broken), "seen": {each.job_id: each.seen for each in readers}}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
