"""The media room without HTTP and background loops, over the core's databases, with its own storage.

async with open_media_harness(core, ann, tmp_path) as media:
    file_id = await media.upload()                         # declared, stored and confirmed
    assert len(await media.paths()) == 1                   # every object of the tenant
    await media.sweep()                                    # what the loops do three days later
    assert await media.files() == {file_id}                # a confirmed upload stays
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.media.deletion import OwnerOfMedia
from callsheet.media.room import MediaRoom
from callsheet.media.storage import LocalStorage, open_storage
from callsheet.media.storage.routes import storage_router
from callsheet.media.uploads import AwaitedUploads
from callsheet.plumbing.http.routing import build
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from callsheet.wire.media import CreatedUpload, CreateUpload, CreateVideo, Video
from tests.support.http.media_api import CLIP
from tests.support.jobs.core import Core, Member
from tests.support.rooms import media_room

SECRET = b"a secret of at least thirty-two bytes"
# Later than every grace period and every hold.
LATER = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class MediaHarness:
    core: Core
    room: MediaRoom
    ann: Member

    @property
    def owner(self) -> OwnerOfMedia:
        return OwnerOfMedia(self.ann.tenant_id, self.ann.user_id)

    async def upload(self, *, confirmed: bool = True, member: Member | None = None) -> UUID:
        principal = principal_of(member or self.ann)
        wanted = CreateUpload(name="clip.mp4", mime_type="video/mp4", size=len(CLIP))
        file = (await self.room.uploads.create(principal, wanted)).file
        path = f"tenants/{principal.tenant_id}/uploads/{file.id}/clip.mp4"
        await self.room.files.storage.put(path, CLIP, content_type="video/mp4")
        if confirmed:
            await self.room.uploads.confirm(principal, file.id)
        return file.id

    async def send(self, created: CreatedUpload, content: bytes = CLIP) -> httpx.Response:
        """Sends the bytes to the URL of the upload. The route runs in this task, so that it stops at failpoints."""
        storage = self.room.files.storage
        assert isinstance(storage, LocalStorage)
        assert created.upload is not None
        app = build(storage_router(storage, AwaitedUploads(TenantRouting(self.core.databases))).routes)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False)) as client:
            return await client.put(created.upload.url, content=content, headers=created.upload.headers)

    async def video(self) -> Video:
        wanted = CreateVideo(original_file_id=await self.upload())
        return await self.room.videos.create(principal_of(self.ann), wanted)

    async def confirm(self, file_id: UUID) -> str:
        row = await self.room.uploads.confirm(principal_of(self.ann), file_id)
        return str(row.status)

    async def delete_video(self, video_id: UUID) -> None:
        await self.room.deletion.video(self.ann.pool, self.owner, video_id)

    async def delete_file(self, file_id: UUID) -> None:
        await self.room.deletion.file(self.ann.pool, self.owner, file_id)

    async def put_output(self, job_id: UUID) -> JobOutputFile:
        """An object as a worker uploads it. Only its key shows the owner."""
        path = f"tenants/{self.ann.tenant_id}/ai-jobs/{job_id}/output-{uuid7()}.mp4"
        await self.room.files.storage.put(path, b"an output", content_type="video/mp4")
        return JobOutputFile(uuid7(), self.room.files.settings.storage.backend, path, "result.mp4", "video/mp4", 9)

    async def sweep(self, after: timedelta | None = LATER) -> None:
        """Does what the loops do after that time, until nothing is due."""
        at = None if after is None else datetime.now(UTC) + after
        for pool in self.core.databases.pools:
            while self.room.retention is not None and await self.room.retention.delete_old(pool, at):
                pass
            while await self.room.sweeper.sweep(pool, at):
                pass

    async def paths(self, member: Member | None = None) -> set[str]:
        """Every object of the tenant."""
        folder = f"tenants/{(member or self.ann).tenant_id}"
        return {entry.key async for entry in self.room.files.storage.list(folder)}

    async def files(self) -> set[UUID]:
        """Every row, including those of deleted files."""
        rows = await self.core.rows(self.ann.pool, "SELECT id FROM files WHERE tenant_id = $1", self.ann.tenant_id)
        return {row["id"] for row in rows}


@asynccontextmanager
async def open_media_harness(
    core: Core, ann: Member, home: Path, *, storage: Mapping[str, Any] | None = None, **media: Any
) -> AsyncIterator[MediaHarness]:
    """`storage` and `media` are settings of those sections. Open two over the same home for two control planes.

    No previews are made unless `previews` is set."""
    chosen = {"previews": False, **media}
    settings = Settings.model_validate({"home": home, "storage": storage or {}, "media": chosen})
    opened = open_storage(settings, SECRET, None)
    yield MediaHarness(core, media_room(core.databases, opened, settings, SECRET), ann)
    await opened.close()


def principal_of(member: Member) -> Principal:
    return Principal(
        user_id=member.user_id,
        tenant_id=member.tenant_id,
        tenant="a-tenant",
        pool=member.pool.name,
        email="ann@example.com",
        name="Ann",
        role=Role.USER,
        signed_in_with="api_key",
    )
