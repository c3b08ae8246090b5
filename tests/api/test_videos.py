"""Videos: a user's view of an upload and its jobs, which other users do not see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.toolbox.ids import uuid7
from callsheet.wire.job_errors import UNKNOWN
from tests.support.http.media_api import CLIP, IMAGE, MediaApi
from tests.support.http.responses import assert_refused
from tests.support.jobs.core import report

PROGRESS = """INSERT INTO job_progress (tenant_id, job_id, user_id, charge_cycle, lease_seq, percent, message,
                  elapsed_ms, preview, preview_type, preview_at)
              SELECT tenant_id, id, user_id, $3, $4, 41.5, 'frame 83 of 200', 12000, $5, $6, now()
              FROM ai_jobs WHERE tenant_id = $1 AND id = $2
              ON CONFLICT (tenant_id, job_id) DO UPDATE SET charge_cycle = $3, lease_seq = $4"""


@pytest.fixture
async def media_api(stored_plane: ControlPlane) -> AsyncIterator[MediaApi]:
    """On local storage, then on S3."""
    async with MediaApi.opened(stored_plane) as media_api:
        yield media_api


@pytest.fixture
async def local_media_api(plane: ControlPlane) -> AsyncIterator[MediaApi]:
    """Uploads and videos of one user, on local storage."""
    async with MediaApi.opened(plane) as media_api:
        yield media_api


async def report_progress(
    media_api: MediaApi,
    started: StartedLease,
    *,
    charge_cycle: int = 1,
    lease_seq: int | None = None,
    kind: str = "image/png",
) -> None:
    """What a heartbeat of this lease, or of another, leaves behind."""
    lease_seq = started.lease.lease_seq if lease_seq is None else lease_seq
    values = (media_api.tenant_id, started.lease.job_id, charge_cycle, lease_seq, IMAGE, kind)
    await media_api.jobs_api.core.rows(media_api.pool, PROGRESS, *values)


def state(video: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(video[name] for name in ("status", "progress", "preview_url", "error", "processed_file_url"))


async def test_creating_a_video_confirms_its_upload(media_api: MediaApi) -> None:
    file = await media_api.uploaded()
    response = await media_api.ask("POST", "/api/videos", {"original_file_id": file["id"], "title": "  Holiday  "})
    assert response.status_code == 201
    video = response.json()
    assert (video["title"], video["original_file_id"], video["job_id"]) == ("Holiday", file["id"], None)
    assert state(video) == ("uploaded", None, None, None, None)
    assert video["outputs"] == []
    assert (await media_api.file_rows())[0]["status"] == "ready"
    seen = await media_api.get_video(video)
    assert {**seen, "original_file_url": None} == {**video, "original_file_url": None}


async def test_a_missing_upload_makes_no_video(media_api: MediaApi) -> None:
    file = (await media_api.create()).json()["file"]
    response = await media_api.ask("POST", "/api/videos", {"original_file_id": file["id"]})
    assert_refused(response, 422, "content_mismatch", "file_id")
    assert (await media_api.ask("GET", "/api/videos")).json() == {"items": [], "next_cursor": None}


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "original_file_id"),
        ({"original_file_id": "x"}, "original_file_id"),
        ({"original_file_id": str(uuid7())}, "original_file_id"),
        ({"original_file_id": str(uuid7()), "title": "a\0"}, "title"),
        ({"original_file_id": str(uuid7()), "title": "x" * 201}, "title"),
        ({"original_file_id": str(uuid7()), "surprise": 1}, "surprise"),
    ],
)
async def test_a_bad_video_names_the_field(local_media_api: MediaApi, body: dict[str, Any], field: str) -> None:
    assert_refused(await local_media_api.ask("POST", "/api/videos", body), 422, "invalid_request", field)


async def test_an_invalid_or_unknown_id_of_a_video_is_not_found(local_media_api: MediaApi) -> None:
    assert_refused(await local_media_api.ask("GET", "/api/videos/x"), 404, "not_found")
    assert_refused(await local_media_api.ask("GET", f"/api/videos/{uuid7()}"), 404, "not_found")
    response = await local_media_api.ask("GET", "/api/videos/uploads")
    assert_refused(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


async def test_videos_are_listed_newest_first_page_by_page_and_by_status(local_media_api: MediaApi) -> None:
    videos = [await local_media_api.video() for _ in range(3)]
    await local_media_api.submit(videos[1])
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = (await local_media_api.ask("GET", f"/api/videos?limit=2{cursor and f'&cursor={cursor}'}")).json()
        seen += [video["id"] for video in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [video["id"] for video in reversed(videos)]
    queued = (await local_media_api.ask("GET", "/api/videos?status=queued")).json()
    assert [(video["id"], video["status"]) for video in queued["items"]] == [(videos[1]["id"], "queued")]
    assert (await local_media_api.jobs_api.client.get(queued["items"][0]["original_file_url"])).content == CLIP
    assert (await local_media_api.ask("GET", "/api/videos?status=expired")).json()["items"] == []
    for query in ("status=gone", "cursor=x", "limit=0"):
        field = f"query.{query.partition('=')[0]}"
        assert_refused(await local_media_api.ask("GET", f"/api/videos?{query}"), 422, "invalid_request", field)


async def test_a_page_is_cut_when_its_outputs_are_too_large_and_has_a_cursor(
    local_media_api: MediaApi,
) -> None:
    """A page has one video at least; nothing is left out, nothing comes twice."""
    ids = []
    for listed in (10, 1500, 2000, 2000, 5000, 10):
        video = await local_media_api.video()
        ids.insert(0, video["id"])
        await local_media_api.run(video, b"the result")
        # As many as a job may have delivered. Those that were deleted since are not shown.
        more = """UPDATE ai_jobs SET result = jsonb_set(result, '{outputs}', result -> 'outputs' || (
                      SELECT jsonb_agg(jsonb_build_object('file_id', gen_random_uuid())) FROM generate_series(2, $2)
                  )) WHERE video_id = $1"""
        await local_media_api.jobs_api.core.rows(local_media_api.pool, more, UUID(video["id"]), listed)
    ids.insert(0, (await local_media_api.video())["id"])
    pages: list[list[str]] = []
    cursor = ""
    while cursor is not None:
        page = (await local_media_api.ask("GET", f"/api/videos?limit=50{cursor and f'&cursor={cursor}'}")).json()
        pages.append([video["id"] for video in page["items"]])
        assert [len(video["outputs"]) for video in page["items"]] == [int(id != ids[0]) for id in pages[-1]]
        cursor = page["next_cursor"]
    assert pages == [ids[:3], ids[3:6], ids[6:]]


async def test_a_video_follows_its_job_to_a_result_that_can_be_fetched(media_api: MediaApi) -> None:
    video = await media_api.video()
    job_id = await media_api.submit(video)
    seen = await media_api.get_video(video)
    assert (seen["status"], seen["job_id"]) == ("queued", str(job_id))
    started = await media_api.jobs_api.start()
    assert state(await media_api.get_video(video)) == ("processing", None, None, None, None)
    await report_progress(media_api, started)
    running = await media_api.get_video(video)
    assert (
        running["progress"] | {"percent": 41.5, "message": "frame 83 of 200", "elapsed_ms": 12000}
        == running["progress"]
    )
    assert running["preview_url"] == f"/api/videos/{video['id']}/preview"
    first, second = await media_api.complete(started, b"the result", b"its depth map")
    done = await media_api.get_video(video)
    assert state(done)[:4] == ("completed", None, None, None)
    assert done["processed_file_id"] == str(first.file_id)
    assert (await media_api.jobs_api.client.get(done["processed_file_url"])).content == b"the result"
    assert [output["id"] for output in done["outputs"]] == [str(first.file_id), str(second.file_id)]
    assert [output["purpose"] for output in done["outputs"]] == ["output", "output"]
    assert (await media_api.jobs_api.client.get(done["outputs"][1]["url"])).content == b"its depth map"
    assert (await media_api.ask("GET", "/api/videos")).json()["items"][0]["outputs"][1]["id"] == str(second.file_id)


async def test_a_video_shows_the_failure_of_its_job_until_a_retry(local_media_api: MediaApi) -> None:
    video = await local_media_api.video()
    job_id = await local_media_api.submit(video)
    await local_media_api.jobs_api.core.fail(await local_media_api.jobs_api.start())
    assert state(await local_media_api.get_video(video)) == ("failed", None, None, UNKNOWN, None)
    await local_media_api.jobs_api.post_as(local_media_api.person, f"/api/ai-jobs/{job_id}/retry")
    assert state(await local_media_api.get_video(video)) == ("queued", None, None, None, None)


async def test_a_video_shows_progress_of_the_current_lease_only(local_media_api: MediaApi) -> None:
    video = await local_media_api.video()
    job_id = await local_media_api.submit(video)
    stale = await local_media_api.jobs_api.start()
    await report_progress(local_media_api, stale)
    await local_media_api.jobs_api.core.room.leases.requeue(report(stale), "spot")
    assert state(await local_media_api.get_video(video)) == ("queued", None, None, None, None)
    started = await local_media_api.jobs_api.start()
    assert state(await local_media_api.get_video(video)) == ("processing", None, None, None, None)
    await report_progress(local_media_api, started)
    assert (await local_media_api.get_video(video))["progress"] is not None
    await local_media_api.jobs_api.core.fail(started)
    await local_media_api.jobs_api.post_as(local_media_api.person, f"/api/ai-jobs/{job_id}/retry")
    again = await local_media_api.jobs_api.start()
    await report_progress(local_media_api, again, charge_cycle=1)
    assert state(await local_media_api.get_video(video)) == ("processing", None, None, None, None)
    assert_refused(await local_media_api.ask("GET", f"/api/videos/{video['id']}/preview"), 404, "not_found")
    await report_progress(local_media_api, again, charge_cycle=2)
    assert (await local_media_api.get_video(video))["progress"] is not None


@pytest.mark.parametrize(("kind", "disposition"), [("image/png", None), ("image/svg+xml", "attachment")])
async def test_a_preview_is_a_safe_image(local_media_api: MediaApi, kind: str, disposition: str | None) -> None:
    video = await local_media_api.video()
    address = f"/api/videos/{video['id']}/preview"
    assert_refused(await local_media_api.ask("GET", address), 404, "not_found")
    await local_media_api.submit(video)
    started = await local_media_api.jobs_api.start()
    assert_refused(await local_media_api.ask("GET", address), 404, "not_found")
    await report_progress(local_media_api, started, kind=kind)
    response = await local_media_api.ask("GET", address)
    assert (response.status_code, response.content, response.headers["content-type"]) == (200, IMAGE, kind)
    assert response.headers.get("content-disposition") == disposition
    assert response.headers["cache-control"] == "no-store"
    assert "sandbox" in response.headers["content-security-policy"]
    await local_media_api.complete(started, b"done")
    assert_refused(await local_media_api.ask("GET", address), 404, "not_found")


async def test_a_result_shows_only_files_that_its_job_made(local_media_api: MediaApi) -> None:
    """An actor may return any result, but a file that the result names is not shown unless the job made it."""
    other = await local_media_api.video()
    foreign = other["original_file_id"]
    for outputs in ("text", [1, None, {}, {"file_id": 7}, {"file_id": "x"}], [{"file_id": foreign}]):
        video = await local_media_api.video()
        await local_media_api.submit(video)
        started = await local_media_api.jobs_api.start()
        output = await local_media_api.put_output(started.lease.job_id, b"made")
        await local_media_api.jobs_api.core.room.leases.complete(
            report(started), {"outputs": outputs}, outputs=[output]
        )
        seen = await local_media_api.get_video(video)
        assert (seen["status"], seen["outputs"], seen["processed_file_id"]) == ("completed", [], str(output.file_id))
        assert (await local_media_api.ask("GET", f"/api/ai-jobs/{started.lease.job_id}")).json()["outputs"] == []


async def test_g6_another_user_and_another_tenant_find_no_video(media_api: MediaApi) -> None:
    video = await media_api.video()
    await media_api.submit(video)
    await report_progress(media_api, await media_api.jobs_api.start())
    assert (await media_api.ask("GET", f"/api/videos/{video['id']}/preview")).status_code == 200
    for other in (await media_api.colleague(), await media_api.stranger("pool_1"), await media_api.stranger("pool_2")):
        for method, path in (("GET", ""), ("GET", "/preview"), ("DELETE", "")):
            assert_refused(await other.ask(method, f"/api/videos/{video['id']}{path}"), 404, "not_found")
        assert (await other.ask("GET", "/api/videos")).json()["items"] == []


async def test_deleting_a_video_deletes_every_result_made_from_it(media_api: MediaApi) -> None:
    video = await media_api.video()
    await media_api.run(video, b"first run", b"and its mask")
    await media_api.run(video, b"second run")
    kept = await media_api.video()
    assert len(await media_api.paths()) == 5
    assert (await media_api.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204
    [left] = await media_api.paths()
    assert kept["original_file_id"] in left
    for method in ("GET", "DELETE"):
        assert_refused(await media_api.ask(method, f"/api/videos/{video['id']}"), 404, "not_found")
    assert_refused(await media_api.ask("GET", f"/api/files/{video['original_file_id']}"), 404, "not_found")
    assert [shown["id"] for shown in (await media_api.ask("GET", "/api/videos")).json()["items"]] == [kept["id"]]


async def test_a_video_that_a_job_needs_is_not_deleted(media_api: MediaApi) -> None:
    video = await media_api.video()
    await media_api.submit(video)
    address = f"/api/videos/{video['id']}"
    assert_refused(await media_api.ask("DELETE", address), 409, "in_use")
    started = await media_api.jobs_api.start()
    assert_refused(await media_api.ask("DELETE", address), 409, "in_use")
    [output] = await media_api.complete(started, b"a result")
    # Also by a job that does not read its file.
    other = await media_api.jobs_api.core.submit(media_api.member, video_id=UUID(video["id"]))
    assert_refused(await media_api.ask("DELETE", address), 409, "in_use")
    await media_api.jobs_api.post_as(media_api.person, f"/api/ai-jobs/{other.id}/cancel")
    # Its result is the input of a job that has nothing to do with the video.
    await media_api.jobs_api.core.submit(media_api.member, input_file_ids=(output.file_id,))
    assert_refused(await media_api.ask("DELETE", address), 409, "in_use")
    await media_api.jobs_api.core.fail(await media_api.jobs_api.start())
    assert (await media_api.ask("DELETE", address)).status_code == 204
    assert await media_api.paths() == set()


async def test_a_file_that_another_video_shows_stays_until_that_video_is_deleted(local_media_api: MediaApi) -> None:
    video = await local_media_api.video()
    [output] = await local_media_api.run(video, b"a result")
    twin = (await local_media_api.ask("POST", "/api/videos", {"original_file_id": video["original_file_id"]})).json()
    child = (await local_media_api.ask("POST", "/api/videos", {"original_file_id": str(output.file_id)})).json()
    assert (await local_media_api.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204
    assert (
        await local_media_api.jobs_api.client.get((await local_media_api.get_video(twin))["original_file_url"])
    ).content == CLIP
    assert (
        await local_media_api.jobs_api.client.get((await local_media_api.get_video(child))["original_file_url"])
    ).content == b"a result"
    for each in (twin, child):
        assert (await local_media_api.ask("DELETE", f"/api/videos/{each['id']}")).status_code == 204
    assert await local_media_api.paths() == set()


async def test_a_job_on_a_deleted_video_is_refused(local_media_api: MediaApi) -> None:
    video = await local_media_api.video()
    job_id = await local_media_api.submit(video)
    await local_media_api.jobs_api.core.fail(await local_media_api.jobs_api.start())
    assert (await local_media_api.ask("DELETE", f"/api/videos/{video['id']}")).status_code == 204
    retried = await local_media_api.jobs_api.post_as(local_media_api.person, f"/api/ai-jobs/{job_id}/retry")
    assert 400 <= retried.status_code < 500
    assert await local_media_api.jobs_api.core.status(local_media_api.member, job_id) == "failed"


async def test_a_later_job_that_fails_does_not_hide_the_result(local_media_api: MediaApi) -> None:
    api = local_media_api
    video = await api.video()
    [made, second] = await api.run(video, CLIP, CLIP)
    await api.submit(video)
    waiting = await api.get_video(video)
    assert (waiting["status"], waiting["processed_file_id"]) == ("queued", str(made.file_id))
    await api.jobs_api.core.fail(await api.jobs_api.start())
    failed = await api.get_video(video)
    assert (failed["status"], failed["error"], failed["processed_file_id"]) == ("failed", UNKNOWN, str(made.file_id))
    assert failed["processed_file_url"]
    assert [each["id"] for each in failed["outputs"]] == [str(made.file_id), str(second.file_id)]
    [listed] = (await api.ask("GET", "/api/videos")).json()["items"]
    assert (listed["processed_file_id"], len(listed["outputs"])) == (str(made.file_id), 2)
    # The job that made the result can be deleted: the video shows its result and keeps it.
    [first, *_] = [each for each in await api.file_rows() if each["id"] == made.file_id]
    assert (await api.ask("DELETE", f"/api/ai-jobs/{first['job_id']}")).status_code == 204
    assert (await api.get_video(video))["processed_file_url"]
