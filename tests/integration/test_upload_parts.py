"""Uploads in parts: resumed after anything, made of exactly the declared bytes, swept if they are left."""

from __future__ import annotations

import errno
import hashlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from callsheet.media.parts import part_bytes_of, part_size
from callsheet.media.storage import LocalStorage, disk
from callsheet.plumbing.failpoints import Failpoint
from callsheet.settings import StorageSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import ContentMismatch, InvalidRequest, NotFound, QuotaExceeded, Unavailable, WrongState
from callsheet.wire.operate.quotas import ChangeQuotas
from tests.support.http.media_api import CLIP
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at
from tests.support.media.large_uploads import IN_PARTS, LARGE, PART, LargeUpload
from tests.support.media.media_harness import MediaHarness, open_media_harness
from tests.support.media.seaweedfs import S3Server


@pytest.fixture(params=["local", "s3"])
async def media(request: pytest.FixtureRequest, core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    """On local storage, then on S3."""
    storage = {} if request.param == "local" else {"backend": "s3", "s3": request.getfixturevalue("s3_server").settings}
    async with open_media_harness(core, ann, tmp_path, storage={**IN_PARTS, **storage}) as media:
        yield media


async def test_a_resumed_upload_sends_only_what_is_missing_and_is_the_file(media: MediaHarness) -> None:
    upload = await LargeUpload.created(media)
    await upload.send(2)
    resumed = await LargeUpload.created(media)
    assert (resumed.file_id, await resumed.arrived()) == (upload.file_id, [2])
    with pytest.raises(ContentMismatch, match=r"These parts are missing: 1\."):
        await resumed.confirm()
    late = await resumed.sign(1, 2)
    await resumed.send(1)
    assert await resumed.confirm() == await resumed.confirm() == "ready"
    assert await resumed.stored() == LARGE
    [row] = await media.core.rows(media.ann.pool, "SELECT sha256, disk FROM files WHERE id = $1", upload.file_id)
    assert row["sha256"] == (hashlib.sha256(LARGE).hexdigest() if row["disk"] == "local" else None)
    # The URLs are still valid. What they write is refused, or never becomes the file.
    for signed in late:
        assert (await upload.put(signed, upload.part(signed.number))).status_code in (404, 409)
    assert await media.paths() == {await upload.path()}
    with pytest.raises(WrongState):
        await upload.arrived()
    # A new upload of the same file is another one.
    assert (await LargeUpload.created(media)).file_id != upload.file_id
    await media.sweep()
    assert (await media.paths(), await upload.stored()) == ({await upload.path()}, LARGE)
    assert await media.core.rows(media.ann.pool, "SELECT * FROM upload_parts") == []


async def test_a_part_never_becomes_other_bytes(media: MediaHarness) -> None:
    """Two tabs with two files of the same name, size and time."""
    upload = await LargeUpload.created(media)
    [signed] = await upload.sign(1)
    other = LargeUpload(media, upload.file_id, LARGE[::-1])
    with pytest.raises(ContentMismatch, match="other bytes in these parts: 1\\."):
        await other.sign(2, 1)
    assert (await upload.put(signed, other.part(1))).status_code in (400, 422)
    assert (await upload.put(signed, upload.part(1)[:-1])).status_code in (400, 403, 422)
    assert await upload.arrived() == []
    await upload.send(1, 2)
    assert await upload.confirm() == "ready"


@pytest.mark.parametrize("numbers", [(3,), (1, 1), (1000,)], ids=["behind the end", "twice", "far behind the end"])
async def test_a_part_that_does_not_exist_is_refused(
    core: Core, ann: Member, tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    async with open_media_harness(core, ann, tmp_path, storage=IN_PARTS) as media:
        upload = await LargeUpload.created(media)
        with pytest.raises(InvalidRequest, match="part"):
            await upload.sign(*numbers)
        assert await media.core.rows(ann.pool, "SELECT * FROM upload_parts") == []


async def test_bytes_that_are_refused_end_the_upload(media: MediaHarness) -> None:
    upload = await LargeUpload.created(media, b"%PDF-1.7".ljust(len(LARGE)))
    await upload.send(1, 2)
    with pytest.raises(ContentMismatch, match=r"look like .*pdf\. Create a new upload"):
        await upload.confirm()
    with pytest.raises(NotFound):
        await upload.confirm()
    assert await media.paths() == set()
    await media.sweep()
    assert await media.files() == set()


async def test_a_declared_checksum_of_the_whole_file_is_verified(media: MediaHarness) -> None:
    right, wrong = hashlib.sha256(LARGE).hexdigest(), "0" * 64
    upload = await LargeUpload.created(media, sha256=right)
    await upload.send(1, 2)
    assert await upload.confirm() == "ready"
    [row] = await media.core.rows(media.ann.pool, "SELECT sha256 FROM files WHERE id = $1", upload.file_id)
    assert row["sha256"] == right
    upload = await LargeUpload.created(media, sha256=wrong)
    await upload.send(1, 2)
    with pytest.raises(ContentMismatch, match="sha256"):
        await upload.confirm()


@pytest.mark.parametrize("ending", ["deleted", "expired"])
async def test_an_abandoned_upload_is_aborted_at_the_storage(media: MediaHarness, ending: str) -> None:
    upload = await LargeUpload.created(media)
    await upload.send(1)
    assert await upload.has_parts()
    if ending == "deleted":
        [late] = await upload.sign(2)
        await media.delete_file(upload.file_id)
        assert not await upload.has_parts()
        assert (await upload.put(late, upload.part(2))).status_code in (404, 409)
    path, started = await upload.path(), await upload.started()
    await media.sweep()
    assert (await media.files(), await media.paths()) == (set(), set())
    assert not await media.room.files.storage.parts.arrived(path, started)


async def test_an_upload_that_the_service_removed_is_started_again(
    core: Core, ann: Member, tmp_path: Path, s3_server: S3Server
) -> None:
    """A rule of the bucket aborts multipart uploads after some days, and this one is resumed later."""
    storage = {**IN_PARTS, "backend": "s3", "s3": s3_server.settings}
    async with open_media_harness(core, ann, tmp_path, storage=storage) as media:
        upload = await LargeUpload.created(media)
        [lost] = await upload.sign(1)
        await upload.send(2)
        await media.room.files.storage.parts.abort(await upload.path())
        assert (await upload.put(lost, upload.part(1))).status_code == 404
        with pytest.raises(ContentMismatch, match=r"These parts are missing: 1, 2\."):
            await upload.confirm()
        resumed = await LargeUpload.created(media)
        assert (resumed.file_id, await resumed.arrived()) == (upload.file_id, [])
        await resumed.send(2, 1)
        assert await resumed.confirm() == "ready"
        assert await resumed.stored() == LARGE


async def test_an_upload_whose_parts_cannot_be_removed_holds_up_no_other_file(
    core: Core, ann: Member, tmp_path: Path, s3_server: S3Server
) -> None:
    bucket = f"kept-{secrets.token_hex(4)}"
    s3_server.create_bucket(bucket)
    storage = {**IN_PARTS, "backend": "s3", "s3": {**s3_server.settings, "bucket": bucket}}
    async with open_media_harness(core, ann, tmp_path, storage=storage) as media:
        kept = await LargeUpload.created(media)
        await kept.send(1)
        other = await media.upload()
        await media.delete_file(other)
        s3_server.refuse(bucket, ["s3:AbortMultipartUpload"])
        with pytest.raises(Unavailable, match="refused"):
            await media.sweep()
        assert await media.files() == {kept.file_id}
        s3_server.refuse(bucket, ["s3:DeleteBucket"])
        await media.sweep()
        assert await media.files() == set()


async def test_the_same_key_of_another_user_is_another_upload(media: MediaHarness) -> None:
    """Also of a colleague, who may not see, sign or confirm the parts."""
    upload = await LargeUpload.created(media)
    await upload.send(1)
    colleague = Member(media.ann.tenant_id, uuid7(), media.ann.pool)
    strange = LargeUpload(replace(media, ann=colleague), upload.file_id, LARGE)
    for refused in (strange.arrived(), strange.sign(2), strange.confirm()):
        with pytest.raises(NotFound):
            await refused
    own = await LargeUpload.created(strange.media)
    assert own.file_id != upload.file_id
    assert await own.arrived() == []
    assert await upload.arrived() == [1]


async def test_an_upload_counts_with_all_its_bytes_until_it_is_swept(media: MediaHarness) -> None:
    """Starting many costs the user's quota, deleted ones too."""
    limit = ChangeQuotas(user_storage_bytes=2 * len(LARGE))
    await media.room.usage.quotas.change("test", media.ann.tenant_id, limit)
    first = await LargeUpload.created(media, resume_key="first")
    await LargeUpload.created(media, resume_key="second")
    with pytest.raises(QuotaExceeded):
        await LargeUpload.created(media, resume_key="third")
    await media.delete_file(first.file_id)
    with pytest.raises(QuotaExceeded):
        await LargeUpload.created(media, resume_key="third")
    await media.sweep()
    third = await LargeUpload.created(media, resume_key="third")
    await third.send(1, 2)
    assert await third.confirm() == "ready"
    await LargeUpload.created(media, resume_key="fourth")


CRASHES = (
    Failpoint.PARTS_STARTED_BEFORE_ROW,
    Failpoint.STORAGE_BEFORE_POINTER,
    Failpoint.CONFIRM_COPIED_BEFORE_ROW,
    Failpoint.CONFIRM_ROW_BEFORE_DELETE,
)


@pytest.mark.parametrize("continued", [True, False])
@pytest.mark.parametrize("point", CRASHES)
async def test_a_crash_at_any_point_leaves_an_upload_that_can_be_resumed_or_swept(
    media: MediaHarness, point: Failpoint, continued: bool
) -> None:
    upload = await LargeUpload.created(media)
    is_local = isinstance(media.room.files.storage, LocalStorage)
    if point is Failpoint.PARTS_STARTED_BEFORE_ROW:
        assert await crashed_at(point, upload.sign(1))
    else:
        await upload.send(1, 2)
        assert await crashed_at(point, upload.confirm()) is (is_local or point is not Failpoint.STORAGE_BEFORE_POINTER)
    if continued:
        resumed = await LargeUpload.created(media)
        if resumed.file_id == upload.file_id:
            missing = {1, 2} - set(await resumed.arrived())
            assert missing == ({1, 2} if point is Failpoint.PARTS_STARTED_BEFORE_ROW else set())
            if missing:
                await resumed.send(*missing)
        assert await upload.confirm() == "ready"
        assert await upload.stored() == LARGE
    await media.sweep()
    rows = await media.core.rows(media.ann.pool, "SELECT path FROM files")
    assert await media.paths() == {row["path"] for row in rows}
    storage = media.room.files.storage
    for path in {row["path"] for row in rows}:
        assert await storage.read(path, 2 * PART) == LARGE


async def test_a_join_on_a_nearly_full_disk_frees_each_part_when_it_was_copied(
    core: Core, ann: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_media_harness(core, ann, tmp_path, storage=IN_PARTS) as media:
        upload = await LargeUpload.created(media)
        await upload.send(1, 2)
        storage = media.room.files.storage
        assert isinstance(storage, LocalStorage)
        monkeypatch.setattr(storage.parts, "_reserve_bytes", 1 << 60)
        assert await crashed_at(Failpoint.STORAGE_BEFORE_POINTER, upload.confirm())
        assert await upload.arrived() == []
        await upload.send(1, 2)
        assert await upload.confirm() == "ready"
        assert await upload.stored() == LARGE


async def test_a_disk_that_is_full_refuses_a_part_or_keeps_all_of_them(
    core: Core, ann: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they arrive, and while they are joined."""
    async with open_media_harness(core, ann, tmp_path, storage=IN_PARTS) as media:
        upload = await LargeUpload.created(media)
        await upload.send(1)
        [second] = await upload.sign(2)
        with monkeypatch.context() as full:
            full.setattr(media.room.files.storage, "_reserve_bytes", 1 << 60)
            assert (await upload.put(second, upload.part(2))).status_code == 507
        await upload.send(2)
        before = await media.paths()

        def no_space(descriptor: int, content: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(disk, "write_all", no_space)
            with pytest.raises(Unavailable, match="storage is full"):
                await upload.confirm()
        assert (await upload.arrived(), await media.paths()) == ([1, 2], before)
        assert await upload.confirm() == "ready"
        assert await upload.stored() == LARGE


async def test_a_small_file_is_uploaded_by_one_request(core: Core, ann: Member, tmp_path: Path) -> None:
    async with open_media_harness(core, ann, tmp_path) as media:
        file_id = await media.upload(confirmed=False)
        with pytest.raises(WrongState, match="by one request"):
            await LargeUpload(media, file_id, CLIP).arrived()


@pytest.mark.parametrize("size", [1, PART, 10 * PART, 5_368_709_120, 2**40 + 1])
def test_a_file_has_at_most_a_thousand_parts_that_are_its_bytes(size: int) -> None:
    part_bytes = part_bytes_of(size, StorageSettings())
    count = -(-size // part_bytes)
    assert count <= 1000
    sizes = [part_size(size, part_bytes, number) for number in range(1, count + 1)]
    assert (sum(sizes), min(sizes) > 0, part_size(size, part_bytes, count + 1) <= 0) == (size, True, True)
