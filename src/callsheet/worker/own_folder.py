"""A folder for as long as a process lives: what one that was killed left in its own, the next one removes.

Its name is new for every process, so nobody comes back to it; a lock beside it says whether its owner is alive.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

LOCK = ".lock"
# Between the moment a lock is made and the moment it is held.
YOUNG_SECONDS = 60.0


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Marks it as in use, and removes it in the end. Where that cannot be written it is only not marked."""
    lock = folder.with_name(folder.name + LOCK)
    with ExitStack() as held:
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = held.enter_context(lock.open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            log.warning("folder.not_marked", folder=folder.name, reason=str(error))
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                lock.unlink()


def remove_left_over(parent: Path, now: float | None = None) -> list[str]:
    """Folders below `parent` whose owners are gone; answers their names."""
    before = (time.time() if now is None else now) - YOUNG_SECONDS
    removed = []
    for lock in sorted(parent.glob(f"*{LOCK}")):
        with suppress(OSError):
            if lock.stat().st_mtime > before:
                continue
            with lock.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_name(lock.name.removesuffix(LOCK)), ignore_errors=True)
                lock.unlink()
                removed.append(lock.name.removesuffix(LOCK))
    return removed
