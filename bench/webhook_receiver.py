"""A server that accepts webhooks, in a separate process: the least that a server has to do.

It reads from standard input how many webhooks belong to one job, writes its port, and then a line for each job: its id,
and when each webhook arrived by the clock that all processes of the machine share. A request to `/hangs` gets no
response. It ends when standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop

RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Receiver:
    def __init__(self, per_job: int):
        self._per_job = per_job
        self._arrived: dict[str, list[float]] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                body = await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
                if head.startswith("post /hangs "):
                    await asyncio.Event().wait()
                writer.write(RESPONSE)
                self._note(json.loads(body)["data"]["id"])
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    def _note(self, job: str) -> None:
        arrived = self._arrived.setdefault(job, [])
        arrived.append(time.perf_counter())
        if len(arrived) == self._per_job:
            print(json.dumps([job, self._arrived.pop(job)]), flush=True)


async def main() -> None:
    receiver = Receiver(json.loads(sys.stdin.readline())["per_job"])
    # All endpoints connect at once. Linux drops what a queue of 100, the usual one, cannot hold: a second is lost.
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(main())
