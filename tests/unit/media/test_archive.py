"""A zip that is sent while it is written."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.media.archive import LONG, ArchiveEntry, zipped
from callsheet.pipelines.judge.export import folder_in_archive

AT = datetime(2026, 5, 4, 3, 2, 2, tzinfo=UTC)


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def listed(*entries: ArchiveEntry) -> AsyncGenerator[ArchiveEntry, None]:
    for entry in entries:
        yield entry


async def written(*entries: ArchiveEntry) -> bytes:
    return b"".join([piece async for piece in zipped(listed(*entries))])


async def test_entries_are_read_back_unchanged() -> None:
    made = await written(
        ArchiveEntry("base/1.png", AT, pieces(b"one", b"two")),
        ArchiveEntry("empty.bin", AT, pieces()),
        ArchiveEntry("manifest.json", AT, pieces(json.dumps({"a": 1}).encode()), packed=True),
    )
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["base/1.png", "empty.bin", "manifest.json"]
        assert archive.read("base/1.png") == b"onetwo"
        assert archive.read("empty.bin") == b""
        assert json.loads(archive.read("manifest.json")) == {"a": 1}
        assert archive.getinfo("base/1.png").date_time == (2026, 5, 4, 3, 2, 2)


async def test_an_entry_that_may_be_very_large_is_written_in_the_longer_form(tmp_path: Path) -> None:
    (tmp_path / "made.zip").write_bytes(await written(ArchiveEntry("a/b.txt", AT, pieces(b"x" * 9), size=LONG + 1)))
    shutil.unpack_archive(tmp_path / "made.zip", tmp_path)
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"x" * 9


async def test_an_empty_archive_is_valid() -> None:
    with zipfile.ZipFile(io.BytesIO(await written())) as archive:
        assert archive.namelist() == []


async def test_a_time_before_1980_becomes_the_first_time_of_a_zip() -> None:
    made = await written(ArchiveEntry("old", datetime(1970, 1, 1, tzinfo=UTC), pieces(b"x")))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.getinfo("old").date_time == (1980, 1, 1, 0, 0, 0)


async def test_pieces_are_sent_as_they_are_read_and_none_is_kept() -> None:
    read = 0

    async def large() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(50):
            read += 1
            yield bytes(100_000)

    sent = 0
    async for piece in zipped(listed(ArchiveEntry("large.bin", AT, large()))):
        sent += len(piece)
        assert read * 100_000 - sent <= 0
        assert len(piece) < 200_000


async def test_a_reader_that_leaves_in_the_middle_leaves_nothing_open() -> None:
    closed = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"more"

    async def watched() -> AsyncGenerator[ArchiveEntry, None]:
        try:
            yield ArchiveEntry("endless", AT, endless())
        finally:
            closed.append(True)

    sending = zipped(watched())
    await anext(sending)
    await sending.aclose()  # type: ignore[attr-defined]
    assert closed


@pytest.mark.parametrize(
    ("target_folder", "folder"),
    [("gym-shoot", "gym-shoot"), ("con", "run-con"), ("lpt1", "run-lpt1"), ("console", "console"), ("nul-1", "nul-1")],
)
def test_no_folder_has_the_name_of_a_device(target_folder: str, folder: str) -> None:
    assert folder_in_archive(target_folder) == folder
