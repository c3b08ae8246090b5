"""The free space of a disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from callsheet.wire.plurals import counted

MEBIBYTE = 1 << 20
GIBIBYTE = 1024**3


class DiskSpace(NamedTuple):
    """`free_bytes`: what this user may still write. `device` is the same for two directories of one file system."""

    free_bytes: int
    size_bytes: int
    device: int


def read_space(directory: Path) -> DiskSpace:
    """The space of the file system of a directory, or of its nearest existing parent."""
    place = existing(directory)
    usage = shutil.disk_usage(place)
    return DiskSpace(usage.free, usage.total, place.stat().st_dev)


def existing(path: Path) -> Path:
    """The directory, or its nearest existing parent."""
    return next(each for each in (path, *path.parents) if each.is_dir())


def gibibytes(size: int) -> str:
    """For people: `4.2 GiB`."""
    return f"{size / GIBIBYTE:.1f} GiB"


def readable(size: int) -> str:
    """For people, in the unit that suits the size: `12 bytes`, `3.5 MiB`, `10.0 GiB`."""
    if size < 1 << 10:
        return counted(size, "byte")
    if size < MEBIBYTE:
        return f"{size / (1 << 10):.1f} KiB"
    return f"{size / MEBIBYTE:.1f} MiB" if size < GIBIBYTE else gibibytes(size)
