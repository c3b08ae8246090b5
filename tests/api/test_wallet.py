"""`/api/wallet`: the balance, the tokens that active jobs hold, and a readable history."""

from __future__ import annotations

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from tests.support.http.accounts import People
from tests.support.http.catalog_api import CatalogApi


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


async def test_each_hold_names_its_job_and_ends_with_the_job(catalog_api: CatalogApi) -> None:
    ann, bob = await catalog_api.person(tokens=100), await catalog_api.person(tokens=100)
    effect = await catalog_api.effect(name="Claymation", credits_cost=7)
    file_id = await catalog_api.file(ann, name="fox.mp4")
    first, second = [await catalog_api.submit(ann, effect, input_file_id=file_id) for _ in range(2)]
    assert await catalog_api.shown(ann, "/api/wallet") == {"balance": 86, "held": 14, "paid_by": "user"}
    page = await catalog_api.shown(ann, "/api/wallet/holds?limit=1")
    [hold] = page["items"]
    assert (hold["job_id"], hold["amount"], hold["title"], hold["input_name"], hold["status"]) == (
        *(second["id"], 7, "Claymation", "fox.mp4", "queued"),
    )
    [older] = (await catalog_api.shown(ann, f"/api/wallet/holds?limit=1&cursor={page['next_cursor']}"))["items"]
    assert older["job_id"] == first["id"]
    assert (await catalog_api.shown(bob, "/api/wallet/holds"))["items"] == []
    await catalog_api.call("POST", f"/api/ai-jobs/{second['id']}/cancel", person=ann)
    assert await catalog_api.shown(ann, "/api/wallet") == {"balance": 93, "held": 7, "paid_by": "user"}
    assert len((await catalog_api.shown(ann, "/api/wallet/holds"))["items"]) == 1
    lines = (await catalog_api.shown(ann, "/api/wallet/transactions"))["items"]
    assert [(line["amount"], line["reason"]) for line in lines] == [
        (7, "Refund for Claymation, fox.mp4: the job was canceled."),
        (-7, "Held for Claymation, fox.mp4."),
        (-7, "Held for Claymation, fox.mp4."),
        (100, "Tokens were added."),
    ]
    assert (await catalog_api.call("DELETE", f"/api/ai-jobs/{second['id']}", person=ann)).status_code == 204
    newest = (await catalog_api.shown(ann, "/api/wallet/transactions?limit=1"))["items"][0]
    assert (newest["title"], newest["reason"]) == (None, "Refund for a job: the job was canceled.")
    operators = await catalog_api.shown(catalog_api.admin, f"/api/admin/users/{ann.user.id}/wallet")
    assert operators == {"balance": 93, "held": 7, "paid_by": "user"}
