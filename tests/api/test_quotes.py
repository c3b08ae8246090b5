"""`POST /api/quotes`: what a submit would hold and what would refuse it. A quote never differs from the submit."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person
from tests.support.http.actor_harness import ActorHarness
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.responses import assert_refused

LAMP = {"title": "Desk lamp", "description": "Warm light"}
FORMULA = (
    '(strength + 1) * style["noir": 1, "pastel": 2.5, else: 4] / 3 + ceil(prompt.length / 4) + tiled[true: 7, false: 0]'
    " + strength[<=2: 0, <=7.5: 1, else: max(2, strength / 2)]"
)


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


async def quoted(catalog_api: CatalogApi, person: Person, **body: Any) -> dict[str, Any]:
    response = await catalog_api.call("POST", "/api/quotes", body, person=person)
    assert response.status_code == 200, response.text
    quote: dict[str, Any] = response.json()
    return quote


async def rows_of(plane: ControlPlane, person: Person) -> list[tuple[str, str]]:
    """Every row of the tenant that a submit writes, with the transaction that wrote it."""
    pool, found = await plane.databases.pool(person.tenant.pool), []
    async with pool.connection() as connection:
        for table in ("ai_jobs", "outbox", "token_wallets", "token_transactions", "job_events", "files"):
            rows = await connection.fetch(f"SELECT xmin::text FROM {table} WHERE tenant_id = $1", person.tenant.id)
            found += [(table, row["xmin"]) for row in rows]
    return found


def missing(quote: dict[str, Any]) -> list[tuple[str, str | None]]:
    assert quote["can_submit"] is (not quote["missing"])
    return [(each["code"], each["field"]) for each in quote["missing"]]


async def test_a_quote_is_what_the_submit_holds_for_random_values(catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect(price_formula=FORMULA)
    ann, draw = await catalog_api.person(tokens=100_000), random.Random(7)
    file_id, costs = await catalog_api.file(ann), set()
    for _ in range(20):
        values = {"prompt": "x" * draw.randint(1, 60)}
        if draw.random() < 0.8:
            values |= {"strength": draw.randint(0, 20) / 2, "style": draw.choice(["noir", "pastel", "1920s"])}
        if draw.random() < 0.5:
            values["tiled"] = draw.random() < 0.5
        body = {"effect_id": effect["slug"], "input_file_id": file_id, "input_payload": values}
        quote = await quoted(catalog_api, ann, effect=body)
        assert missing(quote) == []
        job = await catalog_api.made("/api/ai-jobs", body, person=ann)
        balance = (await catalog_api.shown(ann, "/api/wallet"))["balance"]
        assert (quote["cost"], quote["balance"] - balance) == (job["cost"], job["cost"]), values
        costs.add(job["cost"])
        await catalog_api.call("POST", f"/api/ai-jobs/{job['id']}/cancel", person=ann)
    assert len(costs) > 5


async def test_a_quote_writes_nothing_and_has_wait_and_limits(plane: ControlPlane, catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect(credits_cost=30)
    ann = await catalog_api.person(tokens=0)
    file_id = await catalog_api.file(ann)
    body = {"effect_id": effect["slug"], "input_file_id": file_id, "input_payload": {"prompt": "a cat"}}
    before = await rows_of(plane, ann)
    quote = await quoted(catalog_api, ann, effect=body)
    assert await rows_of(plane, ann) == before
    assert (quote["cost"], quote["balance"], missing(quote)) == (30, 0, [("insufficient_tokens", None)])
    assert quote["missing"][0]["message"] == "The job costs 30 tokens, and the wallet has 0."
    assert (quote["wait"]["code"], quote["wait"]["message"]) == (
        "no_live_worker",
        "No worker that can run this job is online.",
    )
    limits = {each["code"]: (each["used"], each["limit"]) for each in quote["limits"]}
    assert limits["active_jobs"] == (0, plane.settings.jobs.active_per_user)
    assert limits["user_storage_files"][0] == 1
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["has_jobs"] is False


async def test_a_price_is_shown_while_the_form_is_not_complete(catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect(price_formula="strength * 2")
    ann = await catalog_api.person(tokens=5)
    quote = await quoted(catalog_api, ann, effect={"effect_id": effect["slug"], "input_payload": {"strength": 4}})
    found = [("invalid_request", "input_payload.prompt"), ("invalid_request", "input_file_id")]
    assert (quote["cost"], missing(quote)) == (8, found)
    wrong = {"effect_id": effect["slug"], "input_payload": {"strength": 11, "prompt": "a cat"}}
    quote = await quoted(catalog_api, ann, effect=wrong)
    assert (quote["cost"], missing(quote)[0]) == (None, ("invalid_request", "input_payload.strength"))
    assert quote["wait"] is not None
    unknown = {**wrong, "webhook_url": "https://shop.example/of-no-endpoint"}
    assert ("invalid_request", "webhook_url") in missing(await quoted(catalog_api, ann, effect=unknown))
    quote = await quoted(catalog_api, ann, effect={"effect_id": "no-such-effect"})
    assert (quote["cost"], quote["wait"], missing(quote)) == (None, None, [("not_found", "effect_id")])


async def test_a_file_of_another_tenant_is_as_missing_as_one_that_does_not_exist(catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect(price_formula="ceil(input.seconds)")
    ann, bob = await catalog_api.person(), await catalog_api.person("pool_2")
    quotes = []
    for file_id in (await catalog_api.file(bob), "0190a5c0-7b1c-7c3e-8d2f-5e6a7b8c9d0e"):
        body = {"effect_id": effect["slug"], "input_file_id": file_id, "input_payload": {"prompt": "a cat"}}
        quotes.append(await quoted(catalog_api, ann, effect=body))
        body = {**body, "input_file_id": None, "video_id": file_id}
        assert missing(await quoted(catalog_api, ann, effect=body))[0] == ("invalid_request", "video_id")
    assert quotes[0] == quotes[1]
    assert (quotes[0]["cost"], missing(quotes[0])) == (None, [("invalid_request", "input_file_id")])


async def test_exactly_one_submit_is_quoted(catalog_api: CatalogApi) -> None:
    ann = await catalog_api.person()
    for body, field in (
        ({}, "effect"),
        ({"task": {"actor": "echo"}, "generate_copy": {"product": LAMP}}, "generate_copy"),
    ):
        response = await catalog_api.call("POST", "/api/quotes", body, person=ann)
        assert_refused(response, 422, "invalid_request", field)
    wrong = {"effect": {"effect_id": "x", "surprise": 1}}
    response = await catalog_api.call("POST", "/api/quotes", wrong, person=ann)
    assert_refused(response, 422, "invalid_request", "effect.surprise")


async def test_tasks_and_typed_jobs_are_quoted_like_they_are_submitted(actor_harness: ActorHarness) -> None:
    ann = await actor_harness.person(tokens=100)
    for name, path, body in (
        ("task", "/api/task", {"actor": "echo", "payload": {"text": "hello"}}),
        ("generate_static_ad", "/api/generate/static-ad", {"product": LAMP}),
        ("generate_tts", "/api/generate/tts", {"text": "Buy this lamp"}),
    ):
        quote = (await actor_harness.ask(ann, "POST", "/api/quotes", {name: body})).json()
        assert (quote["missing"], quote["can_submit"]) == ([], True), name
        submitted = (await actor_harness.ask(ann, "POST", path, body)).json()
        assert quote["cost"] == submitted["cost"], name
    wrong = {"actor": "echo", "queue_name": "no-such-queue"}
    quote = (await actor_harness.ask(ann, "POST", "/api/quotes", {"task": wrong})).json()
    assert (quote["cost"], [each["field"] for each in quote["missing"]]) == (None, ["queue_name"])
