"""Effects in the gallery: previews before and after, and the expected wait of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.catalog import effect_previews
from callsheet.media.previews.sandbox import Effort
from callsheet.plumbing.failpoints import Failpoint
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.http.media_api import CLIP, MediaApi
from tests.support.http.responses import assert_refused
from tests.support.http.worker_harness import WorkerHarness
from tests.support.jobs.crashes import crashed_at
from tests.support.media.previews import clip, image, opened
from tests.support.media.sounds import sound


@pytest.fixture
async def catalog_api(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> CatalogApi:
    return await CatalogApi.open(plane, client, people)


@pytest.fixture
async def ann(catalog_api: CatalogApi) -> Person:
    return await catalog_api.person()


@pytest.fixture
async def operators(plane: ControlPlane, catalog_api: CatalogApi) -> AsyncIterator[MediaApi]:
    """The operator's own jobs."""
    credit = {"amount": 100, "provider_transaction_id": f"previews-{catalog_api.admin.user.id}"}
    await catalog_api.call("POST", f"/api/admin/users/{catalog_api.admin.user.id}/credits", credit)
    async with MediaApi.opened(plane) as media:
        yield MediaApi(media.jobs_api, plane, catalog_api.admin)


def path_of(effect: dict[str, Any]) -> str:
    return f"/api/admin/effects/{effect['slug']}/preview"


async def objects(plane: ControlPlane, effect: dict[str, Any]) -> set[str]:
    return {entry.key async for entry in plane.rooms.storage.list(f"catalog/effects/{effect['id']}")}


@pytest.mark.thorough
async def test_a_job_of_an_operator_becomes_the_preview_and_may_be_deleted(
    catalog_api: CatalogApi, operators: MediaApi, ann: Person, tmp_path: Path
) -> None:
    effect = await catalog_api.effect(category="Color")
    video = await operators.video(clip(tmp_path / "before.mp4", 24, width=320, height=240))
    await operators.run(video, clip(tmp_path / "after.mp4", 24, width=1000, height=750))
    [job] = (await operators.ask("GET", "/api/ai-jobs")).json()["items"]
    response = await catalog_api.call("PUT", path_of(effect), {"job_id": job["id"]})
    assert response.status_code == 200, response.text
    assert (await operators.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204

    shown = await catalog_api.shown(ann, f"/api/effects/{effect['slug']}")
    assert (shown["category"], shown["output"]) == ("Color", {"type": "video", "mime_type": "video/mp4"})
    before, after = shown["preview"]["before"], shown["preview"]["after"]
    assert (before["width"], after["width"], after["duration_seconds"]) == (320, 1000, 2.0)
    for url in (before["preview_url"], after["preview_url"], after["poster_url"], after["thumbnails"]["small"]):
        assert (await catalog_api.client.get(url)).status_code == 200
    poster = await catalog_api.client.get(after["poster_url"])
    assert opened(poster.content).size == (1000, 750)
    assert "immutable" in poster.headers["cache-control"]
    listed = (await catalog_api.client.get("/api/effects?category=Color", headers=ann.headers)).json()["items"]
    assert [each["preview"] for each in listed if each["slug"] == effect["slug"]] == [shown["preview"]]
    others = (await catalog_api.client.get("/api/effects?category=Sound", headers=ann.headers)).json()["items"]
    assert others == []


async def test_assets_become_the_preview_and_another_one_replaces_it(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    effect = await catalog_api.effect()
    first, second = await catalog_api.add_asset(image(50, 40)), await catalog_api.add_asset(image(60, 30))
    body = {"after_asset_id": first, "before_asset_id": second}
    made = (await catalog_api.call("PUT", path_of(effect), body)).json()
    assert (made["after"]["width"], made["before"]["width"], made["after"]["preview_url"]) == (50, 60, None)
    kept = await objects(plane, effect)
    assert len(kept) == 4
    again = (await catalog_api.call("PUT", path_of(effect), {"after_asset_id": second})).json()
    assert (again["after"]["width"], again["before"]) == (60, None)
    assert len(await objects(plane, effect)) == 2
    assert not kept & await objects(plane, effect)
    assert (await catalog_api.client.get(made["after"]["thumbnails"]["small"])).status_code == 404
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["preview"] == again
    # A change of something else leaves it alone.
    renamed = await catalog_api.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"name": "Other"})
    assert renamed.json()["preview"] == again

    assert (await catalog_api.call("DELETE", path_of(effect))).status_code == 204
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["preview"] is None
    assert await objects(plane, effect) == set()


