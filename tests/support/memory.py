"""Memory that a test process gives back to the system after a file of tests."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path

# A process that is larger than this gives memory back. If it stays larger, it does so again when it has grown.
LARGE_MEGABYTES = 300.0
GROWTH_MEGABYTES = 30.0


class Memory:
    def __init__(self) -> None:
        self._limit = LARGE_MEGABYTES
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self._libc is not None:
            # glibc keeps what a thread had for the next one it starts: 19 MB for each that ever looked at a password.
            most_arenas, smallest_of_its_own = -8, -3
            self._libc.mallopt(most_arenas, 2)
            self._libc.mallopt(smallest_of_its_own, 1024 * 1024)

    def give_back(self) -> None:
        """Collects only in a process that grew: a collection takes 0.15 seconds, after each file an eighth of all."""
        if self._libc is None or resident_megabytes() <= self._limit:
            return
        gc.collect()
        self._libc.malloc_trim(0)
        self._limit = max(self._limit, resident_megabytes() + GROWTH_MEGABYTES)


def resident_megabytes() -> float:
    """The memory that this process has now, on Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1024 * 1024)
