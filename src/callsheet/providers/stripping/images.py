"""PNG, JPEG and GIF, also animated: everything that is not needed to show them is removed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from callsheet.providers.stripping.exif import PREFIX, only_orientation
from callsheet.providers.stripping.pieces import OldFile, Piece, Unreadable

# EXIF of a camera has some kilobytes, with the orientation at the beginning.
EXIF_BYTES = 65_536

# Kept chunks beside the critical chunks, whose names start with a capital letter: colors, sizes and animation. ComfyUI
# writes graphs into tEXt and, in animations, into its own chunk (comf), so unknown chunks are removed.
_PNG_KEPT = frozenset(
    b"tRNS gAMA cHRM sRGB iCCP cICP mDCV cLLI sBIT bKGD hIST pHYs sPLT tIME acTL fcTL fdAT".split(),
)
_PNG_CHUNK = 12

_SCAN = 0xDA
_COMMENT, _EXIF = 0xFE, 0xE1
# Colors need these segments: JFIF, the ICC profile, and the transform of Adobe's encoders.
_JPEG_KEPT = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}

_GIF_IMAGE, _GIF_EXTENSION, _GIF_END = 0x2C, 0x21, 0x3B
_GIF_COMMENT, _GIF_APPLICATION = 0xFE, 0xFF
_GIF_REPEATS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def png(source: OldFile) -> Iterator[Piece]:
    at = 8
    yield source.span(0, at)
    name = b""
    # Bytes after the end are not part of the image.
    while name != b"IEND":
        length, name = struct.unpack(">I4s", source.read(at, 8))
        end = at + _PNG_CHUNK + length
        if not name[:1].isalpha():
            raise Unreadable("a chunk has no name")
        if name[:1].isupper() or name in _PNG_KEPT:
            yield source.span(at, end)
        elif name == b"eXIf" and (turned := only_orientation(source.read(at + 8, min(length, EXIF_BYTES)))):
            chunk = name + turned
            yield struct.pack(">I", len(turned)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        at = end


def jpeg(source: OldFile) -> Iterator[Piece]:
    at = 2
    yield source.span(0, at)
    while True:
        lead, marker, length = struct.unpack(">BBH", source.read(at, 4))
        end = at + 2 + length
        if lead != 0xFF or length < 2 or end > source.size:
            raise Unreadable("a segment is broken")
        if marker == _SCAN:
            # Compressed pixels start here, perhaps with further tables between them.
            yield source.span(at, source.size)
            return
        if marker == _EXIF:
            exif = source.read(at + 4, length - 2)
            turned = only_orientation(exif) if exif.startswith(PREFIX) else None
            if turned is not None:
                yield struct.pack(">BBH", 0xFF, _EXIF, 2 + len(PREFIX) + len(turned)) + PREFIX + turned
        elif marker in _JPEG_KEPT:
            name = _JPEG_KEPT[marker]
            if source.read(at + 4, min(len(name), length - 2)) == name:
                yield source.span(at, end)
        elif marker != _COMMENT and not 0xE0 <= marker <= 0xEF:
            yield source.span(at, end)
        at = end


def gif(source: OldFile) -> Iterator[Piece]:
    at = 13 + _palette(source.number(10, 1))
    yield source.span(0, at)
    while True:
        kind = source.number(at, 1)
        if kind == _GIF_END:
            yield source.span(at, at + 1)
            return
        if kind == _GIF_IMAGE:
            end = _sub_blocks_end(source, at + 10 + _palette(source.number(at + 9, 1)) + 1)
            yield source.span(at, end)
        elif kind == _GIF_EXTENSION:
            end = _sub_blocks_end(source, at + 2)
            if _is_needed(source.number(at + 1, 1), source.read(at + 3, min(11, end - at - 3))):
                yield source.span(at, end)
        else:
            raise Unreadable("a block is of no known kind")
        at = end


def _is_needed(label: int, program: bytes) -> bool:
    return program in _GIF_REPEATS if label == _GIF_APPLICATION else label != _GIF_COMMENT


def _palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _sub_blocks_end(source: OldFile, at: int) -> int:
    while length := source.number(at, 1):
        at += 1 + length
    return at + 1
