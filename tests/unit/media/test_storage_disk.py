"""Races of two processes in the middle of a step, caused on purpose."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import math
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from callsheet.media.storage import file_threads
from callsheet.media.storage.disk import DamagedStorage, Disk, Pointer
from callsheet.media.storage.file_threads import FileThreads, Operation, run_alone, run_together
from callsheet.media.storage.folders import EnterFolder
from callsheet.media.storage.sweeping import sweep


def store(disk: Disk, key: str, content: bytes) -> None:
    draft = disk.draft(key)
    draft.open()
    draft.write(content)
    draft.seal()
    pointer = Pointer(draft.name, draft.size, "text/plain", draft.sha256, 0.0, draft.id)
    run_alone(disk.root, lambda enter: disk.point(enter, key, pointer, draft))


def copy_of(
    disk: Disk, key: str, peek: int, target: str, half_made: Callable[[], None] = lambda: None
) -> Operation[tuple[Pointer, bytes] | None]:
    return Operation(lambda enter: disk.copy(enter, key, target, 1.0, peek, half_made))


def copied(
    disk: Disk, key: str, target: str, half_made: Callable[[], None] = lambda: None
) -> tuple[Pointer, bytes] | None:
    copy = copy_of(disk, key, 100, target, half_made)
    run_together(disk.root, [copy])
    return copy.result()


def content_of(disk: Disk, key: str) -> bytes | None:
    found = disk.open(key)
    if found is None:
        return None
    with found[1] as file:
        return file.read()


def remove(disk: Disk, *keys: str) -> None:
    run_alone(disk.root, lambda enter: disk.remove(enter, *keys))


def blob_files(root: Path) -> set[str]:
    return {path.name for path in (root / "blobs").rglob("*") if path.is_file()}


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
    found = run_alone(tmp_path, lambda enter: disk.copy(enter, "object", "a/copy", 1.0, 3, lambda: None))
    assert found is not None
    assert (found[0].size, found[0].modified_at, found[1]) == (10, 1.0, b"the")
    assert disk.find("a/copy") == found[0]


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


@pytest.mark.parametrize(
    ("target", "order"),
    [
        # The pointer and its blob are durable before they get their name, and the name before the caller goes on.
        ("copies/{}", ["link"] * 3 + ["sync"] * 6 + ["rename"] * 3 + ["sync"] * 3),
        ("{}-copy", ["link"] * 6 + ["sync"] * 6),
    ],
    ids=["own pointer", "second name"],
)
def test_copies_of_one_moment_wait_for_the_disk_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, order: list[str]
) -> None:
    disk = Disk(tmp_path)
    for key in ("a", "b", "c", "copies/d"):
        store(disk, key, key.encode())
    happened: list[str] = []

    def recorded(name: str, function: Callable[..., None]) -> Callable[..., None]:
        return lambda *arguments, **options: (happened.append(name), function(*arguments, **options))[1]

    for name, step in (("fsync", "sync"), ("rename", "rename"), ("link", "link")):
        monkeypatch.setattr(os, name, recorded(step, getattr(os, name)))
    copies = [copy_of(disk, key, 1, target.format(key)) for key in ("a", "b", "c")]
    run_together(tmp_path, copies)
    assert [found[1] for copy in copies if (found := copy.result())] == [b"a", b"b", b"c"]
    assert happened == order


@pytest.mark.parametrize(
    ("target", "failing_sync"),
    [("copies/{}", 0), ("copies/{}", 2), ("{}-copy", 0)],
    ids=["of the pointer", "of the name", "of the second name"],
)
def test_a_copy_whose_sync_fails_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, failing_sync: int
) -> None:
    disk, full = Disk(tmp_path), OSError(errno.ENOSPC, "No space left on device")
    for key in ("a", "b"):
        store(disk, key, key.encode())
    # Two copies of one or two steps: the syncs 0 and 2 are those of the first copy.
    outcomes = iter([full if number == failing_sync else None for number in range(4)])
    monkeypatch.setattr(file_threads, "_sync", lambda unsynced: next(outcomes))
    copies = [copy_of(disk, key, 0, target.format(key)) for key in ("a", "b")]
    run_together(tmp_path, copies)
    with pytest.raises(OSError, match="No space"):
        copies[0].result()
    assert copies[1].result() is not None
    assert content_of(disk, target.format("b")) == b"b"
    assert not [*(tmp_path / "incoming").iterdir()]


def test_a_second_name_shares_the_files_and_has_its_own_blob(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store(disk, "job/upload", b"bytes")
    found = copied(disk, "job/upload", "job/accepted")
    upload = disk.find("job/upload")
    assert found is not None
    assert upload is not None
    assert found == (disk.find("job/accepted"), b"bytes")
    assert found[0] == upload._replace(blob=found[0].blob), "type, size, checksum and time are those of the upload"
    assert blob_files(tmp_path) == {upload.blob, found[0].blob}
    assert len({path.stat().st_ino for path in (tmp_path / "objects" / "job").iterdir()}) == 1
    assert len({path.stat().st_ino for path in (tmp_path / "blobs").rglob("*") if path.is_file()}) == 1


@pytest.mark.parametrize("keeps_links", [True, False], ids=["with links", "without links"])
@pytest.mark.parametrize("first_gone", ["replaced", "removed"])
def test_an_accepted_object_stays_when_its_upload_goes(tmp_path: Path, first_gone: str, keeps_links: bool) -> None:
    disk = Disk(tmp_path / "original")
    store(disk, "job/upload", b"accepted")
    assert copied(disk, "job/upload", "job/accepted") is not None
    if not keeps_links:
        # `cp -r` and most backup programs make two files of a file with two names.
        shutil.copytree(tmp_path / "original", tmp_path / "restored")
        disk = Disk(tmp_path / "restored")
    if first_gone == "replaced":
        store(disk, "job/upload", b"a late upload")
    remove(disk, "job/upload")
    assert content_of(disk, "job/upload") is None
    assert content_of(disk, "job/accepted") == b"accepted"
    assert sweep(disk, older_than=math.inf) == 0
    assert content_of(disk, "job/accepted") == b"accepted"
    remove(disk, "job/accepted")
    assert blob_files(disk.root) == set(), "the last name frees the space"


def test_the_upload_stays_when_its_copy_is_removed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store(disk, "job/upload", b"bytes")
    copied(disk, "job/upload", "job/refused")
    remove(disk, "job/refused")
    assert (content_of(disk, "job/refused"), content_of(disk, "job/upload")) == (None, b"bytes")
    assert len(blob_files(tmp_path)) == 1


def test_a_second_name_of_an_upload_that_is_replaced_meanwhile_has_the_new_bytes(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store(disk, "job/upload", b"first")
    replacements = [b"second", b"third"]

    def replace() -> None:
        if replacements:
            store(disk, "job/upload", replacements.pop(0))

    found = copied(disk, "job/upload", "job/accepted", replace)
    assert found is not None
    assert found[1] == content_of(disk, "job/accepted") == b"third"
    assert blob_files(tmp_path) == {pointer.blob for _, pointer in disk.entries("")}


def test_an_upload_that_is_removed_meanwhile_cannot_be_copied(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store(disk, "job/upload", b"first")
    assert copied(disk, "job/upload", "job/accepted", lambda: remove(disk, "job/upload")) is None
    assert ([*disk.entries("")], blob_files(tmp_path)) == ([], set())


def test_a_second_name_of_an_object_without_bytes_is_an_error(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store(disk, "job/upload", b"bytes")
    for blob in (tmp_path / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    with pytest.raises(DamagedStorage, match="the bytes of job/upload are missing"):
        copied(disk, "job/upload", "job/accepted")
    assert [key for key, _ in disk.entries("")] == ["job/upload"]


def test_a_second_name_is_never_given_to_a_key_in_use(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store(disk, "job/upload", b"upload")
    store(disk, "job/accepted", b"accepted before")
    found = copied(disk, "job/upload", "job/accepted")
    assert found is not None
    assert found[0].modified_at == 1.0, "it has a pointer of its own"
    assert content_of(disk, "job/accepted") == b"upload"
    assert blob_files(tmp_path) == {pointer.blob for _, pointer in disk.entries("")}


def test_names_of_one_object_can_be_added_replaced_and_removed_at_once(tmp_path: Path) -> None:
    """Three threads work on one upload. Copies are whole versions, and what is left has exactly its own bytes."""
    disk, versions = Disk(tmp_path), [b"a" * 10, b"b" * 20, b"c" * 30]
    store(disk, "job/upload", versions[0])
    accepted: list[str] = []
    at_once = threading.Barrier(3)

    def accept() -> None:
        at_once.wait()
        targets = (f"job/accepted-{number}" for number in range(60))
        accepted.extend(target for target in targets if copied(disk, "job/upload", target) is not None)

    def replace() -> None:
        at_once.wait()
        for number in range(60):
            store(disk, "job/upload", versions[number % 3])

    def remove_again() -> None:
        at_once.wait()
        for number in range(60):
            remove(disk, "job/upload", f"job/accepted-{2 * number}")

    with ThreadPoolExecutor(3) as threads:
        for ended in [threads.submit(work) for work in (accept, replace, remove_again)]:
            ended.result()
    left = dict(disk.entries(""))
    assert {key for key in accepted if int(key.rpartition("-")[2]) % 2} <= left.keys()
    for key, pointer in left.items():
        content = content_of(disk, key)
        assert content in versions
        assert hashlib.sha256(content or b"").hexdigest() == pointer.sha256
    # Two uploads at once can leave the bytes of one of them, which the sweep removes.
    assert blob_files(tmp_path) >= {pointer.blob for pointer in left.values()}
    sweep(disk, older_than=math.inf)
    assert blob_files(tmp_path) == {pointer.blob for pointer in left.values()}


def test_keys_of_one_folder_are_removed_with_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, fsync, synced = Disk(tmp_path), os.fsync, []
    for key in ("job/a", "job/b", "other/c"):
        store(disk, key, b"bytes")
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    keys = ("job/a", "job/missing", "other/c", "job/b", "nowhere/d")
    run_alone(tmp_path, lambda enter: disk.remove(enter, *keys))
    assert len(synced) == 2
    assert not list(disk.entries(""))
    assert blob_files(tmp_path) == set()
