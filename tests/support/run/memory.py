"""Returns memory of a test process to the system after each test file."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path

# A process that uses more than this returns memory. If it still uses more, it tries again after it has grown.
LARGE_MEGABYTES = 300.0
GROWTH_MEGABYTES = 30.0


class Memory:
    def __init__(self) -> None:
        self._limit = LARGE_MEGABYTES
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self._libc is not None:
            # glibc keeps the memory of a thread for the next one: 19 MB for each thread that ever checked a password.
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
