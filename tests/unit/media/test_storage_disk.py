"""What two processes can do to each other in the middle of a step, done on purpose."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from callsheet.media.storage.disk import Disk, Pointer
from callsheet.media.storage.threads import FileThreads


def store(disk: Disk, key: str, content: bytes) -> None:
    draft = disk.draft()
    draft.open()
    draft.write(content)
    draft.seal()
    disk.point(key, Pointer(draft.name, draft.size, "text/plain", draft.sha256, 0.0), draft)


class OvertakenDisk(Disk):
    """Between reading a pointer and opening its bytes, another process replaces (or deletes) the object."""

    def __init__(self, root: Path, replacements: list[bytes | None]) -> None:
        super().__init__(root)
        self.replacements = replacements

    def find(self, key: str) -> Pointer | None:
        pointer = super().find(key)
        if self.replacements:
            replacement = self.replacements.pop(0)
            if replacement is None:
                Disk(self.root).remove(key)
            else:
                store(Disk(self.root), key, replacement)
        return pointer


def test_a_reader_that_loses_the_race_reads_the_next_version(tmp_path: Path) -> None:
    store(Disk(tmp_path), "object", b"first")
    found = OvertakenDisk(tmp_path, [b"second", b"third"]).open("object")
    assert found is not None
    pointer, file = found
    with file:
        assert (file.read(), pointer.size) == (b"third", 5)


def test_a_copy_that_loses_the_race_copies_the_next_version(tmp_path: Path) -> None:
    store(Disk(tmp_path), "object", b"first")
    disk = OvertakenDisk(tmp_path, [b"the second"])
    found = disk.copy("object", "copy", 1.0, 3, lambda: None)
    assert found is not None
    assert (found[0].size, found[0].modified_at, found[1]) == (10, 1.0, b"the")
    assert disk.find("copy") == found[0]


def test_a_reader_overtaken_by_a_delete_finds_nothing(tmp_path: Path) -> None:
    store(Disk(tmp_path), "object", b"first")
    assert OvertakenDisk(tmp_path, [None]).open("object") is None


def test_a_folder_swept_away_before_the_pointer_arrives_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, rename, swept = Disk(tmp_path), os.rename, []

    def sweep_first(source: str, target: str, **folders: int) -> None:
        if target.endswith(",json") and not swept:
            (tmp_path / "objects" / "a" / "b").rmdir()
            swept.append(target)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", sweep_first)
    store(disk, "a/b/object", b"bytes")
    assert swept == ["object,json"]
    assert disk.find("a/b/object") is not None


async def test_cancelling_waits_for_the_thread() -> None:
    threads = FileThreads(1)
    started, may_end = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        started.set()
        may_end.wait(30)
        ended.append(True)

    task = asyncio.create_task(threads.run(work))
    await asyncio.to_thread(started.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
    threads.close()
