"""The directory for the hundreds of databases that tests create and drop."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
# A server with the databases of one test and its log takes a quarter of this.
ROOM_BYTES = 2 * 1024**3
_PREFIX = "callsheet-tests-"


@contextmanager
def quick_directory(otherwise: Path) -> Iterator[Path]:
    """A directory in memory if there is enough space, else `otherwise` (macOS, a container's 64 MB).

    Every test with an installation of its own makes and drops three databases of three hundred files. ext4 does not
    give out an inode again for some seconds after its file was deleted, and looks through all of those for each new
    file: on disk a database soon takes ten times as long as here.
    """
    if not _has_room():
        yield otherwise
        return
    _sweep()
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=MEMORY))
    # Other users may enter: as root, PostgreSQL runs as another user.
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _has_room() -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES


def _sweep() -> None:
    """Removes the directories of killed test runs, which would keep their memory."""
    for left in MEMORY.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not _lives(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
