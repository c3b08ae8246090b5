"""Servers whose responses a test writes byte by byte, names that lead to them, and URLs that no client may use."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LOOPBACK_SPELLINGS = [
    *["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "localhost", "localhost.", "LOCALHOST"],
    *[
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[::127.0.0.1]",
    ],
    *["169.254.169.254", "[fe80::1%25lo]", "100.64.0.1", "[fd00:ec2::254]"],
]
UNUSABLE_URLS = [
    ("", "must start with http"),
    ("example.com/x", "must start with http"),
    ("file:///etc/passwd", "must start with http"),
    ("gopher://127.0.0.1/", "must start with http"),
    ("http://", "names no host"),
    ("http:///path", "names no host"),
    ("http://:80/", "names no host"),
    ("http://h:0/", "port"),
    ("http://h:65536/", "port"),
    ("http://h:-1/", "port"),
    ("http://h:http/", "not a valid URL"),
    ("http://1.2.3.999/", "not a valid URL"),
    ("http://0177.0.0.1/", "not a valid URL"),
    ("http://xn--/", "not a valid URL"),
    ("http://xn--a/", "not a valid URL"),
    ("http://[::1/", "not a valid URL"),
    ("http://[nonsense]/", "not a valid URL"),
    ("http://user@example.com/", "user name"),
    ("http://user:pass@example.com/", "user name"),
    ("http://example.com@127.0.0.1/", "user name"),
    ("http://a\nb/", "not a valid URL"),
    ("http://a\x00b/", "not a valid URL"),
    ("http://\N{FULLWIDTH DIGIT ONE}27.0.0.1/", "not a valid URL"),
    ("http://a\udc80b/", "not a valid URL"),
    ("http://" + "a" * 300 + "/", "too long"),
    ("http://" + "a" * 70_000 + "/", "not a valid URL"),
]


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """Responds to every request with what `answer` writes, and records the requests."""

    response: Callable[[Received, asyncio.StreamWriter], Awaitable[None]]
    port: int = 0
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while True:
                received = await self._read(reader)
                self.requests.append(received)
                await self.response(received, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> Received:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {line.split(": ")[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Received(method, path, headers, body)


@asynccontextmanager
async def serving(
    response: Callable[[Received, asyncio.StreamWriter], Awaitable[None]], context: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    server = Server(response)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks)


def reply(writer: asyncio.StreamWriter, body: bytes = b"", status: str = "200 OK", **headers: str) -> None:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body)}", *lines, "", ""])
    writer.write(head.encode() + body)


async def hello(_: Received, writer: asyncio.StreamWriter) -> None:
    reply(writer, b"hello", content_type="text/plain")


def names(**known: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, _: int) -> Sequence[str]:
        return known[host.replace(".", "_")]

    return resolve


def certificate_of_good_test(folder: Path) -> Path:
    """A certificate for good.test and its key in one file, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "good.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("good.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "good.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path
