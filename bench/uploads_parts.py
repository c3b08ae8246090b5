"""Large uploads in parts, four at a time, and by one request; on local storage and on SeaweedFS, an S3 server.

The sender reads the file from the disk, and hashes each part, as the clients do. The control plane makes no previews.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.processes import cpu_seconds
from bench.product import RunningProduct, open_product
from bench.results import Result
from callsheet.media.storage.s3 import S3Storage
from callsheet.settings import S3Settings
from tests.support.http.media_api import CLIP
from tests.support.media.seaweedfs import BUCKET, S3Server, seaweedfs

name = "uploads.parts"
short = {"megabytes": 70, "rounds": 1}
MEGABYTE = 10**6
AT_ONCE = 4
PIECE = 1 << 20
TYPE = "video/mp4"
SETTINGS = {"CALLSHEET_MEDIA__PREVIEWS": "false"}

Upload = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Spent:
    """Seconds, of all and of the confirmations, and processor time of the control plane."""

    total: float = 0
    confirm: float = 0
    processor: float = 0


@dataclass
class Sender:
    product: RunningProduct
    file: Path
    size: int
    spent: dict[str, Spent] = field(default_factory=lambda: {"one": Spent(), "parts": Spent()})

    async def measure(self, way: str) -> None:
        spent, processor, started = self.spent[way], cpu_seconds(self.product.pid), time.monotonic()
        body = {"name": "clip.mp4", "mime_type": TYPE, "size": self.size}
        created = await self._ask(
            "POST", "/api/videos/uploads", {**body, "resume_key": way} if way == "parts" else body
        )
        file_id = created["file"]["id"]
        async with httpx.AsyncClient(trust_env=False, timeout=600) as storage:
            if way == "parts":
                await self._send_parts(storage, f"/api/videos/uploads/{file_id}/parts", created["parts"])
            else:
                await self.put(storage, created["upload"], 0, self.size)
        confirmed = time.monotonic()
        await self._ask("POST", f"/api/videos/uploads/{file_id}/confirm", None)
        ended = time.monotonic()
        spent.total += ended - started
        spent.confirm += ended - confirmed
        spent.processor += cpu_seconds(self.product.pid) - processor
        await self._ask("DELETE", f"/api/files/{file_id}", None)

    async def _send_parts(self, storage: httpx.AsyncClient, path: str, parts: Mapping[str, int]) -> None:
        waiting = iter(range(1, parts["count"] + 1))

        async def send() -> None:
            for number in waiting:
                start = (number - 1) * parts["part_bytes"]
                length = min(parts["part_bytes"], self.size - start)
                sha256 = await asyncio.to_thread(self._digest, start, length)
                signed = await self._ask("POST", path, {"parts": [{"number": number, "sha256": sha256}]})
                await self.put(storage, signed["parts"][0]["upload"], start, length)

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))

    async def put(self, storage: httpx.AsyncClient, to: Mapping[str, Any], start: int, length: int) -> None:
        headers = {**to["headers"], "content-length": str(length)}
        response = await storage.put(to["url"], content=self._pieces(start, length), headers=headers)
        response.raise_for_status()

    async def _pieces(self, start: int, length: int) -> AsyncIterator[bytes]:
        with self.file.open("rb") as file:
            file.seek(start)
            while length:
                piece = file.read(min(PIECE, length))
                length -= len(piece)
                yield piece

    def _digest(self, start: int, length: int) -> str:
        with self.file.open("rb") as file:
            file.seek(start)
            return hashlib.sha256(file.read(length)).hexdigest()

    async def _ask(self, method: str, path: str, body: object) -> Any:
        response = await self.product.admin.request(method, path, json=body, timeout=600)
        response.raise_for_status()
        return response.json() if response.content else None


async def run(seconds: float, megabytes: int = 1000, rounds: int = 3) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as directory:
        file = Path(directory) / "clip.mp4"
        size = await asyncio.to_thread(_write, file, megabytes)
        results = await _local(file, size, rounds)
        served = Path(directory) / "seaweedfs"
        served.mkdir()
        with seaweedfs(served) as server:
            server.create_bucket(BUCKET)
            results += await _s3(file, size, rounds, server)
    return results


async def _local(file: Path, size: int, rounds: int) -> list[Result]:
    async with open_product(given=SETTINGS) as product:
        sender = Sender(product, file, size)

        async def copy() -> None:
            await asyncio.to_thread(_copy, file, product.home / "copy")

        return await _in_turns("local", sender, rounds, copy)


async def _s3(file: Path, size: int, rounds: int, server: S3Server) -> list[Result]:
    chosen = {f"CALLSHEET_STORAGE__S3__{key.upper()}": value for key, value in server.settings.items()}
    storage = S3Storage(S3Settings.model_validate(server.settings), url_seconds=600)
    try:
        async with open_product(given={**SETTINGS, "CALLSHEET_STORAGE__BACKEND": "s3", **chosen}) as product:
            sender = Sender(product, file, size)

            async def put() -> None:
                signed = storage.presign_put("bench/clip.mp4", content_type=TYPE, size=sender.size)
                async with httpx.AsyncClient(trust_env=False, timeout=600) as client:
                    await sender.put(client, {"url": signed.url, "headers": signed.headers}, 0, sender.size)

            found = await _in_turns("s3", sender, rounds, put)
            await storage.delete("bench/clip.mp4")
            return found
    finally:
        await storage.close()


async def _in_turns(backend: str, sender: Sender, rounds: int, bare: Upload) -> list[Result]:
    ceiling = 0.0
    for _ in range(rounds):
        started = time.monotonic()
        await bare()
        ceiling += time.monotonic() - started
        for way in sender.spent:
            await sender.measure(way)
    sent = rounds * sender.size / MEGABYTE
    one, parts = sender.spent["one"], sender.spent["parts"]
    own = f"{name}.{backend}"
    return [
        Result(name=own, value=sent / parts.total, unit="MB/s", ceiling=sent / ceiling, peer=sent / one.total),
        Result(
            name=f"{own}.confirm", value=1000 * parts.confirm / sent, unit="s per GB", peer=1000 * one.confirm / sent
        ),
        Result(
            name=f"{own}.processor",
            value=1000 * parts.processor / sent,
            unit="s per GB",
            peer=1000 * one.processor / sent,
        ),
    ]


def _write(file: Path, megabytes: int) -> int:
    """Returns the size."""
    with file.open("wb") as target:
        target.write(CLIP)
        for _ in range(megabytes):
            target.write(os.urandom(MEGABYTE))
        os.fsync(target.fileno())
        return target.tell()


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        while piece := read.read(PIECE):
            written.write(piece)
        written.flush()
        os.fsync(written.fileno())
    target.unlink()
