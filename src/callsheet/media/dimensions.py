"""Reads the size of an image in pixels from its header. Nothing is decoded, for any size that the header claims.

Pillow is not used: its WebP reader allocates the canvas when it opens a file, and its other readers run C code on
untrusted bytes in the control plane's own process.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

# Reads `length` bytes from `start` on, fewer at the end of the object.
Read = Callable[[int, int], Awaitable[bytes]]

BLOCK_BYTES = 64 * 1024
# A photograph has its color profile and previews before its size: some dozens of segments of up to 64 KiB.
MAX_SEGMENTS = 500
_START_OF_FRAME = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_WIDTH, _HEIGHT = 256, 257
_SHORT = 3


class Dimensions(NamedTuple):
    width: int
    height: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


async def dimensions_of(read: Read) -> Dimensions | None:
    """Width and height. None if the format is unknown or the header cannot be read."""
    source = _Blocks(read)
    try:
        return await _dimensions(source, await source.at(0, 32))
    except struct.error:
        return None


async def _dimensions(source: _Blocks, head: bytes) -> Dimensions | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return Dimensions(*struct.unpack_from(">II", head, 16))
    if head.startswith((b"GIF87a", b"GIF89a")):
        return Dimensions(*struct.unpack_from("<HH", head, 6))
    if head.startswith(b"BM"):
        return _bitmap(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    if head.startswith(b"\xff\xd8\xff"):
        return await _jpeg(source)
    if head.startswith((b"II*\0", b"MM\0*")):
        return await _tiff(source, head)
    if head[4:8] == b"ftyp":
        return _largest_item(await source.at(0, BLOCK_BYTES))
    return None


def _bitmap(head: bytes) -> Dimensions:
    if struct.unpack_from("<I", head, 14)[0] == 12:
        return Dimensions(*struct.unpack_from("<HH", head, 18))
    width, height = struct.unpack_from("<ii", head, 18)
    # The height is negative if the lines go from top to bottom.
    return Dimensions(abs(width), abs(height))


def _webp(head: bytes) -> Dimensions | None:
    match head[12:16]:
        case b"VP8X":
            width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
            return Dimensions(width, height)
        case b"VP8L":
            bits = struct.unpack_from("<I", head, 21)[0]
            return Dimensions((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return Dimensions(width & 0x3FFF, height & 0x3FFF)
    return None


async def _jpeg(source: _Blocks) -> Dimensions | None:
    """The size is in the first segment that starts a frame."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        mark, kind, length = struct.unpack(">BBH", await source.at(at, 4))
        if mark != 0xFF:
            return None
        if kind == 0xFF or kind in _WITHOUT_LENGTH:
            # This is padding, or a marker without content.
            at += 1 if kind == 0xFF else 2
            continue
        if kind in _START_OF_FRAME:
            height, width = struct.unpack(">HH", await source.at(at + 5, 4))
            return Dimensions(width, height)
        at += 2 + length
    return None


async def _tiff(source: _Blocks, head: bytes) -> Dimensions | None:
    """The size is in a directory, which may be at the end of the file."""
    order = "<" if head.startswith(b"II") else ">"
    directory = struct.unpack_from(f"{order}I", head, 4)[0]
    count = struct.unpack(f"{order}H", await source.at(directory, 2))[0]
    entries = await source.at(directory + 2, 12 * count)
    found: dict[int, int] = {}
    for tag, kind, _, value in struct.iter_unpack(f"{order}HHI4s", entries[: len(entries) // 12 * 12]):
        if tag in (_WIDTH, _HEIGHT):
            found[tag] = struct.unpack_from(f"{order}{'H' if kind == _SHORT else 'I'}", value)[0]
    return Dimensions(found[_WIDTH], found[_HEIGHT]) if len(found) == 2 else None


def _largest_item(beginning: bytes) -> Dimensions | None:
    """The size of an AVIF or HEIC image. It has one `ispe` box for the image and one for each tile and preview. A
    video has none.
    """
    sizes = []
    at = beginning.find(b"ispe")
    while at >= 0 and at + 16 <= len(beginning):
        sizes.append(Dimensions(*struct.unpack_from(">II", beginning, at + 8)))
        at = beginning.find(b"ispe", at + 4)
    return max(sizes, key=lambda size: size.pixels, default=None)


class _Blocks:
    """Reads large blocks and keeps the last one, because headers are read in small steps."""

    def __init__(self, read: Read):
        self._read = read
        self._start = 0
        self._block = b""

    async def at(self, start: int, length: int) -> bytes:
        if not (self._start <= start and start + length <= self._start + len(self._block)):
            self._start, self._block = start, await self._read(start, max(BLOCK_BYTES, length))
        offset = start - self._start
        return self._block[offset : offset + length]
