"""Previews behind uploads and results: made once, by any control plane, and never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from callsheet.media.previews import maker as maker_module
from callsheet.media.previews.maker import CLAIM_SECONDS, MAX_ATTEMPTS, PreviewMaker, preview_keys
from callsheet.media.previews.program import CLIP
from callsheet.media.previews.sandbox import OutOfTime
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import Unavailable
from callsheet.wire.media import CreateUpload
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race_control import paused_at
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.media.previews import clip, image
from tests.support.media.seaweedfs import S3Server
from tests.support.media.sounds import sound

INSERT = """INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size, ready_at)
            VALUES ($1, $2, $3, 'upload', 'ready', $4, $5, 'x', $6, $7, now())"""


@dataclass(frozen=True, slots=True)
class PreviewHarness:
    """Files of one user, and the maker of their previews."""

    media: MediaHarness
    maker: PreviewMaker

    async def file(self, content: bytes, mime_type: str = "image/png", member: Member | None = None) -> UUID:
        """A file that is there, however it came."""
        owner, file_id = member or self.media.ann, uuid7()
        path = f"tenants/{owner.tenant_id}/uploads/{file_id}/x"
        files = self.media.room.files
        await files.storage.put(path, content, content_type=mime_type)
        values = (owner.tenant_id, file_id, owner.user_id, files.disk, path, mime_type, len(content))
        await self.media.core.rows(owner.pool, INSERT, *values)
        return file_id

    async def make(self, after: float = 1, maker: PreviewMaker | None = None) -> None:
        at = datetime.now(UTC) + timedelta(seconds=after)
        while await (maker or self.maker).make_due(self.media.ann.pool, at):
            pass

    def another(self) -> PreviewMaker:
        """Of another control plane."""
        files = self.media.room.files
        return PreviewMaker(lambda: [self.media.ann.pool], files.storage, files.disk)

    async def row(self, file_id: UUID) -> dict[str, Any]:
        query = "SELECT * FROM file_previews WHERE file_id = $1"
        [row] = await self.media.core.rows(self.media.ann.pool, query, file_id)
        return dict(row)

    async def status(self, file_id: UUID) -> str:
        return str((await self.row(file_id))["status"])

    async def objects(self) -> set[str]:
        return {path for path in await self.media.paths() if "/previews/" in path}

    def keys(self, *file_ids: UUID) -> set[str]:
        """Of images."""
        tenant_id = self.media.ann.tenant_id
        return {key for each in file_ids for key in preview_keys(tenant_id, each) if not key.endswith(CLIP)}


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.thorough)])
def storage(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "local":
        return {}
    server: S3Server = request.getfixturevalue("s3_server")
    return {"backend": "s3", "s3": server.settings}


@pytest.fixture
async def stored_preview_harness(core: Core, tmp_path: Path, storage: dict[str, Any]) -> AsyncIterator[PreviewHarness]:
    """On local storage, then on S3."""
    async with open_media_harness(core, await core.member("pool_1"), tmp_path, storage=storage, previews=True) as media:
        yield preview_harness_of(media)


@pytest.fixture
async def preview_harness(core: Core, tmp_path: Path) -> AsyncIterator[PreviewHarness]:
    """Files on local storage, and the maker of their previews."""
    async with open_media_harness(core, await core.member("pool_1"), tmp_path, previews=True) as media:
        yield preview_harness_of(media)


def preview_harness_of(media: MediaHarness) -> PreviewHarness:
    assert media.room.preview_maker is not None
    return PreviewHarness(media, media.room.preview_maker)


async def test_images_videos_and_sounds_get_previews_and_nothing_else_does(
    stored_preview_harness: PreviewHarness, tmp_path: Path
) -> None:
    frame = await stored_preview_harness.file(image(500, 300))
    video = await stored_preview_harness.file(clip(tmp_path / "a.mp4", 12), "video/mp4")
    tone = await stored_preview_harness.file(sound("mp3", 2.0), "audio/mpeg")
    others = [
        await stored_preview_harness.file(b"{}", kind) for kind in ("application/json", "text/plain", "image/svg+xml")
    ]
    await stored_preview_harness.make()
    row = await stored_preview_harness.row(frame)
    assert (row["status"], row["width"], row["height"], row["has_clip"]) == ("ready", 500, 300, False)
    row = await stored_preview_harness.row(video)
    assert (row["status"], row["duration_seconds"], row["has_clip"]) == ("ready", 1.0, True)
    assert await stored_preview_harness.objects() == {
        *stored_preview_harness.keys(frame, tone),
        *preview_keys(stored_preview_harness.media.ann.tenant_id, video),
    }
    row = await stored_preview_harness.row(tone)
    assert (row["status"], row["width"], row["has_clip"]) == ("ready", None, False)
    assert row["duration_seconds"] == pytest.approx(2.0, abs=0.1)
    ann, files = stored_preview_harness.media.ann, stored_preview_harness.media.room.files
    [shown] = await files.views(ann.pool, ann.tenant_id, [tone])
    assert (shown.preview_status, shown.preview_url, shown.width) == ("ready", None, None)
    assert shown.thumbnails is not None
    assert shown.poster_url == shown.thumbnails.large
    query = "SELECT FROM file_previews WHERE file_id = ANY ($1::uuid[])"
    assert not await stored_preview_harness.media.core.rows(stored_preview_harness.media.ann.pool, query, others)


async def test_an_upload_is_due_for_previews_when_it_is_confirmed(preview_harness: PreviewHarness) -> None:
    content, principal = image(40, 30), principal_of(preview_harness.media.ann)
    wanted = CreateUpload(name="a.png", mime_type="image/png", size=len(content))
    file = (await preview_harness.media.room.uploads.create(principal, wanted)).file
    path = f"tenants/{principal.tenant_id}/uploads/{file.id}/a.png"
    await preview_harness.media.room.files.storage.put(path, content, content_type="image/png")
    await preview_harness.make()
    assert await preview_harness.objects() == set()
    assert preview_harness.media.room.files.view(
        await preview_harness.media.room.uploads.confirm(principal, file.id)
    ).preview_status == ("pending")
    await preview_harness.make()
    assert await preview_harness.status(file.id) == "ready"


@pytest.mark.parametrize("point", [Failpoint.PREVIEW_CLAIMED_BEFORE_OBJECTS, Failpoint.PREVIEW_OBJECTS_BEFORE_ROW])
async def test_a_preview_is_made_again_after_a_crash_and_leaves_no_object_behind(
    preview_harness: PreviewHarness, point: Failpoint
) -> None:
    file_id = await preview_harness.file(image(50, 50))
    assert await crashed_at(point, preview_harness.make())
    # Another control plane does not know that the first has died.
    await preview_harness.make()
    assert await preview_harness.status(file_id) == "pending"
    await preview_harness.make(CLAIM_SECONDS + 1)
    assert await preview_harness.status(file_id) == "ready"
    assert await preview_harness.objects() == preview_harness.keys(file_id)


async def test_a_preview_that_crashes_its_process_each_time_is_not_retried_forever(
    preview_harness: PreviewHarness,
) -> None:
    file_id = await preview_harness.file(image(50, 50))
    for attempt in range(MAX_ATTEMPTS):
        after = (CLAIM_SECONDS + 1) * attempt + 1
        assert await crashed_at(Failpoint.PREVIEW_CLAIMED_BEFORE_OBJECTS, preview_harness.make(after))
        due = timedelta(seconds=-CLAIM_SECONDS)
        await preview_harness.media.core.rows(
            preview_harness.media.ann.pool, "UPDATE file_previews SET due_at = due_at + $1", due
        )
    await preview_harness.make(CLAIM_SECONDS * 10)
    assert await preview_harness.status(file_id) == "none"
    assert await preview_harness.objects() == set()


async def test_two_control_planes_make_a_preview_once(preview_harness: PreviewHarness) -> None:
    file_id = await preview_harness.file(image(50, 50))
    async with paused_at(Failpoint.PREVIEW_CLAIMED_BEFORE_OBJECTS, preview_harness.make()) as first:
        await preview_harness.make(maker=preview_harness.another())
        assert await preview_harness.status(file_id) == "pending"
        assert (await preview_harness.row(file_id))["attempts"] == 1
    await first
    assert await preview_harness.status(file_id) == "ready"


async def test_a_process_whose_claim_expired_changes_nothing(preview_harness: PreviewHarness) -> None:
    file_id = await preview_harness.file(image(50, 50))
    async with paused_at(Failpoint.PREVIEW_OBJECTS_BEFORE_ROW, preview_harness.make()) as slow:
        await preview_harness.make(CLAIM_SECONDS + 1, preview_harness.another())
        assert await preview_harness.status(file_id) == "ready"
    await slow
    assert await preview_harness.status(file_id) == "ready"
    assert await preview_harness.objects() == preview_harness.keys(file_id)


async def test_previews_are_deleted_with_their_file(stored_preview_harness: PreviewHarness) -> None:
    kept, gone = await stored_preview_harness.file(image(50, 50)), await stored_preview_harness.file(image(60, 60))
    await stored_preview_harness.make()
    await stored_preview_harness.media.delete_file(gone)
    assert await stored_preview_harness.objects() == stored_preview_harness.keys(kept)
    await stored_preview_harness.media.sweep()
    query = "SELECT file_id FROM file_previews WHERE tenant_id = $1"
    rows = await stored_preview_harness.media.core.rows(
        stored_preview_harness.media.ann.pool, query, stored_preview_harness.media.ann.tenant_id
    )
    assert [row["file_id"] for row in rows] == [kept]


async def test_a_file_that_is_deleted_while_its_preview_is_made_leaves_nothing(preview_harness: PreviewHarness) -> None:
    file_id = await preview_harness.file(image(50, 50))
    async with paused_at(Failpoint.PREVIEW_OBJECTS_BEFORE_ROW, preview_harness.make()) as making:
        await preview_harness.media.delete_file(file_id)
    await making
    assert await preview_harness.objects() == set()


async def test_objects_left_by_a_crash_after_the_deletion_are_swept(preview_harness: PreviewHarness) -> None:
    file_id = await preview_harness.file(image(50, 50))
    async with paused_at(Failpoint.PREVIEW_CLAIMED_BEFORE_OBJECTS, preview_harness.make()) as making:
        await preview_harness.media.delete_file(file_id)
        # A control plane that froze, wrote its objects after that, and died.
        for key in preview_harness.keys(file_id):
            await preview_harness.media.room.files.storage.put(key, b"x", content_type="image/webp")
        making.cancel()
    assert await preview_harness.objects() == preview_harness.keys(file_id)
    await preview_harness.media.sweep()
    assert await preview_harness.objects() == set()


async def test_hostile_files_are_marked_and_do_not_delay_others(preview_harness: PreviewHarness) -> None:
    hostile = await preview_harness.file(b"no image at all")
    gone = await preview_harness.file(image(50, 50))
    await preview_harness.media.room.files.storage.delete(
        f"tenants/{preview_harness.media.ann.tenant_id}/uploads/{gone}/x"
    )
    good = await preview_harness.file(image(50, 50))
    await preview_harness.make()
    assert [await preview_harness.status(each) for each in (hostile, gone, good)] == ["none", "none", "ready"]


async def test_previews_are_made_for_tenants_in_turn(
    preview_harness: PreviewHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many files one has, the next one's is made after the first of them."""
    bob = await preview_harness.media.core.member("pool_1")
    made: list[UUID] = []

    async def recorded(storage: object, path: str, *_: object) -> Any:
        made.append(UUID(path.split("/")[1]))
        raise maker_module.NoPreview("not today")

    monkeypatch.setattr(maker_module, "previews_of_object", recorded)
    many = [await preview_harness.file(b"x") for _ in range(4)]
    await preview_harness.file(b"x", member=bob)
    await preview_harness.make()
    ann = preview_harness.media.ann
    assert set(made[:2]) == {ann.tenant_id, bob.tenant_id}
    assert made[2:] == [ann.tenant_id] * 3
    assert {await preview_harness.status(each) for each in many} == {"none"}


