"""Runs that people have before a test starts, by the API: small ones that Lightbox renders."""

from __future__ import annotations

import uuid
from typing import Any

from tests.browser.stack import Account, Stack
from tests.support.waiting import until

IMAGINE: dict[str, Any] = {"name": "Base", "workflow": "demo-imagine", "needs_run_prompt": True, "max_children": 2}
GLOW: dict[str, Any] = {
    "name": "Glow",
    "workflow": "demo-glow",
    "needs_parent_image_path": True,
    "values": {"strength": 0.6},
    "max_children": 2,
}


async def add_pipeline(stack: Stack, account: Account, name: str, *steps: dict[str, Any]) -> str:
    slug = f"pipeline-{uuid.uuid4().hex[:8]}"
    return str((await _sent(stack, account, "/api/pipelines", {"slug": slug, "name": name, "steps": steps}))["slug"])


async def start_run(stack: Stack, account: Account, pipeline: str, name: str, **values: Any) -> str:
    body = {"name": name, "budget": 200, "prompt": "dunes at dawn", "seed": 7, "target_leaves": 4, **values}
    return str((await _sent(stack, account, f"/api/pipelines/{pipeline}/runs", body))["id"])


async def run_of(stack: Stack, account: Account, run_id: str) -> dict[str, Any]:
    async with stack.client(account.headers) as client:
        found: dict[str, Any] = (await client.get(f"/api/runs/{run_id}")).json()
    return found


async def waits(stack: Stack, account: Account, run_id: str) -> dict[str, Any]:
    """The run, once it has ended or does not continue."""
    found: dict[str, Any] = {}

    async def is_waiting() -> bool:
        found.update(await run_of(stack, account, run_id))
        return found["reason"] is not None and not any(step["in_flight"] for step in found["steps"])

    await until(is_waiting, 600)
    return found


async def _sent(stack: Stack, account: Account, path: str, body: Any) -> dict[str, Any]:
    async with stack.client(account.headers) as client:
        created = await client.post(path, json=body)
    assert created.is_success, created.text
    found: dict[str, Any] = created.json()
    return found
