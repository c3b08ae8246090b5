"""Removes what a crash leaves behind in the local backend: it is found by its age and because nothing names
it."""

from __future__ import annotations

import os
from contextlib import suppress

from callsheet.media.storage.disk import BLOBS, INCOMING, OBJECTS, Disk
from callsheet.media.storage.folders import files_below, folder


def sweep(disk: Disk, older_than: float) -> int:
    """Removes drafts, blobs without a pointer and empty folders last changed before this time."""
    return _sweep_drafts(disk, older_than) + _sweep_blobs(disk, older_than) + _sweep_folders(disk, older_than)


def _sweep_drafts(disk: Disk, older_than: float) -> int:
    removed = 0
    with suppress(FileNotFoundError), folder(disk.root, INCOMING) as incoming:
        for _, _, name in files_below(incoming):
            with suppress(FileNotFoundError):
                if os.stat(name, dir_fd=incoming, follow_symlinks=False).st_mtime < older_than:
                    os.unlink(name, dir_fd=incoming)
                    removed += 1
    return removed


def _sweep_blobs(disk: Disk, older_than: float) -> int:
    # First the blobs, then the pointers: a blob is touched before its pointer is made, so one that is old in the
    # first list and named by nothing afterwards cannot be named by anything any more.
    orphans = _old_blobs(disk, older_than)
    if orphans:
        orphans -= {pointer.blob for _, pointer in disk.entries("")}
    for blob in orphans:
        with suppress(FileNotFoundError), folder(disk.root, BLOBS, blob[:2]) as blob_folder:
            os.unlink(blob, dir_fd=blob_folder)
    return len(orphans)


def _old_blobs(disk: Disk, older_than: float) -> set[str]:
    found: set[str] = set()
    with suppress(FileNotFoundError), folder(disk.root, BLOBS) as blobs:
        for _, blob_folder, name in files_below(blobs):
            with suppress(FileNotFoundError):
                if os.stat(name, dir_fd=blob_folder, follow_symlinks=False).st_mtime < older_than:
                    found.add(name)
    return found


def _sweep_folders(disk: Disk, older_than: float) -> int:
    removed = 0
    with suppress(FileNotFoundError), folder(disk.root, OBJECTS) as objects:
        for _, folders, _, parent in os.fwalk(dir_fd=objects, topdown=False, follow_symlinks=False):
            for name in folders:
                # rmdir refuses a folder with anything in it, also with something that came a moment ago.
                with suppress(OSError):
                    if os.stat(name, dir_fd=parent, follow_symlinks=False).st_mtime < older_than:
                        os.rmdir(name, dir_fd=parent)
                        removed += 1
    return removed
