"""What two processes can do to each other in the middle of a step, done on purpose."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from callsheet.media.storage import shared_sync
from callsheet.media.storage.disk import Disk, Pointer
from callsheet.media.storage.folders import EnterFolder
from callsheet.media.storage.shared_sync import Operation, run_alone, run_together
from callsheet.media.storage.threads import FileThreads


def store(disk: Disk, key: str, content: bytes) -> None:
    draft = disk.draft()
    draft.open()
    draft.write(content)
    draft.seal()
    pointer = Pointer(draft.name, draft.size, "text/plain", draft.sha256, 0.0)
    run_alone(disk.root, lambda enter: disk.point(enter, key, pointer, draft))


def copy_of(disk: Disk, key: str, peek: int) -> Operation[tuple[Pointer, bytes] | None]:
    return Operation(lambda enter: disk.copy(enter, key, f"copies/{key}", 1.0, peek, lambda: None))


class OvertakenDisk(Disk):
    """Between reading a pointer and opening its bytes, another process replaces (or deletes) the object."""

    def __init__(self, root: Path, replacements: list[bytes | None]) -> None:
        super().__init__(root)
        self.replacements = replacements

    def find(self, key: str, enter: EnterFolder | None = None) -> Pointer | None:
        pointer = super().find(key, enter)
        if self.replacements:
            replacement = self.replacements.pop(0)
            if replacement is None:
                run_alone(self.root, lambda enter: Disk(self.root).remove(enter, key))
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
    found = run_alone(tmp_path, lambda enter: disk.copy(enter, "object", "copy", 1.0, 3, lambda: None))
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


def test_copies_of_one_moment_wait_for_the_disk_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, fsync, rename = Disk(tmp_path), os.fsync, os.rename
    for key in ("a", "b", "c"):
        store(disk, key, key.encode())
    happened: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: (happened.append("sync"), fsync(descriptor)))
    monkeypatch.setattr(os, "rename", lambda *names, **folders: (happened.append("name"), rename(*names, **folders)))
    copies = [copy_of(disk, key, 1) for key in ("a", "b", "c")]
    run_together(tmp_path, copies)
    assert [found[1] for copy in copies if (found := copy.result())] == [b"a", b"b", b"c"]
    # The pointer and its blob are durable before they get their name, and the name before the caller goes on.
    assert happened[-12:] == ["sync"] * 6 + ["name"] * 3 + ["sync"] * 3


@pytest.mark.parametrize("failing_sync", [0, 2], ids=["of the pointer", "of the name"])
def test_a_copy_whose_sync_fails_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_sync: int
) -> None:
    disk, full = Disk(tmp_path), OSError(errno.ENOSPC, "No space left on device")
    for key in ("a", "b"):
        store(disk, key, key.encode())
    # Two steps of two copies: the syncs 0 and 2 are those of the first copy.
    outcomes = iter([full if number == failing_sync else None for number in range(4)])
    monkeypatch.setattr(shared_sync, "_sync", lambda unsynced: next(outcomes))
    copies = [copy_of(disk, key, 0) for key in ("a", "b")]
    run_together(tmp_path, copies)
    with pytest.raises(OSError, match="No space"):
        copies[0].result()
    assert copies[1].result() is not None
    assert disk.find("copies/b") is not None
    assert not list((tmp_path / "incoming").iterdir())


def test_keys_of_one_folder_are_removed_with_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, fsync, synced = Disk(tmp_path), os.fsync, []
    for key in ("job/a", "job/b", "other/c"):
        store(disk, key, b"bytes")
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    keys = ("job/a", "job/missing", "other/c", "job/b", "nowhere/d")
    run_alone(tmp_path, lambda enter: disk.remove(enter, *keys))
    assert len(synced) == 2
    assert not list(disk.entries(""))
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
