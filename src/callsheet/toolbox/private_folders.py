"""Directories that only their owner can list: data, keys and uploads."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def own_mode() -> int:
    """The mode of a private directory. For root, other users may pass but not list it: PostgreSQL does not run as
    root and must reach its files.
    """
    return 0o711 if os.geteuid() == 0 else 0o700


def make_private(directory: Path) -> None:
    """Creates a private directory. An existing one does not change: its creator may have given others access on
    purpose.
    """
    _make(directory, own_mode())


def make_closed(directory: Path) -> None:
    """Like `make_private`, for a directory that no other user may pass either, also if root creates it. Missing
    directories above it are private: one of them may be the data directory, which PostgreSQL must pass."""
    _make(directory, 0o700)


def _make(directory: Path, mode: int) -> None:
    # `Path.mkdir` with `parents` would create the directories above with the mode that the umask leaves.
    for parent in reversed(directory.absolute().parents):
        if not parent.exists():
            parent.mkdir(mode=own_mode(), exist_ok=True)
    try:
        directory.mkdir(mode=mode, exist_ok=True)
    except FileExistsError:
        # "File exists" does not say what is wrong with it.
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None


def is_open_to_others(directory: Path) -> bool:
    """Whether other users of the machine can list it or write in it."""
    return bool(stat.S_IMODE(directory.stat().st_mode) & 0o066)
