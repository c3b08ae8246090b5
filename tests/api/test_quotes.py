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
from tests.support.pipelines.pipeline_harness import BASE, FIX

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
    assert quote["missing"][0]["message"] == "The job costs 30 tokens, and the wallet of the user has 0."
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
    wrong = {"batch": {"effect_id": "x", "items": [{"inputFileId": "x"}]}}
    response = await catalog_api.call("POST", "/api/quotes", wrong, person=ann)
    problem = assert_refused(response, 422, "invalid_request", "batch.items.0.inputFileId")
    assert problem["errors"][0]["reason"] == "This request has no such field. Did you mean 'input_file_id'?"


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


def random_batch(draw: random.Random, file_id: str) -> dict[str, Any]:
    """Items or a grid, of files and random values."""
    strengths = [draw.randint(0, 20) / 2 for _ in range(draw.randint(1, 3))]
    prompts = ["x" * draw.randint(1, 60) for _ in strengths]
    if draw.random() < 0.5:
        values = {"strength": strengths, "prompt": prompts, "tiled": [True, False]}
        return {"grid": {"input_file_ids": [file_id], "values": values}}
    items = [
        {"input_file_id": file_id, "input_payload": {"strength": strength, "prompt": prompt}}
        for strength, prompt in zip(strengths, prompts, strict=True)
    ]
    return {"items": items, "input_payload": {"style": draw.choice(["noir", "pastel"])}}


async def test_a_quote_of_a_batch_is_what_the_submit_holds_for_random_items(
    plane: ControlPlane, catalog_api: CatalogApi
) -> None:
    effect = await catalog_api.effect(price_formula=FORMULA)
    ann, draw = await catalog_api.person(tokens=100_000), random.Random(11)
    file_id, totals = await catalog_api.file(ann), set()
    for _ in range(6):
        body = {"effect_id": effect["slug"], **random_batch(draw, file_id)}
        before = await rows_of(plane, ann)
        quote = await quoted(catalog_api, ann, batch=body)
        assert await rows_of(plane, ann) == before
        assert missing(quote) == []
        batch = await catalog_api.made("/api/batches", body, person=ann)
        balance = (await catalog_api.shown(ann, "/api/wallet"))["balance"]
        assert (quote["cost"], quote["jobs"]) == (batch["cost"], batch["items"]), body
        assert quote["balance"] - balance == batch["cost"]
        jobs = (await catalog_api.shown(ann, f"/api/ai-jobs?batch_id={batch['id']}&limit=200"))["items"]
        costs = [job["cost"] for job in sorted(jobs, key=lambda job: int(job["batch_item"]))]
        assert (quote["prices"]["lowest"], quote["prices"]["highest"]) == (min(costs), max(costs))
        if (each := quote["prices"]["each"]) is not None:
            found = [{"cost": c, "items": costs.count(c), "first_item": costs.index(c) + 1} for c in sorted({*costs})]
            assert each == found
        totals.add(batch["cost"])
        await catalog_api.call("POST", f"/api/batches/{batch['id']}/cancel", person=ann)
    assert len(totals) > 3


@pytest.mark.parametrize(
    ("body", "cost", "jobs"),
    [
        ({}, None, None),
        ({"grid": {"values": {"strength": [1] * 40, "style": ["noir"] * 26}}}, None, None),
        ({"items": [{}], "effect_id": "nothing"}, None, None),
        ({"items": [{}], "priority": 5}, None, None),
        ({"items": [{"input_payload": {"strength": 3}}, {"input_payload": {"strength": 99}}]}, None, 2),
        ({"items": [{"input_payload": {"strength": 3}}, {"input_payload": {"strength": 4}}]}, 14, 2),
        ({"items": [{"input_payload": {"seed": 1}}], "webhook_url": "https://shop.example/none"}, 15, 1),
        ({"grid": {"values": {"strength": [1, 99], "style": ["noir", "pastel"]}}}, None, 4),
    ],
)
async def test_what_a_batch_lacks_is_quoted_as_the_submit_refuses_it(
    catalog_api: CatalogApi, body: dict[str, Any], cost: int | None, jobs: int | None
) -> None:
    effect = await catalog_api.effect(price_formula="strength * 2")
    ann = await catalog_api.person(tokens=1000)
    request = {"effect_id": effect["slug"], "input_payload": {"prompt": "a cat"}, **body}
    quote = await quoted(catalog_api, ann, batch=request)
    refused = (await catalog_api.call("POST", "/api/batches", request, person=ann)).json()
    assert (quote["cost"], quote["jobs"], quote["can_submit"]) == (cost, jobs, False)
    named = [(each["field"], each["message"]) for each in quote["missing"] if each["code"] == refused["code"]]
    assert named[: len(refused["errors"])] == [(each["field"], each["reason"]) for each in refused["errors"]]


