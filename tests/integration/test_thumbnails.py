"""Thumbnails after the acceptance of candidates: made once, by any control plane, and without delaying a run."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from PIL import Image

from callsheet.pipelines.judge import thumbnails
from callsheet.pipelines.judge.thumbnails import CLAIM_SECONDS, ThumbnailMaker, thumbnail_key
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from tests.support.jobs.core import Core
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race_control import paused_at
from tests.support.media.media_harness import MediaHarness, open_media_harness
from tests.support.pipelines.candidate_trees import Tree


@dataclass(frozen=True, slots=True)
class ThumbnailHarness:
    """Candidates of one run, and the maker of their thumbnails."""

    media: MediaHarness
    tree: Tree
    maker: ThumbnailMaker

    async def candidate(self, name: str = "1.png", mime_type: str = "image/png") -> UUID:
        content = io.BytesIO()
        Image.new("RGB", (500, 300), "green").save(content, "PNG")
        path = f"tenants/{self.tree.ann.tenant_id}/runs/{self.tree.folder}/base/{name}"
        await self.media.room.files.storage.put(path, content.getvalue(), content_type=mime_type)
        file_id = uuid7()
        async with self.tree.ann.pool.connection() as connection:
            await connection.execute(
                """INSERT INTO files (tenant_id, id, user_id, purpose, status, disk, path, name, mime_type, size,
                   job_id, ready_at) VALUES ($1, $2, $3, 'output', 'ready', 'local', $4, 'x', $5, $7, $6, now())""",
                *(self.tree.ann.tenant_id, file_id, self.tree.ann.user_id, path, mime_type, self.tree.job_id),
                len(content.getvalue()),
            )
        return await self.tree.candidate(file_id=file_id)

    async def make(self, after: float = 0) -> bool:
        return await self.maker.make_due(self.tree.ann.pool, datetime.now(UTC) + timedelta(seconds=after))

    async def thumbnails(self) -> list[str]:
        query = "SELECT path FROM files WHERE tenant_id = $1 AND mime_type = 'image/webp' ORDER BY path"
        rows = await self.media.core.rows(self.tree.ann.pool, query, self.tree.ann.tenant_id)
        return [row["path"] for row in rows]

    def key(self, candidate_id: UUID) -> str:
        return thumbnail_key(self.tree.ann.tenant_id, self.tree.folder, candidate_id)


@pytest.fixture
async def thumbnail_harness(core: Core, tmp_path: Path) -> AsyncIterator[ThumbnailHarness]:
    """Candidates of one run, and the maker of their thumbnails."""
    ann = await core.member("pool_1")
    tree = await Tree.plant(core, ann)
    async with open_media_harness(core, ann, tmp_path) as media:
        maker = ThumbnailMaker(lambda: core.databases.pools, media.room.files)
        yield ThumbnailHarness(media, tree, maker)
        await maker.stop()


async def test_each_candidate_gets_one_thumbnail(thumbnail_harness: ThumbnailHarness) -> None:
    first, second = await thumbnail_harness.candidate("1.png"), await thumbnail_harness.candidate("2.png")
    assert not await thumbnail_harness.make(1)
    assert await thumbnail_harness.thumbnails() == sorted([thumbnail_harness.key(first), thumbnail_harness.key(second)])
    rows = await thumbnail_harness.tree.rows()
    assert all(row["thumbnail_file_id"] is not None and row["thumbnail_due_at"] is None for row in rows)
    await thumbnail_harness.make(CLAIM_SECONDS * 2)
    assert len(await thumbnail_harness.thumbnails()) == 2
    await thumbnail_harness.media.core.check()


async def test_a_thumbnail_is_made_again_after_a_crash_and_leaves_no_object_behind(
    thumbnail_harness: ThumbnailHarness,
) -> None:
    candidate = await thumbnail_harness.candidate()
    assert await crashed_at(Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW, thumbnail_harness.make(1))
    assert await thumbnail_harness.thumbnails() == []
    # The process that claimed it may still be working on it.
    await thumbnail_harness.make(1)
    assert await thumbnail_harness.thumbnails() == []
    await thumbnail_harness.make(CLAIM_SECONDS + 1)
    assert await thumbnail_harness.thumbnails() == [thumbnail_harness.key(candidate)]
    folder = {path for path in await thumbnail_harness.media.paths() if "/thumbnails/" in path}
    assert folder == {thumbnail_harness.key(candidate)}


async def test_two_processes_that_make_the_same_thumbnail_write_it_once(thumbnail_harness: ThumbnailHarness) -> None:
    """One was so slow that its claim ran out."""
    candidate = await thumbnail_harness.candidate()
    async with paused_at(Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW, thumbnail_harness.make(1)) as slow:
        other = ThumbnailMaker(lambda: [thumbnail_harness.tree.ann.pool], thumbnail_harness.media.room.files)
        await other.make_due(thumbnail_harness.tree.ann.pool, datetime.now(UTC) + timedelta(seconds=CLAIM_SECONDS + 1))
        await other.stop()
    await slow
    assert await thumbnail_harness.thumbnails() == [thumbnail_harness.key(candidate)]
    await thumbnail_harness.media.core.check()


async def test_a_missing_object_or_one_of_another_backend_is_not_waited_for(
    thumbnail_harness: ThumbnailHarness,
) -> None:
    gone = await thumbnail_harness.candidate("gone.png")
    await thumbnail_harness.media.room.files.storage.delete(
        f"tenants/{thumbnail_harness.tree.ann.tenant_id}/runs/{thumbnail_harness.tree.folder}/base/gone.png"
    )
    moved = await thumbnail_harness.candidate("moved.png")
    async with thumbnail_harness.tree.ann.pool.connection() as connection:
        await connection.execute("UPDATE files SET disk = 's3' WHERE path LIKE '%moved.png'")
    await thumbnail_harness.make(1)
    assert await thumbnail_harness.thumbnails() == []
    for each in (gone, moved):
        assert (await thumbnail_harness.tree.row(each))["thumbnail_due_at"] is None


async def test_an_unexpected_error_costs_one_candidate_its_thumbnail_and_no_other(
    thumbnail_harness: ThumbnailHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, other = await thumbnail_harness.candidate("1.png"), await thumbnail_harness.candidate("2.png")
    storage = thumbnail_harness.media.room.files.storage
    put = storage.put

    async def broken(key: str, content: bytes, **options: str) -> object:
        if key == thumbnail_harness.key(poison):
            raise RuntimeError("nobody thought of this")
        return await put(key, content, **options)

    monkeypatch.setattr(storage, "put", broken)
    await thumbnail_harness.make(1)
    assert await thumbnail_harness.thumbnails() == [thumbnail_harness.key(other)]
    assert (await thumbnail_harness.tree.row(poison))["thumbnail_due_at"] is None


async def test_the_thumbnail_is_copied_from_the_small_preview_if_previews_are_made(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await core.member("pool_1")
    tree = await Tree.plant(core, ann)
    async with open_media_harness(core, ann, tmp_path, previews=True) as media:
        thumbnail_harness = ThumbnailHarness(media, tree, ThumbnailMaker(lambda: [ann.pool], media.room.files))
        previews = media.room.preview_maker
        assert previews is not None
        candidate = await thumbnail_harness.candidate()
        monkeypatch.setattr(thumbnails, "previews_of_object", None)
        await thumbnail_harness.make(1)
        assert await thumbnail_harness.thumbnails() == []
        while await previews.make_due(ann.pool, datetime.now(UTC) + timedelta(seconds=1)):
            pass
        await thumbnail_harness.make(thumbnails.PREVIEW_SECONDS + 1)
        assert await thumbnail_harness.thumbnails() == [thumbnail_harness.key(candidate)]
        copy = await media.room.files.storage.read(thumbnail_harness.key(candidate), 10**6)
        assert Image.open(io.BytesIO(copy)).size == (384, 230)
        await thumbnail_harness.maker.stop()