async def test_the_preview_of_an_effect_on_sound_shows_its_waveform(
    catalog_api: CatalogApi, plane: ControlPlane
) -> None:
    effect = await catalog_api.effect()
    asset = await catalog_api.add_asset(sound("ogg", 2.0), "audio/ogg")
    made = (await catalog_api.call("PUT", path_of(effect), {"after_asset_id": asset})).json()["after"]
    assert (made["width"], made["preview_url"]) == (None, None)
    assert made["duration_seconds"] == pytest.approx(2.0, abs=0.1)
    assert made["poster_url"] == made["thumbnails"]["large"]
    assert opened((await catalog_api.client.get(made["poster_url"])).content).size == (1200, 400)
    assert len(await objects(plane, effect)) == 2


async def test_a_deleted_effect_leaves_no_preview(catalog_api: CatalogApi, plane: ControlPlane) -> None:
    effect = await catalog_api.effect()
    await catalog_api.call("PUT", path_of(effect), {"after_asset_id": await catalog_api.add_asset(image(50, 40))})
    assert (await catalog_api.call("DELETE", f"/api/admin/effects/{effect['slug']}")).status_code == 204
    assert await objects(plane, effect) == set()


async def test_a_crash_before_the_row_is_written_keeps_the_previous_preview(
    catalog_api: CatalogApi, plane: ControlPlane, tmp_path: Path
) -> None:
    from callsheet.catalog.effect_previews import stored_example

    effect = await catalog_api.effect()
    first = await catalog_api.add_asset(image(50, 40))
    made = (await catalog_api.call("PUT", path_of(effect), {"after_asset_id": first})).json()
    asset = await plane.rooms.catalog.assets.ready(UUID(first))
    assert asset is not None
    example = stored_example(plane.rooms.storage, "x", asset.path, asset.mime_type, asset.size)
    setting = plane.rooms.catalog.effect_previews.set(effect["slug"], None, example, "operator")
    assert await crashed_at(Failpoint.CATALOG_BEFORE_ROW, setting)
    assert (await catalog_api.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["preview"] == made
    assert (await catalog_api.client.get(made["after"]["thumbnails"]["small"])).status_code == 200


async def test_a_job_or_asset_that_cannot_be_a_preview_is_refused_by_its_field(
    catalog_api: CatalogApi, operators: MediaApi, ann: Person
) -> None:
    effect = await catalog_api.effect()
    asset, broken = catalog_api.asset, await catalog_api.add_asset()
    unready = (await catalog_api.made("/api/admin/assets", {"name": "a", "mime_type": "image/png", "size": 1}))["asset"]
    of_ann = await catalog_api.submit(ann, await catalog_api.effect(), input_file_id=await catalog_api.file(ann))
    video = await operators.video()
    waiting = await operators.submit(video)
    nobody = "01900000-0000-7000-8000-000000000000"
    for body, field in (
        ({}, "job_id"),
        ({"job_id": nobody, "after_asset_id": asset}, "job_id"),
        ({"job_id": nobody, "before_asset_id": asset}, "before_asset_id"),
        ({"job_id": nobody}, "job_id"),
        # An admin cannot publish another user's media by mistake.
        ({"job_id": of_ann["id"]}, "job_id"),
        ({"job_id": str(waiting)}, "job_id"),
        ({"after_asset_id": nobody}, "after_asset_id"),
        ({"after_asset_id": unready["id"]}, "after_asset_id"),
        ({"after_asset_id": broken}, "after_asset_id"),
        ({"after_asset_id": asset, "before_asset_id": nobody}, "before_asset_id"),
    ):
        response = await catalog_api.call("PUT", path_of(effect), body)
        assert_refused(response, 422, "invalid_request", field)
    good = await catalog_api.add_asset(image(50, 40))
    assert_refused(
        await catalog_api.call("PUT", "/api/admin/effects/none/preview", {"after_asset_id": good}), 404, "not_found"
    )
    assert_refused(await catalog_api.call("DELETE", "/api/admin/effects/none/preview"), 404, "not_found")


async def test_a_job_without_an_image_or_video_as_its_result_cannot_be_a_preview(
    catalog_api: CatalogApi, operators: MediaApi
) -> None:
    await operators.run(await operators.video(), CLIP)
    [job] = [each for each in (await operators.ask("GET", "/api/ai-jobs")).json()["items"] if each["outputs"]]
    response = await catalog_api.call("PUT", path_of(await catalog_api.effect()), {"job_id": job["id"]})
    assert_refused(response, 422, "invalid_request", "job_id")
    assert "cannot be shown" in response.text


async def test_a_busy_machine_returns_503_and_does_not_reject_the_file(
    catalog_api: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect, good = await catalog_api.effect(), await catalog_api.add_asset(image(50, 40))
    with monkeypatch.context() as busy:
        busy.setattr(effect_previews, "AWAITED", Effort(seconds=0))
        response = await catalog_api.call("PUT", path_of(effect), {"after_asset_id": good})
    assert_refused(response, 503, "unavailable")
    assert response.headers["retry-after"]
    assert (await catalog_api.call("PUT", path_of(effect), {"after_asset_id": good})).status_code == 200


async def wait_of(
    worker_harness: WorkerHarness, catalog_api: CatalogApi, effect: dict[str, Any], person: Person
) -> dict[str, Any]:
    [listed] = [
        each
        for each in (await catalog_api.client.get("/api/effects?limit=200", headers=person.headers)).json()["items"]
        if each["slug"] == effect["slug"]
    ]
    assert (await catalog_api.shown(person, f"/api/effects/{effect['slug']}"))["wait"] == listed["wait"]
    wait: dict[str, Any] = listed["wait"]
    return wait


async def test_an_effect_shows_the_expected_wait_of_a_new_job(
    worker_harness: WorkerHarness, catalog_api: CatalogApi, ann: Person
) -> None:
    made = await catalog_api.workflow()
    effect = await catalog_api.effect(made["slug"])
    nobody = await wait_of(worker_harness, catalog_api, effect, ann)
    assert (nobody["code"], nobody["wait_seconds"]) == ("no_live_worker", None)
    assert nobody["message"] == "No worker that can run this effect is online."

    timings = "INSERT INTO workflow_timings (workflow_id, average_seconds, samples) VALUES ($1, 60, 9)"
    await worker_harness.central(timings, made["id"])
    worker = await worker_harness.worker(workflow_slugs=[made["slug"]])
    free = await wait_of(worker_harness, catalog_api, effect, ann)
    assert (free["code"], free["wait_seconds"], free["run_seconds"]) == ("ready", 0, 60)

    jobs = [await catalog_api.submit(ann, effect, input_file_id=await catalog_api.file(ann)) for _ in range(3)]
    assert (await worker.job())["job_id"] == jobs[0]["id"]
    waiting = await wait_of(worker_harness, catalog_api, effect, ann)
    assert waiting == {
        "code": "queue",
        "message": "2 jobs are ahead; it starts in about 3 minutes.",
        "wait_seconds": 180,
        "run_seconds": 60,
    }
    # Who has nothing in the queue waits for one job of each other user, not for all of them.
    bob = await catalog_api.person()
    assert (await wait_of(worker_harness, catalog_api, effect, bob))["wait_seconds"] == 120

    await catalog_api.call("POST", f"/api/admin/workflows/{made['slug']}/deactivate")
    off = await wait_of(worker_harness, catalog_api, effect, ann)
    assert (off["code"], off["wait_seconds"]) == ("off", None)


async def test_a_list_of_effects_needs_the_same_number_of_queries_at_any_length(
    catalog_api: CatalogApi, ann: Person, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    from callsheet.plumbing.database.sql import Statement

    statements: list[str] = []
    rows = Statement.rows

    async def counted(self: Statement, *args: Any, **values: Any) -> Any:
        statements.append(self.name)
        return await rows(self, *args, **values)

    for _ in range(3):
        await catalog_api.effect()
    monkeypatch.setattr(Statement, "rows", counted)
    for limit in (1, 3):
        statements.clear()
        items = (await catalog_api.client.get(f"/api/effects?limit={limit}", headers=ann.headers)).json()["items"]
        assert len(items) == limit
        assert [name for name in statements if name in ("list_published", "capacity", "route_loads")] == [
            "list_published",
            "capacity",
            "route_loads",
        ]
