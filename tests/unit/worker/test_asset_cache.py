"""Files are fetched once, checked, and kept within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from callsheet.worker.agent.job_inputs import AssetCache, ChecksumDiffers


class Storage:
    def __init__(self, content: bytes):
        self.content = content
        self.hash = hashlib.sha256(content).hexdigest()
        self.downloads = 0

    async def __call__(self, target: Path) -> str:
        self.downloads += 1

        await asyncio.to_thread(target.write_bytes, self.content)
        return hashlib.sha256(self.content).hexdigest()


async def test_the_same_content_is_downloaded_once_also_by_two_jobs_at_once(tmp_path: Path) -> None:
    cache, storage = AssetCache(tmp_path / "cache", 1000), Storage(b"a")
    await asyncio.gather(*(cache.fetch(storage.hash, tmp_path / f"job-{number}", storage) for number in range(5)))
    assert storage.downloads == 1
    assert [(tmp_path / f"job-{number}").read_bytes() for number in range(5)] == [b"a"] * 5


async def test_the_folder_is_read_only_if_something_must_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = AssetCache(tmp_path / "cache", 10)
    readings: list[int] = []
    clear = cache._clear

    def counted() -> int:
        readings.append(clear())
        return readings[-1]

    monkeypatch.setattr(cache, "_clear", counted)
    for number in range(5):
        storage = Storage(str(number).encode() * 3)
        await cache.fetch(storage.hash, tmp_path / f"job-{number}", storage)
    # At the first file, and when 12 bytes are more than 10.
    assert readings == [3, 9, 9]
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) == 9


@pytest.mark.parametrize("content_hash", [None, "", "not-a-hash", "../../etc/passwd"])
async def test_a_file_without_a_usable_hash_is_not_cached(tmp_path: Path, content_hash: str | None) -> None:
    cache, storage = AssetCache(tmp_path / "cache", 1000), Storage(b"a")
    for number in range(2):
        assert not await cache.fetch(content_hash, tmp_path / f"job-{number}", storage)
    assert storage.downloads == 2
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("max_bytes", [0, 1000])
async def test_other_bytes_than_promised_are_not_used_and_not_kept(tmp_path: Path, max_bytes: int) -> None:
    cache, storage = AssetCache(tmp_path / "cache", max_bytes), Storage(b"a")
    with pytest.raises(ChecksumDiffers):
        await cache.fetch("0" * 64, tmp_path / "job", storage)
    assert list((tmp_path / "cache").iterdir()) == []


async def test_the_least_recently_used_file_is_removed_first_and_a_job_keeps_its_copy(tmp_path: Path) -> None:
    cache = AssetCache(tmp_path / "cache", 250)
    stored = [Storage(bytes([number]) * 100) for number in range(3)]
    for number, storage in enumerate(stored):
        await cache.fetch(storage.hash, tmp_path / f"job-{number}", storage)
        if number < 2:
            os.utime(tmp_path / "cache" / storage.hash, (number, number))
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {stored[1].hash, stored[2].hash}
    assert (tmp_path / "job-0").read_bytes() == stored[0].content


def test_a_download_that_was_cut_off_is_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "half.draft").write_bytes(b"x")
    AssetCache(tmp_path, 1000)
    assert list(tmp_path.iterdir()) == []
