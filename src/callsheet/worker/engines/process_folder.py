"""A folder that exists as long as its process. The next process removes the folder of a killed one.

Every process uses a new name, so no process uses an old folder again. A lock file beside the folder shows whether its
process is alive.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.private_files import make_closed

log = get_logger(__name__)

LOCK = ".lock"
# A lock file that is younger than this may not be locked yet.
YOUNG_SECONDS = 60.0


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Marks the folder as in use, and removes it at the end. Without a writable lock, the folder is used unmarked."""
    lock = folder.with_name(folder.name + LOCK)
    with ExitStack() as held:
        try:
            make_closed(folder.parent)
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
    """Removes folders below `parent` whose processes have ended; returns their names."""
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
