"""The worker of the first design: poll, download, render, upload, complete, one after the other; one job at a time."""

from __future__ import annotations

import asyncio
import copy
import uuid
from typing import Any

import httpx

from bench.product import FLEET_SECRET, INPUT


class SequentialWorker:
    """`poll_seconds` is the interval at which it polls the engine for the end of a run."""

    def __init__(self, plane: str, engine: str, workflow: str, poll_seconds: float):
        self._plane = httpx.AsyncClient(base_url=plane, trust_env=False, timeout=60)
        self._engine = httpx.AsyncClient(base_url=engine, trust_env=False, timeout=60)
        self._storage = httpx.AsyncClient(trust_env=False, timeout=60)
        self._workflow = workflow
        self._poll_seconds = poll_seconds

    async def register(self) -> None:
        body = {"worker_id": f"sequential-{uuid.uuid4().hex[:8]}", "workflow_slugs": [self._workflow]}
        response = await self._plane.post("/api/worker/register", json=body, headers={"x-fleet-secret": FLEET_SECRET})
        self._plane.headers["authorization"] = f"Bearer {response.raise_for_status().json()['token']}"

    async def leave(self) -> None:
        await self._plane.post("/api/worker/deregister", json={})
        for client in (self._plane, self._engine, self._storage):
            await client.aclose()

    async def work(self, jobs: int) -> None:
        """Works until this many jobs are done."""
        while jobs:
            job = (await self._ask("poll", {"current_load": 0, "max_concurrency": 1, "wait_seconds": 5}))["job"]
            if job is not None:
                await self._process(job)
                jobs -= 1

    async def _process(self, job: dict[str, Any]) -> None:
        payload, run_id = job["input_payload"], str(uuid.uuid4())
        [asset] = payload["assets"]
        content = (await self._storage.get(asset["download_url"])).raise_for_status().content
        graph = copy.deepcopy(payload["workflow"])
        graph["load"]["inputs"]["image"] = await self._uploaded(content, run_id)
        graph["save"]["inputs"]["filename_prefix"] = f"{run_id}/bench"
        assert INPUT not in str(graph)
        (await self._engine.post("/prompt", json={"prompt": graph, "prompt_id": run_id})).raise_for_status()
        entry = await self._history(run_id)
        [image] = entry["outputs"][payload["output_node_id"]]["images"]
        output = (await self._engine.get("/view", params=image)).raise_for_status().content
        headers = job["output_headers"] or {}
        (await self._storage.put(job["output_url"], headers=headers, content=output)).raise_for_status()
        lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
        described = {"size": len(output), "mime_type": payload["output_mime_type"]}
        await self._ask("complete", {**lease, "provider_job_id": run_id, "output": described})

    async def _uploaded(self, content: bytes, run_id: str) -> str:
        fields = {"subfolder": run_id, "type": "input"}
        response = await self._engine.post("/upload/image", data=fields, files={"image": ("picture.png", content)})
        uploaded = response.raise_for_status().json()
        return f"{uploaded['subfolder']}/{uploaded['name']}"

    async def _history(self, run_id: str) -> dict[str, Any]:
        while True:
            await asyncio.sleep(self._poll_seconds)
            entry = (await self._engine.get(f"/history/{run_id}")).raise_for_status().json().get(run_id)
            if entry is not None:
                return dict(entry)

    async def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = await self._plane.post(f"/api/worker/{path}", json=body)
        return dict(response.raise_for_status().json())
