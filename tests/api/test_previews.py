"""Thumbnails, posters and clips over HTTP: in lists, by signed URLs that a browser may keep, for their owner only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.media.previews.maker import PreviewMaker
from tests.support.http.media_api import MediaApi
from tests.support.http.responses import assert_refused
from tests.support.media.previews import clip, image, opened

# Of other tests on the same control plane, which makes none by itself.
FORGET_OTHERS = "UPDATE file_previews SET status = 'none', due_at = NULL WHERE status = 'pending' AND tenant_id <> $1"


@pytest.fixture
async def media_api(stored_plane: ControlPlane) -> AsyncIterator[MediaApi]:
    """On local storage, then on S3."""
    async with MediaApi.opened(stored_plane) as media_api:
        yield media_api


async def make(media_api: MediaApi) -> None:
    await media_api.jobs_api.core.rows(media_api.pool, FORGET_OTHERS, media_api.tenant_id)
    plane = media_api.plane
    maker = PreviewMaker(lambda: [media_api.pool], plane.rooms.storage, plane.settings.storage.backend)
    while await maker.make_due(media_api.pool, datetime.now(UTC) + timedelta(seconds=1)):
        pass


async def load(media_api: MediaApi, url: str, **headers: str) -> httpx.Response:
    """As a browser does, which has no key."""
    assert url.startswith("/api/previews/")
    return await media_api.jobs_api.client.get(url, headers=headers)


async def a_job(media_api: MediaApi, tmp_path: Path) -> dict[str, Any]:
    """Of a video, with a video as its result."""
    video = await media_api.video(clip(tmp_path / "before.mp4", 12, width=320, height=240))
    await media_api.run(video, clip(tmp_path / "after.mp4", 24, width=640, height=480))
    await make(media_api)
    [job] = (await media_api.ask("GET", "/api/ai-jobs")).json()["items"]
    assert isinstance(job, dict)
    return job


async def test_a_list_of_jobs_has_everything_that_a_card_shows(media_api: MediaApi, tmp_path: Path) -> None:
    job = await a_job(media_api, tmp_path)
    [given], [made] = job["inputs"], job["outputs"]
    assert (given["width"], given["duration_seconds"], given["url"]) == (320, 1.0, None)
    assert (made["width"], made["height"], made["duration_seconds"]) == (640, 480, 2.0)
    for shown in (given, made):
        assert shown["preview_status"] == "ready"
        assert shown["poster_url"] == shown["thumbnails"]["large"]
    names = ("preview_status", "poster_url", "preview_url", "thumbnails", "width", "height", "duration_seconds")
    assert {name: job[name] for name in names} == {name: made[name] for name in names}
    small, large = [await load(media_api, job["thumbnails"][name]) for name in ("small", "large")]
    assert (opened(small.content).size, opened(large.content).size) == ((384, 288), (640, 480))
    moving = await load(media_api, job["preview_url"])
    assert (moving.status_code, moving.headers["content-type"]) == (200, "video/mp4")
    single = (await media_api.ask("GET", f"/api/ai-jobs/{job['id']}")).json()
    assert single["thumbnails"] == job["thumbnails"]
    assert (await media_api.jobs_api.client.get(single["inputs"][0]["url"])).content == (
        tmp_path / "before.mp4"
    ).read_bytes()


@pytest.mark.thorough
async def test_the_library_shows_previews(media_api: MediaApi, tmp_path: Path) -> None:
    job = await a_job(media_api, tmp_path)
    [listed] = (await media_api.ask("GET", "/api/library/jobs")).json()["items"]
    names = ("preview_status", "poster_url", "preview_url", "thumbnails", "width", "height", "duration_seconds")
    for name, shown in (("input", job["inputs"][0]), ("output", job["outputs"][0])):
        assert {each: listed[name][each] for each in names} == {each: shown[each] for each in names}


async def test_a_job_without_a_result_shows_the_preview_of_its_input(media_api: MediaApi, tmp_path: Path) -> None:
    video = await media_api.video(clip(tmp_path / "before.mp4", 12))
    await media_api.submit(video)
    await make(media_api)
    [job] = (await media_api.ask("GET", "/api/ai-jobs")).json()["items"]
    assert job["outputs"] == []
    assert job["poster_url"] == job["inputs"][0]["poster_url"]


@pytest.mark.thorough
async def test_a_reloaded_list_has_the_same_urls_so_that_browsers_cache_the_files(
    media_api: MediaApi, tmp_path: Path
) -> None:
    job = await a_job(media_api, tmp_path)
    [again] = (await media_api.ask("GET", "/api/ai-jobs")).json()["items"]
    assert again["thumbnails"] == job["thumbnails"]
    first = await load(media_api, job["poster_url"])
    assert first.headers["cache-control"] == "private, max-age=604800, immutable"
    assert first.headers["x-content-type-options"] == "nosniff"
    second = await load(media_api, job["poster_url"], **{"if-none-match": first.headers["etag"]})
    assert (second.status_code, second.content) == (304, b"")
    # Safari plays nothing from a server that does not do this.
    part = await load(media_api, job["preview_url"], range="bytes=0-1")
    assert (part.status_code, len(part.content)) == (206, 2)


@pytest.mark.thorough
async def test_videos_uploads_and_files_have_previews(media_api: MediaApi, tmp_path: Path) -> None:
    await a_job(media_api, tmp_path)
    [video] = (await media_api.ask("GET", "/api/videos")).json()["items"]
    assert (video["original"]["width"], video["processed"]["width"]) == (320, 640)
    assert video["outputs"][0]["poster_url"] == video["processed"]["poster_url"]
    file = (await media_api.ask("GET", f"/api/files/{video['original_file_id']}")).json()
    assert file["thumbnails"] == video["original"]["thumbnails"]


async def test_an_image_has_thumbnails_and_no_clip(media_api: MediaApi) -> None:
    content = image(600, 300)
    file = await media_api.uploaded(content, name="a.png", mime_type="image/png")
    assert file["preview_status"] == "none"
    # This control plane makes none, as tests have it; another one does.
    assert (await media_api.confirm(file)).json()["preview_status"] == "none"
    await make(media_api)
    file = (await media_api.ask("GET", f"/api/files/{file['id']}")).json()
    assert (file["preview_status"], file["poster_url"], file["preview_url"]) == ("ready", None, None)
    assert opened((await load(media_api, file["thumbnails"]["small"])).content).size == (384, 192)


@pytest.mark.thorough
async def test_a_signed_url_opens_only_its_own_preview(media_api: MediaApi, tmp_path: Path) -> None:
    job = await a_job(media_api, tmp_path)
    url = job["poster_url"]
    path, _, query = url.partition("?")
    folder, _, _ = path.rpartition("/")
    other = job["inputs"][0]["poster_url"].partition("?")[0]
    original = f"/api/previews/tenants/{media_api.tenant_id}/uploads/{job['inputs'][0]['file_id']}/clip.mp4"
    for wrong in (
        path,
        f"{path}?expires=9999999999&signature=x",
        f"{path}?{query}x",
        url.replace("expires=1", "expires=2"),
        f"{other}?{query}",
        f"{original}?{query}",
        f"{folder}/../../uploads/clip.mp4?{query}",
        f"{folder}/another.webp?{query}",
        f"/api/previews/small.webp?{query}",
        f"/api/previews/?{query}",
    ):
        assert_refused(await media_api.jobs_api.client.get(wrong), 403, "signature_invalid")


async def test_a_deleted_file_has_no_previews_behind_its_urls(media_api: MediaApi) -> None:
    content = image(60, 30)
    file = await media_api.uploaded(content, name="a.png", mime_type="image/png")
    await media_api.confirm(file)
    await make(media_api)
    url = (await media_api.ask("GET", f"/api/files/{file['id']}")).json()["thumbnails"]["small"]
    assert (await load(media_api, url)).status_code == 200
    assert (await media_api.ask("DELETE", f"/api/files/{file['id']}")).status_code == 204
    gone = await load(media_api, url)
    assert_refused(gone, 404, "not_found")
    assert gone.headers["cache-control"] == "no-store"


async def test_other_users_do_not_get_the_urls(media_api: MediaApi, tmp_path: Path) -> None:
    job = await a_job(media_api, tmp_path)
    for other in (await media_api.colleague(), await media_api.stranger()):
        assert (await other.ask("GET", f"/api/ai-jobs/{job['id']}")).status_code == 404
        assert (await other.ask("GET", f"/api/files/{job['outputs'][0]['file_id']}")).status_code == 404