async def test_a_quote_of_a_batch_names_the_item_once_and_every_limit(
    plane: ControlPlane, catalog_api: CatalogApi
) -> None:
    effect = await catalog_api.effect(credits_cost=30)
    ann = await catalog_api.person(tokens=100)
    file_id = await catalog_api.file(ann)
    grid = {"input_file_ids": [file_id], "values": {"strength": [1, 99], "style": ["noir", "pastel"]}}
    body = {"effect_id": effect["slug"], "input_payload": {"prompt": "a cat"}, "grid": grid}
    quote = await quoted(catalog_api, ann, batch=body)
    assert [(each["code"], each["field"], each["item"]) for each in quote["missing"]] == [
        ("invalid_request", "grid.values.strength.1", 3),
        ("insufficient_tokens", None, None),
    ]
    assert quote["missing"][1]["message"] == "The batch costs 120 tokens, and the wallet of the user has 100."
    assert quote["prices"] == {"lowest": 30, "highest": 30, "each": [{"cost": 30, "items": 4, "first_item": 1}]}
    limits = {each["code"]: (each["used"], each["limit"]) for each in quote["limits"]}
    assert limits["active_jobs"] == (0, plane.settings.jobs.batch_jobs_per_user)
    assert limits["batches_per_minute"] == (None, plane.settings.jobs.batches_per_minute)
    assert quote["wait"]["code"] == "no_live_worker"
    many = {**body, "grid": None, "items": [{"input_payload": {"strength": 99}}] * 150}
    quote = await quoted(catalog_api, ann, batch=many)
    assert (len(quote["missing"]), quote["not_listed"]) == (100, 201)
    assert [each["item"] for each in quote["missing"][:4]] == [1, 1, 2, 2]


async def image_workflow(catalog_api: CatalogApi, graph: dict[str, Any], cost: int) -> str:
    image = {"output_extension": "png", "output_mime_type": "image/png", "properties": []}
    made = await catalog_api.workflow(graph=graph, **image)
    await catalog_api.effect(made["slug"], credits_cost=cost)
    return str(made["slug"])


async def test_a_run_is_quoted_by_its_steps_within_its_budget(plane: ControlPlane, catalog_api: CatalogApi) -> None:
    base, fix = [await image_workflow(catalog_api, graph, cost) for graph, cost in ((BASE, 3), (FIX, 5))]
    ann = await catalog_api.person(tokens=0)
    steps = [
        {"name": "Base", "workflow": base, "needs_run_prompt": True, "max_children": 4},
        {"name": "Fix", "workflow": fix, "needs_parent_image_path": True},
    ]
    pipeline = await catalog_api.made("/api/pipelines", {"slug": "p", "name": "P", "steps": steps}, person=ann)
    body = {"name": "A run", "budget": 1000, "prompt": "a gym", "target_leaves": 8}
    before = await rows_of(plane, ann)
    quote = await quoted(catalog_api, ann, run={**body, "pipeline": "p"})
    assert await rows_of(plane, ann) == before
    assert [(each["slug"], each["cost"], each["candidates"]) for each in quote["steps"]] == [
        ("base", 3, 2),
        ("fix", 5, 8),
    ]
    assert (quote["cost"], quote["jobs"], missing(quote)) == (2 * 3 + 8 * 5, 10, [])
    assert (quote["limits"][0]["code"], quote["limits"][0]["used"]) == ("active_runs", 0)
    assert quote["wait"]["code"] == "no_live_worker"
    assert (await quoted(catalog_api, ann, run={**body, "pipeline": "p", "budget": 20}))["cost"] == 20
    for wrong in ({"prompt": None}, {"variables": {"color": "red"}}, {"concurrency": 1000}):
        quote = await quoted(catalog_api, ann, run={**body, **wrong, "pipeline": "p"})
        refused = (
            await catalog_api.call("POST", f"/api/pipelines/{pipeline['id']}/runs", {**body, **wrong}, person=ann)
        ).json()
        assert missing(quote) == [(refused["code"], each["field"]) for each in refused["errors"]]
    taken = {**body, "target_folder": "mine"}
    await catalog_api.made("/api/pipelines/p/runs", taken, person=ann)
    quote = await quoted(catalog_api, ann, run={**taken, "pipeline": "p"})
    assert (missing(quote), quote["limits"][0]["used"]) == ([("conflict", "target_folder")], 1)
    bob = await catalog_api.person("pool_2")
    for name in ("p", pipeline["id"]):
        quote = await quoted(catalog_api, bob, run={**body, "pipeline": name})
        assert (quote["cost"], quote["jobs"], missing(quote)) == (None, None, [("not_found", "pipeline")])
