"""Compares the bytes of a file with its declared type. An image must be of an image format, a video or a sound of a
format of either, and so on; another format of the same kind is accepted. Pure.
"""

from __future__ import annotations

import re

import puremagic

from callsheet.media.signatures import (
    MOVING,
    document_differs,
    is_archive,
    is_drawing,
    is_text,
    is_unlisted_format,
    known_format,
    may_be,
)
from callsheet.toolbox.file_names import UNKNOWN_TYPE
from callsheet.toolbox.media_types import SNIFFED_BYTES as FORMAT_BYTES
from callsheet.toolbox.media_types import has_known_format, media_type_of, same_format

SNIFFED_BYTES = 8192
# The number of bytes that FFmpeg reads before it chooses a demuxer (its `format_probesize`).
PROBED_BYTES = 1 << 20
MEDIA = frozenset({"image", "audio", "video"})
# A result of puremagic that is based on fewer than three bytes is a guess.
CLEAR = 0.3
# Types that are certainly not media. Other application/… types may be containers of media.
DOCUMENTS = (
    "text/html",
    "text/rtf",
    "text/xml",
    "application/gzip",
    "application/json",
    "application/msword",
    "application/pdf",
    "application/rtf",
    "application/vnd.ms-",
    "application/vnd.openxmlformats-",
    "application/x-7z-compressed",
    "application/x-rar",
    "application/x-sqlite3",
    "application/xhtml+xml",
    "application/xml",
    "application/zip",
)
_PROGRAM = re.compile(rb"MZ|\x7fELF|#![ \t]*/")
# Playlists name other files, on the machine that reads them or in its network. An engine that opens a playlist with
# FFmpeg fetches those files.
_PLAYLISTS = tuple(
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*" + pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rb"#EXT(?:M3U|-X-)", "an HLS playlist (m3u8)"),
        (rb"ffconcat\b", "a list of files for FFmpeg (ffconcat)"),
        (rb"v=\d+\s*[\r\n]", "a session description (SDP)"),
        (rb"\[(?:playlist|reference)\]", "a playlist"),
        (rb"(?:rtsp|smil)text", "a playlist"),
        (rb"# ?mpv EDL", "a playlist"),
    )
)
# FFmpeg treats a file as one of these if such a text is anywhere before the first NUL.
_HIDDEN_PLAYLISTS = (
    (re.compile(rb"[\r\n]c=IN IP", re.IGNORECASE), "a session description (SDP)"),
    (re.compile(rb"<MPD\b", re.IGNORECASE), "a DASH manifest"),
    (re.compile(rb"<CompositionPlaylist\b"), "a playlist"),
)


def contradiction(mime_type: str, beginning: bytes) -> str | None:
    """The kind of the bytes, if they are not of the kind of `mime_type`. None if they are, or if it is not known
    what files of this type contain.

    `beginning`: at least `SNIFFED_BYTES`. With `PROBED_BYTES`, no hidden playlist is missed.
    """
    if mime_type == UNKNOWN_TYPE:
        return None
    if not beginning.strip(b"\0"):
        return "zeros only" if beginning else "an empty file"
    main_type = mime_type.partition("/")[0]
    if main_type in MEDIA:
        return _program_or_playlist(beginning) or _other_media(mime_type, main_type, beginning)
    sniffed = beginning[:SNIFFED_BYTES]
    return _clear_kind(sniffed) or "bytes of another type" if document_differs(mime_type, sniffed) else None


def _other_media(mime_type: str, main_type: str, beginning: bytes) -> str | None:
    sniffed = beginning[:SNIFFED_BYTES]
    if mime_type.endswith("+xml"):
        return None if is_drawing(beginning) else _clear_kind(sniffed) or "bytes without an <svg> element"
    found = known_format(main_type, sniffed)
    if found is not None:
        return None if may_be(found, main_type) else found
    # Guesses are not enough for a format that has a certain beginning: many texts start like some rare format.
    if not has_known_format(mime_type):
        guesses = _best_guesses(sniffed)
        if is_unlisted_format(main_type, sniffed) or any(may_be(guess, main_type) for guess in guesses):
            return None
        # Other application/… types may be containers of media.
        if main_type in MOVING and guesses and not any(map(_is_clear, guesses)) and _clear_kind(sniffed) is None:
            return None
    return _clear_kind(sniffed) or f"no known format of {'images' if main_type == 'image' else 'audio or video'}"


def _clear_kind(sniffed: bytes) -> str | None:
    if is_archive(sniffed):
        return "a zip archive"
    clear = next((guess for guess in _best_guesses(sniffed) if _is_clear(guess)), None)
    return clear or ("text" if is_text(sniffed) else None)


def actual_type(mime_type: str, beginning: bytes) -> str:
    """The type that a result is served with: the type of its bytes, or `mime_type` if the bytes may be of that type."""
    found = media_type_of(beginning[:FORMAT_BYTES])
    # A tag does not show the type of the content after it.
    if found is not None and _tag_length(beginning) == 0:
        return mime_type if same_format(mime_type, found) else found
    return mime_type if contradiction(mime_type, beginning) is None else UNKNOWN_TYPE


def _program_or_playlist(beginning: bytes) -> str | None:
    return "a program" if _PROGRAM.match(beginning) else _playlist(beginning)


def _playlist(beginning: bytes) -> str | None:
    # FFmpeg skips one ID3 tag before it detects the type.
    content = beginning[_tag_length(beginning) :]
    for pattern, kind in _PLAYLISTS:
        if pattern.match(content):
            return kind
    # FFmpeg reads a known container as this container, even if it also contains such a text.
    if media_type_of(content[:FORMAT_BYTES]) is not None:
        return None
    text = content.partition(b"\0")[0]
    return next((kind for pattern, kind in _HIDDEN_PLAYLISTS if pattern.search(text)), None)


def _tag_length(beginning: bytes) -> int:
    """Length of the ID3v2 tag at the beginning, with its header; 0 if there is none."""
    if len(beginning) < 10 or not beginning.startswith(b"ID3") or any(byte & 0x80 for byte in beginning[6:10]):
        return 0
    size = 0
    for byte in beginning[6:10]:
        size = size << 7 | byte
    has_footer = beginning[5] & 0x10
    return 10 + size + (10 if has_footer else 0)


def _best_guesses(beginning: bytes) -> list[str]:
    try:
        matches = puremagic.magic_string(beginning)
    except (puremagic.PureError, ValueError):
        return []
    named = [match for match in matches if match.mime_type and match.confidence >= CLEAR]
    best = max((match.confidence for match in named), default=0.0)
    return [match.mime_type for match in named if match.confidence == best]


def _is_clear(guess: str) -> bool:
    return guess.partition("/")[0] in MEDIA or guess.startswith(DOCUMENTS)
