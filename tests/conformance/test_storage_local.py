"""Requirements for the local backend only: crashes, links, raw URLs, headers."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from callsheet.media.storage import LocalStorage, disk
from callsheet.media.storage.routes import storage_router
from callsheet.media.storage.signed_urls import Grant
from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.plumbing.http.api_document import ApiDocument
from callsheet.toolbox.disk_space import DiskSpace
from callsheet.wire.errors import InsufficientStorage, InvalidRequest, Unavailable
from tests.support.waiting import until

TOMORROW = timedelta(hours=25)
MAX_BYTES = 1000


def bare(root: Path) -> LocalStorage:
    return LocalStorage(
        root, public_url="http://127.0.0.1:1", secret=b"secret", url_seconds=60, max_upload_bytes=MAX_BYTES
    )


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[LocalStorage]:
    """One with an empty directory of its own, not served."""
    storage = bare(tmp_path / "storage")
    yield storage
    await storage.close()


async def test_an_upload_stops_where_the_reserve_begins_and_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """The free space is measured while the bytes arrive: many uploads may fill the disk together."""
    root = tmp_path / "storage"
    storage = LocalStorage(
        root, public_url="http://a", secret=b"secret", url_seconds=60, max_upload_bytes=MAX_BYTES, reserve_bytes=2**59
    )
    measured = [2**60, 2**59 + 3 * 2**20]

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield bytes(2**20)

    def shrinking(directory: Path) -> DiskSpace:
        # Each measurement finds a megabyte less.
        measured.append(measured[-1] - 2**20)
        return DiskSpace(measured.pop(0), 2**61, 1)

    monkeypatch.setattr("callsheet.media.storage.local.read_space", shrinking)
    try:
        with pytest.raises(InsufficientStorage):
            await storage.put("a/b", pieces(), content_type="video/mp4", leaves_reserve=True)
        assert await storage.head("a/b") is None
        assert [file for file in root.rglob("*") if file.is_file()] == []
        # A result of a job may use the reserve.
        assert (await storage.put("a/c", pieces(), content_type="video/mp4")).size == 4 * 2**20
    finally:
        await storage.close()


async def run_python(script: str, *arguments: object) -> int:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *map(str, arguments))
    return await process.wait()


def files(root: Path, folder: str) -> list[Path]:
    return [path for path in (root / folder).rglob("*") if not path.is_dir()]


def pretend_written_long_ago(root: Path) -> None:
    long_ago = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    for path in root.rglob("*"):
        os.utime(path, (long_ago, long_ago), follow_symlinks=False)


PUT_WITH_FAILPOINT = """
import asyncio, sys
from pathlib import Path
from callsheet.media.storage import LocalStorage
from callsheet.plumbing.failpoints import Failpoint, armed, end_process

async def main():
    options = dict(public_url="http://127.0.0.1:1", secret=b"secret", url_seconds=60, max_upload_bytes=1000)
    storage = LocalStorage(Path(sys.argv[1]), **options)
    with armed({Failpoint.STORAGE_BEFORE_POINTER: end_process, Failpoint.STORAGE_COPY_HALF_MADE: end_process}):
        if sys.argv[2] == "put":
            await storage.put("job/output", b"new", content_type="image/png")
        else:
            await storage.copy("job/input", sys.argv[2])

asyncio.run(main())
"""


@pytest.mark.parametrize("action", ["put", "job/output"], ids=["put", "copy"])
async def test_a_crash_before_the_pointer_leaves_the_old_object_and_rubbish_for_the_sweep(
    storage: LocalStorage, tmp_path: Path, action: str
) -> None:
    root = tmp_path / "storage"
    await storage.put("job/input", b"input", content_type="video/mp4")
    await storage.put("job/output", b"old", content_type="text/plain")

    assert await run_python(PUT_WITH_FAILPOINT, root, action) == 137

    info = await storage.head("job/output")
    assert info is not None
    assert (await storage.read("job/output", 10), info.content_type) == (b"old", "text/plain")
    assert len(files(root, "blobs")) == 3
    assert await storage.sweep(datetime.now(UTC)) == 0
    assert await storage.sweep(datetime.now(UTC) + TOMORROW) == 1
    assert len(files(root, "blobs")) == 2
    assert await storage.read("job/output", 10) == b"old"
    assert await storage.read("job/input", 10) == b"input"


async def test_a_crash_in_a_copy_to_a_new_key_leaves_the_source_and_a_key_that_can_be_deleted_and_written(
    storage: LocalStorage, tmp_path: Path
) -> None:
    root = tmp_path / "storage"
    await storage.put("job/input", b"input", content_type="video/mp4")

    assert await run_python(PUT_WITH_FAILPOINT, root, "job/accepted") == 137

    assert {entry.key async for entry in storage.list("job")} == {"job/input", "job/accepted"}
    with pytest.raises(Unavailable, match="missing"):
        await storage.read("job/accepted", 10)
    assert await storage.sweep(datetime.now(UTC) + TOMORROW) == 0
    await storage.copy("job/input", "job/accepted")
    assert await storage.read("job/accepted", 10) == b"input"
    await storage.delete("job/accepted")
    assert await run_python(PUT_WITH_FAILPOINT, root, "job/accepted") == 137
    await storage.delete("job/accepted")
    assert await storage.head("job/accepted") is None
    assert await storage.read("job/input", 10) == b"input"
    assert len(files(root, "blobs")) == 1


KILLED_WHILE_WRITING = """
import asyncio, os, signal, sys
from pathlib import Path
from callsheet.media.storage import LocalStorage

