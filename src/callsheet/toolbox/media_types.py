"""Detects the type of bytes by their beginning. Pure, and only certain results: a response that is none of these types
is not media.

The check of uploads (`media.sniffing`) knows rarer formats and accepts other formats of the same kind, because a user
declared a type. Here the sender is not trusted, and an error page must not become an image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

SNIFFED_BYTES: Final = 64

EXTENSIONS: Final[Mapping[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/heic": "heic",
    "image/tiff": "tiff",
    "image/bmp": "bmp",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-msvideo": "avi",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/wav": "wav",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/aac": "aac",
}

_BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"II\*\x00|MM\x00\*", "image/tiff"),
    # With its two reserved fields of zeros, because `BM` alone starts many texts.
    (rb"BM....\x00\x00\x00\x00", "image/bmp"),
    (rb"....ftyp(?:avif|avis)", "image/avif"),
    (rb"....ftyp(?:heic|heix|heim|heis|mif1|msf1)", "image/heic"),
    (rb"....ftypqt  ", "video/quicktime"),
    (rb"....ftyp(?:M4A |M4B |F4A )", "audio/mp4"),
    (rb"....ftyp[ -~]{4}", "video/mp4"),
    (rb"\x1a\x45\xdf\xa3.*?webm", "video/webm"),
    (rb"\x1a\x45\xdf\xa3.*?matroska", "video/x-matroska"),
    (rb"RIFF....AVI ", "video/x-msvideo"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"ID3[\x02-\x04]", "audio/mpeg"),
    # A frame's header: layer, bit rate and sampling rate with existing values.
    (rb"\xff[\xf2\xf3\xfa\xfb][\x10-\xeb]", "audio/mpeg"),
    (rb"\xff[\xf0\xf1\xf8\xf9]", "audio/aac"),
    (rb"fLaC", "audio/flac"),
    (rb"OggS\x00", "audio/ogg"),
)
_PATTERNS: Final = tuple((re.compile(pattern, re.DOTALL), media_type) for pattern, media_type in _BEGINNINGS)

# Other names of a format, and other contents of its container: an MP4, a WebM or an Ogg without images is audio.
_SAME_FORMAT: Final[Mapping[str, frozenset[str]]] = {
    "image/png": frozenset({"image/apng", "image/vnd.mozilla.apng"}),
    "image/jpeg": frozenset({"image/jpg", "image/pjpeg"}),
    "image/heic": frozenset({"image/heif", "image/heic-sequence", "image/heif-sequence"}),
    "image/tiff": frozenset({"image/x-adobe-dng", "image/x-canon-cr2", "image/x-nikon-nef", "image/x-sony-arw"}),
    "image/bmp": frozenset({"image/x-ms-bmp", "image/x-bmp"}),
    "video/mp4": frozenset({"audio/mp4", "audio/x-m4a", "audio/m4a", "video/x-m4v", "video/3gpp", "video/3gpp2"}),
    "audio/mp4": frozenset({"audio/x-m4a", "audio/m4a"}),
    "video/webm": frozenset({"audio/webm"}),
    "video/x-matroska": frozenset({"audio/x-matroska", "video/matroska", "audio/matroska"}),
    "video/x-msvideo": frozenset({"video/avi", "video/msvideo"}),
    "audio/mpeg": frozenset({"audio/mp3", "audio/x-mpeg", "audio/x-mp3"}),
    "audio/wav": frozenset({"audio/x-wav", "audio/wave", "audio/vnd.wave"}),
    "audio/flac": frozenset({"audio/x-flac"}),
    "audio/ogg": frozenset({"video/ogg", "audio/opus", "audio/vorbis", "application/ogg"}),
    "audio/aac": frozenset({"audio/x-aac", "audio/aacp"}),
}


_KNOWN_TYPES: Final = frozenset(EXTENSIONS).union(*_SAME_FORMAT.values())


def same_format(declared: str, found: str) -> bool:
    """Whether bytes of the type `found` may be declared as `declared`."""
    return declared == found or declared in _SAME_FORMAT.get(found, ())


def has_known_format(declared: str) -> bool:
    """Whether `media_type_of` knows the format of this type."""
    return declared in _KNOWN_TYPES


def media_type_of(beginning: bytes) -> str | None:
    """The media type of a file with these first `SNIFFED_BYTES`; None if it is not known."""
    return next((media_type for pattern, media_type in _PATTERNS if pattern.match(beginning)), None)


def is_one_of(media_type: str, allowed: Iterable[str]) -> bool:
    """Whether the type is allowed. `allowed`: types, and kinds like image/*."""
    return any(each in (media_type, f"{media_type.partition('/')[0]}/*") for each in allowed)
