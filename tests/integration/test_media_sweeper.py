"""Retention: unneeded objects are deleted first, then their rows; needed ones stay. After a kill the sweeper goes
on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.wire.errors import NotFound
from callsheet.wire.media import CreateUpload
from tests.support.http.media_api import CLIP
from tests.support.jobs.core import Core, Member, report
from tests.support.jobs.crashes import crashed_at
from tests.support.media.media_harness import LATER, MediaHarness, open_media_harness, principal_of

# A signed URL lives for 900 seconds and a PUT may take an hour. An upload is kept for another day. Signed URLs of
# outputs live as long as a lease and another 900 seconds.
WITHIN_GRACE = timedelta(minutes=70)
AFTER_GRACE = timedelta(minutes=80)
AFTER_LEASE = timedelta(minutes=95)
WITHIN_HOLD = timedelta(hours=24)
AGED = timedelta(days=31)


@pytest.fixture(params=["local", "s3"])
async def media(request: pytest.FixtureRequest, core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    """On local storage, then on S3."""
    storage = {} if request.param == "local" else {"backend": "s3", "s3": request.getfixturevalue("s3_server").settings}
    async with open_media_harness(core, ann, tmp_path, storage=storage) as media:
        yield media


@pytest.fixture
async def forgetful(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    """Keeps nothing for more than thirty days."""
    async with open_media_harness(core, ann, tmp_path, retention_days=30) as media:
        yield media


async def test_an_upload_that_was_never_confirmed_is_swept_when_its_time_is_over(media: MediaHarness) -> None:
    pending, ready = await media.upload(confirmed=False), await media.upload()
    await media.sweep(WITHIN_HOLD)
    assert await media.files() == {pending, ready}
    await media.sweep()
    assert await media.files() == {ready}
    [path] = await media.paths()
    assert str(ready) in path
    with pytest.raises(NotFound):
        await media.confirm(pending)


async def test_an_upload_that_is_confirmed_late_is_kept(media: MediaHarness) -> None:
    pending = await media.upload(confirmed=False)
    await media.sweep(WITHIN_HOLD)
    assert await media.confirm(pending) == "ready"
    await media.sweep()
    assert (await media.files(), len(await media.paths())) == ({pending}, 1)


async def test_an_object_stored_again_after_the_deletion_is_deleted_too(media: MediaHarness) -> None:
    """The row stays, and names the object, as long as a signed URL could bring the object back."""
    file_id = await media.upload()
    [path] = await media.paths()
    await media.delete_file(file_id)
    assert await media.paths() == set()
    await media.room.files.storage.put(path, b"late", content_type="video/mp4")
    await media.sweep(WITHIN_GRACE)
    assert (await media.files(), await media.paths()) == ({file_id}, {path})
    await media.sweep(AFTER_GRACE)
    assert (await media.files(), await media.paths()) == (set(), set())


async def test_an_object_stored_after_the_confirmation_is_swept_and_the_file_stays(media: MediaHarness) -> None:
    file_id = await media.upload()
    [accepted] = await media.paths()
    late = f"tenants/{media.ann.tenant_id}/uploads/{file_id}/clip.mp4"
    await media.room.files.storage.put(late, b"late", content_type="video/mp4")
    await media.sweep(WITHIN_GRACE)
    assert await media.paths() == {accepted, late}
    await media.sweep(AFTER_GRACE)
    assert (await media.files(), await media.paths()) == ({file_id}, {accepted})
    assert await media.room.files.storage.read(accepted, 10_000) == CLIP
    assert await media.core.rows(media.ann.pool, "SELECT * FROM upload_sweeps") == []


@pytest.mark.parametrize("confirmed_again", [True, False])
@pytest.mark.parametrize("point", [Failpoint.CONFIRM_COPIED_BEFORE_ROW, Failpoint.CONFIRM_ROW_BEFORE_DELETE])
async def test_a_crash_during_the_confirmation_leaves_no_unreferenced_object(
    media: MediaHarness, point: Failpoint, confirmed_again: bool
) -> None:
    file_id = await media.upload(confirmed=False)
    assert await crashed_at(point, media.confirm(file_id))
    assert len(await media.paths()) == 2
    if confirmed_again:
        assert await media.confirm(file_id) == "ready"
    await media.sweep(LATER)
    rows = await media.core.rows(media.ann.pool, "SELECT path FROM files WHERE id = $1", file_id)
    assert await media.paths() == {row["path"] for row in rows}
    assert len(rows) == (confirmed_again or point is Failpoint.CONFIRM_ROW_BEFORE_DELETE)
    assert await media.core.rows(media.ann.pool, "SELECT * FROM upload_sweeps") == []


async def test_a_crash_before_late_bytes_are_refused_leaves_them_to_the_sweep(forgetful: MediaHarness) -> None:
    media = forgetful
    wanted = CreateUpload(name="clip.mp4", mime_type="video/mp4", size=len(CLIP))
    created = await media.room.uploads.create(principal_of(media.ann), wanted)
    await media.send(created)

    async def confirm(_: Failpoint) -> None:
        await media.confirm(created.file.id)

    with armed({Failpoint.STORAGE_BEFORE_POINTER: confirm}):
        assert await crashed_at(Failpoint.OBJECT_STORED_BEFORE_CHECK, media.send(created))
    assert len(await media.paths()) == 2
    await media.sweep()
    assert (await media.files(), len(await media.paths())) == ({created.file.id}, 1)


async def deleted(media: MediaHarness, file_id: UUID) -> None:
    await media.delete_file(file_id)


async def swept_expired(media: MediaHarness, file_id: UUID) -> None:
    await media.sweep()


async def swept_deleted(media: MediaHarness, file_id: UUID) -> None:
    with suppress(NotFound):
        await media.delete_file(file_id)
    await media.sweep()


@pytest.mark.parametrize(
    ("point", "operation"),
    [
        (Failpoint.MEDIA_DELETE_BEFORE_OBJECTS, deleted),
        (Failpoint.MEDIA_SWEEP_BEFORE_ROWS, swept_expired),
        (Failpoint.MEDIA_SWEEP_BEFORE_ROWS, swept_deleted),
    ],
)
async def test_a_crash_between_row_and_object_leaves_no_unreferenced_object(
    media: MediaHarness, point: Failpoint, operation: object
) -> None:
    file_id = await media.upload(confirmed=False)
    work: Awaitable[None] = operation(media, file_id)  # type: ignore[operator]
    assert await crashed_at(point, work)
    # Whatever is still in storage, its row is there as well.
    assert await media.files() == {file_id}
    with pytest.raises(NotFound):
        await media.confirm(file_id)
    await media.sweep()
    assert (await media.files(), await media.paths()) == (set(), set())


async def test_outputs_of_a_lost_lease_are_swept_and_accepted_outputs_stay(media: MediaHarness) -> None:
    job = await media.core.submit(media.ann)
    lost = await media.core.start()
    await media.put_output(job.id)
    await media.core.expire_lease(lost.lease.dispatch_id)
    await media.core.reap()
    started = await media.core.start()
    accepted, mask = await media.put_output(job.id), await media.put_output(job.id)
    await media.core.room.leases.complete(report(started), {}, outputs=[accepted, mask])
    assert len(await media.paths()) == 3
    await media.sweep(AFTER_GRACE)
    assert len(await media.paths()) == 3
    await media.sweep(AFTER_LEASE)
    assert await media.paths() == {accepted.path, mask.path}
    assert await media.core.rows(media.ann.pool, "SELECT * FROM output_sweeps") == []


async def test_uploads_that_a_worker_did_not_report_are_swept(media: MediaHarness, core: Core) -> None:
    job = await core.submit(media.ann)
    started = await core.start()
    reported, mask = await media.put_output(job.id), await media.put_output(job.id)
    await media.put_output(job.id)
    await core.room.leases.complete(report(started), {}, outputs=[reported, mask])
    await media.sweep(AFTER_LEASE)
    assert await media.paths() == {reported.path, mask.path}


async def test_the_folder_of_a_failed_job_is_emptied_and_no_other(media: MediaHarness, core: Core) -> None:
    job = await core.submit(media.ann)
    await media.put_output(job.id)
    await core.fail(await core.start())
    other = await core.submit(media.ann)
    kept = await media.put_output(other.id)
    await core.start()
    bob = await core.member("pool_2")
    theirs = await media.upload(member=bob)
    await media.sweep(AFTER_LEASE)
    assert await media.paths() == {kept.path}
    [path] = await media.paths(bob)
    assert str(theirs) in path


async def test_a_job_that_was_retried_keeps_what_it_uploads(media: MediaHarness, core: Core) -> None:
    job = await core.submit(media.ann)
    await core.fail(await core.start())
    await media.put_output(job.id)
    await core.room.retries.retry(media.ann.tenant_id, job.id, actor="user")
    started = await core.start()
    accepted = await media.put_output(job.id)
    await media.sweep(AFTER_LEASE)
    assert len(await media.paths()) == 2
    await core.room.leases.complete(report(started), {}, outputs=[accepted])
    # The job ended a moment ago: a worker that held a lease may still be writing.
    await media.sweep(AFTER_GRACE)
    assert len(await media.paths()) == 2
    await media.sweep(AFTER_LEASE)
    assert await media.paths() == {accepted.path}


async def test_an_object_that_is_too_young_is_not_swept(media: MediaHarness, core: Core) -> None:
    """A job that is retried just after the sweeper looked writes objects that no row names yet."""
    job = await core.submit(media.ann)
    await core.fail(await core.start())
    query = "UPDATE output_sweeps SET since = since - interval '1 day'"
    await core.rows(media.ann.pool, query)
    await core.rows(media.ann.pool, "UPDATE ai_jobs SET completed_at = completed_at - interval '1 day'")
    young = await media.put_output(job.id)
    await media.sweep(None)
    assert await media.paths() == {young.path}
    await media.sweep(AFTER_LEASE)
    assert await media.paths() == set()


async def test_the_next_sweep_completes_a_crashed_sweep_of_outputs(media: MediaHarness, core: Core) -> None:
    job = await core.submit(media.ann)
    await media.put_output(job.id)
    await core.fail(await core.start())
    assert await crashed_at(Failpoint.MEDIA_SWEEP_BEFORE_ROWS, media.sweep(AFTER_LEASE))
    assert len(await core.rows(media.ann.pool, "SELECT * FROM output_sweeps")) == 1
    await media.sweep(AFTER_LEASE)
    assert await core.rows(media.ann.pool, "SELECT * FROM output_sweeps") == []
    assert await media.paths() == set()


async def test_without_a_retention_setting_media_are_kept(media: MediaHarness) -> None:
    video = await media.video()
    await media.sweep(timedelta(days=30_000))
    assert await media.files() == {video.original_file_id}


async def test_old_videos_and_unused_files_are_deleted_after_their_retention(
    forgetful: MediaHarness, core: Core
) -> None:
    video, lone = await forgetful.video(), await forgetful.upload()
    job = await core.submit(forgetful.ann, video_id=video.id, input_file_ids=(video.original_file_id,))
    outputs = [await forgetful.put_output(job.id), await forgetful.put_output(job.id)]
    await core.room.leases.complete(report(await core.start()), {}, outputs=outputs)
    every = {video.original_file_id, lone, *(output.file_id for output in outputs)}
    await forgetful.sweep(timedelta(days=29))
    assert await forgetful.files() == every
    await forgetful.sweep(AGED)
    assert (await forgetful.files(), await forgetful.paths()) == (set(), set())
    assert await core.rows(forgetful.ann.pool, "SELECT * FROM videos") == []


async def test_files_that_a_job_needs_or_a_video_shows_outlive_their_retention(
    forgetful: MediaHarness, core: Core
) -> None:
    video, lone = await forgetful.video(), await forgetful.upload()
    await core.submit(forgetful.ann, input_file_ids=(lone,))
    job = await core.submit(forgetful.ann, video_id=video.id, input_file_ids=(video.original_file_id,))
    await forgetful.sweep(AGED)
    assert await forgetful.files() == {video.original_file_id, lone}
    # Both end; the video was touched by it, and keeps its outputs beyond the first as well.
    for _ in range(2):
        started = await core.start()
        outputs = [await forgetful.put_output(started.lease.job_id) for _ in range(2)]
        await core.room.leases.complete(report(started), {}, outputs=outputs)
    aged = "UPDATE files SET created_at = created_at - interval '31 days' WHERE tenant_id = $1"
    await core.rows(forgetful.ann.pool, aged, forgetful.ann.tenant_id)
    await forgetful.sweep(None)
    made = await core.rows(forgetful.ann.pool, "SELECT id FROM files WHERE job_id = $1 AND deleted_at IS NULL", job.id)
    assert len(made) == 2
    rows = await core.rows(forgetful.ann.pool, "SELECT id FROM files WHERE deleted_at IS NULL")
    assert {row["id"] for row in rows} == {video.original_file_id, *(row["id"] for row in made)}


async def test_objects_of_an_unused_backend_stay_recorded(media: MediaHarness, core: Core) -> None:
    file_id = await media.upload()
    other = "s3" if media.room.files.disk == "local" else "local"
    for table in ("files", "upload_sweeps"):
        await core.rows(media.ann.pool, f"UPDATE {table} SET disk = $1", other)
    await media.delete_file(file_id)
    await media.sweep(LATER)
    assert (await media.files(), len(await media.paths())) == ({file_id}, 1)
