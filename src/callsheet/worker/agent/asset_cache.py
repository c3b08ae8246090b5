"""Cache of downloaded files by content hash, up to a number of bytes. The least recently used file is removed first."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from weakref import WeakValueDictionary

from callsheet.toolbox.private_folders import make_closed

Download = Callable[[Path], Awaitable[str]]
_HASH = re.compile(r"[0-9a-f]{64}")


class ChecksumDiffers(Exception):
    """The downloaded file does not have the checksum that the job names."""


class AssetCache:
    def __init__(self, directory: Path, max_bytes: int):
        self._directory = directory
        self._max_bytes = max_bytes
        # None until the files of an earlier process are counted.
        self._used: int | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        make_closed(directory)
        for draft in directory.glob("*.draft"):
            draft.unlink(missing_ok=True)

    async def place(self, content_hash: str | None, target: Path, download: Download) -> bool:
        """Puts the file at `target`; returns whether it was in the cache. Two jobs that need the same file download it
        once. The file at `target` is a hard link, so clearing the cache does not remove it."""
        if content_hash is None or not is_hash(content_hash) or self._max_bytes == 0:
            _checked(content_hash, await download(target))
            return False
        lock = self._locks.setdefault(content_hash, asyncio.Lock())
        async with lock:
            kept = self._directory / content_hash
            found = kept.exists()
            if not found:
                draft = self._directory / f"{uuid.uuid4().hex}.draft"
                try:
                    _checked(content_hash, await download(draft))
                    draft.replace(kept)
                    if self._used is not None:
                        self._used += kept.stat().st_size
                finally:
                    draft.unlink(missing_ok=True)
            os.utime(kept)
            _link(kept, target)
        # The folder may have thousands of files, so it is read only if something must be removed.
        if self._used is None or self._used > self._max_bytes:
            self._used = await asyncio.to_thread(self._clear)
        return found

    def _clear(self) -> int:
        """Removes files until the others fit. Returns their bytes."""
        files = []
        for path in self._directory.iterdir():
            if is_hash(path.name):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        used = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            used -= size
        return used


def is_hash(text: str | None) -> bool:
    return text is not None and _HASH.fullmatch(text) is not None


def _checked(expected: str | None, found: str) -> None:
    if is_hash(expected) and found != expected:
        raise ChecksumDiffers(f"expected {expected}, got {found}")


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # The file system has no hard links.
        shutil.copyfile(source, target)
