"""Typed generation over HTTP: copy and scrapes return when they are done, the rest is queued; products are kept."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.dispatch.facts import Lease
from callsheet.jobs.lease.provider_gate import ProviderPaused
from callsheet.toolbox.ids import uuid7
from callsheet.wire.job_errors import UNKNOWN
from callsheet.wire.worker.protocol import CallbackAddress
from tests.support.http.accounts import Person
from tests.support.http.actor_harness import PRODUCT, ActorHarness
from tests.support.http.responses import assert_refused
from tests.support.jobs.core import Member
from tests.support.rooms import EveryProvider
from tests.support.waiting import until

LAMP = {"title": "Lamp"}
AT_ONCE = [">pending", "pending>processing"]


@pytest.fixture
async def ann(actor_harness: ActorHarness) -> Person:
    return await actor_harness.person("pool_2")


async def generate(actor_harness: ActorHarness, person: Person, kind: str, body: dict[str, Any]) -> httpx.Response:
    return await actor_harness.ask(person, "POST", f"/api/generate/{kind}", body)


async def steps(actor_harness: ActorHarness, person: Person, job: dict[str, Any]) -> list[str]:
    pool = await actor_harness.plane.databases.pool(person.tenant.pool)
    return await actor_harness.jobs_api.core.steps(Member(person.tenant.id, person.user.id, pool), UUID(job["id"]))


async def test_a_copy_job_returns_its_text(actor_harness: ActorHarness, ann: Person) -> None:
    response = await generate(actor_harness, ann, "copy", {"product": LAMP, "style": "playful"})
    assert response.status_code == 201, response.text
    job = response.json()
    assert (job["kind"], job["status"], job["cost"]) == ("copy", "completed", 1)
    assert job["result"]["result"] == {"copy": "Buy Lamp!"}
    assert await steps(actor_harness, ann, job) == [">pending", "pending>processing", "processing>completed"]
    assert await actor_harness.balance(ann) == 99
    # What the actor gets is what was asked for, whole.
    [task] = actor_harness.actors["copy"].tasks
    assert (task.payload["style"], task.payload["product"]["title"]) == ("playful", "Lamp")


async def test_a_scrape_keeps_its_product_and_other_jobs_name_it(actor_harness: ActorHarness, ann: Person) -> None:
    scraped = (await generate(actor_harness, ann, "scrape", {"url": "https://shop.example/lamp"})).json()
    product_id = scraped["result"]["product_id"]
    assert (scraped["status"], product_id) == ("completed", scraped["id"])
    product = (await actor_harness.ask(ann, "GET", f"/api/products/{product_id}")).json()
    assert {name: product[name] for name in PRODUCT} == PRODUCT
    assert (await actor_harness.ask(ann, "GET", "/api/products")).json() == {"items": [product], "next_cursor": None}
    written = (await generate(actor_harness, ann, "copy", {"product_id": product_id})).json()
    assert written["result"]["result"] == {"copy": "Buy Lamp!"}
    assert actor_harness.actors["copy"].tasks[0].payload["product"] == PRODUCT
    assert (await actor_harness.ask(ann, "DELETE", f"/api/products/{product_id}")).status_code == 204
    assert_refused(await actor_harness.ask(ann, "DELETE", f"/api/products/{product_id}"), 404, "not_found")
    gone = await generate(actor_harness, ann, "copy", {"product_id": product_id})
    assert_refused(gone, 422, "invalid_request", "product_id")
    # What was made of it stays.
    assert (await actor_harness.ask(ann, "GET", f"/api/ai-jobs/{written['id']}")).json()["result"] == written["result"]


async def test_a_scrape_that_finds_no_product_stores_none(actor_harness: ActorHarness, ann: Person) -> None:
    scrape = actor_harness.actors["scrape"]
    before, scrape.response = scrape.response, lambda task: {"product": {"title": "", "images": "none"}}
    job = (await generate(actor_harness, ann, "scrape", {"url": "https://shop.example/nothing"})).json()
    scrape.response = before
    assert (job["status"], "product_id" in job["result"]) == ("completed", False)
    assert (await actor_harness.ask(ann, "GET", "/api/products")).json()["items"] == []


@pytest.mark.parametrize(
    ("kind", "body", "job_kind", "cost"),
    [
        ("static-ad", {"product": LAMP}, "static_ad", 5),
        ("video", {"script": "It glows."}, "ugc_video", 20),
        ("tts", {"text": "It glows."}, "tts", 2),
    ],
)
async def test_other_job_types_return_when_their_job_is_queued(
    actor_harness: ActorHarness, ann: Person, kind: str, body: dict[str, Any], job_kind: str, cost: int
) -> None:
    actor_harness.actors[job_kind].gate.clear()
    response = await generate(actor_harness, ann, kind, body)
    assert response.status_code == 201, response.text
    job = response.json()
    assert (job["kind"], job["cost"]) == (job_kind, cost)
    assert job["status"] in ("queued", "processing")
    # They are tasks of the actor of their type.
    [task] = (await actor_harness.ask(ann, "GET", f"/api/task?actor={job_kind}")).json()["items"]
    assert task["job_id"] == job["id"]
    actor_harness.actors[job_kind].gate.set()
    await actor_harness.ended(ann, task)


async def test_g5_a_repeated_key_returns_the_same_job_while_it_runs(actor_harness: ActorHarness, ann: Person) -> None:
    copy = actor_harness.actors["copy"]
    copy.gate.clear()
    body = {"product": LAMP, "idempotency_key": "copy-1"}
    first = asyncio.create_task(generate(actor_harness, ann, "copy", body))
    await until(lambda: copy.tasks)
    again = asyncio.create_task(generate(actor_harness, ann, "copy", body))
    await until(lambda: len(actor_harness.plane.rooms.jobs.feeds) > 0)
    copy.gate.set()
    responses = [await first, await again]
    assert [response.status_code for response in responses] == [201, 200]
    assert responses[0].json() == responses[1].json()
    assert responses[1].headers["idempotent-replayed"] == "true"
    assert (len(copy.tasks), await actor_harness.balance(ann)) == (1, 99)
    other = await generate(actor_harness, ann, "tts", {"text": "Buy", "idempotency_key": "copy-1"})
    problem = other.json()
    assert (other.status_code, problem["code"]) == (422, "idempotency_key_reused")
    assert problem["job_id"] == responses[0].json()["id"]
    assert {"text", "type"} <= {error["field"] for error in problem["errors"]}


async def test_a_client_disconnect_does_not_lose_the_job(actor_harness: ActorHarness, ann: Person) -> None:
    copy = actor_harness.actors["copy"]
    copy.gate.clear()
    leaving = asyncio.create_task(generate(actor_harness, ann, "copy", {"product": LAMP}))
    await until(lambda: copy.tasks)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    copy.gate.set()
    [task] = (await actor_harness.ask(ann, "GET", "/api/task")).json()["items"]
    assert (await actor_harness.ended(ann, task))["result"]["data"] == {"copy": "Buy Lamp!"}


async def test_a_slow_job_is_returned_unfinished_and_continues(actor_harness: ActorHarness, ann: Person) -> None:
    copy, at_once = actor_harness.actors["copy"], actor_harness.plane.rooms.tasks.synchronous
    copy.gate.clear()
    before, at_once.wait_seconds = at_once.wait_seconds, 0.2
    job = (await generate(actor_harness, ann, "copy", {"product": LAMP})).json()
    at_once.wait_seconds = before
    assert job["status"] == "processing"
    copy.gate.set()
    [task] = (await actor_harness.ask(ann, "GET", "/api/task")).json()["items"]
    await actor_harness.ended(ann, task)


async def test_jobs_above_the_concurrency_limit_are_queued_and_return_their_result(
    actor_harness: ActorHarness, ann: Person
) -> None:
    copy, at_once = actor_harness.actors["copy"], 4
    copy.gate.clear()
    requests = [
        asyncio.create_task(generate(actor_harness, ann, "copy", {"product": LAMP})) for _ in range(at_once + 2)
    ]

    async def are_all_accepted() -> bool:
        return len((await actor_harness.ask(ann, "GET", "/api/task")).json()["items"]) == len(requests)

    await until(are_all_accepted)
    copy.gate.set()
    jobs = [(await response).json() for response in requests]
    assert {job["status"] for job in jobs} == {"completed"}
    queued = [job for job in jobs if "pending>queued" in await steps(actor_harness, ann, job)]
    assert len(queued) == 2


async def test_a_failed_job_is_returned_with_its_error_and_refunded(actor_harness: ActorHarness, ann: Person) -> None:
    copy = actor_harness.actors["copy"]
    before, copy.response = copy.response, actor_harness.actors["broken"].response
    job = (await generate(actor_harness, ann, "copy", {"product": LAMP})).json()
    copy.response = before
    assert (job["status"], job["error"]) == ("failed", {"type": "bad_weather", "message": UNKNOWN})
    assert await actor_harness.balance(ann) == 100


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("copy", {}, "product"),
        ("copy", {"product_id": "x"}, "product_id"),
        ("copy", {"product_id": str(uuid7())}, "product_id"),
        ("copy", {"product": LAMP, "length": "endless"}, "length"),
        ("scrape", {}, "url"),
        ("scrape", {"url": "file:///etc/passwd"}, "url"),
        ("static-ad", {"product": LAMP, "aspect_ratio": "2:1"}, "aspect_ratio"),
        ("video", {}, "script"),
        ("tts", {"text": ""}, "text"),
        ("tts", {"text": "Hello", "voice": 7}, "voice"),
    ],
)
async def test_g10_a_wrong_request_names_its_field_and_writes_nothing(
    actor_harness: ActorHarness, ann: Person, kind: str, body: dict[str, Any], field: str
) -> None:
    assert_refused(await generate(actor_harness, ann, kind, body), 422, "invalid_request", field)
    assert (await actor_harness.ask(ann, "GET", "/api/ai-jobs")).json()["items"] == []


async def test_g6_a_product_of_another_user_is_not_found(actor_harness: ActorHarness, ann: Person) -> None:
    scraped = (await generate(actor_harness, ann, "scrape", {"url": "https://shop.example/lamp"})).json()
    for stranger in (await actor_harness.person("pool_1"), await actor_harness.person(tenant_of=ann)):
        for method in ("GET", "DELETE"):
            response = await actor_harness.ask(stranger, method, f"/api/products/{scraped['id']}")
            assert_refused(response, 404, "not_found")
        named = await generate(actor_harness, stranger, "copy", {"product_id": scraped["id"]})
        assert_refused(named, 422, "invalid_request", "product_id")
        assert (await actor_harness.ask(stranger, "GET", "/api/products")).json()["items"] == []


async def test_products_are_listed_page_by_page(actor_harness: ActorHarness, ann: Person) -> None:
    made = [
        (await generate(actor_harness, ann, "scrape", {"url": "https://shop.example/lamp"})).json()["id"] for _ in "abc"
    ]
    first = (await actor_harness.ask(ann, "GET", "/api/products?limit=2")).json()
    second = (await actor_harness.ask(ann, "GET", f"/api/products?limit=2&cursor={first['next_cursor']}")).json()
    assert [each["id"] for each in (*first["items"], *second["items"])] == made[::-1]
    assert second["next_cursor"] is None


class Closed(EveryProvider):
    """A gate whose provider was paused by another process a moment ago."""

    def concerns(self, provider: str) -> bool:
        return True

    async def admit(self, lease: Lease) -> CallbackAddress | None:
        raise ProviderPaused(lease.provider)


async def test_a_paused_provider_is_not_called_and_the_job_stays_queued(
    actor_harness: ActorHarness, ann: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = actor_harness.plane.rooms.tasks.synchronous
    echo = actor_harness.actors["copy"]
    echo.gate.clear()
    monkeypatch.setattr(at_once, "_gate", Closed())
    monkeypatch.setattr(at_once, "wait_seconds", 0.1)
    job = (await generate(actor_harness, ann, "copy", {"product": LAMP})).json()
    assert (await steps(actor_harness, ann, job))[:3] == [*AT_ONCE, "processing>queued"]
    # The control plane's own worker takes it then like any other task, with its attempt.
    echo.gate.set()
    [task] = (await actor_harness.ask(ann, "GET", "/api/task")).json()["items"]
    assert (await actor_harness.ended(ann, task))["result"]["data"] == {"copy": "Buy Lamp!"}
    assert echo.tasks[0].attempt == 1