async def body():
    yield bytes(3 << 20)
    os.kill(os.getpid(), signal.SIGKILL)
    yield b"never"

async def main():
    options = dict(public_url="http://127.0.0.1:1", secret=b"secret", url_seconds=60, max_upload_bytes=1000)
    storage = LocalStorage(Path(sys.argv[1]), **options)
    await storage.put("job/output", body(), content_type="image/png")

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_a_kill_while_writing_leaves_no_object(storage: LocalStorage, tmp_path: Path) -> None:
    root = tmp_path / "storage"
    assert await run_python(KILLED_WHILE_WRITING, root) == -signal.SIGKILL
    assert await storage.head("job/output") is None
    assert len(files(root, "incoming")) == 1
    assert await storage.sweep(datetime.now(UTC) + TOMORROW) == 1
    assert files(root, "incoming") == []


async def test_a_sweep_deletes_only_unreferenced_files(storage: LocalStorage, tmp_path: Path) -> None:
    root = tmp_path / "storage"
    await storage.put("a/b/kept", b"kept", content_type="text/plain")
    await storage.put("a/gone/gone", b"gone", content_type="text/plain")
    await storage.copy("a/b/kept", "a/copy")
    await storage.delete("a/gone/gone")
    pretend_written_long_ago(root)
    young = root / "blobs" / "00" / ("0" * 32)
    young.parent.mkdir(exist_ok=True)
    young.write_bytes(b"a put that has not named it yet")

    assert await storage.sweep(datetime.now(UTC)) == 1, "the empty folder a/gone"
    assert not (root / "objects" / "a" / "gone").exists()
    assert young.exists()
    assert await storage.read("a/b/kept", 10) == await storage.read("a/copy", 10) == b"kept"
    await storage.put("a/gone/back", b"back", content_type="text/plain")
    assert await storage.read("a/gone/back", 10) == b"back"


async def test_a_sweep_keeps_files_that_are_being_stored(storage: LocalStorage, tmp_path: Path) -> None:
    root = tmp_path / "storage"
    swept: list[int] = []

    async def sweep(point: Failpoint) -> None:
        swept.append(await storage.sweep(datetime.now(UTC)))

    async def slow_upload() -> AsyncIterator[bytes]:
        yield bytes(2 << 20)
        pretend_written_long_ago(root)

    with armed({Failpoint.STORAGE_BEFORE_POINTER: sweep, Failpoint.STORAGE_COPY_HALF_MADE: sweep}):
        await storage.put("slow", slow_upload(), content_type="text/plain")
        for target in ("second-name", "a/copy"):
            pretend_written_long_ago(root)
            await storage.copy("slow", target)
    assert swept == [0, 0, 0]
    for key in ("slow", "second-name", "a/copy"):
        assert await storage.read(key, 2 << 20) == bytes(2 << 20)


@pytest.mark.thorough
async def test_a_folder_swept_away_while_storing_is_made_again(storage: LocalStorage, tmp_path: Path) -> None:
    for number in range(40):
        key = f"a/b/c/{number}/d/e"
        await storage.put(key, b"first", content_type="text/plain")
        await storage.delete(key)
        pretend_written_long_ago(tmp_path / "storage")
        await asyncio.gather(storage.sweep(datetime.now(UTC)), storage.put(key, b"second", content_type="text/plain"))
        assert await storage.read(key, 10) == b"second"


