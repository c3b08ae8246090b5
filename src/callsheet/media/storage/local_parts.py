"""Uploads in parts of the local backend. A part is an object below the key of the whole file: it is stored whole or not
at all, and swept with its folder, like every object. The file is a copy of its parts, and URLs can write to parts only.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from callsheet.media.storage.disk import OBJECTS, Disk
from callsheet.media.storage.folders import try_lock
from callsheet.media.storage.port import SignedRequest, StoredPart, discard
from callsheet.toolbox.disk_space import read_space

if TYPE_CHECKING:
    from callsheet.media.storage.local import LocalStorage

PART_TYPE = "application/octet-stream"
# How often a process looks whether another one has joined the parts.
LOOK_SECONDS = 0.1
InThread = Callable[..., Awaitable[Any]]
_NUMBER = re.compile(r"[0-9]{5}")


class LocalParts:
    def __init__(self, storage: LocalStorage, disk: Disk, in_thread: InThread, reserve_bytes: int) -> None:
        self._storage = storage
        self._disk = disk
        self._in_thread = in_thread
        self._reserve_bytes = reserve_bytes
        self._joins: dict[str, asyncio.Task[None]] = {}

    async def start(self, key: str, *, content_type: str) -> str:
        """Nothing to do: the key is enough."""
        return "local"

    def presign(self, key: str, upload_id: str, number: int, *, size: int, sha256: str) -> SignedRequest:
        part = part_key(key, number)
        return self._storage.presign_put(part, content_type=PART_TYPE, size=size, sha256=sha256, is_exact=True)

    async def arrived(self, key: str, upload_id: str) -> Sequence[StoredPart]:
        found = []
        async for entry in self._storage.list(key):
            name = entry.key.rpartition("/")[2]
            if _NUMBER.fullmatch(name):
                found.append(StoredPart(int(name), entry.size))
        return found

    async def join(self, key: str, upload_id: str, checksums: Sequence[str], *, content_type: str) -> None:
        """A join does not end with the request that waits for it. A second request waits for the same join."""
        join = self._joins.get(key)
        if join is None:
            join = self._joins[key] = asyncio.create_task(self._join(key, len(checksums), content_type))
            join.add_done_callback(lambda ended: self._forget(key, ended))
        await asyncio.shield(join)

    def _forget(self, key: str, ended: asyncio.Task[None]) -> None:
        del self._joins[key]
        if not ended.cancelled():
            # The request that waited may have left, and an error that is never read would be logged.
            ended.exception()

    async def _join(self, key: str, count: int, content_type: str) -> None:
        async with self._alone(key):
            if await self._storage.head(key) is None:
                # Closed at once if it fails, so that no part stays open.
                async with aclosing(self._joined(key, count)) as content:
                    await self._storage.put(key, content, content_type=content_type)
            await discard(self._storage, [part_key(key, number) for number in range(1, count + 1)])

    async def _joined(self, key: str, count: int) -> AsyncGenerator[bytes]:
        """The bytes of all parts. A part stays until the file is stored, so that a crash costs no part. Only if the
        disk is nearly full, it goes as soon as it was read."""
        sizes = {part.number: part.size for part in await self.arrived(key, "")}
        space = await self._in_thread(read_space, self._disk.root)
        is_tight = space.free_bytes - sum(sizes.values()) < self._reserve_bytes
        for number in range(1, count + 1):
            async with aclosing(self._storage.stream(part_key(key, number))) as pieces:
                async for piece in pieces:
                    yield piece
            if is_tight:
                await discard(self._storage, [part_key(key, number)])

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """Of several control planes on this disk, one joins."""
        folders = key.split("/")[:-1]
        while (lock := await self._in_thread(try_lock, self._disk.root, OBJECTS, *folders)) is None:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        try:
            yield
        finally:
            os.close(lock)

    async def abort(self, key: str) -> None:
        await self._storage.delete_many([part_key(key, part.number) for part in await self.arrived(key, "")])

    async def missing_rights(self) -> Sequence[str]:
        """Parts are objects like others."""
        return ()

    async def close(self) -> None:
        joins = list(self._joins.values())
        for join in joins:
            join.cancel()
        await asyncio.gather(*joins, return_exceptions=True)


def part_key(key: str, number: int) -> str:
    return f"{key}/{number:05}"
