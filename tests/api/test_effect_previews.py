"""What a gallery shows of effects: previews, before and after, and what a job may expect now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app import ControlPlane
from callsheet.catalog import effect_previews
from callsheet.media.previews.sandbox import Effort
from callsheet.plumbing.failpoints import Failpoint
from tests.support.answers import assert_refused
from tests.support.catalog import Studio
from tests.support.crashes import crashed_at
from tests.support.media import CLIP
from tests.support.media import Studio as MediaStudio
from tests.support.people import People, Person
from tests.support.previews import clip, image, opened
from tests.support.worker_harness import WorkerHarness


@pytest.fixture
async def studio(plane: ControlPlane, client: httpx.AsyncClient, people: People) -> Studio:
    return await Studio.open(plane, client, people)


@pytest.fixture
async def ann(studio: Studio) -> Person:
    return await studio.person()


@pytest.fixture
async def operators(plane: ControlPlane, studio: Studio) -> AsyncIterator[MediaStudio]:
    """The operator's own jobs."""
    credit = {"amount": 100, "provider_transaction_id": f"previews-{studio.admin.user.id}"}
    await studio.call("POST", f"/api/admin/users/{studio.admin.user.id}/credits", credit)
    async with MediaStudio.opened(plane) as media:
        yield MediaStudio(media.jobs_api, plane, studio.admin)


def path_of(effect: dict[str, Any]) -> str:
    return f"/api/admin/effects/{effect['slug']}/preview"


async def objects(plane: ControlPlane, effect: dict[str, Any]) -> set[str]:
    return {entry.key async for entry in plane.storage.list(f"catalog/effects/{effect['id']}")}