async def test_a_replaced_or_deleted_object_frees_its_space(storage: LocalStorage, tmp_path: Path) -> None:
    root = tmp_path / "storage"
    for content in (b"one", b"two"):
        await storage.put("object", content, content_type="text/plain")
    assert [path.read_bytes() for path in files(root, "blobs")] == [b"two"]
    await storage.delete("object")
    assert [*files(root, "blobs"), *files(root, "objects"), *files(root, "incoming")] == []


async def test_a_reader_keeps_the_object_it_opened(storage: LocalStorage) -> None:
    first = bytes(3 << 20)
    await storage.put("object", first, content_type="text/plain")
    reading = storage.stream("object")
    received = await anext(reading)
    await storage.put("object", b"second", content_type="text/plain")
    await storage.delete("object")
    received += b"".join([chunk async for chunk in reading])
    assert received == first


async def test_no_link_leads_out_of_the_storage(storage: LocalStorage, tmp_path: Path) -> None:
    root, outside = tmp_path / "storage", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    await storage.put("honest/object", b"honest", content_type="text/plain")
    (root / "objects" / "escape").symlink_to(outside)
    pointer = root / "objects" / "pointer,json"
    pointer.symlink_to(outside / "secret")

    for attempt in (
        storage.put("escape/new", b"x", content_type="text/plain"),
        storage.read("escape/secret", 10),
        storage.delete("escape/secret"),
        storage.copy("honest/object", "escape/new"),
        storage.head("pointer"),
    ):
        with pytest.raises(Unavailable):
            await attempt
    assert [entry.key async for entry in storage.list()] == ["honest/object"]
    pretend_written_long_ago(root)
    await storage.sweep(datetime.now(UTC))
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"


async def test_bytes_replaced_by_a_link_are_not_followed(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    await storage.put("object", b"honest", content_type="text/plain")
    (blob,) = files(tmp_path / "storage", "blobs")
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    with pytest.raises(Unavailable):
        await storage.read("object", 100)


async def test_the_storage_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "storage").symlink_to(tmp_path / "large-disk")
    storage = bare(tmp_path / "storage")
    await storage.check()
    await storage.close()
    assert (tmp_path / "large-disk" / "objects").is_dir()


@pytest.mark.few_forms
@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b'{"blob": "../../etc/passwd"}', b'{"id": 7}', b"\xff"])
async def test_a_damaged_pointer_is_an_error_not_a_crash(storage: LocalStorage, tmp_path: Path, damage: bytes) -> None:
    await storage.put("object", b"bytes", content_type="text/plain")
    (tmp_path / "storage" / "objects" / "object,json").write_bytes(damage)
    with pytest.raises(Unavailable):
        await storage.read("object", 10)
    with pytest.raises(Unavailable):
        await storage.sweep(datetime.now(UTC) + TOMORROW)
    assert len(files(tmp_path / "storage", "blobs")) == 1, "bytes whose pointer cannot be read must stay"
    await storage.put("object", b"mended", content_type="text/plain")
    assert await storage.read("object", 10) == b"mended"


async def test_missing_bytes_are_an_error(storage: LocalStorage, tmp_path: Path) -> None:
    await storage.put("object", b"bytes", content_type="text/plain")
    (blob,) = files(tmp_path / "storage", "blobs")
    blob.unlink()
    with pytest.raises(Unavailable, match="missing"):
        await storage.read("object", 10)


PUT_ON_A_FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from callsheet.media.storage import LocalStorage
from callsheet.wire.errors import Unavailable

async def main():
    options = dict(public_url="http://127.0.0.1:1", secret=b"secret", url_seconds=60, max_upload_bytes=1000)
    storage = LocalStorage(Path(sys.argv[1]), **options)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        await storage.put("object", bytes(2 << 20), content_type="image/png")
    except Unavailable as refusal:
        assert "full" in str(refusal), refusal
        sys.exit(42)

