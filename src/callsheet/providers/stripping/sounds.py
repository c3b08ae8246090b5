"""FLAC, MP3 and Ogg (Opus, Vorbis) without their tags."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from callsheet.providers.stripping.pieces import FileSpan, OldFile, Piece, Unreadable, Zeros

_PADDING, _APPLICATION, _COMMENTS = 1, 2, 4
_LAST = 0x80

_ID3_HEADER, _ID3_FOOTER, _ID3_OLD = 10, 10, 128
_APE_FOOTER, _APE_HAS_HEADER = 32, 1 << 31

_PAGE_HEADER, _MAX_SEGMENTS = 27, 255
_STARTS_STREAM = 0x02
# Maximum size of the comments of all streams together: their checksum is computed byte by byte.
MAX_COMMENTS_BYTES = 8 * 1024 * 1024
_COMMENT_HEADS = (b"OpusTags", b"\x03vorbis")


def flac(source: OldFile) -> Iterator[Piece]:
    at, is_last = 4, False
    yield source.span(0, at)
    while not is_last:
        head = source.number(at, 4)
        kind, length = head >> 24, head & 0xFFFFFF
        is_last, end = bool(kind & _LAST), at + 4 + length
        if kind & ~_LAST in (_COMMENTS, _APPLICATION):
            source.span(at, end)
            yield struct.pack(">I", ((kind & _LAST) | _PADDING) << 24 | length)
            yield Zeros(length)
        else:
            yield source.span(at, end)
        at = end
    yield source.span(at, source.size)


def mp3(source: OldFile) -> Iterator[Piece]:
    """An MP3 without its tags. If the content after ID3 is not an MP3, it is kept: some programs put ID3 before
    other audio.
    """
    start, end = 0, source.size
    while end - start >= _ID3_HEADER and source.read(start, 3) == b"ID3":
        start += _id3_length(source.read(start, _ID3_HEADER))
    if end - start >= _ID3_OLD and source.read(end - _ID3_OLD, 3) == b"TAG":
        end -= _ID3_OLD
    if end - start >= _APE_FOOTER and source.read(end - _APE_FOOTER, 8) == b"APETAGEX":
        length, _, flags = struct.unpack("<III", source.read(end - _APE_FOOTER + 12, 12))
        end -= length + (_APE_FOOTER if flags & _APE_HAS_HEADER else 0)
    yield source.span(start, end)


def _id3_length(header: bytes) -> int:
    length = 0
    for byte in header[6:10]:
        length = length << 7 | byte & 0x7F
    return length + _ID3_HEADER + (_ID3_FOOTER if header[5] & 0x10 else 0)


@dataclass
class _Page:
    start: int
    body: int
    end: int
    header: bytes
    # Parts of the page that belong to comments: their places, and their new content.
    changed: dict[int, bytes] = field(default_factory=dict)


@dataclass
class _Comments:
    """The second packet of a stream, and the places of its parts."""

    packet: int = 0
    parts: list[tuple[_Page, int, int]] = field(default_factory=list)


def ogg(source: OldFile) -> Iterator[Piece]:
    pages: list[_Page] = []
    streams: dict[bytes, _Comments] = {}
    at = held = 0
    # All streams start before the first one continues, and the comments of a stream are its second packet.
    while not streams or any(each.packet < 2 for each in streams.values()):
        page = _page(source, at)
        serial = page.header[14:18]
        if page.header[5] & _STARTS_STREAM:
            streams[serial] = _Comments()
        elif serial not in streams:
            raise Unreadable("a page belongs to no stream")
        _sort_in(page, streams[serial])
        pages.append(page)
        held += page.end - page.start
        if held > MAX_COMMENTS_BYTES:
            raise Unreadable("its comments are too large")
        at = page.end
    for comments in streams.values():
        _empty(source, comments)
    for page in pages:
        yield from _rewritten(source, page)
    yield source.span(at, source.size)


def _page(source: OldFile, at: int) -> _Page:
    header = source.read(at, _PAGE_HEADER)
    if header[:4] != b"OggS":
        raise Unreadable("a page is missing")
    header += source.read(at + _PAGE_HEADER, header[26])
    body = at + len(header)
    return _Page(at, body, body + sum(header[_PAGE_HEADER:]), header)


def _sort_in(page: _Page, comments: _Comments) -> None:
    """Adds the bytes of the page that belong to the second packet of its stream. A segment of 255 bytes continues."""
    at = page.body
    for length in page.header[_PAGE_HEADER:]:
        if comments.packet == 1:
            comments.parts.append((page, at, at + length))
        comments.packet += length < _MAX_SEGMENTS
        at += length


def _empty(source: OldFile, comments: _Comments) -> None:
    """Replaces the comments by empty ones, padded with zeros, which every reader skips."""
    packet = b"".join(source.read(start, end - start) for _, start, end in comments.parts)
    head = next((each for each in _COMMENT_HEADS if packet.startswith(each)), None)
    if head is None:
        return
    vendor = len(head) + 4 + int.from_bytes(packet[len(head) : len(head) + 4], "little")
    # Vorbis comments end with one more bit.
    new = packet[:vendor] + bytes(4) + (b"\x01" if head == _COMMENT_HEADS[1] else b"")
    if len(new) > len(packet):
        raise Unreadable("its comments are broken")
    new += bytes(len(packet) - len(new))
    at = 0
    for page, start, end in comments.parts:
        page.changed[start] = new[at : at + end - start]
        at += end - start


def _rewritten(source: OldFile, page: _Page) -> Iterator[Piece]:
    content = bytearray(source.read(page.start, page.end - page.start))
    before = bytes(content)
    for start, part in page.changed.items():
        content[start - page.start : start - page.start + len(part)] = part
    if content == before:
        yield FileSpan(page.start, page.end - page.start)
        return
    content[22:26] = bytes(4)
    content[22:26] = _checksum(content).to_bytes(4, "little")
    yield bytes(content)


@cache
def _table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        value <<= 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
        table.append(value)
    return tuple(table)


def _checksum(content: bytes | bytearray) -> int:
    """The checksum of an Ogg page. zlib cannot compute it, because the order of bits differs."""
    table, value = _table(), 0
    for byte in content:
        value = (value << 8 & 0xFFFFFFFF) ^ table[value >> 24 ^ byte]
    return value
