"""The server on the page "Put it behind your shop" works exactly as printed, against a running control plane."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.event_stream import EventStream

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "put-it-behind-your-shop.md"
SECRET, OTHER_SECRET = (
    f"whsec_{base64.b64encode(key).decode()}" for key in (b"the secret of the tests", b"the secret of another")
)


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def shop(plane: ControlPlane, catalog_api: CatalogApi, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """The page's module, as the page starts it."""
    found = re.search(r"<<'SHOP'\n(.*?)\nSHOP\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    monkeypatch.setenv("API_URL", plane.settings.public_url)
    monkeypatch.setenv("OPERATOR_KEY", catalog_api.admin.key)
    monkeypatch.setenv("PAYMENT_SECRET", SECRET)
    monkeypatch.setenv("SHOP_TENANT", (await catalog_api.people.tenant()).slug)
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(found[1], "shop.py", "exec"), names)
    yield SimpleNamespace(**names)
    for callsheet in (names["operator"], *(each for _, each in names["customers"].values())):
        await callsheet.close()


async def ask(shop: Any, path: str, body: Any = None, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=shop.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
        if body is None:
            return await client.get(path)
        return await client.post(path, content=json.dumps(body), headers=headers)


def signature(body: Any, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    signed = Webhook(secret).sign("msg_1", moment, json.dumps(body))
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(moment.timestamp())), "webhook-signature": signed}


async def pay(shop: Any, customer: str, tokens: int, payment_id: str) -> httpx.Response:
    event = {"type": "payment.succeeded", "payment_id": payment_id, "customer": customer, "tokens": tokens}
    return await ask(shop, "/payments", event, **signature(event))


async def test_a_repeated_payment_webhook_credits_once(shop: Any) -> None:
    assert (await ask(shop, "/customers", {"customer": "ann"})).status_code == 201
    assert (await ask(shop, "/customers", {"customer": "ann"})).status_code == 409
    first, second = [await pay(shop, "ann", 50, "pi_1") for _ in range(2)]
    assert (first.json(), second.json()) == ({"balance": 50, "replayed": False}, {"balance": 50, "replayed": True})
    assert (await ask(shop, "/customers/ann/statement")).json() == {"balance": 50, "lines": [["PAYMENT_CREDIT", 50]]}


async def test_a_payment_that_the_provider_did_not_sign_is_refused(shop: Any) -> None:
    await ask(shop, "/customers", {"customer": "bob"})
    event = {"type": "payment.succeeded", "payment_id": "pi_2", "customer": "bob", "tokens": 50}
    other = {**event, "tokens": 5000}
    unsigned: dict[str, str] = {}
    for headers in (unsigned, signature(event, OTHER_SECRET), signature(other), signature(event, at=0)):
        response = await ask(shop, "/payments", event, **headers)
        assert response.status_code == 400, headers
    assert (await ask(shop, "/customers/bob/statement")).json()["balance"] == 0


async def test_an_order_is_one_job_that_the_customers_page_watches_and_a_refund_is_seen(
    shop: Any, catalog_api: CatalogApi, client: httpx.AsyncClient
) -> None:
    effect = await catalog_api.effect(credits_cost=7)
    await ask(shop, "/customers", {"customer": "cid"})
    _, callsheet = shop.customers["cid"]
    key = callsheet._calls.requests.transport.api.headers["authorization"].removeprefix("Bearer ")
    person = Person(None, None, key)  # type: ignore[arg-type]
    file_id = await catalog_api.file(person)
    order = {"customer": "cid", "order": "order-1", "effect": effect["id"], "fields": {"prompt": "a cat"}}
    order["input_file_id"] = file_id
    poor = await ask(shop, "/orders", order)
    assert (poor.status_code, poor.json()["code"]) == (402, "insufficient_tokens")
    await pay(shop, "cid", 50, "pi_3")
    first, second = [await ask(shop, "/orders", order) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 201)
    job_id = first.json()["id"]
    assert second.json()["id"] == job_id
    token = (await ask(shop, "/watch", {"customer": "cid", "job": job_id})).json()["token"]
    async with client.stream("GET", f"/api/ai-jobs/{job_id}/stream", params={"token": token}) as response:
        stream = EventStream(response)
        await stream.next(2)
        assert (await client.post(f"/api/ai-jobs/{job_id}/cancel", headers=person.headers)).status_code == 200
        assert (await stream.rest())[-1].to_status == "canceled"
    statement = (await ask(shop, "/customers/cid/statement")).json()
    assert statement == {"balance": 50, "lines": [["JOB_REFUND", 7], ["JOB_RESERVE", -7], ["PAYMENT_CREDIT", 50]]}
