"""Prices of effects by formula: checked when they are saved, and fixed for a job when it is submitted."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import PRIMARY, PROMPT, STRENGTH, STYLE, TILED, CatalogApi, overlay
from tests.support.http.responses import assert_refused


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


async def measured(
    plane: ControlPlane, person: Person, file_id: str, *, status: str = "ready", seconds: float | None = None
) -> None:
    """Writes what the loop of the previews would measure."""
    pool = await plane.databases.pool(person.tenant.pool)
    size = 1000 if status == "ready" else None
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO file_previews (tenant_id, file_id, kind, status, width, height, duration_seconds, due_at) "
            "VALUES ($1, $2::text::uuid, 'video', $3, $4, $4, $5, NULL) "
            "ON CONFLICT (tenant_id, file_id) DO UPDATE SET status = $3, width = $4, height = $4, "
            "duration_seconds = $5, due_at = NULL",
            person.tenant.id,
            file_id,
            status,
            size,
            seconds,
        )


async def balance(catalog_api: CatalogApi, person: Person) -> int:
    return int((await catalog_api.shown(person, "/api/wallet"))["balance"])


def refused(response: httpx.Response, field: str, reason: str | None = None) -> None:
    problem = assert_refused(response, 422, "invalid_request", field)
    assert reason is None or problem["errors"][0]["reason"] == reason


async def changed(catalog_api: CatalogApi, effect: dict[str, Any], **changes: Any) -> httpx.Response:
    return await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", changes)


async def test_a_job_costs_what_its_values_cost_when_it_was_submitted(catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect(price_formula='strength * 2 + style["noir": 1, else: 5]')
    assert (effect["credits_cost"], effect["price_formula"]) == (1, 'strength * 2 + style["noir": 1, else: 5]')
    ann = await catalog_api.person(tokens=100)
    shown = await catalog_api.shown(ann, f"/api/effects/{effect['slug']}")
    assert (shown["credits_cost"], shown["price_formula"]) == (1, effect["price_formula"])

    file_id = await catalog_api.file(ann)
    values = {"prompt": "a cat", "strength": 2.5, "style": "pastel"}
    job = await catalog_api.submit(ann, effect, input_file_id=file_id, input_payload=values)
    assert (job["cost"], await balance(catalog_api, ann)) == (10, 90)
    # A default counts like a value that was sent.
    assert (await catalog_api.submit(ann, effect, input_file_id=file_id))["cost"] == 16
    assert await balance(catalog_api, ann) == 74

    assert (await changed(catalog_api, effect, price_formula="50")).json()["credits_cost"] == 50
    canceled = await catalog_api.call("POST", f"/api/ai-jobs/{job['id']}/cancel", person=ann)
    assert (canceled.json()["cost"], await balance(catalog_api, ann)) == (10, 84)
    ledger = (await catalog_api.shown(ann, "/api/wallet/transactions"))["items"]
    assert sum(each["amount"] for each in ledger) == 84
    assert [each["amount"] for each in ledger if each["job_id"] == job["id"]] == [10, -10]


async def test_a_formula_that_leaves_a_price_open_is_refused_by_its_field(catalog_api: CatalogApi) -> None:
    effect = await catalog_api.effect(credits_cost=7)
    for formula, reason in {
        "seed / strength": "The formula could divide by 0. Use max(1, …) around the divisor, or set a minimum of the "
        "property.",
        'style["noir": 1]': 'There is no price for style = "pastel". Add a case, or else.',
        "1 - strength": "The price could be as low as -9. A price is never negative: use max(0, …) around it, or set "
        "limits of the properties.",
        "overlay.megapixels": "overlay.megapixels is not known for every job: only files that users must send are "
        "measured, and overlay has a default or cannot be set by users.",
    }.items():
        refused(await changed(catalog_api, effect, price_formula=formula), "price_formula", reason)
    both = {"price_formula": "3", "credits_cost": 3}
    refused(await changed(catalog_api, effect, **both), "credits_cost")
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["credits_cost"] == 7

    assert (await changed(catalog_api, effect, price_formula="3")).json()["credits_cost"] == 3
    refused(await changed(catalog_api, effect, price_formula=""), "credits_cost")
    refused(await changed(catalog_api, effect, credits_cost=4), "credits_cost")
    fixed = (await changed(catalog_api, effect, price_formula="", credits_cost=4)).json()
    assert (fixed["credits_cost"], fixed["price_formula"]) == (4, "")


async def test_a_workflow_keeps_what_the_prices_of_its_effects_need(catalog_api: CatalogApi) -> None:
    workflow = await catalog_api.workflow()
    effect = await catalog_api.effect(
        workflow["slug"], price_formula='strength + style["noir": 1, "pastel": 2, else: 3]'
    )
    path = f"/api/admin/workflows/{workflow['slug']}"

    def with_changes(*each: dict[str, Any]) -> dict[str, Any]:
        seed = next(each for each in workflow["properties"] if each["key"] == "seed")
        return {"properties": [PRIMARY, PROMPT, seed, TILED, overlay(catalog_api.asset), *each]}

    unlimited = STRENGTH | {"limits": {"min": 0}}
    response = await catalog_api.call("PATCH", path, with_changes(STYLE, unlimited))
    refused(response, "properties")
    assert f"The effect '{effect['slug']}' would no longer fit. Its price_formula: The price could" in response.text
    renamed = STYLE | {"limits": {"choices": ["noir", "colour"]}}
    response = await catalog_api.call("PATCH", path, with_changes(renamed, STRENGTH))
    refused(response, "properties")

    raised = STRENGTH | {"limits": {"min": 5, "max": 10}}
    assert (await catalog_api.call("PATCH", path, with_changes(STYLE, raised))).status_code == 200
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["credits_cost"] == 6


async def test_the_seconds_of_a_video_are_those_that_the_control_plane_measured(
    plane: ControlPlane, catalog_api: CatalogApi
) -> None:
    effect = await catalog_api.effect(price_formula="2 * ceil(input.seconds) + ceil(input.megapixels)")
    # This control plane makes no previews.
    [warning] = effect["warnings"]
    assert warning.startswith("Files of the type video are not measured here, so every job of this effect is refused")
    ann = await catalog_api.person(tokens=100)
    file_id = await catalog_api.file(ann)

    await measured(plane, ann, file_id, status="none")
    reason = "The price depends on the seconds of this file, which are not known. Send another file."
    refused(await catalog_api.try_submit(ann, effect, input_file_id=file_id), "input_file_id", reason)
    assert await balance(catalog_api, ann) == 100

    await measured(plane, ann, file_id, seconds=12.3456)
    job = await catalog_api.submit(ann, effect, input_file_id=file_id)
    assert (job["cost"], await balance(catalog_api, ann)) == (27, 73)
