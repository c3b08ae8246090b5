"""AVIF and HEIC: images in boxes. EXIF and XMP are items beside the pixels, and are emptied in place."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from callsheet.providers.stripping.pieces import OldFile, Piece, Unreadable, Zeros

_METADATA = (b"Exif", b"mime")
# EXIF without fields, after the place where it starts. If the image is rotated, another box contains that.
_NO_EXIF = struct.pack(">I4sIHI", 0, b"MM\0*", 8, 0, 0)
MAX_ITEMS = 10_000
Box = tuple[bytes, int, int]


def still(source: OldFile) -> Iterator[Piece]:
    boxes = {name: (start, end) for name, start, end in _boxes(source, 0, source.size)}
    if b"meta" not in boxes:
        raise Unreadable("its items are not listed")
    start, end = boxes[b"meta"]
    listed = {name: (start, end) for name, start, end in _boxes(source, start + 4, end)}
    if not listed.keys() >= {b"iinf", b"iloc"}:
        raise Unreadable("its items are not listed")
    items = dict(_metadata_items(source, *listed[b"iinf"]))
    at = 0
    for start, end, kind in sorted(_places(source, listed[b"iloc"][0], items)):
        # An encoder stores the same bytes once, so items may share them.
        start = max(start, at)
        if start >= end:
            continue
        yield source.span(at, start)
        source.span(start, end)
        content = _NO_EXIF if kind == b"Exif" and end - start >= len(_NO_EXIF) else b""
        if content:
            yield content
        yield Zeros(end - start - len(content))
        at = end
    yield source.span(at, source.size)


def _boxes(source: OldFile, at: int, limit: int) -> Iterator[Box]:
    """Name, start and end of the content of each box."""
    while at < limit:
        length, name = struct.unpack(">I4s", source.read(at, 8))
        header = 16 if length == 1 else 8
        length = source.number(at + 8, 8) if length == 1 else length or limit - at
        if not header <= length <= limit - at:
            raise Unreadable("a box is larger than what it lies in")
        yield name, at + header, at + length
        at += length


def _metadata_items(source: OldFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    count = 4 if source.number(start, 1) else 2
    for name, at, _ in _boxes(source, start + 4 + count, end):
        version = source.number(at, 1)
        if name != b"infe" or version < 2:
            raise Unreadable("an item is described in an old way")
        width = 2 if version == 2 else 4
        kind = source.read(at + 4 + width + 2, 4)
        if kind in _METADATA:
            yield source.number(at + 4, width), kind


def _places(source: OldFile, at: int, items: dict[int, bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Start and end of the parts of these items."""
    version, sizes = source.number(at, 1), source.number(at + 4, 2)
    offset, length, base, index = sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15, sizes & 15
    wide = 4 if version == 2 else 2
    count, at = source.number(at + 6, wide), at + 6 + wide
    if version > 2 or count > MAX_ITEMS:
        raise Unreadable("the places of its items cannot be read")
    for _ in range(count):
        item, at = source.number(at, wide), at + wide
        in_file, at = (source.number(at, 2) & 15 == 0, at + 2) if version else (True, at)
        begin, parts = source.number(at + 2, base), source.number(at + 2 + base, 2)
        at += 2 + base + 2
        for _ in range(parts):
            at += index if version else 0
            start, size = begin + source.number(at, offset), source.number(at + offset, length)
            at += offset + length
            if item in items and in_file:
                yield start, start + size, items[item]
