"""Uploads and videos over HTTP for tests: what a user does, and the objects in storage.

async with MediaApi.opened(plane) as media_api:
    created = (await media_api.create(CLIP)).json()        # declare the upload
    await media_api.send(created)                          # the bytes, to the signed URL
    other = await media_api.stranger()                     # a user of another tenant
    assert (await other.ask("GET", "/api/videos")).json()["items"] == []
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.plumbing.database.database import Database
from callsheet.toolbox.ids import uuid7
from tests.support.http.accounts import People, Person
from tests.support.http.jobs_api import JobsApi
from tests.support.jobs.core import Member, report

CLIP = b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41" + bytes(range(256)) * 8
# The header declares 64 by 64 pixels.
IMAGE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + 2 * b"\x00\x00\x00\x40" + bytes(range(56))


@dataclass(frozen=True, slots=True)
class MediaApi:
    """A user of a control plane, with uploads."""

    jobs_api: JobsApi
    plane: ControlPlane
    person: Person

    @classmethod
    @asynccontextmanager
    async def opened(cls, plane: ControlPlane, pool: str = "pool_1") -> AsyncIterator[MediaApi]:
        async with httpx.AsyncClient(base_url=plane.settings.public_url, trust_env=False, timeout=30) as client:
            jobs_api = await JobsApi.open(
                plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
            )
            yield cls(jobs_api, plane, await jobs_api.person(pool, tokens=1000))

    async def colleague(self) -> MediaApi:
        """Another user of the same tenant."""
        return MediaApi(self.jobs_api, self.plane, await self.jobs_api.person(tenant_of=self.person))

    async def stranger(self, pool: str = "pool_1") -> MediaApi:
        """A user of another tenant."""
        return MediaApi(self.jobs_api, self.plane, await self.jobs_api.person(pool))

    @property
    def tenant_id(self) -> UUID:
        return self.person.tenant.id

    @property
    def member(self) -> Member:
        return Member(self.tenant_id, self.person.user.id, self.pool)

    @property
    def pool(self) -> Database:
        return next(pool for pool in self.plane.databases.pools if pool.name == self.person.tenant.pool)

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        headers = self.person.headers | {"content-type": "application/json"}
        content = None if body is None else json.dumps(body)
        return await self.jobs_api.client.request(method, path, content=content, headers=headers)

    async def create(self, content: bytes = CLIP, **changes: Any) -> httpx.Response:
        return await self.ask("POST", "/api/videos/uploads", declared(content, **changes))

    async def send(self, created: Mapping[str, Any], content: bytes = CLIP) -> httpx.Response:
        """Uploads the bytes without any credentials except those in the signed URL."""
        upload = created["upload"]
        return await self.jobs_api.client.request(
            upload["method"], upload["url"], content=content, headers=upload["headers"]
        )

    async def uploaded(self, content: bytes = CLIP, **changes: Any) -> dict[str, Any]:
        """A file that is uploaded, but not confirmed."""
        created = (await self.create(content, **changes)).json()
        assert (await self.send(created, content)).status_code == 200
        file: dict[str, Any] = created["file"]
        return file

    async def confirm(self, file: Mapping[str, Any]) -> httpx.Response:
        return await self.ask("POST", f"/api/videos/uploads/{file['id']}/confirm")

    async def video(self, content: bytes = CLIP, **changes: Any) -> dict[str, Any]:
        file = await self.uploaded(content)
        response = await self.ask("POST", "/api/videos", {"original_file_id": file["id"], **changes})
        assert response.status_code == 201, response.text
        video: dict[str, Any] = response.json()
        return video

    async def get_video(self, video: Mapping[str, Any]) -> dict[str, Any]:
        response = await self.ask("GET", f"/api/videos/{video['id']}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def submit(self, video: Mapping[str, Any]) -> UUID:
        """A job on the video, as the catalog would submit it."""
        job = await self.jobs_api.core.submit(
            self.member, video_id=UUID(video["id"]), input_file_ids=(UUID(video["original_file_id"]),)
        )
        return job.id

    async def run(self, video: Mapping[str, Any], *outputs: bytes) -> list[JobOutputFile]:
        """A job on the video that completes with these outputs."""
        await self.submit(video)
        return await self.complete(await self.jobs_api.start(), *outputs)

    async def complete(self, started: StartedLease, *outputs: bytes) -> list[JobOutputFile]:
        """Completes the job with outputs that are in storage."""
        made = [await self.put_output(started.lease.job_id, content) for content in outputs]
        result = {"outputs": [{"file_id": str(output.file_id)} for output in made], "metadata": {}}
        await self.jobs_api.core.room.leases.complete(report(started), result, outputs=made)
        return made

    async def put_output(self, job_id: UUID, content: bytes) -> JobOutputFile:
        path = f"tenants/{self.tenant_id}/ai-jobs/{job_id}/output-{uuid7()}.mp4"
        await self.plane.rooms.storage.put(path, content, content_type="video/mp4")
        backend = self.plane.settings.storage.backend
        return JobOutputFile(uuid7(), backend, path, "result.mp4", "video/mp4", len(content))

    async def paths(self) -> set[str]:
        """Every object of the tenant."""
        return {entry.key async for entry in self.plane.rooms.storage.list(f"tenants/{self.tenant_id}")}

    async def file_rows(self) -> Sequence[Mapping[str, Any]]:
        query = "SELECT * FROM files WHERE tenant_id = $1 ORDER BY id"
        return await self.jobs_api.core.rows(self.pool, query, self.tenant_id)


def declared(content: bytes, **changes: Any) -> dict[str, Any]:
    return {"name": "clip.mp4", "mime_type": "video/mp4", "size": len(content), **changes}
