"""Directories that only their owner can list, and files that only their owner can read."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any


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


def write_private(path: Path, value: dict[str, Any], *, survives_machine_crash: bool = True) -> None:
    """Replaces the whole file; after an error the old file stays. With `survives_machine_crash` this holds also if the
    machine crashes. Without it, the file survives only a crash of this process, and there is no fsync."""
    make_closed(path.parent)
    draft = path.with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        if survives_machine_crash:
            os.fsync(file.fileno())
    draft.replace(path)


def read_private(path: Path) -> dict[str, Any] | None:
    """Returns what was written, or None if the file is missing, unreadable or invalid."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
