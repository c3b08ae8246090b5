"""MP4, QuickTime, Matroska and WebM: tags are replaced by empty space of the same size, so that every packet keeps
its place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from callsheet.providers.stripping.pieces import OldFile, Piece, Unreadable, Zeros

_HOLDS_TAGS = (b"moov", b"trak")
_TAGS = (b"udta", b"meta")
DEEPEST = 8
# XMP is in the file or in `moov`. Deeper boxes belong to tracks, for example of spherical videos.
_XMP, _MAX_XMP_DEPTH = b"uuid", 1

_MATROSKA_SEGMENT, _MATROSKA_TAGS = bytes.fromhex("18538067"), bytes.fromhex("1254c367")
_VOID = 0xEC


def mp4(source: OldFile) -> Iterator[Piece]:
    return _boxes(source, 0, source.size, 0)


def _boxes(source: OldFile, at: int, limit: int, depth: int) -> Iterator[Piece]:
    if depth > DEEPEST:
        raise Unreadable("its boxes are nested too deeply")
    while at < limit:
        length, name = struct.unpack(">I4s", source.read(at, 8))
        header = 16 if length == 1 else 8
        length = source.number(at + 8, 8) if length == 1 else length or limit - at
        if not header <= length <= limit - at:
            raise Unreadable("a box is larger than what it lies in")
        end = at + length
        if name in _HOLDS_TAGS:
            yield source.span(at, at + header)
            yield from _boxes(source, at + header, end, depth + 1)
        elif name in _TAGS or (name == _XMP and depth <= _MAX_XMP_DEPTH):
            yield source.read(at, 4) + b"free" + source.read(at + 8, header - 8)
            yield Zeros(length - header)
        else:
            yield source.span(at, end)
        at = end


def matroska(source: OldFile) -> Iterator[Piece]:
    at = 0
    while at < source.size:
        name = source.read(at, _length_of_number(source.number(at, 1), 4))
        width = _length_of_number(source.number(at + len(name), 1), 8)
        header = len(name) + width
        length = source.number(at + len(name), width) & ((1 << 7 * width) - 1)
        is_open = length == (1 << 7 * width) - 1
        # The segment contains the rest. Clusters of a live stream do not have an end, either.
        end = at + header + (0 if is_open or name == _MATROSKA_SEGMENT else length)
        if name == _MATROSKA_TAGS and not is_open:
            source.span(at, end)
            yield from _void(end - at)
        else:
            yield source.span(at, end)
        at = end


def _length_of_number(first: int, max_length: int) -> int:
    """The length of a Matroska number: it starts with as many zero bits as bytes follow."""
    length = 9 - first.bit_length()
    if length > max_length:
        raise Unreadable("an element has no length")
    return length


def _void(length: int) -> Iterator[Piece]:
    """An element of this length that readers skip. A tag element has at least five bytes."""
    width = 8 if length > 9 else 1
    yield bytes([_VOID]) + ((1 << 7 * width) | (length - 1 - width)).to_bytes(width, "big")
    yield Zeros(length - 1 - width)