@pytest.mark.thorough
async def test_a_job_of_the_operators_becomes_the_preview_and_may_be_deleted(
    studio: Studio, operators: MediaStudio, ann: Person, tmp_path: Path
) -> None:
    effect = await studio.effect(category="Color")
    video = await operators.video(clip(tmp_path / "before.mp4", 24, width=320, height=240))
    await operators.run(video, clip(tmp_path / "after.mp4", 24, width=1000, height=750))
    [job] = (await operators.ask("GET", "/api/ai-jobs")).json()["items"]
    answer = await studio.call("PUT", path_of(effect), {"job_id": job["id"]})
    assert answer.status_code == 200, answer.text
    assert (await operators.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204

    shown = await studio.shown(ann, f"/api/effects/{effect['slug']}")
    assert (shown["category"], shown["output"]) == ("Color", {"type": "video", "mime_type": "video/mp4"})
    before, after = shown["preview"]["before"], shown["preview"]["after"]
    assert (before["width"], after["width"], after["duration_seconds"]) == (320, 1000, 2.0)
    for url in (before["preview_url"], after["preview_url"], after["poster_url"], after["thumbnails"]["small"]):
        assert (await studio.client.get(url)).status_code == 200
    poster = await studio.client.get(after["poster_url"])
    assert opened(poster.content).size == (1000, 750)
    assert "immutable" in poster.headers["cache-control"]
    listed = (await studio.client.get("/api/effects?category=Color", headers=ann.headers)).json()["items"]
    assert [each["preview"] for each in listed if each["slug"] == effect["slug"]] == [shown["preview"]]
    others = (await studio.client.get("/api/effects?category=Sound", headers=ann.headers)).json()["items"]
    assert others == []


async def test_assets_become_the_preview_and_another_one_replaces_it(studio: Studio, plane: ControlPlane) -> None:
    effect = await studio.effect()
    first, second = await studio.add_asset(image(50, 40)), await studio.add_asset(image(60, 30))
    body = {"after_asset_id": first, "before_asset_id": second}
    made = (await studio.call("PUT", path_of(effect), body)).json()
    assert (made["after"]["width"], made["before"]["width"], made["after"]["preview_url"]) == (50, 60, None)
    kept = await objects(plane, effect)
    assert len(kept) == 4
    again = (await studio.call("PUT", path_of(effect), {"after_asset_id": second})).json()
    assert (again["after"]["width"], again["before"]) == (60, None)
    assert len(await objects(plane, effect)) == 2
    assert not kept & await objects(plane, effect)
    assert (await studio.client.get(made["after"]["thumbnails"]["small"])).status_code == 404
    assert (await studio.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["preview"] == again
    # A change of something else leaves it alone.
    renamed = await studio.call("PATCH", f"/api/admin/effects/{effect['slug']}", {"name": "Other"})
    assert renamed.json()["preview"] == again

    assert (await studio.call("DELETE", path_of(effect))).status_code == 204
    assert (await studio.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["preview"] is None
    assert await objects(plane, effect) == set()


async def test_a_deleted_effect_leaves_no_preview(studio: Studio, plane: ControlPlane) -> None:
    effect = await studio.effect()
    await studio.call("PUT", path_of(effect), {"after_asset_id": await studio.add_asset(image(50, 40))})
    assert (await studio.call("DELETE", f"/api/admin/effects/{effect['slug']}")).status_code == 204
    assert await objects(plane, effect) == set()


async def test_a_crash_before_the_row_leaves_the_last_preview(
    studio: Studio, plane: ControlPlane, tmp_path: Path
) -> None:
    from callsheet.catalog.effect_previews import stored_example

    effect = await studio.effect()
    first = await studio.add_asset(image(50, 40))
    made = (await studio.call("PUT", path_of(effect), {"after_asset_id": first})).json()
    asset = await plane.catalog.assets.ready(UUID(first))
    assert asset is not None
    example = stored_example(plane.storage, "x", asset.path, asset.mime_type, asset.size)
    setting = plane.catalog.effect_previews.set(effect["slug"], None, example, "operator")
    assert await crashed_at(Failpoint.CATALOG_BEFORE_ROW, setting)
    assert (await studio.call("GET", f"/api/admin/effects/{effect['slug']}")).json()["preview"] == made
    assert (await studio.client.get(made["after"]["thumbnails"]["small"])).status_code == 200


async def test_what_cannot_be_a_preview_is_refused_with_its_field(
    studio: Studio, operators: MediaStudio, ann: Person
) -> None:
    effect = await studio.effect()
    asset, broken = studio.asset, await studio.add_asset()
    unready = (await studio.made("/api/admin/assets", {"name": "a", "mime_type": "image/png", "size": 1}))["asset"]
    of_ann = await studio.submit(ann, await studio.effect(), input_file_id=await studio.file(ann))
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
        answer = await studio.call("PUT", path_of(effect), body)
        assert_refused(answer, 422, "invalid_request", field)
    good = await studio.add_asset(image(50, 40))
    assert_refused(
        await studio.call("PUT", "/api/admin/effects/none/preview", {"after_asset_id": good}), 404, "not_found"
    )
    assert_refused(await studio.call("DELETE", "/api/admin/effects/none/preview"), 404, "not_found")


async def test_a_job_whose_result_is_no_image_or_video_cannot_be_shown(studio: Studio, operators: MediaStudio) -> None:
    await operators.run(await operators.video(), CLIP)
    [job] = [each for each in (await operators.ask("GET", "/api/ai-jobs")).json()["items"] if each["outputs"]]
    answer = await studio.call("PUT", path_of(await studio.effect()), {"job_id": job["id"]})
    assert_refused(answer, 422, "invalid_request", "job_id")
    assert "cannot be shown" in answer.text


async def test_a_machine_that_is_too_busy_is_no_fault_of_the_file(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect, good = await studio.effect(), await studio.add_asset(image(50, 40))
    with monkeypatch.context() as busy:
        busy.setattr(effect_previews, "AWAITED", Effort(seconds=0))
        answer = await studio.call("PUT", path_of(effect), {"after_asset_id": good})
    assert_refused(answer, 503, "unavailable")
    assert answer.headers["retry-after"]
    assert (await studio.call("PUT", path_of(effect), {"after_asset_id": good})).status_code == 200


async def wait_of(
    worker_harness: WorkerHarness, studio: Studio, effect: dict[str, Any], person: Person
) -> dict[str, Any]:
    [listed] = [
        each
        for each in (await studio.client.get("/api/effects?limit=200", headers=person.headers)).json()["items"]
        if each["slug"] == effect["slug"]
    ]
    assert (await studio.shown(person, f"/api/effects/{effect['slug']}"))["wait"] == listed["wait"]
    wait: dict[str, Any] = listed["wait"]
    return wait


async def test_an_effect_says_what_a_job_may_expect_now(
    worker_harness: WorkerHarness, studio: Studio, ann: Person
) -> None:
    made = await studio.workflow()
    effect = await studio.effect(made["slug"])
    nobody = await wait_of(worker_harness, studio, effect, ann)
    assert (nobody["code"], nobody["wait_seconds"]) == ("no_live_worker", None)
    assert nobody["message"] == "No worker that can run this effect is online."

    timings = "INSERT INTO workflow_timings (workflow_id, average_seconds, samples) VALUES ($1, 60, 9)"
    await worker_harness.central(timings, made["id"])
    worker = await worker_harness.worker(workflow_slugs=[made["slug"]])
    free = await wait_of(worker_harness, studio, effect, ann)
    assert (free["code"], free["wait_seconds"], free["run_seconds"]) == ("ready", 0, 60)

    jobs = [await studio.submit(ann, effect, input_file_id=await studio.file(ann)) for _ in range(3)]
    assert (await worker.job())["job_id"] == jobs[0]["id"]
    waiting = await wait_of(worker_harness, studio, effect, ann)
    assert waiting == {
        "code": "queue",
        "message": "2 jobs are ahead; it starts in about 3 minutes.",
        "wait_seconds": 180,
        "run_seconds": 60,
    }
    # Who has nothing in the queue waits for one job of each other user, not for all of them.
    bob = await studio.person()
    assert (await wait_of(worker_harness, studio, effect, bob))["wait_seconds"] == 120

    await studio.call("POST", f"/api/admin/workflows/{made['slug']}/deactivate")
    off = await wait_of(worker_harness, studio, effect, ann)
    assert (off["code"], off["wait_seconds"]) == ("off", None)


async def test_a_list_of_effects_costs_the_same_number_of_queries_whatever_its_length(
    studio: Studio, ann: Person, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    from callsheet.plumbing.sql import Statement

    asked: list[str] = []
    rows = Statement.rows

    async def counted(self: Statement, *args: Any, **values: Any) -> Any:
        asked.append(self.name)
        return await rows(self, *args, **values)

    for _ in range(3):
        await studio.effect()
    monkeypatch.setattr(Statement, "rows", counted)
    for limit in (1, 3):
        asked.clear()
        items = (await studio.client.get(f"/api/effects?limit={limit}", headers=ann.headers)).json()["items"]
        assert len(items) == limit
        assert [name for name in asked if name in ("list_published", "capacity", "route_loads")] == [
            "list_published",
            "capacity",
            "route_loads",
        ]
