"""The TypeScript client against a running control plane. The tests themselves are in clients/typescript/tests."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People
from tests.support.http.catalog_api import MP4, PNG, CatalogApi
from tests.support.http.scripted_worker import described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness
from tests.support.programs.node import CLIENT, run_node

COST, TOKENS = 7, 100
# Those of large uploads run in test_large_uploads.
TESTS = sorted(set((CLIENT / "tests").glob("*.test.ts")) - {CLIENT / "tests" / "large.test.ts"})


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@asynccontextmanager
async def completing(worker_harness: WorkerHarness, workflow: str) -> AsyncIterator[None]:
    """A worker that reports progress once and completes every job."""
    worker = await worker_harness.worker(workflow_slugs=[workflow])

    async def work() -> None:
        while True:
            lease = (await worker.poll(wait_seconds=10))["job"]
            if lease is not None:
                await worker.heartbeat(lease, run_started=True, progress={"percent": 40.0})
                await worker.deliver(lease, OUTPUT)
                await worker.complete(lease, output=described(OUTPUT, "video/mp4"))

    working = asyncio.create_task(work())
    try:
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


def webhook() -> dict[str, Any]:
    secret, other = (f"whsec_{base64.b64encode(key).decode()}" for key in (b"the secret of tests", b"another secret!!"))
    body, moment = json.dumps({"type": "job.completed"}), datetime.fromtimestamp(int(time.time()), UTC)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(moment.timestamp()))}
    headers["webhook-signature"] = Webhook(secret).sign("msg_1", moment, body)
    return {"headers": headers, "body": body, "secret": secret, "other": other}


async def test_the_tests_of_the_client_pass(catalog_api: CatalogApi, worker_harness: WorkerHarness) -> None:
    effect, idle = [await catalog_api.effect(credits_cost=COST) for _ in range(2)]
    dear = await catalog_api.effect(credits_cost=1000)
    ann = await catalog_api.person(tokens=TOKENS)
    given = {
        "url": worker_harness.plane.settings.public_url,
        "key": ann.key,
        "effect": effect["slug"],
        "idle": idle["slug"],
        "dear": dear["slug"],
        "cost": COST,
        "tokens": TOKENS,
        "webhook": webhook(),
    }
    files = {"video": MP4, "image": PNG, "output": OUTPUT}
    given |= {name: base64.b64encode(content).decode() for name, content in files.items()}
    assert TESTS
    async with completing(worker_harness, effect["workflow"]):
        await run_node("--test", "--test-reporter", "spec", *TESTS, CALLSHEET_TESTS=json.dumps(given))
