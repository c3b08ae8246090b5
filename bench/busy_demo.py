"""Makes a demo busy: workers that render nothing take jobs all the time, report progress, and deliver or fail.

The jobs belong to the operator of the demo, so the stream of their tabs is as busy as the pages are. One run of a
pipeline has its candidates made by the same workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

WORKERS = 10
# A new job is submitted so often. Together with its worker's requests each takes a few hundredths of a core.
SECONDS_PER_JOB = 0.5
SECONDS_PER_PART = 0.5
FAILING = 12
TOKENS = 1_000_000
MESSAGES = ("CUDA out of memory. Tried to allocate 2.50 GiB", "portrait.safetensors is not in the list of checkpoints")
GRAPH = {
    "paint": {
        "class_type": "LightboxTextToImage",
        "inputs": {"text": "hills", "seed": 1, "width": 64, "height": 64, "steps": 1, "batch_size": 1},
    },
    "save": {"class_type": "SaveImage", "inputs": {"images": ["paint", 0], "filename_prefix": "busy"}},
}
SLUG, RUN_SLUG = "busy", "busy-run"


@dataclass(frozen=True, slots=True)
class Busy:
    run_id: str
    jobs: list[str]


@asynccontextmanager
async def busy(url: str, home: Path, workers: int = WORKERS) -> AsyncIterator[Busy]:
    """Until the block ends. An error of a worker or of the submission ends the block with it."""
    key = json.loads((home / "demo/login.json").read_text())["api_key"]
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=120) as operator:
        user_id = (await _sent(operator, "GET", "/api/me"))["user_id"]
        credit = {"amount": TOKENS, "provider_transaction_id": "busy"}
        await _sent(operator, "POST", f"/api/admin/users/{user_id}/credits", credit)
        token = await _offer(operator)
        state = Busy(await _start_run(operator), [])
        async with asyncio.TaskGroup() as tasks:
            started = [
                tasks.create_task(_work(url, operator, token, f"busy-{number}"), name=f"busy-{number}")
                for number in range(workers)
            ]
            started.append(tasks.create_task(_submit(operator, state.jobs)))
            try:
                yield state
            finally:
                for task in started:
                    task.cancel()


async def _offer(operator: httpx.AsyncClient) -> str:
    """Two workflows with their prices, and a fleet that serves them. Returns the token with which workers register."""
    for slug in (SLUG, RUN_SLUG):
        workflow = {"slug": slug, "name": slug, "graph": GRAPH, "output_node_id": "save", "output_extension": "png"}
        workflow |= {"output_mime_type": "image/png", "requirements": {"from_graph": False}}
        await _sent(operator, "POST", "/api/admin/workflows", workflow)
        effect = {"slug": slug, "name": slug, "workflow": slug, "credits_cost": 1, "is_published": True}
        await _sent(operator, "POST", "/api/admin/effects", effect)
    fleet = await _sent(operator, "POST", "/api/admin/fleets", {"slug": SLUG, "workflow_slugs": [SLUG, RUN_SLUG]})
    token = await _sent(operator, "POST", f"/api/admin/fleets/{fleet['id']}/tokens", {"name": SLUG})
    return str(token["token"])


async def _start_run(operator: httpx.AsyncClient) -> str:
    """With at most one job at a time: it goes on for as long as the tab is watched."""
    steps = [{"name": "Base", "workflow": RUN_SLUG, "max_children": 4}, {"name": "Light", "workflow": RUN_SLUG}]
    pipeline = {"slug": SLUG, "name": "Busy", "steps": steps}
    await _sent(operator, "POST", "/api/pipelines", pipeline)
    body = {"name": "Busy", "budget": 100_000, "seed": 7, "target_leaves": 4000, "concurrency": 1}
    return str((await _sent(operator, "POST", f"/api/pipelines/{SLUG}/runs", body))["id"])


async def _submit(operator: httpx.AsyncClient, submitted: list[str]) -> None:
    while True:
        # Where the machine is so slow that many wait, the server refuses more of them.
        with suppress(httpx.HTTPStatusError):
            submitted.append((await _sent(operator, "POST", "/api/ai-jobs", {"effect_id": SLUG}))["id"])
        await asyncio.sleep(SECONDS_PER_JOB)


async def _work(url: str, operator: httpx.AsyncClient, token: str, worker_id: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as client:
        place = {"worker_id": worker_id, "fleet_slug": SLUG, "stage": "production"}
        registered = await client.post("/api/worker/register", json=place, headers={"x-fleet-secret": token})
        registered.raise_for_status()
        client.headers["authorization"] = f"Bearer {registered.json()['token']}"
        await _sent(operator, "POST", f"/api/admin/workers/{worker_id}/approve")
        for number in itertools.count(hash(worker_id) % FAILING):
            poll = {"worker_id": worker_id, "current_load": 0, "max_concurrency": 1, "wait_seconds": 20}
            response = await _sent(client, "POST", "/api/worker/poll", poll)
            if response.get("rotated_token"):
                client.headers["authorization"] = f"Bearer {response['rotated_token']}"
            if response["job"] is not None:
                await _render(client, response["job"], number)


async def _render(client: httpx.AsyncClient, job: dict[str, Any], number: int) -> None:
    lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
    for percent in (25, 75):
        progress = {"percent": percent, "message": "paint", "node_id": "paint"}
        await _sent(client, "POST", "/api/worker/heartbeat", {**lease, "run_started": True, "progress": progress})
        await asyncio.sleep(SECONDS_PER_PART)
    if job["kind"] != "pipeline" and number % FAILING == 0:
        message = MESSAGES[number // FAILING % len(MESSAGES)]
        error = {"type": "engine_error", "message": message, "retryable": False}
        await _sent(client, "POST", "/api/worker/fail", {**lease, "error_message": message, "error": error})
        return
    image = _image(job["dispatch_id"])
    stored = await client.put(job["output_url"], content=image, headers=job["output_headers"])
    stored.raise_for_status()
    output = {"size": len(image), "mime_type": "image/png", "sha256": hashlib.sha256(image).hexdigest()}
    # A job that was canceled meanwhile is not a mistake of the worker.
    with suppress(httpx.HTTPStatusError):
        await _sent(client, "POST", "/api/worker/complete", {**lease, "output": output})


def _image(number: int) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (64, 64), (number * 7 % 256, number * 31 % 256, 90 + number % 120)).save(written, "PNG")
    return written.getvalue()


async def _sent(client: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    response = await client.request(method, path, json=body)
    if response.is_error:
        raise httpx.HTTPStatusError(f"{path}: {response.text}", request=response.request, response=response)
    return response.json() if response.content else None
