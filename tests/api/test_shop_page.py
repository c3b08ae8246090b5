"""The servers on the page "Put it behind your shop" work exactly as printed, in Python and in TypeScript.

Each runs as a process of its own, and a control plane sends it webhooks.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from callsheet.app.control_plane import ControlPlane
from callsheet.wire.identity import Role
from tests.api.conftest import Started
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.scripted_worker import described
from tests.support.http.worker_harness import OUTPUT, WorkerHarness, open_worker_harness
from tests.support.programs.node import install_client, node_command
from tests.support.run.left_over_programs import tied
from tests.support.run.ports import free_port
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "put-it-behind-your-shop.md"
SECRET, OTHER_SECRET = (
    f"whsec_{base64.b64encode(key).decode()}" for key in (b"the secret of the tests", b"the secret of another")
)
LOOPBACK = {"allow_networks": (ip_network("127.0.0.0/8"),)}
COST = 7
FIELDS = {"prompt": "a cat", "steps": 4}


def program(name: str) -> str:
    found = re.search(rf"cat > tour/{re.escape(name)} <<'SHOP'\n(.*?)SHOP\n", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@dataclass(slots=True)
class Shop:
    client: httpx.AsyncClient
    catalog_api: CatalogApi
    worker_harness: WorkerHarness
    tenant_admin: Person

    async def ask(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        if body is None:
            return await self.client.get(path)
        return await self.client.post(path, content=json.dumps(body), headers=headers)

    async def pay(self, customer: str, tokens: int, payment_id: str) -> httpx.Response:
        event = {"payment_id": payment_id, "customer": customer, "tokens": tokens}
        return await self.ask("/payments", event, **signature(event))


def signature(body: Any, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    signed = Webhook(secret).sign("msg_1", moment, json.dumps(body))
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(moment.timestamp())), "webhook-signature": signed}


@pytest.fixture(params=["shop.py", "shop.ts"])
async def shop(request: pytest.FixtureRequest, started: Started, tmp_path: Path) -> AsyncIterator[Shop]:
    """The server as the page starts it, with the keys that the page creates."""
    (tmp_path / request.param).write_text(program(request.param), encoding="utf-8")
    port = free_port()
    async with (
        started(outgoing=LOOPBACK) as (plane, client),
        open_worker_harness(plane) as worker_harness,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as to_shop,
    ):
        people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        catalog_api = await CatalogApi.open(plane, client, people)
        tenant_admin = await people.user(role=Role.TENANT_ADMIN)
        keys = await keys_of(plane, catalog_api, tenant_admin, port)
        if request.param == "shop.ts":
            install_client(tmp_path)
            command = node_command(request.param)
        else:
            command = (sys.executable, "-m", "granian", "--interface", "asgi", "--port", str(port), "shop:app")
        variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **keys}
        process = await asyncio.create_subprocess_exec(*tied(*command), cwd=tmp_path, env=variables)
        try:
            await until(lambda: is_there(to_shop, process))
            yield Shop(to_shop, catalog_api, worker_harness, tenant_admin)
        finally:
            process.terminate()
            await process.wait()


async def keys_of(plane: ControlPlane, catalog_api: CatalogApi, admin: Person, port: int) -> dict[str, str]:
    service = {"name": "shop", "scopes": ["read", "submit_for_users", "credit"]}
    endpoint = {"url": f"http://127.0.0.1:{port}/events", "scope": "tenant"}
    return {
        "API_URL": plane.settings.public_url,
        "SERVICE_KEY": (await catalog_api.made(f"/api/admin/tenants/{admin.tenant.id}/service-keys", service))["key"],
        "PAYMENT_SECRET": SECRET,
        "WEBHOOK_SECRET": (await catalog_api.made("/api/webhook-endpoints", endpoint, person=admin))["secret"],
        "SHOP_PORT": str(port),
    }


async def is_there(client: httpx.AsyncClient, process: asyncio.subprocess.Process) -> bool:
    assert process.returncode is None
    try:
        await client.get("/none")
    except httpx.TransportError:
        return False
    return True


@pytest.mark.parametrize("name", ["shop.py", "shop.ts"])
def test_each_server_has_at_most_40_lines_of_code(name: str) -> None:
    lines = [line.strip() for line in program(name).splitlines()]
    assert 20 < len([line for line in lines if line and not line.startswith(("#", "//"))]) <= 40


async def test_a_customer_pays_orders_and_gets_the_result_when_the_webhook_has_come(shop: Shop) -> None:
    effect = await shop.catalog_api.effect((await image_workflow(shop))["slug"], credits_cost=COST)
    worker = await shop.worker_harness.worker(workflow_slugs=[effect["workflow"]])
    order = {"customer": "ann", "order": "order-1", "effect": effect["slug"], "fields": FIELDS}

    # A repeated payment is credited once, and one that the provider did not sign is refused.
    first, second = [await shop.pay("ann", 50, "pi_1") for _ in range(2)]
    assert (first.json(), second.json()) == ({"balance": 50, "replayed": False}, {"balance": 50, "replayed": True})
    event = {"payment_id": "pi_2", "customer": "ann", "tokens": 50}
    other = {**event, "tokens": 5000}
    unsigned: dict[str, str] = {}
    for headers in (unsigned, signature(event, OTHER_SECRET), signature(other), signature(event, at=0)):
        assert (await shop.ask("/payments", event, **headers)).status_code == 400, headers
    forged = {"type": "job.completed", "data": {"client_reference": "order-1", "status": "completed"}}
    assert (await shop.ask("/events", forged, **signature(forged))).status_code == 400

    # The same order twice is one job.
    jobs = [(await shop.ask("/orders", order)).json() for _ in range(2)]
    assert jobs[0]["id"] == jobs[1]["id"]
    assert (await shop.ask("/orders/order-1")).json() == {"status": "in progress"}
    poor = await shop.ask("/orders", {**order, "customer": "bob"})
    assert poor.status_code == 402
    assert "token" in poor.json()["error"]

    lease = await worker.job(wait_seconds=20)
    await worker.deliver(lease, OUTPUT)
    assert (await worker.complete(lease, output=described(OUTPUT, "video/mp4"))).status_code == 200

    async def is_done() -> bool:
        return (await shop.ask("/orders/order-1")).json()["status"] == "completed"

    await until(is_done)
    url = (await shop.ask("/orders/order-1")).json()["url"]
    assert (await shop.catalog_api.client.get(url)).content == OUTPUT
    assert (await shop.pay("ann", 50, "pi_1")).json() == {"balance": 50 - COST, "replayed": True}


async def image_workflow(shop: Shop) -> dict[str, Any]:
    """A workflow that takes no file."""
    graph = {
        "1": {"class_type": "Paint", "inputs": {"text": "{{prompt}}", "steps": "{{steps}}"}},
        "9": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0]}},
    }
    kinds = {"prompt": "text", "steps": "number"}
    properties = [
        {"key": key, "type": kind, "placeholder": f"{{{{{key}}}}}", "required": True, "user_configurable": True}
        for key, kind in kinds.items()
    ]
    return await shop.catalog_api.workflow(graph=graph, properties=properties)
