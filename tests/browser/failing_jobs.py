"""Jobs that fail: a worker of the test takes them over HTTP and reports an error."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.browser.stack import Account, Stack
from tests.browser.user_content import PAINT, SAVE


async def add_workflow(stack: Stack, slug: str) -> None:
    paint = {**PAINT, "inputs": {**PAINT["inputs"], "text": "hills", "steps": 1}}
    body = {
        "slug": slug,
        "name": slug,
        "graph": {"paint": paint, "save": SAVE},
        "output_node_id": "save",
        "output_extension": "png",
        "output_mime_type": "image/png",
        "requirements": {"from_graph": False},
    }
    async with stack.client(stack.operator) as client:
        created = await client.post("/api/admin/workflows", json=body)
        assert created.status_code == 201, created.text


async def failed_jobs(
    stack: Stack, accounts: list[Account], count: int, messages: list[str], cost: int = 1, **error: Any
) -> tuple[str, list[str]]:
    """So many jobs of each account, that failed with these messages in turn: (workflow, ids of the jobs). `error` has
    other fields of the report, such as `traceback`."""
    slug = f"failing-{uuid.uuid4().hex[:8]}"
    await add_workflow(stack, slug)
    token = await _token_of_fleet(stack, slug)
    made = await asyncio.gather(
        *(_fail(stack, account, slug, token, count, messages, cost, error) for account in accounts)
    )
    return slug, [job_id for ids in made for job_id in ids]


async def _fail(
    stack: Stack,
    account: Account,
    slug: str,
    token: str,
    count: int,
    messages: list[str],
    cost: int,
    error: dict[str, Any],
) -> list[str]:
    async with stack.client(stack.operator) as operator, _worker(stack, slug, token) as (worker, worker_id):
        ids = []
        for number in range(count):
            body = {"user_id": account.id, "workflow": slug, "payload": {}, "cost": cost}
            submitted = await operator.post("/api/admin/jobs", json=body)
            assert submitted.status_code == 201, submitted.text
            ids.append(submitted.json()["id"])
            report = {"type": "engine_error", "message": messages[number % len(messages)], "retryable": False, **error}
            await _report(worker, worker_id, report)
    return ids


async def let_fail(stack: Stack, effect: str, message: str) -> None:
    """Takes the next job of an effect that no other worker serves, and lets it fail."""
    token = await _token_of_fleet(stack, effect)
    async with _worker(stack, effect, token) as (worker, worker_id):
        await _report(worker, worker_id, {"type": "engine_error", "message": message, "retryable": False})


async def _token_of_fleet(stack: Stack, slug: str) -> str:
    """The registration token of a new fleet of this name, which serves the workflow of this name."""
    async with stack.client(stack.operator) as client:
        fleet = (await client.post("/api/admin/fleets", json={"slug": slug, "workflow_slugs": [slug]})).json()
        created = await client.post(f"/api/admin/fleets/{fleet['id']}/tokens", json={"name": "test"})
    return str(created.json()["token"])


@asynccontextmanager
async def _worker(stack: Stack, slug: str, token: str) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """The client and the id of a worker of the fleet, which leaves at the end."""
    worker_id = f"{slug}-{uuid.uuid4().hex[:6]}"
    async with stack.client(stack.operator) as operator, stack.client() as worker:
        place = {"worker_id": worker_id, "fleet_slug": slug, "stage": "production"}
        registered = await worker.post("/api/worker/register", json=place, headers={"x-fleet-secret": token})
        assert registered.status_code == 201, registered.text
        await operator.post(f"/api/admin/workers/{worker_id}/approve")
        worker.headers["authorization"] = f"Bearer {registered.json()['token']}"
        yield worker, worker_id
        await worker.post("/api/worker/deregister", json={"reason": "done"})


async def _report(worker: httpx.AsyncClient, worker_id: str, error: dict[str, Any]) -> None:
    poll = {"worker_id": worker_id, "current_load": 0, "max_concurrency": 1, "wait_seconds": 30}
    job = (await worker.post("/api/worker/poll", json=poll, timeout=60)).json()["job"]
    assert job is not None, "the job was submitted before"
    lease = {"dispatch_id": job["dispatch_id"], "lease_token": job["lease_token"]}
    body = {**lease, "error_message": error["message"], "error": error}
    reported = await worker.post("/api/worker/fail", json=body)
    assert reported.is_success, reported.text
