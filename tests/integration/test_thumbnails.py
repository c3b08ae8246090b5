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

from callsheet.pipelines import thumbnails
from callsheet.pipelines.thumbnails import CLAIM_SECONDS, ThumbnailMaker, thumbnail_key
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from tests.support.core import Core
from tests.support.crashes import crashed_at
from tests.support.media_harness import MediaHarness, open_media_harness
from tests.support.race_control import paused_at
from tests.support.trees import Tree


@dataclass(frozen=True, slots=True)
class Scene:
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
async def scene(core: Core, tmp_path: Path) -> AsyncIterator[Scene]:
    ann = await core.member("pool_1")
    tree = await Tree.plant(core, ann)
    async with open_media_harness(core, ann, tmp_path) as media:
        maker = ThumbnailMaker(lambda: core.databases.pools, media.room.files)
        yield Scene(media, tree, maker)
        await maker.stop()


async def test_each_candidate_gets_one(scene: Scene) -> None:
    first, second = await scene.candidate("1.png"), await scene.candidate("2.png")
    assert not await scene.make(1)
    assert await scene.thumbnails() == sorted([scene.key(first), scene.key(second)])
    rows = await scene.tree.rows()
    assert all(row["thumbnail_file_id"] is not None and row["thumbnail_due_at"] is None for row in rows)
    await scene.make(CLAIM_SECONDS * 2)
    assert len(await scene.thumbnails()) == 2
    await scene.media.core.check()


async def test_what_a_crash_left_is_made_again_later_and_leaves_no_object_behind(scene: Scene) -> None:
    candidate = await scene.candidate()
    assert await crashed_at(Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW, scene.make(1))
    assert await scene.thumbnails() == []
    # The process that claimed it may still be working on it.
    await scene.make(1)
    assert await scene.thumbnails() == []
    await scene.make(CLAIM_SECONDS + 1)
    assert await scene.thumbnails() == [scene.key(candidate)]
    folder = {path for path in await scene.media.paths() if "/thumbnails/" in path}
    assert folder == {scene.key(candidate)}


async def test_two_that_make_the_same_one_write_one(scene: Scene) -> None:
    """One was so slow that its claim ran out."""
    candidate = await scene.candidate()
    async with paused_at(Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW, scene.make(1)) as slow:
        other = ThumbnailMaker(lambda: [scene.tree.ann.pool], scene.media.room.files)
        await other.make_due(scene.tree.ann.pool, datetime.now(UTC) + timedelta(seconds=CLAIM_SECONDS + 1))
        await other.stop()
    await slow
    assert await scene.thumbnails() == [scene.key(candidate)]
    await scene.media.core.check()


async def test_an_object_that_is_gone_or_lies_elsewhere_is_not_waited_for(scene: Scene) -> None:
    gone = await scene.candidate("gone.png")
    await scene.media.room.files.storage.delete(
        f"tenants/{scene.tree.ann.tenant_id}/runs/{scene.tree.folder}/base/gone.png"
    )
    moved = await scene.candidate("moved.png")
    async with scene.tree.ann.pool.connection() as connection:
        await connection.execute("UPDATE files SET disk = 's3' WHERE path LIKE '%moved.png'")
    await scene.make(1)
    assert await scene.thumbnails() == []
    for each in (gone, moved):
        assert (await scene.tree.row(each))["thumbnail_due_at"] is None


async def test_an_unexpected_error_costs_one_candidate_its_thumbnail_and_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison, other = await scene.candidate("1.png"), await scene.candidate("2.png")
    storage = scene.media.room.files.storage
    put = storage.put

    async def broken(key: str, content: bytes, **options: str) -> object:
        if key == scene.key(poison):
            raise RuntimeError("nobody thought of this")
        return await put(key, content, **options)

    monkeypatch.setattr(storage, "put", broken)
    await scene.make(1)
    assert await scene.thumbnails() == [scene.key(other)]
    assert (await scene.tree.row(poison))["thumbnail_due_at"] is None


async def test_where_previews_are_made_the_small_one_is_waited_for_and_copied(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await core.member("pool_1")
    tree = await Tree.plant(core, ann)
    async with open_media_harness(core, ann, tmp_path, previews=True) as media:
        scene = Scene(media, tree, ThumbnailMaker(lambda: [ann.pool], media.room.files))
        previews = media.room.preview_maker
        assert previews is not None
        candidate = await scene.candidate()
        monkeypatch.setattr(thumbnails, "previews_of_object", None)
        await scene.make(1)
        assert await scene.thumbnails() == []
        while await previews.make_due(ann.pool, datetime.now(UTC) + timedelta(seconds=1)):
            pass
        await scene.make(thumbnails.PREVIEW_SECONDS + 1)
        assert await scene.thumbnails() == [scene.key(candidate)]
        copy = await media.room.files.storage.read(scene.key(candidate), 10**6)
        assert Image.open(io.BytesIO(copy)).size == (384, 230)
        await scene.maker.stop()