asyncio.run(main())
"""


async def test_a_full_disk_leaves_the_old_object(storage: LocalStorage, tmp_path: Path) -> None:
    root = tmp_path / "storage"
    await storage.put("object", b"old", content_type="text/plain")
    assert await run_python(PUT_ON_A_FULL_DISK, root) == 42
    assert await storage.read("object", 10) == b"old"
    assert files(root, "incoming") == []
    assert len(files(root, "blobs")) == 1


class FullDisk:
    """The n-th call that takes space on the disk fails, and those that follow do as well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, calls_that_work: int):
        self.calls_left = calls_that_work
        for name in ("open", "mkdir", "rename", "link", "fsync", "utime"):
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))
        monkeypatch.setattr(disk, "write_all", self._wrapped(disk.write_all))

    def _wrapped(self, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            reads = function.__name__ == "open" and not arguments[1] & os.O_CREAT
            if not reads and threading.current_thread().name.startswith("storage"):
                self.calls_left -= 1
                if self.calls_left < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*arguments, **options)

        return call


def blobs(storage: LocalStorage) -> dict[str, str]:
    """Which blob each object is."""
    return {key: pointer.blob for key, pointer in storage._disk.entries("")}


@pytest.mark.parametrize("action", ["put", "replace", "copy", "second name"])
async def test_a_put_refused_by_a_full_disk_leaves_no_bytes(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    root = tmp_path / "storage"
    # Each blob on a shelf of its own. By chance some would share one, which saves the calls that make it: an attempt
    # would have more or fewer steps than the one before, and the last step would be met twice or not at all.
    numbers = itertools.count()

    def new_name(length: int) -> str:
        number = f"{next(numbers):02x}"
        return number.ljust(2 * length - len(number), "0") + number

    monkeypatch.setattr(disk.secrets, "token_hex", new_name)
    await storage.put("input", b"input", content_type="text/plain")
    steps = made_visible = 0
    while True:
        before = blobs(storage)
        target = {"replace": "input", "second name": f"accepted-{steps}"}.get(action, f"new/{steps}/output")
        work = (
            storage.copy("input", target)
            if action in ("copy", "second name")
            else storage.put(target, bytes(1 << 10), content_type="image/png")
        )
        with pytest.MonkeyPatch.context() as patched:
            FullDisk(patched, steps)
            [refusal] = await asyncio.gather(work, return_exceptions=True)
        if not isinstance(refusal, BaseException):
            break
        assert isinstance(refusal, Unavailable)
        assert "full" in str(refusal)
        # Only a failure after the rename has already made the object visible. The one that it replaced is kept for
        # the sweep then: after a power cut the old pointer may be back.
        seen = blobs(storage)
        kept = {path.name for path in files(root, "blobs")}
        assert (files(root, "incoming"), kept) == ([], {*before.values(), *seen.values()}), f"step {steps}"
        for key in seen:
            await storage.read(key, 1 << 10)
        made_visible += seen != before
        if action == "replace" and seen != before:
            assert await storage.sweep(datetime.now(UTC)) == 0
            assert await storage.sweep(datetime.now(UTC) + TOMORROW) == 1
            assert {path.name for path in files(root, "blobs")} == {*seen.values()}
        await storage.delete_many([key for key in seen if key != "input"])
        steps += 1
    # A second name takes two links and two syncs.
    assert steps == 4 if action == "second name" else steps > 5, "the disk was full at every step"
    assert made_visible == (action != "second name"), "the step after the rename is one of them"


async def test_a_put_that_is_cancelled_at_its_last_step_leaves_nothing(storage: LocalStorage, tmp_path: Path) -> None:
    async def cancel(point: Failpoint) -> None:
        raise asyncio.CancelledError

    await storage.put("input", b"input", content_type="text/plain")
    with armed({Failpoint.STORAGE_BEFORE_POINTER: cancel, Failpoint.STORAGE_COPY_HALF_MADE: cancel}):
        for work in (
            storage.put("output", b"new", content_type="image/png"),
            storage.copy("input", "output"),
            storage.copy("input", "a/output"),
        ):
            with pytest.raises(asyncio.CancelledError):
                await work
    assert [entry.key async for entry in storage.list()] == ["input"]
    assert (files(tmp_path / "storage", "incoming"), len(files(tmp_path / "storage", "blobs"))) == ([], 1)


async def test_the_check_says_which_folder_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("a file where a folder should be")
    storage = bare(tmp_path / "storage")
    with pytest.raises(Unavailable, match=str(tmp_path / "storage")):
        await storage.check()
    await storage.close()


async def test_a_cancelled_put_leaves_nothing(storage: LocalStorage, tmp_path: Path) -> None:
    written = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield bytes(2 << 20)
        written.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(storage.put("object", body(), content_type="text/plain"))
    await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await storage.head("object") is None
    assert [*files(tmp_path / "storage", "blobs"), *files(tmp_path / "storage", "incoming")] == []


async def ask(url: str, target: bytes, method: bytes = b"GET") -> tuple[int, bytes]:
    """Sends one request with exactly this target: no client normalizes it on the way."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(method + b" " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    response = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(response.split(b" ", 2)[1]), response


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "target",
    [
        b"/storage/../../etc/passwd",
        b"/storage/%2e%2e/%2e%2e/etc/passwd",
        b"/storage/..%2f..%2fetc%2fpasswd",
        b"/storage//etc/passwd",
        b"/storage/a%00b",
        b"/storage/a%5c..%5cb",
        b"/storage/%ff%fe",
        b"/storage/",
        b"/storage/object?expires=1&signature=v1.%00",
        b"/storage/object?expires=%ff&signature=%ff",
        b"/storage/object?" + b"a=1&" * 1000,
    ],
)
async def test_raw_urls_are_refused(local_storage: LocalStorage, target: bytes) -> None:
    for method in (b"GET", b"HEAD", b"PUT"):
        status, response = await ask(local_storage.presign_get("object").url, target, method)
        assert 400 <= status < 500
        assert b"root:" not in response


@pytest.mark.parametrize("key", ["../../secret_key", "a/../../secret_key", "a\x00b", "objects\\x"])
async def test_a_valid_signature_does_not_make_an_invalid_key_acceptable(
    local_storage: LocalStorage, local_home: Path, storage_client: httpx.AsyncClient, key: str
) -> None:
    (local_home / "secret_key").write_text("root:")
    url = local_storage.urls.url(Grant("GET", key, expires=2**33))
    target = urlsplit(url)
    status, response = await ask(url, f"{target.path}?{target.query}".encode())
    assert status == 422
    assert b'"field": "key"' in response


async def test_every_read_during_concurrent_overwrites_returns_one_whole_version(
    local_storage: LocalStorage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    key = f"{folder}/contended"
    versions = {"image/png": b"p" * 100_000, "video/mp4": b"v" * 300_000}
    signed = local_storage.presign_get(key)
    await local_storage.put(key, versions["image/png"], content_type="image/png")

    async def overwrite() -> None:
        for _ in range(25):
            for kind, content in versions.items():
                await local_storage.put(key, content, content_type=kind)

    writing = asyncio.create_task(overwrite())
    seen = set()
    while not writing.done():
        response = await storage_client.get(signed.url)
        assert response.status_code == 200
        assert versions[response.headers["content-type"]] == response.content
        seen.add(response.headers["content-type"])
    await writing
    assert seen


async def test_a_truncated_upload_stores_nothing(local_storage: LocalStorage, local_home: Path, folder: str) -> None:
    for framing in (b"Content-Length: 100\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"):
        signed = local_storage.presign_put(f"{folder}/object", content_type="video/mp4", size=100)
        parts = urlsplit(signed.url)
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        target = f"{parts.path}?{parts.query}".encode()
        writer.write(b"PUT " + target + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: video/mp4\r\n" + framing)
        await writer.drain()
        await until(lambda: files(local_home / "storage", "incoming") != [])
        writer.close()
        await until(lambda: files(local_home / "storage", "incoming") == [])
        assert await local_storage.head(f"{folder}/object") is None


async def test_an_upload_without_a_declared_length_is_limited_by_the_settings(storage: LocalStorage) -> None:
    signed = storage.presign_put("object", content_type="video/mp4", size=None)
    grant = storage.urls.read("PUT", "object", urlsplit(signed.url).query.encode())
    assert grant.max_bytes == MAX_BYTES


async def test_refusals_say_what_is_wrong(
    local_storage: LocalStorage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    signed = local_storage.presign_put(f"{folder}/object", content_type="video/mp4", size=3, sha256="0" * 64)
    html = await storage_client.put(signed.url, content=b"abc", headers={"Content-Type": "text/html"})
    assert (html.status_code, html.json()["code"]) == (422, "content_mismatch")
    assert html.json()["errors"] == [{"field": "content-type", "reason": "The content-type must be video/mp4."}]
    longer = await storage_client.put(signed.url, content=b"abcd", headers=signed.headers)
    assert (longer.status_code, longer.json()["code"], longer.json()["limit_bytes"]) == (413, "body_too_large", 3)
    other = await storage_client.put(signed.url, content=b"abc", headers=signed.headers)
    assert (other.status_code, other.json()["errors"][0]["field"]) == (422, "sha256")
    changed = await storage_client.put(signed.url + "0", content=b"abc", headers=signed.headers)
    assert (changed.status_code, changed.json()["code"]) == (403, "signature_invalid")
    old = local_storage.urls.url(Grant("GET", f"{folder}/object", expires=1_000_000_000))
    expired = await storage_client.get(old)
    assert (expired.status_code, expired.json()["code"]) == (403, "signature_expired")
    assert await local_storage.head(f"{folder}/object") is None
    await local_storage.put(f"{folder}/object", b"abc", content_type="video/mp4")
    outside = await storage_client.get(local_storage.presign_get(f"{folder}/object").url, headers={"Range": "bytes=3-"})
    assert (outside.status_code, outside.headers["content-range"]) == (416, "bytes */3")


@pytest.mark.few_forms
@pytest.mark.parametrize(
    ("content_type", "disposition"),
    [
        ("video/mp4", None),
        ("image/png", None),
        ("audio/mpeg", None),
        ("image/svg+xml", "attachment"),
        ("text/html", "attachment"),
        ("application/xhtml+xml", "attachment"),
        ("text/html; charset=utf-8", "attachment"),
    ],
)
async def test_stored_files_cannot_run_scripts_in_the_origin_of_the_control_plane(
    local_storage: LocalStorage,
    folder: str,
    storage_client: httpx.AsyncClient,
    content_type: str,
    disposition: str | None,
) -> None:
    key = f"{folder}/object"
    await local_storage.put(key, b"<script>alert(1)</script>", content_type=content_type)
    url = local_storage.presign_get(key).url
    whole, part = await storage_client.get(url), await storage_client.get(url, headers={"Range": "bytes=0-3"})
    described = await storage_client.head(url)
    for response in (whole, part, described):
        assert response.is_success
        assert response.headers["content-type"] == content_type
        assert response.headers.get("content-disposition") == disposition
        assert response.headers["x-content-type-options"] == "nosniff"
        assert {"sandbox", "default-src 'none'"} <= set(response.headers["content-security-policy"].split("; "))
    assert (described.content, described.headers["content-length"]) == (b"", str(len(whole.content)))


async def test_a_range_applies_only_to_the_version_it_was_requested_for(
    local_storage: LocalStorage, folder: str, storage_client: httpx.AsyncClient
) -> None:
    await local_storage.put(f"{folder}/clip", b"0123456789", content_type="video/mp4")
    url = local_storage.presign_get(f"{folder}/clip").url
    etag = (await storage_client.head(url)).headers["etag"]
    same = await storage_client.get(url, headers={"Range": "bytes=0-0", "If-Range": etag})
    assert (same.status_code, same.content) == (206, b"0")
    await local_storage.put(f"{folder}/clip", b"abcdefghij", content_type="video/mp4")
    other = await storage_client.get(url, headers={"Range": "bytes=0-0", "If-Range": etag})
    assert (other.status_code, other.content) == (200, b"abcdefghij")


async def test_a_client_that_leaves_does_not_leave_a_file_open(
    local_storage: LocalStorage, local_home: Path, folder: str, storage_client: httpx.AsyncClient
) -> None:
    # More than the buffers of a connection hold, so that the rest is still to be read.
    size = 12 << 20
    await local_storage.put(f"{folder}/large", bytes(size), content_type="video/mp4")
    url = local_storage.presign_get(f"{folder}/large").url

    (blob,) = [path for path in files(local_home / "storage", "blobs") if path.stat().st_size == size]

    def times_open() -> int:
        return sum(_is_open(number, blob) for number in map(int, os.listdir("/dev/fd")))

    async with storage_client.stream("GET", url) as response:
        await anext(response.aiter_raw(1024))
        assert times_open() == 1
    await until(lambda: times_open() == 0)
    assert (await storage_client.get(url, headers={"range": "bytes=0-9"})).status_code == 206


def _is_open(number: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except OSError:
        return False


def test_reading_and_writing_are_in_the_api_document(storage: LocalStorage) -> None:
    path = ApiDocument(storage_router(storage).routes).content()["paths"]["/storage/{key}"]
    assert path.keys() == {"get", "head", "put"}
    assert {parameter["name"] for parameter in path["put"]["parameters"]} == {
        "key",
        "expires",
        "exact",
        "type",
        "max",
        "sha256",
        "signature",
    }
    json.dumps(path)


def test_a_bad_folder_is_refused(storage: LocalStorage) -> None:
    with pytest.raises(InvalidRequest):
        asyncio.run(anext(storage.list("../..")))
