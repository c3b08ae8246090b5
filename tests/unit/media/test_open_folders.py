"""Folders that the operations of one batch share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callsheet.media.storage import folders
from callsheet.media.storage.folders import OpenFolders


def descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


def test_a_folder_is_opened_once_and_closed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "c").mkdir()
    before, opened, plain_open = descriptors(), [], os.open

    def count(path: str, *flags: int, **folder: int) -> int:
        opened.append(str(path))
        return plain_open(path, *flags, **folder)

    monkeypatch.setattr(os, "open", count)
    with OpenFolders(tmp_path) as shared:
        for names in (("a", "b"), ("a", "b"), ("a",), ("a", "c")):
            with shared.folder(*names) as descriptor:
                assert os.path.samestat(os.fstat(descriptor), os.stat(tmp_path.joinpath(*names)))
    assert opened == [str(tmp_path), "a", "b", "c"]
    assert descriptors() == before


def test_a_folder_that_was_removed_is_created_again_by_the_next_attempt(tmp_path: Path) -> None:
    with OpenFolders(tmp_path) as shared:
        with shared.folder("a", "b", create=True):
            (tmp_path / "a" / "b").rmdir()
            (tmp_path / "a").rmdir()
        with pytest.raises(FileNotFoundError), shared.folder("a", "b") as stale:
            os.close(os.open("file", os.O_CREAT, dir_fd=stale))
        with shared.folder("a", "b", create=True) as fresh:
            os.close(os.open("file", os.O_CREAT, dir_fd=fresh))
    assert (tmp_path / "a" / "b" / "file").exists()


def test_folders_in_use_stay_open_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_OPEN", 3)
    before = descriptors()
    with OpenFolders(tmp_path) as shared:
        with shared.folder("used", create=True) as used:
            for number in range(20):
                with shared.folder(str(number), create=True):
                    assert len(descriptors() - before) <= 5
            os.close(os.open("file", os.O_CREAT, dir_fd=used))
        assert (tmp_path / "used" / "file").exists()
    assert descriptors() == before


def test_a_link_below_the_root_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").symlink_to(tmp_path / "elsewhere")
    with OpenFolders(tmp_path / "root") as shared, pytest.raises(OSError, match="a"), shared.folder("a"):
        pass
