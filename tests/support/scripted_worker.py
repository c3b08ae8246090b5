"""A worker in plain httpx, written from docs/protocol.md alone: it knows nothing of Callsheet's code.

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
# Everything that is said about a lease.
REPORTS = ("heartbeat", "complete", "fail", "requeue", "defer")


@dataclass(slots=True)
class ScriptedWorker:
    client: httpx.AsyncClient
    worker_id: str
    token: str = ""
    # Every request and answer, in order: path, body, answer.
    exchanges: list[tuple[str, Json, httpx.Response]] = field(default_factory=list)

    async def register(self, secret: str, **fields: Any) -> ScriptedWorker:
        answer = await self.ask_to_register(secret, **fields)
        assert answer.status_code == 201, answer.text
        self.token = answer.json()["token"]
        return self

    async def ask_to_register(self, secret: str, **fields: Any) -> httpx.Response:
        body = {"worker_id": self.worker_id, **fields}
        answer = await self.client.post("/api/worker/register", json=body, headers={"x-fleet-secret": secret})
        self.exchanges.append(("/api/worker/register", body, answer))
        return answer

    async def post(self, path: str, body: Json) -> httpx.Response:
        answer = await self.client.post(path, json=body, headers={"authorization": f"Bearer {self.token}"})
        self.exchanges.append((path, body, answer))
        if answer.status_code == 200 and answer.json().get("rotated_token"):
            self.token = answer.json()["rotated_token"]
        return answer

    async def poll(self, **fields: Any) -> Json:
        answer = await self.post("/api/worker/poll", {"worker_id": self.worker_id, "current_load": 0, **fields})
        assert answer.status_code == 200, answer.text
        body: Json = answer.json()
        return body

    async def job(self, **fields: Any) -> Json:
        """A job that must be there."""
        answer = await self.poll(**fields)
        assert answer["job"] is not None, answer
        job: Json = answer["job"]
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
        answer = await self.client.get(url)
        assert answer.status_code == 200, answer.text
        return answer.content

    async def upload(self, url: str, headers: Json, content: bytes) -> httpx.Response:
        return await self.client.put(url, headers=headers, content=content)

    async def deliver(self, job: Json, content: bytes) -> None:
        """Uploads to the one signed URL that every job of an engine has."""
        answer = await self.upload(job["output_url"], job["output_headers"], content)
        assert answer.status_code == 200, answer.text

    async def deliver_named(self, job: Json, files: dict[str, tuple[str, bytes]]) -> list[Json]:
        """Announces and uploads files: name to (type, bytes). Returns them as `complete` takes them."""
        outputs = [{"name": name, **described(content, kind)} for name, (kind, content) in files.items()]
        answer = await self.heartbeat(job, outputs=outputs)
        assert answer.status_code == 200, answer.text
        for upload in answer.json()["uploads"]:
            stored = await self.upload(upload["url"], upload["headers"], files[upload["name"]][1])
            assert stored.status_code == 200, stored.text
        return outputs


def described(content: bytes, mime_type: str) -> Json:
    return {"size": len(content), "mime_type": mime_type, "sha256": hashlib.sha256(content).hexdigest()}


def _lease(job: Json) -> Json:
    return {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()
