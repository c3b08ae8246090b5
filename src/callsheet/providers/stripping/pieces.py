"""The pieces of a new file: parts of the old file, zeros, and a few new bytes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

BLOCK = 1 << 20
# A GIF has a length before every 255 bytes, so this is a GIF of 1.2 GB.
MAX_STEPS = 5_000_000
MAX_PIECES = 100_000
# Every graph contains one of these words: the first in the format of engines, the second in the format of the editor.
_WORDS = ("class_type", "widgets_values")
# This part of a word in UTF-16 is the same in both byte orders.
MARKS = tuple(mark for word in _WORDS for mark in (word.encode(), word.encode("utf-16-be")[1:]))
# A PNG can contain the graph compressed. If its chunks cannot be read, their names show it.
PACKED_MARKS = tuple(
    f"{chunk}{key}\0".encode() for chunk in ("zTXt", "iTXt") for key in ("prompt", "workflow", "parameters")
)
_OVERLAP = max(map(len, (*MARKS, *PACKED_MARKS))) - 1


class Unreadable(Exception):
    """The file is not of the type of its first bytes, or has too many parts."""


class Stopped(Exception):
    """The job was canceled meanwhile."""


@dataclass(frozen=True, slots=True)
class FileSpan:
    """A part of the old file."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Zeros:
    length: int


Piece = FileSpan | Zeros | bytes


class OldFile:
    """The old file, read at any place. Nothing is read beyond its end."""

    def __init__(self, file: BinaryIO, stop: threading.Event | None = None):
        self._file = file
        self._stop = stop or threading.Event()
        self._steps = 0
        self.size = os.fstat(file.fileno()).st_size

    def read(self, at: int, length: int) -> bytes:
        """A few bytes. Raises Unreadable if the file ends before."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Unreadable("it has too many parts")
        if self._steps % 1000 == 0:
            self._check()
        if at < 0 or at + length > self.size:
            raise Unreadable("it ends too early")
        self._file.seek(at)
        return self._file.read(length)

    def beginning(self, length: int) -> bytes:
        self._file.seek(0)
        return self._file.read(length)

    def number(self, at: int, length: int, *, little: bool = False) -> int:
        return int.from_bytes(self.read(at, length), "little" if little else "big")

    def span(self, start: int, end: int) -> FileSpan:
        """A part of the file. Raises Unreadable if it is not in the file."""
        if not 0 <= start <= end <= self.size:
            raise Unreadable("a part of it lies outside the file")
        return FileSpan(start, end - start)

    def blocks(self, span: FileSpan) -> Iterator[bytes]:
        self._file.seek(span.start)
        left = span.length
        while left:
            self._check()
            block = self._file.read(min(BLOCK, left))
            if not block:
                raise Unreadable("it became shorter")
            left -= len(block)
            yield block

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped


def planned(source: OldFile, walker: Callable[[OldFile], Iterator[Piece]] | None) -> list[Piece] | None:
    """The pieces of the new file; None if it would equal the old one."""
    if walker is None:
        return None
    plan: list[Piece] = []
    for piece in walker(source):
        last = plan[-1] if plan else None
        if isinstance(piece, FileSpan) and isinstance(last, FileSpan) and last.start + last.length == piece.start:
            plan[-1] = FileSpan(last.start, last.length + piece.length)
        else:
            plan.append(piece)
        if len(plan) > MAX_PIECES:
            raise Unreadable("too many of its parts would be removed")
    return None if plan == [FileSpan(0, source.size)] else plan


def copied(source: OldFile, plan: Sequence[Piece], target: Path) -> tuple[int, str, bool]:
    """Size and checksum of the new file, and whether it still contains a graph."""
    digest, search, size = hashlib.sha256(), Search(), 0
    with target.open("xb") as file:
        for piece in plan:
            for block in _blocks(source, piece):
                file.write(block)
                digest.update(block)
                search.add(block)
                size += len(block)
    return size, digest.hexdigest(), search.found


def searched(source: OldFile, *, may_be_packed: bool) -> bool:
    """Whether the old file contains a graph."""
    search = Search((*MARKS, *PACKED_MARKS) if may_be_packed else MARKS)
    for block in source.blocks(FileSpan(0, source.size)):
        search.add(block)
    return search.found


class Search:
    """Looks for a graph in bytes that come block by block."""

    def __init__(self, marks: Sequence[bytes] = MARKS) -> None:
        self.found = False
        self._marks = marks
        self._end = b""

    def add(self, block: bytes) -> None:
        text = self._end + block
        self.found = self.found or any(mark in text for mark in self._marks)
        self._end = text[-_OVERLAP:]


def _blocks(source: OldFile, piece: Piece) -> Iterator[bytes]:
    match piece:
        case bytes():
            yield piece
        case FileSpan():
            yield from source.blocks(piece)
        case Zeros():
            for at in range(0, piece.length, BLOCK):
                yield bytes(min(BLOCK, piece.length - at))
