"""Auto Scaling groups for tests: moto's server in a separate process, because it takes 200 MB of memory."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import parse_qs

import httpx

from tests.support.run.ports import free_port

REGION = "eu-central-1"
# One of moto's images; a request for all of them takes nine seconds.
IMAGE = "ami-03cf127a"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
START_SECONDS = 120.0


@contextmanager
def aws_server() -> Iterator[str]:
    """The URL of the server."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "moto's server ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "moto's server did not start"
            time.sleep(0.05)
        else:
            return


@asynccontextmanager
async def late_responses(url: str) -> AsyncIterator[LateResponses]:
    """A server in front of another one. It forwards every call and withholds the responses of the named actions."""
    late = LateResponses(url)
    server = await asyncio.start_server(late.serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        late.url = f"http://{host}:{port}"
        try:
            yield late
        finally:
            late.released.set()


class LateResponses:
    def __init__(self, behind: str):
        self._behind = behind
        self.url = ""
        # Actions whose responses are withheld, and actions that this server responds to itself: the status and the
        # body.
        self.withheld: set[str] = set()
        self.responses: dict[str, tuple[int, str]] = {}
        self.released = asyncio.Event()
        self.calls: list[dict[str, str]] = []

    def of(self, action: str) -> list[dict[str, str]]:
        """The calls of an action, each with its parameters."""
        return [call for call in self.calls if call["Action"] == action]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        length = next(int(value) for name, value in headers.items() if name.lower() == "content-length")
        body = await reader.readexactly(length)
        call = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.calls.append(call)
        status, content = await self._response(call["Action"], body, headers)
        writer.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(content)}\r\n".encode())
        writer.write(b"Content-Type: text/xml\r\nConnection: close\r\n\r\n" + content)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async def _response(self, action: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if action in self.responses:
            status, text = self.responses[action]
            return status, text.encode()
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            response = await client.post(self._behind, content=body, headers=headers)
        if action in self.withheld:
            await self.released.wait()
        return response.status_code, response.content


def refusal(code: str) -> tuple[int, str]:
    """An error in the form of AWS."""
    return 400, f"<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"


def empty_response(action: str) -> tuple[int, str]:
    """The response of AWS to a call that returns nothing, or nothing that matters."""
    return 200, f"<{action}Response><{action}Result/></{action}Response>"
