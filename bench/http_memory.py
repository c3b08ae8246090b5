"""Memory of a control plane after 100,000 mixed requests, beside its memory after the first 10,000.

The requests are those of a busy and hostile day: pages, lists, submits, uploads and logins, with right and wrong
credentials, with bodies and queries that are broken, large or new in each request. Memory that grows with the requests
shows what a client can fill.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from bench.http_me import HOST
from bench.light_client import Wire
from bench.processes import resident_mb
from bench.product import TRIVIAL, image, open_product
from bench.results import Result

name = "http.memory"
short = {"requests": 1_000}
REQUESTS = 100_000
# The share of the requests after which everything that is loaded once is in memory.
FIRST_SHARE = 0.1
TARGET = 1.1
CONNECTIONS = 24
SAMPLES = 5
# Just below the largest body of JSON that is accepted.
MAX_CHARACTERS = 500_000
SEED = 20240611


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Mixture:
    """Draws requests. No two are alike, so that nothing which is kept per request, user, path or text stays small."""

    def __init__(self, key: str, file_id: str, job_id: str) -> None:
        self._random = random.Random(SEED)
        self._key = ("authorization", f"Bearer {key}")
        self._file_id, self._job_id = file_id, job_id
        kinds: list[tuple[int, Callable[[], Request]]] = [
            (20, self._read),
            (10, self._list),
            (10, self._missing),
            (10, self._stranger),
            (8, self._unknown_path),
            (8, self._broken_body),
            (6, self._large_body),
            (1, self._largest_body),
            (6, self._refused_submit),
            (5, self._submit),
            (5, self._upload),
            (5, self._worker),
            (4, self._login),
            (3, self._page),
        ]
        self._weights = [weight for weight, _ in kinds]
        self._kinds = [kind for _, kind in kinds]

    def draw(self) -> Request:
        return self._random.choices(self._kinds, self._weights)[0]()

    def _text(self, length: int) -> str:
        return secrets.token_urlsafe(length)

    def _id(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def _send(self, path: str, body: object) -> Request:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Request("POST", path, content, (self._key, ("content-type", "application/json")))

    def _read(self) -> Request:
        paths = ("/api/me", "/api/wallet", f"/api/ai-jobs/{self._job_id}", "/api/effects", "/readyz", "/metrics")
        return Request("GET", self._random.choice(paths), headers=(self._key,))

    def _list(self) -> Request:
        path = self._random.choice(("/api/ai-jobs", "/api/files", "/api/wallet/transactions", "/api/admin/all-jobs"))
        return Request("GET", f"{path}?limit={self._random.randint(-2, 300)}&q={self._text(12)}", headers=(self._key,))

    def _missing(self) -> Request:
        path = self._random.choice(("/api/ai-jobs", "/api/files", "/api/runs", "/api/admin/users", "/api/videos"))
        return Request("GET", f"{path}/{self._id()}", headers=(self._key,))

    def _stranger(self) -> Request:
        return Request("GET", "/api/me", headers=(("authorization", f"Bearer cs_{self._text(32)}"),))

    def _unknown_path(self) -> Request:
        return Request(self._random.choice(("GET", "POST", "BREW")), f"/{self._text(20)}/{self._text(20)}")

    def _broken_body(self) -> Request:
        return self._send("/api/ai-jobs", self._text(200).encode())

    def _large_body(self) -> Request:
        values = {self._text(8): self._text(200) for _ in range(200)}
        return self._send("/api/ai-jobs", {"effect_id": self._text(8), "input_payload": values})

    def _largest_body(self) -> Request:
        return self._send("/api/ai-jobs", {"effect_id": "small", "input_payload": {"text": "é" * MAX_CHARACTERS}})

    def _refused_submit(self) -> Request:
        body = {"effect_id": "small", "idempotency_key": self._text(16), "input_file_id": str(self._id())}
        return self._send("/api/ai-jobs", body)

    def _submit(self) -> Request:
        body = {"effect_id": "small", "idempotency_key": self._text(16), "input_file_id": self._file_id}
        return self._send("/api/ai-jobs", body)

    def _upload(self) -> Request:
        body = {
            "name": f"{self._text(16)}.png",
            "mime_type": "image/png",
            "size": self._random.randint(-10, 10_000_000),
        }
        return self._send("/api/uploads", body)

    def _worker(self) -> Request:
        body = json.dumps({"worker_id": self._text(8)}).encode()
        token = (("authorization", f"Bearer {self._text(32)}"), ("content-type", "application/json"))
        return Request("POST", "/api/worker/poll", body, token)

    def _login(self) -> Request:
        body = json.dumps({"email": f"{self._text(8)}@example.com", "password": self._text(12)}).encode()
        return Request("POST", "/api/auth/login", body, (("content-type", "application/json"),))

    def _page(self) -> Request:
        return Request("GET", self._random.choice(("/", "/effects", "/openapi.json", f"/jobs/{self._id()}")))


async def run(seconds: float, requests: int = REQUESTS) -> list[Result]:
    """Sends a fixed number of requests. `seconds` has no effect."""
    async with open_product() as product:
        await product.offer("small", TRIVIAL)
        file_id = await product.upload(image(0))
        job = await product.client.submit("small", file=file_id)
        port = product.admin.base_url.port
        assert port is not None
        mixture = Mixture(product.key, str(file_id), str(job.id))
        statuses: dict[int, int] = {}
        first = round(requests * FIRST_SHARE)
        await _send_all(port, mixture, first, statuses)
        before = resident_mb(product.pid)
        parts = [(requests - first) // SAMPLES] * SAMPLES
        after = before
        for part in parts:
            await _send_all(port, mixture, part, statuses)
            after = resident_mb(product.pid)
            print(f"{name}: {after:.0f} MB")
    if any(status >= 500 for status in statuses):
        raise RuntimeError(f"a request failed: {statuses}")
    unit = f"MB resident after {requests} mixed requests; the peer is after {first}"
    return [Result(name=name, value=after, unit=unit, peer=before, target=TARGET * before)]


async def _send_all(port: int, mixture: Mixture, requests: int, statuses: dict[int, int]) -> None:
    drawn = iter(range(requests))
    await asyncio.gather(*(_send(port, mixture, drawn, statuses) for _ in range(CONNECTIONS)))


async def _send(port: int, mixture: Mixture, drawn: Iterator[int], statuses: dict[int, int]) -> None:
    wire = await Wire.open(HOST, port)
    for _ in drawn:
        request = mixture.draw()
        try:
            status, _ = await wire.ask(request.method, request.path, request.body, dict(request.headers))
            statuses[status] = statuses.get(status, 0) + 1
        except ConnectionError:
            # The control plane closes a connection after some refused requests.
            wire = await Wire.open(HOST, port)
    with suppress(ConnectionError):
        wire.close()
