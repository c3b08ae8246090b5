"""Folders entered one by one through file descriptors, so that no name and no symbolic link leads out of the root."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Protocol

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ENTER_CHILD = _ENTER | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ONLY = 0o700
# Descriptors that `OpenFolders` holds. A batch has up to 64 operations with a few folders each.
MAX_OPEN = 256


class EnterFolder(Protocol):
    """A descriptor of a folder below a root, valid inside the `with` block."""

    def __call__(self, *names: str, create: bool = False) -> AbstractContextManager[int]: ...


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


def try_lock(root: Path, *names: str) -> int | None:
    """Locks a folder for one process. Returns a descriptor, which unlocks it when it is closed; None if another process
    has locked it. The system unlocks it when a process ends."""
    with folder(root, *names, create=True) as parent:
        descriptor = os.open(".", _ENTER, dir_fd=parent)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


class _OpenFolder:
    __slots__ = ("descriptor", "users")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 0


class OpenFolders:
    """Folders that stay open for all operations of a batch, which share most of them. Not for several threads.

    Each call of the system gives up the interpreter lock, and a busy event loop takes it. Without this a completion
    makes 92 calls, and two thirds of them open and close folders.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[tuple[str, ...], _OpenFolder] = {}
        # Still in use when they were forgotten.
        self._forgotten: list[_OpenFolder] = []

    def __enter__(self) -> OpenFolders:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._open.values(), *self._forgotten):
            os.close(each.descriptor)
        self._open, self._forgotten = {}, []

    @contextmanager
    def folder(self, *names: str, create: bool = False) -> Iterator[int]:
        """Like `folder` of this module, without opening what is open."""
        entered: _OpenFolder | None = None
        try:
            entered = self._enter(names, create)
            entered.users += 1
            yield entered.descriptor
        except FileNotFoundError:
            # A sweep may have removed one of the folders. A second attempt opens them again.
            self._forget()
            raise
        finally:
            if entered is not None:
                entered.users -= 1

    def _enter(self, names: tuple[str, ...], create: bool) -> _OpenFolder:
        entered = self._open.get(names)
        if entered is not None:
            return entered
        if not names:
            descriptor = _open_root(self._root, create)
        else:
            parent = self._enter(names[:-1], create)
            descriptor = _enter(parent.descriptor, names[-1], create)
        if len(self._open) >= MAX_OPEN:
            self._forget()
        entered = self._open[names] = _OpenFolder(descriptor)
        return entered

    def _forget(self) -> None:
        """Closes all folders that are not in use."""
        for each in self._open.values():
            if each.users:
                self._forgotten.append(each)
            else:
                os.close(each.descriptor)
        self._open = {}


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
    return FileIO(os.open(name, _CREATE, 0o600, dir_fd=parent), "w")


@contextmanager
def new_file(parent: int, name: str) -> Iterator[int]:
    """The descriptor of a new file, for the `with` block."""
    descriptor = os.open(name, _CREATE, 0o600, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(parent: int, name: str) -> FileIO:
    return FileIO(os.open(name, _READ, dir_fd=parent))


def read_file(parent: int, name: str, size: int) -> bytes:
    """Up to `size` bytes of its beginning."""
    descriptor = os.open(name, _READ, dir_fd=parent)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


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
