"""Deleting, submitting, confirming and sweeping at the same moment: no job loses its input, no object its row."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.media.storage import ObjectInfo
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import ContentMismatch, InUse, InvalidRequest, NotFound, Refusal
from callsheet.wire.media import CreateUpload, CreateVideo, Video
from tests.support.http.media_api import CLIP
from tests.support.jobs.race import RESERVE, Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked
from tests.support.media.large_uploads import IN_PARTS, LARGE, LargeUpload
from tests.support.media.media_harness import LATER, MediaHarness, open_media_harness, principal_of

LOCK_WALLET = "SELECT wallet_lock($1, $2)"


@dataclass(frozen=True, slots=True)
class TwoMediaHarnesses:
    """The same disk and the same user, seen by two control planes."""

    race: Race
    one: MediaHarness
    two: MediaHarness

    def wallet_held(self) -> AbstractAsyncContextManager[Connection]:
        ann = self.race.ann
        return open_transaction(self.race.pool, LOCK_WALLET, ann.tenant_id, ann.user_id)

    async def submit(self, video: Video) -> SubmittedJob:
        inputs = (video.original_file_id,)
        return await self.race.one.submitted(self.race.ann, video_id=video.id, input_file_ids=inputs)


@pytest.fixture
async def media_harnesses(race: Race, tmp_path: Path) -> AsyncIterator[TwoMediaHarnesses]:
    """The same files and the same user, seen by two control planes."""
    ann = replace(race.ann, pool=race.pool)
    async with (
        open_media_harness(race.one, race.ann, tmp_path) as one,
        open_media_harness(race.two, ann, tmp_path) as two,
    ):
        yield TwoMediaHarnesses(race, one, two)


async def test_a_video_deleted_before_the_submit_that_waited_refuses_it_and_charges_nothing(
    media_harnesses: TwoMediaHarnesses,
) -> None:
    video = await media_harnesses.one.video()
    async with media_harnesses.wallet_held():
        tasks = await start_blocked(
            media_harnesses.race.pool, media_harnesses.two.delete_video(video.id), media_harnesses.submit(video)
        )
    deleted, submitted = await asyncio.gather(*tasks, return_exceptions=True)
    assert deleted is None
    assert isinstance(submitted, Refusal)
    assert await media_harnesses.race.one.balance(media_harnesses.race.ann) == 1000
    assert await media_harnesses.one.paths() == set()
    await media_harnesses.race.one.check()


async def test_a_job_submitted_before_the_deletion_that_waited_keeps_its_video(
    media_harnesses: TwoMediaHarnesses,
) -> None:
    video = await media_harnesses.one.video()
    async with media_harnesses.wallet_held():
        tasks = await start_blocked(
            media_harnesses.race.pool, media_harnesses.submit(video), media_harnesses.two.delete_video(video.id)
        )
    submitted, deleted = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(submitted, SubmittedJob)
    assert isinstance(deleted, InUse)
    assert await media_harnesses.race.one.ledger(media_harnesses.race.ann, submitted.job.id) == [RESERVE]
    assert len(await media_harnesses.one.paths()) == 1
    await media_harnesses.race.one.check()


async def test_a_file_deleted_before_the_submit_that_waited_refuses_it_and_names_the_field(
    media_harnesses: TwoMediaHarnesses,
) -> None:
    file_id = await media_harnesses.one.upload()
    async with media_harnesses.wallet_held():
        tasks = await start_blocked(
            media_harnesses.race.pool,
            media_harnesses.two.delete_file(file_id),
            media_harnesses.race.one.submitted(media_harnesses.race.ann, input_file_ids=(file_id,)),
        )
    deleted, submitted = await asyncio.gather(*tasks, return_exceptions=True)
    assert deleted is None
    assert isinstance(submitted, InvalidRequest)
    assert submitted.errors[0].field == "input_file_id"
    assert await media_harnesses.race.one.balance(media_harnesses.race.ann) == 1000


@pytest.mark.parametrize("deleted_first", [True, False])
async def test_either_the_deletion_of_a_file_or_the_creation_of_its_video_succeeds(
    media_harnesses: TwoMediaHarnesses, deleted_first: bool
) -> None:
    file_id = await media_harnesses.one.upload()
    creating = media_harnesses.one.room.videos.create(
        principal_of(media_harnesses.race.ann), CreateVideo(original_file_id=file_id)
    )
    works = [media_harnesses.two.delete_file(file_id), creating]
    async with media_harnesses.wallet_held():
        tasks = await start_blocked(media_harnesses.race.pool, *(works if deleted_first else reversed(works)))
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    if deleted_first:
        assert responses[0] is None
        assert isinstance(responses[1], InvalidRequest)
        assert await media_harnesses.one.paths() == set()
    else:
        assert isinstance(responses[0], Video)
        assert isinstance(responses[1], InUse)
        assert len(await media_harnesses.one.paths()) == 1


async def test_two_concurrent_deletions_of_a_video_delete_it_once(media_harnesses: TwoMediaHarnesses) -> None:
    video = await media_harnesses.one.video()
    async with media_harnesses.wallet_held():
        works = [media.delete_video(video.id) for media in (media_harnesses.one, media_harnesses.two)]
        tasks = await start_blocked(media_harnesses.race.pool, *works)
    first, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert first is None
    assert isinstance(second, NotFound)


async def test_an_old_video_that_got_a_new_job_meanwhile_is_kept(race: Race, tmp_path: Path) -> None:
    async with open_media_harness(race.one, race.ann, tmp_path, retention_days=30) as media:
        video = await media.video()
        aged = "UPDATE videos SET created_at = now() - interval '31 days', updated_at = now() - interval '31 days'"
        await race.one.rows(race.pool, aged)
        retention = media.room.retention
        assert retention is not None
        async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id) as connection:
            [deleting] = await start_blocked(race.pool, retention.delete_old(media.ann.pool))
            await connection.execute("UPDATE videos SET updated_at = now()")
        await deleting
        assert len(await media.paths()) == 1
        await race.one.rows(race.pool, aged)
        await retention.delete_old(media.ann.pool)
        assert await media.paths() == set()
        assert await race.one.rows(race.pool, "SELECT * FROM videos WHERE id = $1", video.id) == []


async def test_two_concurrent_confirmations_return_the_same(media_harnesses: TwoMediaHarnesses) -> None:
    file_id = await media_harnesses.one.upload(confirmed=False)
    async with open_transaction(media_harnesses.race.pool, "SELECT FROM files WHERE id = $1 FOR UPDATE", file_id):
        works = [media.confirm(file_id) for media in (media_harnesses.one, media_harnesses.two)]
        tasks = await start_blocked(media_harnesses.race.pool, *works)
    assert await asyncio.gather(*tasks) == ["ready", "ready"]


async def test_bytes_uploaded_during_the_confirmation_do_not_become_the_file(
    media_harnesses: TwoMediaHarnesses,
) -> None:
    file_id = await media_harnesses.one.upload(confirmed=False)
    storage, [path] = media_harnesses.one.room.files.storage, await media_harnesses.one.paths()
    async with paused_at(Failpoint.CONFIRM_COPIED_BEFORE_ROW, media_harnesses.one.confirm(file_id)) as confirming:
        await storage.put(path, CLIP[::-1], content_type="video/mp4")
    assert await confirming == "ready"
    [row] = await media_harnesses.race.one.rows(
        media_harnesses.race.pool, "SELECT path, sha256 FROM files WHERE id = $1", file_id
    )
    assert await storage.read(row["path"], 10_000) == CLIP
    assert row["sha256"] == hashlib.sha256(CLIP).hexdigest()


async def test_bytes_uploaded_between_the_first_check_and_the_copy_are_checked_too(
    media_harnesses: TwoMediaHarnesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_id = await media_harnesses.one.upload(confirmed=False)
    storage, copy = media_harnesses.one.room.files.storage, media_harnesses.one.room.files.storage.copy

    async def replaced_first(source: str, target: str) -> ObjectInfo:
        await storage.put(source, b"%PDF-1.7".ljust(len(CLIP)), content_type="video/mp4")
        return await copy(source, target)

    monkeypatch.setattr(storage, "copy", replaced_first)
    with pytest.raises(ContentMismatch, match="pdf"):
        await media_harnesses.one.confirm(file_id)
    assert len(await media_harnesses.one.paths()) == 1, "the copy is gone"


@pytest.mark.parametrize("ending", ["confirmed", "deleted", "both"])
@pytest.mark.parametrize("point", [Failpoint.STORAGE_BEFORE_POINTER, Failpoint.OBJECT_STORED_BEFORE_CHECK])
async def test_bytes_that_arrive_while_their_upload_ends_are_refused_and_not_kept(
    media_harnesses: TwoMediaHarnesses, point: Failpoint, ending: str
) -> None:
    """The URL is still valid, and the upload was awaited when the bytes started to arrive."""
    one, two = media_harnesses.one, media_harnesses.two
    wanted = CreateUpload(name="clip.mp4", mime_type="video/mp4", size=len(CLIP))
    created = await one.room.uploads.create(principal_of(media_harnesses.race.ann), wanted)
    assert (await one.send(created)).status_code == 200
    async with paused_at(point, one.send(created)) as sending:
        if ending != "deleted":
            assert await two.confirm(created.file.id) == "ready"
        if ending != "confirmed":
            await two.delete_file(created.file.id)
    refused = await sending
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong_state")
    rows = await media_harnesses.race.one.rows(
        media_harnesses.race.pool, "SELECT path FROM files WHERE deleted_at IS NULL"
    )
    assert len(rows) == (ending == "confirmed")
    assert await one.paths() == {row["path"] for row in rows}


async def test_the_slower_of_two_confirmations_finds_the_file_ready(media_harnesses: TwoMediaHarnesses) -> None:
    """The faster one has deleted what the slower one wanted to look at."""
    file_id = await media_harnesses.one.upload(confirmed=False)
    async with paused_at(Failpoint.CONFIRM_COPIED_BEFORE_ROW, media_harnesses.one.confirm(file_id)) as slower:
        assert await media_harnesses.two.confirm(file_id) == "ready"
    assert await slower == "ready"
    [row] = await media_harnesses.race.one.rows(
        media_harnesses.race.pool, "SELECT path FROM files WHERE id = $1", file_id
    )
    assert await media_harnesses.one.paths() == {row["path"]}


async def test_an_upload_deleted_during_its_confirmation_is_not_ready(
    media_harnesses: TwoMediaHarnesses,
) -> None:
    file_id = await media_harnesses.one.upload(confirmed=False)
    mark = "UPDATE files SET deleted_at = clock_timestamp() WHERE id = $1"
    async with open_transaction(media_harnesses.race.pool, mark, file_id):
        [confirming] = await start_blocked(media_harnesses.race.pool, media_harnesses.one.confirm(file_id))
    with pytest.raises(NotFound):
        await confirming
    await media_harnesses.two.sweep()
    assert (await media_harnesses.one.files(), await media_harnesses.one.paths()) == (set(), set())


async def test_an_upload_that_is_being_confirmed_is_not_swept(media_harnesses: TwoMediaHarnesses) -> None:
    file_id = await media_harnesses.one.upload(confirmed=False)
    confirm = "UPDATE files SET status = 'ready', ready_at = now(), expires_at = NULL WHERE id = $1"
    async with open_transaction(media_harnesses.race.pool, confirm, file_id):
        # The sweeper does not wait: it looks at a locked row the next time.
        await media_harnesses.one.sweep()
    await media_harnesses.one.sweep()
    assert (await media_harnesses.one.files(), len(await media_harnesses.one.paths())) == ({file_id}, 1)


async def test_a_confirmation_between_the_objects_and_the_rows_of_a_sweep_finds_nothing(
    media_harnesses: TwoMediaHarnesses,
) -> None:
    file_id = await media_harnesses.one.upload(confirmed=False)
    at = datetime.now(UTC) + LATER
    sweeping = media_harnesses.one.room.sweeper.sweep(media_harnesses.one.ann.pool, at)
    async with paused_at(Failpoint.MEDIA_SWEEP_BEFORE_ROWS, sweeping) as task:
        with pytest.raises(NotFound):
            await media_harnesses.two.confirm(file_id)
        # Another control plane sweeps the same at the same time, to the end.
        await media_harnesses.two.sweep()
    await task
    assert (await media_harnesses.one.files(), await media_harnesses.one.paths()) == (set(), set())


async def test_a_retry_while_outputs_are_swept_loses_nothing_it_uploads(media_harnesses: TwoMediaHarnesses) -> None:
    core, ann = media_harnesses.race.one, media_harnesses.race.ann
    job = await core.submit(ann)
    await media_harnesses.one.put_output(job.id)
    await core.fail(await core.start())
    at = datetime.now(UTC) + LATER
    sweeping = media_harnesses.two.room.sweeper.sweep(media_harnesses.two.ann.pool, at)
    async with paused_at(Failpoint.MEDIA_SWEEP_BEFORE_ROWS, sweeping) as task:
        await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
        started = await core.start()
        fresh = await media_harnesses.one.put_output(job.id)
        # And lost again: asked for once more, the sweep under way must not forget it.
        await core.fail(started)
    await task
    assert await media_harnesses.one.paths() == {fresh.path}
    await media_harnesses.one.sweep()
    assert await media_harnesses.one.paths() == set()


@pytest.fixture(params=["local", "s3"])
async def large_uploads(
    request: pytest.FixtureRequest, race: Race, tmp_path: Path
) -> AsyncIterator[tuple[MediaHarness, MediaHarness]]:
    """Two control planes for uploads in parts."""
    s3 = {} if request.param == "local" else {"backend": "s3", "s3": request.getfixturevalue("s3_server").settings}
    storage, ann = {**IN_PARTS, **s3}, replace(race.ann, pool=race.pool)
    async with (
        open_media_harness(race.one, race.ann, tmp_path, storage=storage) as one,
        open_media_harness(race.two, ann, tmp_path, storage=storage) as two,
    ):
        yield one, two


async def test_two_tabs_that_create_the_same_large_upload_continue_one(
    race: Race, large_uploads: tuple[MediaHarness, MediaHarness]
) -> None:
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        tasks = await start_blocked(race.pool, *(LargeUpload.created(media) for media in large_uploads))
    first, second = await asyncio.gather(*tasks)
    assert first.file_id == second.file_id
    # Both ask for the first URL, and the storage starts an upload for each of them.
    async with paused_at(Failpoint.PARTS_STARTED_BEFORE_ROW, first.send(1)) as slower:
        await second.send(2)
    await slower
    assert await first.arrived() == await second.arrived() == [1, 2]
    assert await second.confirm() == "ready"
    assert await first.stored() == LARGE
    assert await second.media.paths() == {await first.path()}


async def test_concurrent_confirmations_of_a_large_upload_return_the_same_file(
    race: Race, large_uploads: tuple[MediaHarness, MediaHarness]
) -> None:
    one, two = large_uploads
    upload = await LargeUpload.created(one)
    await upload.send(1, 2)
    async with open_transaction(race.pool, "SELECT FROM files WHERE id = $1 FOR UPDATE", upload.file_id):
        works = [upload.seen_by(media).confirm() for media in (one, two)]
        tasks = await start_blocked(race.pool, *works)
    assert await asyncio.gather(*tasks) == ["ready"] * 2
    assert await upload.stored() == LARGE


async def test_the_slower_confirmation_of_a_large_upload_deletes_nothing(
    large_uploads: tuple[MediaHarness, MediaHarness],
) -> None:
    one, two = large_uploads
    upload = await LargeUpload.created(one)
    await upload.send(1, 2)
    async with paused_at(Failpoint.CONFIRM_COPIED_BEFORE_ROW, upload.confirm()) as slower:
        assert await upload.seen_by(two).confirm() == "ready"
    assert await slower == "ready"
    assert await upload.stored() == LARGE


async def test_a_large_upload_deleted_during_its_confirmation_is_not_ready(
    large_uploads: tuple[MediaHarness, MediaHarness],
) -> None:
    one, two = large_uploads
    upload = await LargeUpload.created(one)
    await upload.send(1, 2)
    async with paused_at(Failpoint.CONFIRM_COPIED_BEFORE_ROW, upload.confirm()) as confirming:
        await two.delete_file(upload.file_id)
    with pytest.raises(NotFound):
        await confirming
    await two.sweep()
    assert (await one.files(), await one.paths()) == (set(), set())


async def test_a_part_that_arrives_while_its_upload_is_confirmed_is_refused_and_not_kept(
    media_harnesses: TwoMediaHarnesses, tmp_path: Path
) -> None:
    race = media_harnesses.race
    async with open_media_harness(race.one, race.ann, tmp_path / "parts", storage=IN_PARTS) as media:
        upload = await LargeUpload.created(media)
        await upload.send(1, 2)
        [signed] = await upload.sign(2)
        async with paused_at(Failpoint.STORAGE_BEFORE_POINTER, upload.put(signed, upload.part(2))) as sending:
            assert await upload.confirm() == "ready"
        assert (await sending).status_code == 409
        assert await media.paths() == {await upload.path()}
        assert await upload.stored() == LARGE


async def test_a_part_that_arrives_between_the_join_and_the_confirmation_is_swept(
    media_harnesses: TwoMediaHarnesses, tmp_path: Path
) -> None:
    race = media_harnesses.race
    async with open_media_harness(race.one, race.ann, tmp_path / "parts", storage=IN_PARTS) as media:
        upload = await LargeUpload.created(media)
        await upload.send(1, 2)
        [signed] = await upload.sign(2)
        async with paused_at(Failpoint.CONFIRM_COPIED_BEFORE_ROW, upload.confirm()) as confirming:
            assert (await upload.put(signed, upload.part(2))).status_code == 200
        assert await confirming == "ready"
        await media.sweep()
        assert await media.paths() == {await upload.path()}
        assert await upload.stored() == LARGE
