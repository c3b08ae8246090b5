"""RIFF: unneeded chunks are removed from WebP images, and replaced by zeros in WAV and AVI."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from callsheet.providers.stripping.exif import only_orientation
from callsheet.providers.stripping.images import EXIF_BYTES
from callsheet.providers.stripping.pieces import FileSpan, OldFile, Piece, Unreadable, Zeros

_HEADER = 12
_WEBP_KEPT = (b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF", b"ICCP")
# In the first byte of VP8X: whether there is EXIF, and whether there is XMP.
_HAS_EXIF, _HAS_XMP = 0x08, 0x04
_TAGS = (b"id3 ", b"ID3 ", b"iXML", b"bext", b"_PMX")
Chunk = tuple[bytes, int, int]


def riff(source: OldFile) -> Iterator[Piece]:
    kind = source.read(8, 4)
    if kind == b"WEBP":
        return _webp(source)
    if kind in (b"WAVE", b"AVI "):
        return _blanked(source)
    raise Unreadable("it is of no known kind")


def _chunks(source: OldFile) -> Iterator[Chunk]:
    """Name, start and end of each chunk."""
    at = _HEADER
    while at < source.size:
        name, length = struct.unpack("<4sI", source.read(at, 8))
        end = at + 8 + length
        # Odd chunks are padded, but not every program pads the last one.
        end += length % 2 and end != source.size
        yield name, at, end
        at = end


def _webp(source: OldFile) -> Iterator[Piece]:
    pieces: list[Piece] = []
    extended: FileSpan | None = None
    exif = b""
    for name, start, end in _chunks(source):
        span = source.span(start, end)
        if name == b"VP8X":
            extended = span
        elif name in _WEBP_KEPT:
            pieces.append(span)
        elif name == b"EXIF":
            turned = only_orientation(source.read(start + 8, min(end - start - 8, EXIF_BYTES)))
            exif = struct.pack("<4sI", name, len(turned)) + turned if turned else b""
    if extended is not None:
        pieces.insert(0, _features(source, extended, has_exif=bool(exif)))
    pieces += [exif] if exif else []
    length = sum(len(piece) if isinstance(piece, bytes) else piece.length for piece in pieces)
    if 4 + length == source.number(4, 4, little=True) and _HEADER + length == source.size:
        yield source.span(0, _HEADER)
    else:
        yield struct.pack("<4sI4s", b"RIFF", 4 + length, b"WEBP")
    yield from pieces


def _features(source: OldFile, span: FileSpan, *, has_exif: bool) -> Piece:
    chunk = bytearray(source.read(span.start, min(span.length, 64)))
    if len(chunk) < 9 or len(chunk) != span.length:
        raise Unreadable("its list of features is broken")
    flags = (chunk[8] & ~(_HAS_EXIF | _HAS_XMP)) | (_HAS_EXIF if has_exif else 0)
    if flags == chunk[8]:
        return span
    chunk[8] = flags
    return bytes(chunk)


def _blanked(source: OldFile) -> Iterator[Piece]:
    """WAV and AVI with blanked chunks. The index of an AVI counts from the start of the file, so nothing is moved."""
    yield source.span(0, _HEADER)
    for name, start, end in _chunks(source):
        span = source.span(start, end)
        if name in _TAGS or (name == b"LIST" and span.length >= 12 and source.read(start + 8, 4) == b"INFO"):
            yield b"JUNK" + source.read(start + 4, 4)
            yield Zeros(span.length - 8)
        else:
            yield span
