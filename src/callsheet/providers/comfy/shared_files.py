"""Files that many runs use, stored at the engine under a name that is derived from their content."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

DAY_SECONDS = 86_400


class SharedFiles:
    """The names of shared files at one engine. Each use checks whether the engine still has the file: it may have
    been deleted.
    """

    def __init__(self) -> None:
        self._references: dict[str, str] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def place(
        self,
        name: str,
        has: Callable[[str], Awaitable[bool]],
        upload: Callable[[], Awaitable[str]],
        expected: str | None = None,
    ) -> str:
        """The name of the file in graphs. Two concurrent runs with the same file upload it once. `expected`: the
        engine's name before the first request for it.
        """
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            reference = self._references.get(name, expected)
            if reference is None or not await has(reference):
                reference = self._references[name] = await upload()
            return reference


def mark_used(path: Path) -> None:
    """Updates the time of last use. A missing file, or a file of another system user, causes no error."""
    with suppress(OSError):
        os.utime(path)


def remove_unused(folder: Path, days: int, now: float | None = None) -> None:
    before = (time.time() if now is None else now) - days * DAY_SECONDS
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                # If the use of a file cannot be marked, its age means nothing.
                if path.is_file() and path.stat().st_mtime < before and os.access(path, os.W_OK):
                    path.unlink()
