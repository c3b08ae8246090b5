"""Folders entered one by one through file descriptors, so that no name and no symbolic link leads out of the root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ENTER_CHILD = _ENTER | os.O_NOFOLLOW
_OWNER_ONLY = 0o700


@contextmanager
def folder(root: Path, *names: str, create: bool = False) -> Iterator[int]:
    """A descriptor of root/name/name. The root itself may be a link (to a larger disk); nothing below it may."""
    descriptor = _open_root(root, create)
    try:
        for name in names:
            child = _enter(descriptor, name, create)
            os.close(descriptor)
            descriptor = child
        yield descriptor
    finally:
        os.close(descriptor)


def _open_root(root: Path, create: bool) -> int:
    try:
        return os.open(root, _ENTER)
    except FileNotFoundError:
        if not create:
            raise
    root.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
    return os.open(root, _ENTER)


def _enter(parent: int, name: str, create: bool) -> int:
    # Not `suppress`: a completion enters some thirty folders, and nearly all are there.
    try:
        return os.open(name, _ENTER_CHILD, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, _OWNER_ONLY, dir_fd=parent)
        os.fsync(parent)
    return os.open(name, _ENTER_CHILD, dir_fd=parent)


def create_file(parent: int, name: str) -> FileIO:
    """A new file. An object, not a bare descriptor: a task that is cancelled before it arrives does not leak
    it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return FileIO(os.open(name, flags, 0o600, dir_fd=parent), "w")


def open_file(parent: int, name: str) -> FileIO:
    return FileIO(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent))


def write_all(file: FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def files_below(descriptor: int, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Every regular file below a folder: the folders that lead there, the last one's descriptor, the name.

    The descriptor is good until the next file is asked for. Symbolic links are passed over.
    """
    with os.scandir(descriptor) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if not entry.is_symlink()]
    for name, is_folder in found:
        if not is_folder:
            yield path, descriptor, name
            continue
        with suppress(FileNotFoundError):
            child = os.open(name, _ENTER_CHILD, dir_fd=descriptor)
            try:
                yield from files_below(child, (*path, name))
            finally:
                os.close(child)
