"""flock for an event loop.

The kernel frees a flock when its holder dies in any way. The whole supervisor depends on that.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX
# Polling is cancellable and needs no thread. A thread that is blocked in flock() would block the interpreter's exit.
ASK_AGAIN_SECONDS = 0.02


class FileLock:
    """One open file description of a lock file. Two of them in one process are two holders."""

    def __init__(self, path: Path):
        self._path = path
        self._handle: int | None = None

    @property
    def is_taken(self) -> bool:
        return self._handle is not None

    def try_acquire(self, kind: int) -> bool:
        """Takes the lock, or converts the held one. A failed conversion loses the held lock."""
        if self._handle is None:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        return True

    async def acquire(self, kind: int, seconds: float) -> None:
        """Takes the lock. Raises TimeoutError if it is not free in time."""
        async with asyncio.timeout(seconds):
            while not self.try_acquire(kind):  # noqa: ASYNC110  another process frees it, which sets no event
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    def fileno(self) -> int:
        """The descriptor for a child process that must keep the lock if this process is killed."""
        assert self._handle is not None
        return self._handle

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_held(path: Path) -> bool:
    """Whether a process holds the lock exclusively."""
    lock = FileLock(path)
    try:
        return not lock.try_acquire(SHARED)
    except FileNotFoundError:
        return False
    finally:
        lock.release()
