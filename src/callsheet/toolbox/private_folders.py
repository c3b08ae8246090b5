"""Directories that only their owner looks into: data, keys, what was uploaded."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def own_mode() -> int:
    """For root, other users may pass but not list: PostgreSQL does not run as root and must reach its files."""
    return 0o711 if os.geteuid() == 0 else 0o700


def make_private(directory: Path) -> None:
    """One that exists stays as it is: who made it may have given others access on purpose."""
    directory.mkdir(mode=own_mode(), parents=True, exist_ok=True)


def is_open_to_others(directory: Path) -> bool:
    """Whether other users of the machine can list it or write in it."""
    return bool(stat.S_IMODE(directory.stat().st_mode) & 0o066)
