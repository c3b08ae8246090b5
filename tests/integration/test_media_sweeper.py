"""Retention: what nobody needs goes, object first, row last; what somebody needs stays. Killed anywhere, it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import NotFound
from tests.support.core import Core, Member, report
from tests.support.crashes import crashed_at
from tests.support.media import CLIP
from tests.support.stage import LATER, Stage, open_stage

# An address lives for 900 seconds, a PUT may go on for an hour; an upload is waited for for another day; and addresses
# of outputs live as long as a lease, another 900 seconds.
WITHIN_GRACE = timedelta(minutes=70)
AFTER_GRACE = timedelta(minutes=80)
AFTER_LEASE = timedelta(minutes=95)
WITHIN_HOLD = timedelta(hours=24)
AGED = timedelta(days=31)


@pytest.fixture(params=["local", "s3"])
async def stage(request: pytest.FixtureRequest, core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Stage]:
    """On local storage, then on S3."""
    storage = {} if request.param == "local" else {"backend": "s3", "s3": request.getfixturevalue("s3_server").settings}
    async with open_stage(core, ann, tmp_path, storage=storage) as stage:
        yield stage


@pytest.fixture
async def forgetful(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Stage]:
    """Keeps nothing for more than thirty days."""
    async with open_stage(core, ann, tmp_path, retention_days=30) as stage:
        yield stage


async def test_an_upload_that_was_never_confirmed_is_swept_when_its_time_is_over(stage: Stage) -> None:
    pending, ready = await stage.upload(confirmed=False), await stage.upload()
    await stage.sweep(WITHIN_HOLD)
    assert await stage.files() == {pending, ready}
    await stage.sweep()
    assert await stage.files() == {ready}
    [path] = await stage.paths()
    assert str(ready) in path
    with pytest.raises(NotFound):
        await stage.confirm(pending)


async def test_an_upload_that_is_confirmed_late_is_as_good_as_any(stage: Stage) -> None:
    pending = await stage.upload(confirmed=False)
    await stage.sweep(WITHIN_HOLD)
    assert await stage.confirm(pending) == "ready"
    await stage.sweep()
    assert (await stage.files(), len(await stage.paths())) == ({pending}, 1)


async def test_what_a_late_put_brought_back_after_the_deletion_goes_too(stage: Stage) -> None:
    """The row stays as long as a signed address could bring the object back, and names it."""
    file_id = await stage.upload()
    [path] = await stage.paths()
    await stage.delete_file(file_id)
    assert await stage.paths() == set()
    await stage.room.files.storage.put(path, b"late", content_type="video/mp4")
    await stage.sweep(WITHIN_GRACE)
    assert (await stage.files(), await stage.paths()) == ({file_id}, {path})
    await stage.sweep(AFTER_GRACE)
    assert (await stage.files(), await stage.paths()) == (set(), set())


async def test_what_a_signed_url_stored_after_the_confirmation_is_swept_and_the_file_stays(stage: Stage) -> None:
    file_id = await stage.upload()
    [accepted] = await stage.paths()
    late = f"tenants/{stage.ann.tenant_id}/uploads/{file_id}/clip.mp4"
    await stage.room.files.storage.put(late, b"late", content_type="video/mp4")
    await stage.sweep(WITHIN_GRACE)
    assert await stage.paths() == {accepted, late}
    await stage.sweep(AFTER_GRACE)
    assert (await stage.files(), await stage.paths()) == ({file_id}, {accepted})
    assert await stage.room.files.storage.read(accepted, 10_000) == CLIP
    assert await stage.core.rows(stage.ann.pool, "SELECT * FROM upload_sweeps") == []


@pytest.mark.few_forms
@pytest.mark.parametrize("confirmed_again", [True, False])
@pytest.mark.parametrize("point", [Failpoint.CONFIRM_COPIED_BEFORE_ROW, Failpoint.CONFIRM_ROW_BEFORE_DELETE])
async def test_a_crash_while_confirming_leaves_nothing_that_no_row_names(
    stage: Stage, point: Failpoint, confirmed_again: bool
) -> None:
    file_id = await stage.upload(confirmed=False)
    assert await crashed_at(point, stage.confirm(file_id))
    assert len(await stage.paths()) == 2
    if confirmed_again:
        assert await stage.confirm(file_id) == "ready"
    await stage.sweep(LATER)
    rows = await stage.core.rows(stage.ann.pool, "SELECT path FROM files WHERE id = $1", file_id)
    assert await stage.paths() == {row["path"] for row in rows}
    assert len(rows) == (confirmed_again or point is Failpoint.CONFIRM_ROW_BEFORE_DELETE)
    assert await stage.core.rows(stage.ann.pool, "SELECT * FROM upload_sweeps") == []


async def deleted(stage: Stage, file_id: UUID) -> None:
    await stage.delete_file(file_id)


async def swept_expired(stage: Stage, file_id: UUID) -> None:
    await stage.sweep()


async def swept_deleted(stage: Stage, file_id: UUID) -> None:
    with suppress(NotFound):
        await stage.delete_file(file_id)
    await stage.sweep()


@pytest.mark.parametrize(
    ("point", "operation"),
    [
        (Failpoint.MEDIA_DELETE_BEFORE_OBJECTS, deleted),
        (Failpoint.MEDIA_SWEEP_BEFORE_ROWS, swept_expired),
        (Failpoint.MEDIA_SWEEP_BEFORE_ROWS, swept_deleted),
    ],
)
async def test_a_crash_between_row_and_object_leaves_nothing_that_no_row_names(
    stage: Stage, point: Failpoint, operation: object
) -> None:
    file_id = await stage.upload(confirmed=False)
    work: Awaitable[None] = operation(stage, file_id)  # type: ignore[operator]
    assert await crashed_at(point, work)
    # Whatever is still in storage, its row is there as well.
    assert await stage.files() == {file_id}
    with pytest.raises(NotFound):
        await stage.confirm(file_id)
    await stage.sweep()
    assert (await stage.files(), await stage.paths()) == (set(), set())


async def test_what_a_lost_lease_uploaded_is_swept_and_what_was_accepted_stays(stage: Stage) -> None:
    job = await stage.core.submit(stage.ann)
    lost = await stage.core.start()
    await stage.put_output(job.id)
    await stage.core.expire_lease(lost.lease.dispatch_id)
    await stage.core.reap()
    started = await stage.core.start()
    accepted, mask = await stage.put_output(job.id), await stage.put_output(job.id)
    await stage.core.room.lease_reports.complete(report(started), {}, outputs=[accepted, mask])
    assert len(await stage.paths()) == 3
    await stage.sweep(AFTER_GRACE)
    assert len(await stage.paths()) == 3
    await stage.sweep(AFTER_LEASE)
    assert await stage.paths() == {accepted.path, mask.path}
    assert await stage.core.rows(stage.ann.pool, "SELECT * FROM output_sweeps") == []


async def test_what_a_worker_uploaded_besides_the_files_it_reported_is_swept(stage: Stage, core: Core) -> None:
    job = await core.submit(stage.ann)
    started = await core.start()
    reported, mask = await stage.put_output(job.id), await stage.put_output(job.id)
    await stage.put_output(job.id)
    await core.room.lease_reports.complete(report(started), {}, outputs=[reported, mask])
    await stage.sweep(AFTER_LEASE)
    assert await stage.paths() == {reported.path, mask.path}


async def test_the_folder_of_a_failed_job_is_emptied_and_no_other(stage: Stage, core: Core) -> None:
    job = await core.submit(stage.ann)
    await stage.put_output(job.id)
    await core.fail(await core.start())
    other = await core.submit(stage.ann)
    kept = await stage.put_output(other.id)
    await core.start()
    bob = await core.member("pool_2")
    theirs = await stage.upload(member=bob)
    await stage.sweep(AFTER_LEASE)
    assert await stage.paths() == {kept.path}
    [path] = await stage.paths(bob)
    assert str(theirs) in path


async def test_a_job_that_was_retried_keeps_what_it_uploads(stage: Stage, core: Core) -> None:
    job = await core.submit(stage.ann)
    await core.fail(await core.start())
    await stage.put_output(job.id)
    await core.room.retries.retry(stage.ann.tenant_id, job.id, actor="user")
    started = await core.start()
    accepted = await stage.put_output(job.id)
    await stage.sweep(AFTER_LEASE)
    assert len(await stage.paths()) == 2
    await core.room.lease_reports.complete(report(started), {}, outputs=[accepted])
    # It ended a moment ago: whoever held a lease may still be writing.
    await stage.sweep(AFTER_GRACE)
    assert len(await stage.paths()) == 2
    await stage.sweep(AFTER_LEASE)
    assert await stage.paths() == {accepted.path}


async def test_an_object_too_young_to_tell_is_left_for_later(stage: Stage, core: Core) -> None:
    """A job that is retried just after the sweeper looked writes objects that no row names yet."""
    job = await core.submit(stage.ann)
    await core.fail(await core.start())
    query = "UPDATE output_sweeps SET since = since - interval '1 day'"
    await core.rows(stage.ann.pool, query)
    await core.rows(stage.ann.pool, "UPDATE ai_jobs SET completed_at = completed_at - interval '1 day'")
    young = await stage.put_output(job.id)
    await stage.sweep(None)
    assert await stage.paths() == {young.path}
    await stage.sweep(AFTER_LEASE)
    assert await stage.paths() == set()


async def test_a_crash_in_the_sweep_of_outputs_is_made_good_by_the_next(stage: Stage, core: Core) -> None:
    job = await core.submit(stage.ann)
    await stage.put_output(job.id)
    await core.fail(await core.start())
    assert await crashed_at(Failpoint.MEDIA_SWEEP_BEFORE_ROWS, stage.sweep(AFTER_LEASE))
    assert len(await core.rows(stage.ann.pool, "SELECT * FROM output_sweeps")) == 1
    await stage.sweep(AFTER_LEASE)
    assert await core.rows(stage.ann.pool, "SELECT * FROM output_sweeps") == []
    assert await stage.paths() == set()


async def test_without_a_retention_setting_media_are_kept(stage: Stage) -> None:
    video = await stage.video()
    await stage.sweep(timedelta(days=30_000))
    assert await stage.files() == {video.original_file_id}


async def test_old_videos_and_lone_files_go_when_their_days_are_over(forgetful: Stage, core: Core) -> None:
    video, lone = await forgetful.video(), await forgetful.upload()
    job = await core.submit(forgetful.ann, video_id=video.id, input_file_ids=(video.original_file_id,))
    outputs = [await forgetful.put_output(job.id), await forgetful.put_output(job.id)]
    await core.room.lease_reports.complete(report(await core.start()), {}, outputs=outputs)
    every = {video.original_file_id, lone, *(output.file_id for output in outputs)}
    await forgetful.sweep(timedelta(days=29))
    assert await forgetful.files() == every
    await forgetful.sweep(AGED)
    assert (await forgetful.files(), await forgetful.paths()) == (set(), set())
    assert await core.rows(forgetful.ann.pool, "SELECT * FROM videos") == []


async def test_what_a_job_needs_or_a_living_video_shows_outlives_its_days(forgetful: Stage, core: Core) -> None:
    video, lone = await forgetful.video(), await forgetful.upload()
    await core.submit(forgetful.ann, input_file_ids=(lone,))
    job = await core.submit(forgetful.ann, video_id=video.id, input_file_ids=(video.original_file_id,))
    await forgetful.sweep(AGED)
    assert await forgetful.files() == {video.original_file_id, lone}
    # Both end; the video was touched by it, and keeps its outputs beyond the first as well.
    for _ in range(2):
        started = await core.start()
        outputs = [await forgetful.put_output(started.lease.job_id) for _ in range(2)]
        await core.room.lease_reports.complete(report(started), {}, outputs=outputs)
    aged = "UPDATE files SET created_at = created_at - interval '31 days' WHERE tenant_id = $1"
    await core.rows(forgetful.ann.pool, aged, forgetful.ann.tenant_id)
    await forgetful.sweep(None)
    made = await core.rows(forgetful.ann.pool, "SELECT id FROM files WHERE job_id = $1 AND deleted_at IS NULL", job.id)
    assert len(made) == 2
    rows = await core.rows(forgetful.ann.pool, "SELECT id FROM files WHERE deleted_at IS NULL")
    assert {row["id"] for row in rows} == {video.original_file_id, *(row["id"] for row in made)}


async def test_objects_of_a_backend_that_is_not_in_use_are_not_forgotten(stage: Stage, core: Core) -> None:
    file_id = await stage.upload()
    other = "s3" if stage.room.files.disk == "local" else "local"
    for table in ("files", "upload_sweeps"):
        await core.rows(stage.ann.pool, f"UPDATE {table} SET disk = $1", other)
    await stage.delete_file(file_id)
    await stage.sweep(LATER)
    assert (await stage.files(), len(await stage.paths())) == ({file_id}, 1)
