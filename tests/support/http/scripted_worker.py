"""A worker in plain httpx, written from docs/protocol.md alone. It does not use Callsheet's code.

worker = await ScriptedWorker(client, "gpu-1").register(secret, workflow_slugs=["face-swap"])
job = await worker.job(wait_seconds=10)
await worker.heartbeat(job, run_started=True)
video = await worker.download(job["input_url"])
await worker.deliver(job, video)                # uploads to output_url
await worker.complete(job, output=described(video, "video/mp4"))
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

Json = dict[str, Any]
# The requests about a lease.
REPORTS = ("heartbeat", "complete", "fail", "requeue", "defer")


@dataclass(slots=True)
class ScriptedWorker:
    client: httpx.AsyncClient
    worker_id: str
    token: str = ""
    # Every request and response, in order: path, body, response.
    exchanges: list[tuple[str, Json, httpx.Response]] = field(default_factory=list)

    async def register(self, secret: str, **fields: Any) -> ScriptedWorker:
        response = await self.ask_to_register(secret, **fields)
        assert response.status_code == 201, response.text
        self.token = response.json()["token"]
        return self

    async def ask_to_register(self, secret: str, **fields: Any) -> httpx.Response:
        body = {"worker_id": self.worker_id, **fields}
        response = await self.client.post("/api/worker/register", json=body, headers={"x-fleet-secret": secret})
        self.exchanges.append(("/api/worker/register", body, response))
        return response

    async def post(self, path: str, body: Json) -> httpx.Response:
        response = await self.client.post(path, json=body, headers={"authorization": f"Bearer {self.token}"})
        self.exchanges.append((path, body, response))
        if response.status_code == 200 and response.json().get("rotated_token"):
            self.token = response.json()["rotated_token"]
        return response

    async def poll(self, **fields: Any) -> Json:
        response = await self.post("/api/worker/poll", {"worker_id": self.worker_id, "current_load": 0, **fields})
        assert response.status_code == 200, response.text
        body: Json = response.json()
        return body

    async def job(self, **fields: Any) -> Json:
        """Polls for a job. Fails if there is none."""
        response = await self.poll(**fields)
        assert response["job"] is not None, response
        job: Json = response["job"]
        return job

    async def heartbeat(self, job: Json, **fields: Any) -> httpx.Response:
        return await self.post("/api/worker/heartbeat", {**_lease(job), **fields})

    async def complete(self, job: Json, **fields: Any) -> httpx.Response:
        return await self.post("/api/worker/complete", {**_lease(job), **fields})

    async def fail(self, job: Json, message: str | Json, **fields: Any) -> httpx.Response:
        return await self.post("/api/worker/fail", {**_lease(job), "error_message": message, **fields})

    async def requeue(self, job: Json, reason: str) -> httpx.Response:
        return await self.post("/api/worker/requeue", {**_lease(job), "reason": reason})

    async def defer(self, job: Json, provider_job_id: str, expires_at: str) -> httpx.Response:
        body = {**_lease(job), "provider_job_id": provider_job_id, "expires_at": expires_at}
        return await self.post("/api/worker/defer", body)

    async def deregister(self, reason: str | None = None) -> httpx.Response:
        return await self.post("/api/worker/deregister", {"reason": reason})

    async def download(self, url: str) -> bytes:
        response = await self.client.get(url)
        assert response.status_code == 200, response.text
        return response.content

    async def upload(self, url: str, headers: Json, content: bytes) -> httpx.Response:
        return await self.client.put(url, headers=headers, content=content)

    async def deliver(self, job: Json, content: bytes) -> None:
        """Uploads to the one signed URL that every job of an engine has."""
        response = await self.upload(job["output_url"], job["output_headers"], content)
        assert response.status_code == 200, response.text

    async def deliver_named(self, job: Json, files: dict[str, tuple[str, bytes]]) -> list[Json]:
        """Announces and uploads files, given as name to (type, bytes). Returns them in the form for `complete`."""
        outputs = [{"name": name, **described(content, kind)} for name, (kind, content) in files.items()]
        response = await self.heartbeat(job, outputs=outputs)
        assert response.status_code == 200, response.text
        for upload in response.json()["uploads"]:
            stored = await self.upload(upload["url"], upload["headers"], files[upload["name"]][1])
            assert stored.status_code == 200, stored.text
        return outputs


def described(content: bytes, mime_type: str) -> Json:
    return {"size": len(content), "mime_type": mime_type, "sha256": hashlib.sha256(content).hexdigest()}


def _lease(job: Json) -> Json:
    return {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()
