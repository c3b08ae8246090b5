"""An upload in parts through the media room, without HTTP for what the control plane does.

upload = await LargeUpload.created(media)                 # two parts
await upload.send(1)                                       # signed, and sent to its URL
assert await upload.arrived() == [1]
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import httpx

from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.media.storage import LocalStorage
from callsheet.media.storage.routes import storage_router
from callsheet.media.uploads import AwaitedUploads
from callsheet.plumbing.http.routing import build
from callsheet.wire.media import CreateUpload, PartToSign, SignedPart
from tests.support.http.media_api import CLIP
from tests.support.media.media_harness import MediaHarness, principal_of

PART = 5 << 20
LARGE = CLIP.ljust(PART, b"\x01") + b"the second part"
# Settings with which it is large.
IN_PARTS = {"parts_above_bytes": 1000, "part_bytes": PART}


@dataclass(frozen=True, slots=True)
class LargeUpload:
    media: MediaHarness
    file_id: UUID
    content: bytes

    @classmethod
    async def created(cls, media: MediaHarness, content: bytes = LARGE, **changes: object) -> LargeUpload:
        declared = {"name": "clip.mp4", "mime_type": "video/mp4", "size": len(content), "resume_key": "clip"}
        wanted = CreateUpload.model_validate(declared | changes)
        created = await media.room.uploads.create(principal_of(media.ann), wanted)
        assert (created.upload, created.parts is None) == (None, False)
        return cls(media, created.file.id, content)

    def seen_by(self, media: MediaHarness) -> LargeUpload:
        return LargeUpload(media, self.file_id, self.content)

    def part(self, number: int) -> bytes:
        return self.content[(number - 1) * PART : number * PART]

    async def sign(self, *numbers: int) -> Sequence[SignedPart]:
        wanted = [PartToSign(number=n, sha256=hashlib.sha256(self.part(n)).hexdigest()) for n in numbers]
        return (await self.media.room.parts.sign(principal_of(self.media.ann), self.file_id, wanted)).parts

    async def send(self, *numbers: int) -> None:
        for signed in await self.sign(*numbers):
            response = await self.put(signed, self.part(signed.number))
            assert response.status_code == 200, response.text

    async def put(self, signed: SignedPart, content: bytes) -> httpx.Response:
        """The route of local storage runs in this task, so that it stops at failpoints."""
        storage = self.media.room.files.storage
        transport: httpx.ASGITransport | None = None
        if isinstance(storage, LocalStorage):
            guard = AwaitedUploads(TenantRouting(self.media.core.databases))
            transport = httpx.ASGITransport(build(storage_router(storage, guard).routes), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=60) as client:
            return await client.put(signed.upload.url, content=content, headers=signed.upload.headers)

    async def arrived(self) -> list[int]:
        state = await self.media.room.parts.state(principal_of(self.media.ann), self.file_id)
        return [part.number for part in state.arrived]

    async def confirm(self) -> str:
        return await self.media.confirm(self.file_id)

    async def path(self) -> str:
        [row] = await self.media.core.rows(self.media.ann.pool, "SELECT path FROM files WHERE id = $1", self.file_id)
        return str(row["path"])

    async def started(self) -> str:
        """The id of the upload at the storage."""
        [row] = await self.media.core.rows(
            self.media.ann.pool, "SELECT parts_id FROM files WHERE id = $1", self.file_id
        )
        return str(row["parts_id"])

    async def stored(self) -> bytes:
        return await self.media.room.files.storage.read(await self.path(), 2 * PART)

    async def has_parts(self) -> bool:
        """Whether the storage keeps anything of an upload that was not joined."""
        storage = self.media.room.files.storage
        return bool(await storage.parts.arrived(await self.path(), await self.started()))