async def test_the_newest_file_gets_its_preview_first(preview_harness: PreviewHarness) -> None:
    old, new = await preview_harness.file(image(50, 50)), await preview_harness.file(image(50, 50))
    await preview_harness.maker.make_due(preview_harness.media.ann.pool, datetime.now(UTC) + timedelta(seconds=1))
    assert (await preview_harness.status(old), await preview_harness.status(new)) == ("pending", "ready")


async def test_unavailable_storage_costs_no_attempt(
    preview_harness: PreviewHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_id = await preview_harness.file(image(50, 50))

    async def away(*_: object) -> Any:
        raise Unavailable("Storage does not respond.")

    with monkeypatch.context() as broken:
        broken.setattr(maker_module, "previews_of_object", away)
        for attempt in range(MAX_ATTEMPTS + 1):
            with pytest.raises(Unavailable):
                await preview_harness.make(1 + attempt * 100)
    assert (await preview_harness.row(file_id))["attempts"] == 0
    await preview_harness.make(1000)
    assert await preview_harness.status(file_id) == "ready"


async def test_a_preview_that_timed_out_is_retried(
    preview_harness: PreviewHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine must not cost a file its preview for good."""
    file_id = await preview_harness.file(image(50, 50))

    async def late(*_: object) -> Any:
        raise OutOfTime("Making a preview took more than 300 seconds.")

    with monkeypatch.context() as busy:
        busy.setattr(maker_module, "previews_of_object", late)
        await preview_harness.make()
    assert await preview_harness.status(file_id) == "pending"
    await preview_harness.make(CLAIM_SECONDS + 1)
    assert await preview_harness.status(file_id) == "ready"


async def test_a_stop_does_not_wait_for_previews_and_the_next_start_makes_them(
    preview_harness: PreviewHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [await preview_harness.file(image(50, 50)) for _ in range(2)]
    started_at = asyncio.Event()

    async def endless(*_: object) -> Any:
        started_at.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as slow:
        slow.setattr(maker_module, "previews_of_object", endless)
        preview_harness.maker.start()
        await started_at.wait()
        await preview_harness.maker.stop()
    assert [(await preview_harness.row(each))["attempts"] for each in files] == [0, 0]
    await preview_harness.make(maker=preview_harness.another())
    assert [await preview_harness.status(each) for each in files] == ["ready", "ready"]


async def test_a_full_disk_costs_no_attempt(preview_harness: PreviewHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    file_id = await preview_harness.file(image(50, 50))

    async def full(*_: object, **__: object) -> Any:
        raise Unavailable("The storage is full.")

    with monkeypatch.context() as broken:
        broken.setattr(preview_harness.media.room.files.storage, "put", full)
        with pytest.raises(Unavailable):
            await preview_harness.make()
    assert (await preview_harness.row(file_id))["attempts"] == 0
    await preview_harness.make(1000)
    assert await preview_harness.status(file_id) == "ready"


async def test_without_pyav_images_get_previews_and_other_files_get_none(
    preview_harness: PreviewHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: Core
) -> None:
    frame = await preview_harness.file(image(50, 50))
    video = await preview_harness.file(clip(tmp_path / "a.mp4", 5), "video/mp4")
    ann = preview_harness.media.ann
    with monkeypatch.context() as without_pyav:
        without_pyav.setattr("callsheet.media.previews.sandbox.find_spec", lambda name: None)
        async with open_media_harness(core, ann, tmp_path, previews=True) as without:
            await preview_harness.make(maker=without.room.preview_maker)
            [shown, not_shown] = await without.room.files.views(ann.pool, ann.tenant_id, [frame, video])
    assert (shown.preview_status, not_shown.preview_status) == ("ready", "none")
    # It is made when PyAV was installed.
    assert await preview_harness.status(video) == "pending"
    await preview_harness.make()
    assert await preview_harness.status(video) == "ready"


async def test_previews_can_be_switched_off(core: Core, tmp_path: Path) -> None:
    async with open_media_harness(core, await core.member("pool_1"), tmp_path, previews=False) as media:
        assert media.room.preview_maker is None
        assert not [loop for loop in media.room.loops if loop.name == "preview_maker"]
